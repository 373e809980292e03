"""What is stored can be read where nothing can be written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from privod.errors import Unavailable
from privod.ledger.sqlite import SQLite
from tests.running_server import Running, running

QUERY = {"name": "histogram", "columns": ["age"], "bins": 4, "epsilon": "0.01"}
ASK = "/datasets/patients/ask"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fills the disk: from then on every write to the database fails, as SQLite says it."""

    @contextmanager
    def refused(_database: SQLite) -> Iterator[Any]:
        raise Unavailable("The disk of the curator is full. Nothing was changed.")
        yield

    def fill() -> None:
        monkeypatch.setattr(SQLite, "writing", refused)

    return fill


def asked(server: Running) -> str:
    with server.api(server.token("analyst")) as api:
        told = api.post(ASK, json={"query": QUERY, "wait": 60})
        assert told.status_code == 200, told.text
        return str(told.json()["key"])


def test_a_full_disk_keeps_no_reader_out(tmp_path: Path, full: Any) -> None:
    with running(tmp_path) as server:
        key, token = asked(server), server.token("analyst")
        with server.browser(token) as before, server.api(token) as api:
            full()
            server.site.is_present = False  # as the next look at the disk finds
            page = before.get(f"/data/patients/answers/{key}")
            assert page.status_code == 200
            assert "cannot write to its disk" in page.text
            assert api.get(f"/datasets/patients/answers/{key}").status_code == 200
            refused = api.post(ASK, json={"query": {**QUERY, "bins": 5}, "wait": 60})
            assert refused.status_code == 503
            assert "Nothing was charged" in refused.json()["error"]["message"]
        with server.browser() as late:
            late.get("/sign-in")
            assert late.post("/sign-in", token=token, next="/").status_code == 303
            assert late.get(f"/data/patients/answers/{key}").status_code == 200


def test_a_server_starts_on_a_full_disk_and_reads(tmp_path: Path, full: Any) -> None:
    with running(tmp_path) as server:
        key, token = asked(server), server.token("analyst")
    full()
    with running(tmp_path, data=False) as server, server.api(token) as api:
        assert api.get(f"/datasets/patients/answers/{key}").status_code == 200
        assert api.post(ASK, json={"query": QUERY, "wait": 1}).status_code == 200
        refused = api.post(ASK, json={"query": {**QUERY, "bins": 5}, "wait": 1})
        assert refused.status_code == 503


def test_a_file_that_the_disk_has_no_room_for_is_refused_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1000

    with running(tmp_path) as server, server.api(server.token("owner")) as api:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
        files = {"file": ("rows.csv", b"age\n1\n", "text/csv")}
        refused = api.post("/datasets", data={"name": "n", "domain": "{}"}, files=files)
        assert refused.status_code == 507
        assert refused.json()["error"]["kind"] == "no-room"
