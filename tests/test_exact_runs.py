"""Exact joint runs with the engine: what is opened, what is not, and what dishonest parties get."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.approvals import Approvals, subject_of
from privod.joint.contributions import Contributions
from privod.joint.exact import forwarder, protocol
from privod.joint.exact.engine import READY, EngineProcess, home
from privod.joint.exact.forwarder import Requests, _varint, free_port
from privod.joint.exact.question import NOT_PROTECTED, ExactOutliers, ExactResult
from privod.joint.pki import write_pki
from privod.joint.question import Seat
from privod.joint.roster import Identity, Roster
from privod.joint.run import rehearse
from privod.joint.site import Site
from privod.joint.transport.channel import Patience
from privod.joint.transport.grpc import GrpcChannel
from privod.outliers.crowds.distance import crowds
from tests.forked import Forked
from tests.patience import PATIENCE, eventually
from tests.test_party_processes import Site as Processes
from tests.test_party_processes import outcome

INSTALLED = (home() / READY).is_file()
needs_engine = pytest.mark.skipif(
    not INSTALLED, reason="SPU is not installed: run `privod engine install spu`"
)
COLUMNS = ("a", "b", "c")
RANGE = (-8.0, 8.0)
ROWS = 300
OUTLIERS = (40, 41, 233)
Points = NDArray[np.float64]


def question(**other: Any) -> ExactOutliers:
    told: dict[str, Any] = {
        "partition": "horizontal",
        "radius": 2.5,
        "far_fraction": 0.99,
        "ranges": dict.fromkeys(COLUMNS, RANGE),
        "sample": 100,
        "candidates": 0.2,
    }
    return ExactOutliers(**{**told, **other})


def data(seed: int) -> Points:
    """Records of which three lie far from all others, whatever the seed."""
    points = np.random.default_rng(seed).standard_normal((ROWS, len(COLUMNS))).clip(-2, 2)
    for place, row in enumerate(OUTLIERS):
        points[row] = [6, -6, 5 - 4 * place]
    return points


def table(points: Points, columns: tuple[str, ...] = COLUMNS) -> Table:
    domain = Domain(tuple(Numeric(name, *RANGE, fill=0) for name in columns))
    return Table(domain, {name: points[:, COLUMNS.index(name)] for name in columns})


def pooled(asked: ExactOutliers, points: Points) -> list[int]:
    """The slow, obvious twin: all integers in one place."""
    whole = asked.integers(points, COLUMNS)
    squares = ((whole[:, None] - whole[None]) ** 2).sum(2)
    program = asked.program(len(points))
    crowd = (squares <= program.squared_radius).sum(1)
    return np.flatnonzero(crowd <= program.max_crowd).tolist()


def run(
    asked: ExactOutliers,
    tables: Mapping[str, Table | None],
    acts: Mapping[str, Callable[[Seat], ExactResult]] | None = None,
) -> dict[str, ExactResult]:
    return rehearse(asked, tables, acts=acts).answers


def over_rows(points: Points, first: int = 200) -> dict[str, Table | None]:
    halves = {"h1": table(points[:first]), "h2": table(points[first:])}
    return {"c1": None, "c2": None, "c3": None, **halves}


def with_ids(asked: ExactOutliers, ids: list[str] | None) -> Callable[[Seat], ExactResult]:
    return lambda seat: asked.take_part(replace(seat, ids=ids))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The sizes of messages between engines, what is opened, and what computing parties hold."""
    noted: dict[str, list[Any]] = {"requests": [], "opened": [], "shares": []}
    check, opened, share = Requests._check, protocol.opened, protocol._Run.share

    def noting_check(self: Requests, meta: bytes, body: memoryview) -> None:
        noted["requests"].append(_payload(body))
        check(self, meta, body)

    def noting_opened(shares: list[Any]) -> Any:
        words = opened(shares)
        noted["opened"].append(words.tolist())
        return words

    def noting_share(self: Any, sizes: Any) -> Any:
        held = share(self, sizes)
        noted["shares"].append(held)
        return held

    monkeypatch.setattr(Requests, "_check", noting_check)
    monkeypatch.setattr(protocol, "opened", noting_opened)
    monkeypatch.setattr(protocol._Run, "share", noting_share)
    return noted


@pytest.fixture(autouse=True)
def a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "COMING_SECONDS", PATIENCE)


@needs_engine
def test_over_rows_only_verdicts_are_opened_and_messages_do_not_tell_the_data(
    seen: dict[str, list[Any]],
) -> None:
    asked, sizes = question(), []
    assert asked.program(ROWS).sample == 100
    for seed in (1, 2):  # two data sets with one answer
        for noted in seen.values():
            noted.clear()
        points = data(seed)
        assert pooled(asked, points) == list(OUTLIERS)
        answers = run(asked, over_rows(points))
        assert answers["h1"].rows.tolist() == [40, 41]
        assert answers["h2"].rows.tolist() == [33]
        assert [answers[name].fits for name in ("h1", "c1")] == [True, None]
        assert len(answers["c1"].rows) == 0
        # The only words that anybody put together: two bits and its own verdicts, at two holders.
        assert sorted(map(len, seen["opened"])) == [102, 202]
        # One computing party alone sees uniform words: no rank correlation beyond chance.
        for held in filter(lambda one: one is not None, seen["shares"]):
            for component in range(2):
                for place in range(len(COLUMNS)):
                    found = spearmanr(held[:, place, component], points[:, place]).statistic
                    assert abs(found) < 5 / np.sqrt(ROWS)
        sizes.append(Counter(size for size in seen["requests"] if size > 9))  # less are receipts
    # As many messages of every size; the engine draws which of the three sends some of them.
    assert sizes[0] == sizes[1]
    assert sum(sizes[0].values()) > 1000


@needs_engine
def test_a_radius_mistyped_by_ten_opens_two_bits_and_nothing_else(
    seen: dict[str, list[Any]],
) -> None:
    asked = question(radius=0.25, sample=1000)
    points = data(1)
    assert len(pooled(asked, points)) > 150
    answers = run(asked, over_rows(points))
    for name in ("h1", "h2"):
        assert (answers[name].fits, answers[name].few) == (True, False)
        assert len(answers[name].rows) == 0
        assert "No verdict was opened" in answers[name].sentences()[-1]
    assert all(set(words[2:]) == {0} for words in seen["opened"])


@needs_engine
def test_over_columns_all_holders_get_the_row_numbers() -> None:
    asked = question(partition="vertical", sample=1000, far_fraction=0.985)
    points = data(3)
    ids = [f"r{row}" for row in range(300)]
    tables = {"c1": table(points, ("b",)), "c2": None, "c3": None, "h": table(points, ("c", "a"))}
    acts = {
        "c1": with_ids(asked, ids),
        "h": with_ids(asked, [f" {one}" for one in ids]),
    }
    answers = run(asked, tables, acts)
    assert answers["c1"].rows.tolist() == answers["h"].rows.tolist() == pooled(asked, points)
    assert len(answers["h"].rows) == 3


@needs_engine
@pytest.mark.parametrize(
    ("ids", "match"),
    [
        ([f"r{row}" for row in reversed(range(300))], "differ, or are in another order"),
        ([f"r{row}" for row in range(299)] + ["new"], "differ, or are in another order"),
    ],
)
def test_ids_that_do_not_match_end_the_run_before_anything_is_shared(
    ids: list[str], match: str, seen: dict[str, list[Any]]
) -> None:
    asked = question(partition="vertical")
    points = data(3)
    tables = {"c1": table(points, ("b", "a")), "c2": None, "c3": None, "h": table(points, ("c",))}
    good = [f"r{row}" for row in range(300)]
    acts = {"c1": with_ids(asked, good), "h": with_ids(asked, ids)}
    with pytest.raises(ProtocolAborted, match=match) as problem:
        run(asked, tables, acts)
    assert "Nothing was shared" in str(problem.value)
    assert "r2" not in str(problem.value)
    assert seen["shares"] == []


@needs_engine
@pytest.mark.parametrize(
    ("own", "rows", "match"),
    [
        (("c",), 299, "different numbers of rows"),
        (("c", "b"), 300, "columns are not the question's"),
        (("c",), None, "ids are needed"),
    ],
)
def test_other_columns_or_rows_end_the_run_before_anything_is_shared(
    own: tuple[str, ...], rows: int | None, match: str, seen: dict[str, list[Any]]
) -> None:
    asked = question(partition="vertical")
    points = data(3)
    tables = {
        "c1": table(points, ("b", "a")),
        "c2": None,
        "c3": None,
        "h": table(points[: rows or 300], own),
    }
    good = [f"r{row}" for row in range(300)]
    acts = {
        "c1": with_ids(asked, good),
        "h": with_ids(asked, None if rows is None else good[:rows]),
    }
    with pytest.raises((ProtocolAborted, InvalidParameter), match=match):
        run(asked, tables, acts)
    assert seen["shares"] == []


def test_ids_must_be_one_for_each_row_and_none_twice() -> None:
    asked = question(partition="vertical")
    for wrong in (["a", "b"], ["a", "b", "b "], ["a", "", "b"]):
        seat: Any = SimpleNamespace(table=table(data(1)[:3]), ids=wrong)
        with pytest.raises(InvalidData, match="none twice"):
            protocol._checked_ids(asked, seat)


@needs_engine
def test_values_outside_the_agreed_ranges_open_no_verdict(seen: dict[str, list[Any]]) -> None:
    """They would wrap around 64 bits and ask more than balls can."""

    class Wrapping(ExactOutliers):
        def integers(self, points: Points, columns: Any) -> NDArray[np.int64]:
            made = super().integers(points, columns)
            if len(made) == 200:
                made[7, 1] = -1
                made[9, 2] = 2**62
            return made

    asked = question(sample=1000)
    tables = over_rows(data(1))
    liar = Wrapping(**vars(asked))
    answers = run(asked, tables, {"h1": liar.take_part})
    for name in ("h1", "h2"):
        assert (answers[name].fits, len(answers[name].rows)) == (False, 0)
        assert "outside the agreed ranges" in answers[name].sentences()[-1]
    assert all(set(words[2:]) == {0} for words in seen["opened"])


@needs_engine
def test_a_lost_engine_ends_the_run_for_everybody(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, list[Any]]
) -> None:
    compute = EngineProcess.compute

    def killed(self: EngineProcess, job: dict[str, Any], *others: Any) -> Any:
        if job["rank"] == 1:
            self._process.send_signal(signal.SIGKILL)
        return compute(self, job, *others)

    monkeypatch.setattr(EngineProcess, "compute", killed)
    with pytest.raises(ProtocolAborted, match="No verdict was opened"):
        run(question(sample=1000), over_rows(data(1)))
    assert seen["opened"] == []


@needs_engine
def test_a_holder_that_sends_two_versions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    split = protocol.split

    def two_versions(words: Any) -> Any:
        shares = split(words)
        shares[0][0, 0, 0] += np.uint64(1)
        return shares

    monkeypatch.setattr(protocol, "split", two_versions)
    monkeypatch.setattr(EngineProcess, "compile", lambda *_: "00" * 32)  # not needed to notice
    with pytest.raises(ProtocolAborted, match=r"hold different shares in 'comparing inputs'"):
        run(question(sample=1000), over_rows(data(1)))


# what is not protected: attacks that succeed

DISHONEST = """
import importlib.util, json, os
import numpy as np
spec = importlib.util.spec_from_file_location("runner", {runner!r})
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
honest = runner.compiled

class Two(dict):
    items = lambda self: self.good.items()

def compiled(job):
    good = honest(job)
    own, n = {own}, job["rows"]
    radius = np.full((n, n), job["squared_radius"], np.int64)
    crowd = np.full(n, job["max_crowd"], np.int64)
    radius[:own], crowd[:own] = -1, 0
    radius[np.arange(own), {victim}] = np.array({thresholds})
    anything = dict(most_outliers=n, widths=[2**62] * len(job["widths"]))
    made = Two(honest(dict(job, squared_radius=radius, max_crowd=crowd, **anything)))
    made.good = good
    return made

runner.compiled = compiled
runner.main()
"""


@needs_engine
def test_a_dishonest_computing_party_with_verdicts_reads_a_victim_unnoticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question(sample=1000)
    points = data(1)
    victim, per, far = 123, 25, 2_000_000_000  # integers of a record that nobody can have
    own = per * len(COLUMNS)
    top = int(asked.steps() * (RANGE[1] - RANGE[0]) / asked.radius)
    grid = np.linspace(0, top, per + 2)[1:-1].astype(int)
    places = np.zeros((own, len(COLUMNS)), np.int64)
    for column in range(len(COLUMNS)):
        places[column * per : (column + 1) * per, column] = far
    thresholds = [far**2 - 2 * far * int(at) for _ in COLUMNS for at in grid]
    script = tmp_path / "dishonest.py"
    told = {"runner": EngineProcess.script, "own": own, "victim": own + victim}
    script.write_text(DISHONEST.format(**told, thresholds=thresholds))
    here = threading.local()

    class Dishonest(EngineProcess):
        def __init__(self) -> None:
            if getattr(here, "dishonest", False):
                self.script = str(script)
            super().__init__()

    class Liar(ExactOutliers):
        def integers(self, points: Points, columns: Any) -> NDArray[np.int64]:
            return places if len(points) == own else super().integers(points, columns)

    def attack(seat: Seat) -> ExactResult:
        here.dishonest = True
        return Liar(**vars(asked)).take_part(seat)

    monkeypatch.setattr(protocol, "EngineProcess", Dishonest)
    tables = {"c1": table(points[:own]), "c2": None, "c3": None, "h": table(points)}
    answers = run(asked, tables, {"c1": attack})
    assert [row for row in answers["h"].rows.tolist() if row not in OUTLIERS] == []
    assert set(answers["h"].rows.tolist()) == set(OUTLIERS)  # every honest verdict is right
    verdict = np.zeros(own, bool)
    verdict[answers["c1"].rows] = True
    true = asked.integers(points[[victim]], COLUMNS)[0]
    for column in range(len(COLUMNS)):
        below = ~verdict[column * per : (column + 1) * per]  # thresholds that the value reaches
        read = grid[below].max() + grid[0] / 2
        assert abs(read - true[column]) <= 0.6 * grid[0]  # a 26th of its range


def test_a_lying_holder_locates_a_lone_record_in_one_run() -> None:
    """On the ideal answer, which exact runs equal: the cap is respected, nothing is aborted."""
    rng = np.random.default_rng(5)
    n, columns, limit, cap, radius = 6000, 4, 60, 60, 2.4
    honest = rng.standard_normal((4000, columns))
    errors = []
    for _ in range(20):
        victim = rng.standard_normal(columns)
        victim *= rng.uniform(9, 12) / np.linalg.norm(victim)
        column, side = rng.permutation(columns)[:2]
        guess = victim[column] + rng.uniform(-0.5, 0.5) * radius
        tests = 40
        tried = np.linspace(guess - 1.5 * radius, guess - 0.5 * radius, tests + 2)[1:-1]
        sign = np.sign(victim[side])
        probes, helpers, extras = (
            np.repeat(victim[None], size, 0) for size in (tests, limit - tests, tests + 1)
        )
        probes[:, column] = tried
        helpers[:, column], extras[:, column] = guess - radius, guess - radius
        helpers[:, side] += sign * 0.8 * radius
        extras[:, side] += sign * 1.5 * radius
        lies = np.concatenate([probes, helpers, extras])
        rest = rng.standard_normal((n - len(honest) - 1 - len(lies), columns))
        everything = np.concatenate([lies, rest, honest, victim[None]])
        outlying = crowds(np.ascontiguousarray(everything), radius, cap=limit + 1) <= limit
        if outlying.sum() > cap:
            continue
        reached = np.flatnonzero(~outlying[:tests])
        edge = tried[reached[0]] if len(reached) else tried[-1]
        errors.append(abs(edge + radius - victim[column]) / radius)
    assert len(errors) >= 15
    assert np.median(errors) < 0.05  # of the radius; 0.25 was known before


# processes


class Holding(GrpcChannel):
    """A party's channel that stands still before a step until the run ends elsewhere."""

    held_up = ""
    came: Path

    def trade(self, phase: str, payload: bytes | memoryview, most: int) -> bytes:
        if phase == self.held_up:
            self.came.touch()
            while True:
                self.check()
                sleep(0.05)
        return super().trade(phase, payload, most)


class NoEngine:
    """In the place of an engine where another role is killed: nobody is found outlying."""

    def __enter__(self) -> NoEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def compile(self, _program: Any) -> str:
        return "00" * 32

    def compute(self, _job: Any, shares: Any, *_: Any) -> NDArray[np.uint64]:
        return np.zeros((2 + len(shares), 2), np.uint64)

    def kill(self) -> None:
        pass


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """What starts processes; whatever is left running is stopped."""
    made = Processes(tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.communicate()


@needs_engine
def test_each_role_is_killed_and_a_restart_is_approved_anew(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three computing parties, one of which holds no rows, and another holder.

    Whoever is killed is a process, and so is everybody in the restart. Engines run where a party
    that computes is killed, and in the restart.
    """
    names = ("ahus", "bern", "cork", "dale")
    write_pki(tmp_path / "pki", list(names), "hub", f"127.0.0.1:{free_port()}")
    roster = Roster.load(tmp_path / "pki" / "roster.json")
    asked = question(far_fraction=0.95, most_outliers=0.1)
    points = data(1)[OUTLIERS[0] - 20 : OUTLIERS[0] + 40]
    assert pooled(asked, points) == [20, 21]
    domain = table(points).domain
    (tmp_path / "domain.json").write_text(json.dumps(domain.to_json()))
    (tmp_path / "question.json").write_text(json.dumps(asked.to_json()))
    for name, part in zip(("ahus", "bern", "dale"), np.split(points, [21, 40]), strict=True):
        rows = [",".join(COLUMNS), *(",".join(map(repr, row)) for row in part.tolist())]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    shared = ["--question", str(tmp_path / "question.json")]
    assert "core-seconds" in typed("plan", *shared, "--records", "60")
    shared += ["--domain", str(tmp_path / "domain.json")]
    shared += ["--roster", str(tmp_path / "pki" / "roster.json")]

    def files(name: str) -> list[str]:
        kept = ["--approvals", str(tmp_path / f"{name}-approvals.json")]
        return [*kept, "--record", str(tmp_path / f"{name}-record.json")]

    def process(name: str) -> Forked:
        if name == "hub":
            return processes.aggregator(asked.to_json())
        return processes.party(name, asked.to_json(), *files(name)[:2], "--json")

    def thread(name: str) -> str:
        """A party in this process; how it ended."""
        place, rows = tmp_path / "pki" / name, tmp_path / f"{name}.csv"
        site = Site(
            identity=Identity.load(place / "certificate.pem", place / "key.pem"),
            data=rows if rows.exists() else None,
            domain=domain,
            contributions=Contributions(files(name)[3]),
            approvals=Approvals(files(name)[1]),
        )
        kind = Holding if name == "cork" else GrpcChannel
        with pytest.raises(ProtocolAborted) as problem:
            site.run(asked, roster, lambda: kind(roster, site.identity, Patience(PATIENCE)))
        return str(problem.value)

    Holding.came = tmp_path / "held"
    kills = {"bern": "coin toss", "hub": "comparing verdicts", "dale": "opening"}
    for killed, Holding.held_up in kills.items():
        for name in names:
            approved = typed("approve-run", *shared, *files(name))
            assert " ".join(NOT_PROTECTED.split()) in approved
        running = {name: process(name) for name in {"hub", killed}}
        with monkeypatch.context() as patched, ThreadPoolExecutor(len(names)) as pool:
            if killed not in roster.computing:
                patched.setattr(protocol, "EngineProcess", NoEngine)
            ended = [pool.submit(thread, name) for name in names if name != killed]
            eventually(Holding.came.exists)
            Holding.came.unlink()
            running[killed].kill()
            reason = "The aggregator was lost" if killed == "hub" else f"'{killed}' was lost during"
            assert all(reason in one.result() for one in ended)
        if killed != "hub":
            code, out, log = outcome(running["hub"])
            assert (code, out) == (2, "")
            assert reason in log

    with pytest.raises(ProtocolAborted, match="has not approved this run"):  # all are used up
        Approvals(files("ahus")[1]).use(subject_of(asked, domain, roster))
    for name in names:
        approved = typed("approve-run", *shared, *files(name))
    assert "were sent to 3 runs without noise" in approved
    restarted = {name: process(name) for name in ("hub", *names)}
    found = {}
    for name, one in restarted.items():
        code, out, log = outcome(one)
        assert code == 0, log
        found[name] = "complete" in out if name == "hub" else json.loads(out)["positions"]
    assert found == {"hub": True, "ahus": [20], "bern": [0], "cork": [], "dale": []}


def typed(*words: str) -> str:
    return " ".join(CliRunner().invoke(app, list(words)).output.split())


def _payload(body: memoryview) -> int:
    """The bytes of a message between engines, without its key, which numbers it."""
    place = 0
    while place < len(body):
        tag, place = _varint(body, place)
        size, place = _varint(body, place)
        if tag == 0x1A:
            return size
        place += 0 if tag & 7 == 0 else size
    return 0
