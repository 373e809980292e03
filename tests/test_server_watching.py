"""What an operator watches: metrics, logs, readiness; none of it tells about rows."""

from __future__ import annotations

# slow: left out by `make quick`
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from privod.ledger.witness import Head
from privod.server.logs import REQUEST_ID, JsonLines
from privod.server.metrics import Metrics, exposition
from tests.running_server import CANARY, DOMAIN, Running, running

QUERY = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("watched")) as server:
        yield server


def read(text: str) -> dict[str, float]:
    """The samples of Prometheus' text format; every line must be one, or a comment of its kind."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert line.split()[1] in ("HELP", "TYPE")
            continue
        name, _, value = line.rpartition(" ")
        samples[name] = float(value)
    assert text.endswith("\n")
    return samples


def test_metrics_count_requests_refusals_jobs_charges_and_budgets(server: Running) -> None:
    with server.api(server.token("analyst")) as api:
        assert api.post("/datasets/patients/ask", json={"query": QUERY, "wait": 60}).is_success
        api.post("/datasets/patients/ask", json={"query": {**QUERY, "epsilon": "2000"}, "wait": 60})
        api.get("/datasets/nothing")
        assert api.get("/metrics").status_code == 403
    with server.api(server.token("auditor")) as api:
        shown = api.get("/metrics")
        found = read(shown.text)
    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")
    ask = '{method="POST",route="/api/v1/datasets/{dataset}/ask",status="%d"}'
    assert found["privod_requests_total" + ask % 200] == 1
    assert found["privod_requests_total" + ask % 409] == 1
    assert found['privod_refusals_total{kind="budget-exceeded"}'] == 1
    assert found['privod_jobs_total{outcome="done"}'] == 1
    assert found['privod_jobs{state="waiting"}'] == 0
    assert found["privod_ledger_entries"] == len(server.curator.history())
    budget = '{adjacency="{\\"name\\":\\"add-remove\\"}",dataset="patients"}'
    assert found["privod_budget_left_epsilon" + budget] == 999.5
    assert CANARY not in shown.text


def test_strangers_make_no_new_series(server: Running) -> None:
    with server.api() as api:
        for place in range(5):
            api.request(f"WORD{place}", f"/nowhere-{place}")
    with server.api(server.token("owner")) as api:
        found = read(api.get("/metrics").text)
    assert not any("WORD" in name or "nowhere" in name for name in found)


def test_a_label_with_quotes_and_lines_is_escaped() -> None:
    metrics = Metrics()
    metrics.count("requests_total", route='a"b\\c\nd')
    written = exposition(metrics, {}, {}, 0)
    assert 'privod_requests_total{route="a\\"b\\\\c\\nd"} 1' in written.splitlines()


def test_a_token_for_one_data_set_sees_its_budget_alone(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.curator.register("others", {"age": [1.0], "sex": ["male"]}, DOMAIN)
        with server.api(server.token("auditor", "others")) as api:
            assert "patients" not in api.get("/metrics").text


def test_json_logs_carry_the_request_id_of_the_response_and_no_parameter(server: Running) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("privod.server")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with server.api(server.token("analyst")) as api:
            query = {**QUERY, "epsilon": "0.25"}
            first = api.post("/datasets/patients/price", json={"query": query})
            second = api.get("/me")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    told = {line["request"]: line for line in lines if "request" in line}
    for response in (first, second):
        line = told[response.headers[REQUEST_ID]]
        assert line["status"] == response.status_code
        assert line["visitor"] == "test analyst"
    assert first.headers[REQUEST_ID] != second.headers[REQUEST_ID]
    assert "0.25" not in stream.getvalue()


def test_a_log_line_says_nothing_of_what_an_exception_said() -> None:
    try:
        raise ValueError(CANARY)
    except ValueError:
        record = logging.LogRecord("privod", logging.ERROR, "", 0, "it failed", (), None)
        record.exc_info = (ValueError, ValueError(CANARY), None)
    assert CANARY not in JsonLines().format(record)


def test_readiness_misses_what_the_witness_saw(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.api() as api:
        assert api.get("/ready").status_code == 200
        later = Head(server.curator.custody.head().number + 5, "0" * 64)
        server.curator.witnesses.note(later)
        told = api.get("/ready")
        assert told.status_code == 503
        assert "witness" in told.json()["error"]["message"]
