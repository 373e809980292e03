"""What is stored can be read where nothing can be written; files are read elsewhere, in limits."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privod.curator import work
from privod.curator.rows import RowStore
from privod.errors import Unavailable
from privod.ledger import chain, store
from privod.ledger.sqlite import SQLite
from privod.server.jobs import jobs
from tests.running_server import DOMAIN, Running, running

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


def upload(server: Running, name: str, file: bytes) -> httpx.Response:
    domain = json.dumps(DOMAIN.to_json())
    with server.api(server.token("owner")) as api:
        files = {"file": ("rows.parquet", file)}
        return api.post("/datasets", data={"name": name, "domain": domain}, files=files)


def test_a_file_is_read_in_a_worker_and_a_small_one_that_unpacks_to_a_lot_is_refused_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parquet(records: int) -> bytes:
        file = io.BytesIO()
        ages = pa.DictionaryArray.from_arrays(pa.array(np.zeros(records, "int32")), pa.array([1.0]))
        sexes = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(records, "int32")), pa.array(["male"])
        )
        table = pa.table({"age": ages, "sex": sexes})
        pq.write_table(table, file, compression="zstd", row_group_size=records)
        return file.getvalue()

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("an owner's file was read where everybody is served")

    small, bomb = parquet(10), parquet(20_000_000)
    assert len(bomb) < 200_000  # of 320 MB unpacked
    with running(tmp_path) as server:
        monkeypatch.setattr(RowStore, "keep", refuse)
        assert upload(server, "small", small).status_code == 200
        refused = upload(server, "bomb", bomb)
        assert refused.status_code in (422, 503), refused.text
        assert upload(server, "again", small).status_code == 200
        names = [one.name for one in server.curator.datasets()]
        assert names == ["patients", "small", "again"]
    assert len(list((tmp_path / "rows").iterdir())) == 3  # nothing was left behind


@pytest.mark.parametrize("step", ["note", "charge", "release"])
def test_a_disk_that_fills_at_any_step_loses_nothing_and_charges_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The question is answered once there is room, and was charged once."""
    is_full = False
    places: dict[str, tuple[Any, str]] = {
        "note": (work.JobRecords, "add"),
        "charge": (chain, "charge"),
        "release": (store, "enter_release"),
    }
    kind, name = places[step]
    inner = getattr(kind, name)

    def full_disk(*given: Any, **named: Any) -> Any:
        if is_full:
            raise Unavailable("The disk of the curator is full. Nothing was changed.")
        return inner(*given, **named)

    monkeypatch.setattr(kind, name, full_disk)
    monkeypatch.setattr(jobs, "AGAIN_SECONDS", 0.1)
    with running(tmp_path) as server, server.api(server.token("analyst")) as api:
        is_full = True
        wait = 0 if step == "release" else 60
        told = api.post(ASK, json={"query": QUERY, "wait": wait, "request_id": "one"})
        charges = [one for one in server.curator.history() if one.kind == "charge"]
        if step == "release":  # it was charged, and waits for room
            assert told.status_code == 202
        else:
            assert told.status_code == 503
            assert not charges
        is_full = False
        again = api.post(ASK, json={"query": QUERY, "wait": 60, "request_id": "one"})
        assert again.status_code == 200, again.text
        kinds = Counter(one.kind for one in server.curator.history())
        assert (kinds["charge"], kinds["release"]) == (1, 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB in memory, which only the system's administrator can make."""
    place = tmp_path / "disk"
    place.mkdir()
    made = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)],
        check=False,
        capture_output=True,
    )
    if not made or made.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(place: Path) -> Path:
    """A file that leaves no byte free."""
    stuffing = place / "stuffing"
    with stuffing.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(place).free == 0
    return stuffing


def test_a_disk_without_a_free_byte_is_read_refuses_and_goes_on(small_disk: Path) -> None:
    place = small_disk / "curator"
    with running(place) as server, server.api(server.token("analyst")) as api:
        key, owner = asked(server), server.token("owner")
        stuffing = filled(small_disk)
        statuses = []
        for bins in range(5, 200):  # the journal may have room for some
            told = api.post(ASK, json={"query": {**QUERY, "bins": bins}, "wait": 60})
            statuses.append(told.status_code)
            if told.status_code != 200:
                break
        assert statuses[-1] in (503, 507), told.text
        assert api.get(f"/datasets/patients/answers/{key}").status_code == 200
        with server.api(owner) as owners:
            domain = json.dumps(DOMAIN.to_json())
            files = {"file": ("rows.csv", b"age,sex\n1,male\n", "text/csv")}
            sent = owners.post("/datasets", data={"name": "n", "domain": domain}, files=files)
            assert sent.status_code == 507, sent.text
        stuffing.unlink()
        again = api.post(ASK, json={"query": {**QUERY, "bins": bins}, "wait": 60})
        assert again.status_code == 200, again.text
        kinds = Counter(one.kind for one in server.curator.history())
        assert kinds["charge"] == kinds["release"] == len(statuses) + 1
        server.curator.verify()
