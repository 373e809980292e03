"""What an operator watches: metrics, logs, readiness; none of it tells about rows."""

from __future__ import annotations

# slow: left out by `make quick`
import io
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from privod.ledger.acts import CloseBudget, OpenBudget
from privod.ledger.witness import Head
from privod.privacy import AddRemove, Loss, Replace
from privod.server.jobs import jobs, work
from privod.server.limits import Limits
from privod.server.metrics import FAMILIES, PREFIX, REQUEST_ID, JsonLines, Metrics, exposition
from tests.patience import PATIENCE
from tests.running_server import CANARY, DOMAIN, Running, running

DEPLOY = Path(__file__).parent.parent / "deploy"
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
        assert name not in samples  # one series, one line
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
    assert found['privod_questions_ended_total{outcome="done"}'] == 1
    assert found['privod_questions{state="waiting"}'] == 0
    assert found['privod_workers{task="answer"}'] == 2
    assert found["privod_writing_tasks"] == 0
    assert found["privod_can_write"] == 1
    assert found["privod_ledger_entries"] == len(server.curator.history())
    number = server.curator.budget("patients")[0].number
    budget = f'{{adjacency="{{\\"name\\":\\"add-remove\\"}}",budget="{number}",dataset="patients"}}'
    assert found["privod_budget_left_epsilon" + budget] == 999.5
    assert found["privod_budget_left_delta" + budget] == 0
    assert found["privod_charges_total" + budget] == 1
    assert CANARY not in shown.text


def test_what_the_server_does_is_told_to_those_alone_who_may_see_all_data_sets(
    server: Running,
) -> None:
    """Of one data set the budgets: questions about others are nobody's business.

    Room on the disk falls by a block for every few records that a question about rows on disk looks
    at: it is told to those alone who may see every report.
    """
    for role, of, told in (
        ("owner", None, True),
        ("owner", "patients", False),
        ("auditor", None, False),
        ("auditor", "patients", False),
    ):
        with server.api(server.token(role, of)) as api:
            found = read(api.get("/metrics").text)
        assert ("privod_disk_free_bytes" in found) is told
        families = {name.partition("{")[0] for name in found}
        assert {"privod_charges_total", "privod_budget_left_epsilon"} <= families
        assert ("privod_can_write" in families) is (of is None)
        assert of is None or len(families) == 3


def test_no_family_is_another_with_a_suffix_that_prometheus_adds() -> None:
    stems = [name.removesuffix("_total") for name in FAMILIES]
    assert len(set(stems)) == len(stems)
    suffixes = ("_total", "_created", "_count", "_sum", "_bucket", "_info")
    counters = {name for name, (kind, _) in FAMILIES.items() if kind == "counter"}
    assert counters == {name for name in FAMILIES if name.endswith(suffixes)}


def test_versions_of_a_data_set_make_no_series_twice_and_a_closed_budget_none(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as server:
        curator = server.curator
        curator.register("later", {"age": [1.0], "sex": ["male"]}, DOMAIN, continues="patients")
        curator.do(OpenBudget("patients", Replace(), Loss("3")), confirmed=True)
        with server.api(server.token("owner")) as api:
            before = read(api.get("/metrics").text)  # refuses a series that stands there twice
            curator.do(CloseBudget("patients", AddRemove(), "a test"), confirmed=True)
            after = read(api.get("/metrics").text)
    left = "privod_budget_left_epsilon"
    assert sorted(value for name, value in before.items() if left in name) == [3.0, 1000.0]
    assert not [name for name in after if left in name]


def test_the_board_and_the_alerts_use_every_family_and_no_other() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    drawn = " ".join(
        target["expr"] for panel in board["panels"] for target in panel.get("targets", ())
    )
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    asked = " ".join(rule["expr"] for rule in alerts)
    known = {PREFIX + name for name in FAMILIES}
    assert set(re.findall(r"privod_\w+", drawn)) == known
    assert set(re.findall(r"privod_\w+", asked)) <= known
    for rule in alerts:
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_questions_in_progress_change_at_release_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "FIRST_RELEASE_SECONDS", 3600.0)
    looked = threading.Event()

    def ask(_turn: jobs.Turn) -> str:
        looked.set()  # the rows were looked at, and the answer is there
        return "answer"

    running_jobs: jobs.Jobs[str] = jobs.Jobs(Limits(workers=1, stop_seconds=0.0), lambda _: True)
    for name in ("one", "two"):
        running_jobs.start(ask, asker=name, key=("patients", name), question="histogram")
    assert looked.wait(PATIENCE)
    time.sleep(0.1)  # for an end that must not show: a busy machine only makes this weaker
    assert running_jobs.under_way() == {"waiting": 1, "answering": 1}
    running_jobs.close()


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
    written = exposition({"requests_total": metrics.samples("requests_total")})
    assert 'privod_requests_total{route="a\\"b\\\\c\\nd"} 1.0' in written.splitlines()


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
            query = {**QUERY, "epsilon": "0.2578125"}  # more digits than a time has
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
    assert "0.2578125" not in stream.getvalue()


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
        later = Head(server.curator.witnessed.head().number + 5, "0" * 64)
        server.curator.witnesses.note(later)
        with server.api(server.token("auditor")) as auditor:
            assert "witness" in auditor.get("/ready").json()["error"]["message"]
        for role, of in (("analyst", None), ("owner", "patients"), ("auditor", "patients")):
            with server.api(server.token(role, of)) as limited:
                assert limited.get("/ready").text == api.get("/ready").text
        assert api.get("/ready").status_code == 503
        assert "witness" not in api.get("/ready").text
