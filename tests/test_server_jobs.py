"""Answers as jobs: one for each question, in a fair queue, seen at release times only."""

from __future__ import annotations

# slow: left out by `make quick`
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.curator import Curator
from privod.curator.publication import Interrupted
from privod.curator.work import JobRecord, Room
from privod.errors import (
    AnswerFailed,
    BudgetExceeded,
    LimitReached,
    NotAllowed,
    NotFound,
    Unavailable,
)
from privod.ledger.chain import now
from privod.privacy import AddRemove, Loss
from privod.questions.histogram.query import Histogram
from privod.server.jobs import jobs as jobs_module
from privod.server.jobs import work as work_module
from privod.server.jobs.jobs import Jobs
from privod.server.jobs.queue import FairQueue, Taken
from privod.server.jobs.work import (
    FIRST_RELEASE_SECONDS,
    RELEASE_RATIO,
    VALID_SECONDS,
    Job,
    Turn,
    Work,
    next_release_time,
)
from privod.server.jobs.workers import Worker
from privod.server.limits import Limits
from privod.wire import answer_key
from tests.odd import odd
from tests.patience import PATIENCE, eventually
from tests.running_server import DOMAIN, ROWS, running

__all__ = ["odd"]  # a fixture


@contextmanager
def opened(limits: Limits | None = None, revoked: tuple[str, ...] = ()) -> Iterator[Jobs[Any]]:
    """Jobs for the length of a test."""
    jobs: Jobs[Any] = Jobs(limits or Limits(), lambda asker: asker not in revoked)
    try:
        yield jobs
    finally:
        jobs.close()


def started(
    jobs: Jobs[Any],
    ask: Callable[[Turn], Any],
    asker: str = "ada",
    key: str = "q",
    *,
    is_long: bool = False,
) -> Job[Any]:
    return jobs.start(ask, asker=asker, key=("d", key), question="q", is_long=is_long)


def ended(job: Job[Any]) -> Job[Any]:
    """The job, once it is seen to be over."""
    eventually(lambda: job.state() in ("done", "failed"))
    return job


def test_release_times_grow_by_a_fixed_factor() -> None:
    assert next_release_time(0) == next_release_time(FIRST_RELEASE_SECONDS) == FIRST_RELEASE_SECONDS
    moment = FIRST_RELEASE_SECONDS
    for _ in range(40):
        assert next_release_time(moment) == pytest.approx(moment)
        moment = next_release_time(moment * 1.0001)
    assert moment == pytest.approx(FIRST_RELEASE_SECONDS * RELEASE_RATIO**40)


def napping(seconds: float) -> Callable[[Turn], int]:
    """Work that takes so long."""

    def ask(_turn: Turn) -> int:
        time.sleep(seconds)
        return 1

    return ask


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """How long each answer took, and the release time it was held back for."""
    found: list[tuple[float, float]] = []

    def recorded(seconds: float) -> float:
        found.append((seconds, next_release_time(seconds)))
        return found[-1][1]

    monkeypatch.setattr(work_module, "next_release_time", recorded)
    return found


def test_two_answers_that_take_differently_long_are_seen_at_the_same_release_time(
    waits: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 4.0  # so late that both answers are there, however busy the machine
    monkeypatch.setattr(work_module, "FIRST_RELEASE_SECONDS", first)
    with opened() as jobs:
        start = time.monotonic()
        both = [started(jobs, napping(nap), str(nap), str(nap)) for nap in (0.001, 0.1)]
        for job in both:
            assert ended(job).result() == 1
            assert time.monotonic() - start >= first
    assert [moment for _, moment in waits] == [first, first]
    assert waits[0][0] != waits[1][0]


def test_a_place_is_given_on_at_a_release_time_only() -> None:
    with opened(Limits(workers=1)) as jobs:
        waiting = [started(jobs, napping(0), key=str(place)) for place in range(3)]
        works = [ended(job).work for job in waiting]
    # Measured from where release times count, however late the machine comes to the work itself.
    began = [work.began for work in works if work.began is not None]
    assert len(began) == 3
    assert all(after - before > FIRST_RELEASE_SECONDS - 1e-6 for before, after in pairwise(began))


def test_what_is_done_after_the_hold_is_done_at_the_release_time_and_held_back_once(
    waits: list[tuple[float, float]],
) -> None:
    moments: list[float] = []

    def ask(turn: Turn) -> None:
        for _ in range(2):
            moments.append(time.monotonic())
            turn.wait_for_release_time()
        moments.append(time.monotonic())

    start = time.monotonic()
    with opened() as jobs:
        ended(started(jobs, ask))
    assert moments[1] - start >= waits[0][1] >= FIRST_RELEASE_SECONDS
    assert waits[1] == waits[0]  # that of the first time, which has passed


def test_progress_is_told_in_tenths_and_only_at_release_times() -> None:
    seen = threading.Semaphore(0)

    def ask(turn: Turn) -> str:
        for tenths in (1, 2, 4, 7, 9):
            turn._work.hear(tenths)
            assert seen.acquire(timeout=PATIENCE)
        return "answer"

    with opened() as jobs:
        job = started(jobs, ask)
        told: list[tuple[float, int, float]] = []
        while job.state() not in ("done", "failed"):
            told.append((time.monotonic(), job.tenths(), time.monotonic()))
            if len(told) > 1 and told[-2][1] != told[-1][1] < 10:
                seen.release()
            time.sleep(0.005)
        assert job.tenths() == 10
    began = job.work.began
    assert began is not None
    moments = [began + FIRST_RELEASE_SECONDS * RELEASE_RATIO**k for k in range(40)]
    # Between two looks that saw different tenths lies a release time, however late the looks were.
    changes = [(a[0], b[2]) for a, b in pairwise(told) if a[1] != b[1] < 10]
    assert len(changes) == 5
    assert all(any(low <= moment <= high for moment in moments) for low, high in changes)
    tenths = [look[1] for look in told]
    assert tenths == sorted(tenths)


def test_what_fails_unexpectedly_says_nothing_of_why() -> None:
    def ask(_turn: Turn) -> None:
        raise ValueError("row 7 says canary")

    with opened() as jobs:
        job = ended(started(jobs, ask))
        assert job.state() == "failed"
        with pytest.raises(AnswerFailed) as failed:
            job.result()
    assert "canary" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


def test_an_expected_error_comes_through_at_a_release_time() -> None:
    def ask(_turn: Turn) -> None:
        raise BudgetExceeded("too much")

    start = time.monotonic()
    with opened() as jobs, pytest.raises(BudgetExceeded, match="too much"):
        ended(started(jobs, ask)).result()
    assert time.monotonic() - start >= FIRST_RELEASE_SECONDS


def test_too_many_jobs_of_all_servers_are_refused_for_one_token_and_in_all(tmp_path: Path) -> None:
    room = Room(most=3, most_each=2)
    with Curator.open(tmp_path) as curator:
        records = curator.job_records

        def add(asker: str, question: str) -> None:
            job_id = f"{asker} {question}"
            moment = now()
            records.add(
                JobRecord(job_id, asker, asker, "", "d", {"name": question}, job_id, moment), room
            )

        add("ada", "first")
        add("ada", "second")
        with pytest.raises(LimitReached, match="A token may have 2"):
            add("ada", "third")
        add("bob", "third")
        with pytest.raises(LimitReached, match="Too many answers"):
            add("cyd", "fourth")
        add("cyd", "third")  # joining in is no burden
        records.end("ada first", "ada", "")
        add("ada", "fourth")


def test_only_the_server_that_has_a_question_says_how_it_ended_and_says_it_once(
    tmp_path: Path,
) -> None:
    """One that was taken to be gone, and lives, comes late with what it found."""
    with Curator.open(tmp_path) as curator:
        records = curator.job_records
        for job in ("ended", "left"):
            told = (job, "old", "asker", "", "d", {"name": "q"}, job)
            records.add(JobRecord(*told, time=now()))
        records.end("ended", "old", "stopped")
        assert [record.id for record in records.adopt("old", "new")] == ["left"]

        def outcomes() -> list[str | None]:
            found = [records.find(job) for job in ("ended", "left")]
            return [None if one is None else one.outcome for one in found]

        records.end("left", "old", "too late")
        assert outcomes() == ["stopped", None]
        for told_now in ("", "once more"):
            records.end("left", "new", told_now)
        assert outcomes() == ["stopped", ""]


def test_a_job_is_found_by_its_asker_only() -> None:
    with opened() as jobs:
        job = started(jobs, napping(0))
        assert jobs.find(job.id, "ada") is job
        for job_id, asker in [(job.id, "bob"), ("unknown", "ada")]:
            with pytest.raises(NotFound):
                jobs.find(job_id, asker)


def test_one_question_is_one_piece_of_work_however_often_it_is_asked() -> None:
    asked: list[str] = []

    all_asked = threading.Event()

    def ask(_turn: Turn) -> str:
        asked.append("once")
        all_asked.wait(PATIENCE)
        return "answer"

    with opened() as jobs:
        own = [started(jobs, ask) for _ in range(20)]
        other = started(jobs, ask, "bob")
        all_asked.set()
        assert all(job is own[0] for job in own)
        assert other.id != own[0].id
        assert ended(other).result() == ended(own[0]).result() == "answer"
        assert (own[0].leads, other.leads) == (True, False)
    assert asked == ["once"]


def test_one_token_never_holds_every_worker() -> None:
    go_on = threading.Event()

    def long(_turn: Turn) -> None:
        go_on.wait(PATIENCE)

    with opened(Limits(workers=2)) as jobs:
        adas = [started(jobs, long, key=str(place)) for place in range(5)]
        assert ended(started(jobs, napping(0), "bob", "short")).state() == "done"
        assert [job.state() for job in adas] == ["answering"] + ["waiting"] * 4
        go_on.set()


def test_askers_take_turns_and_an_item_in_two_lines_is_taken_once() -> None:
    queue: FairQueue[str] = FairQueue(2)
    for item in ("a1", "a2", "a3"):
        queue.add("ada", item)
    queue.add("bob", "a3")
    queue.add("bob", "b1")
    taken: list[Taken[str]] = []
    while (one := queue.take(lambda item: item not in [known.item for known in taken])) is not None:
        taken.append(one)
    expected = [("ada", "a1"), ("bob", "a3"), ("ada", "a2"), ("bob", "b1")]
    assert [(one.asker, one.item) for one in taken] == expected
    queue.leave(taken[0])
    assert queue.take(lambda item: item != "a3") is None


@settings(deadline=None)
@given(
    workers=st.integers(2, 5),
    moves=st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.booleans()),
            st.integers(0, 4),
        ),
        max_size=60,
    ),
)
def test_however_long_questions_come_and_go_a_short_one_waits_for_short_ones_alone(
    workers: int, moves: list[tuple[str, bool] | int]
) -> None:
    """With a free worker, whoever has no short question out has none waiting."""
    queue: FairQueue[int] = FairQueue(workers - 1)
    waiting: dict[int, tuple[str, bool]] = {}
    out: list[Taken[int]] = []
    for number, move in enumerate(moves):
        if isinstance(move, int):  # one comes back
            if out:
                queue.leave(out.pop(move % len(out)))
        else:
            waiting[number] = move
            queue.add(move[0], number, is_long=move[1])
        while len(out) < workers and (one := queue.take(lambda _: True)) is not None:
            assert waiting.pop(one.item) == (one.asker, one.is_long)
            out.append(one)
        assert sum(one.is_long for one in out) < workers, "one is kept for short ones"
        if len(out) < workers:
            busy = {one.asker for one in out if not one.is_long}
            assert {asker for asker, is_long in waiting.values() if not is_long} <= busy
        for asker in "abc":
            mine = [one for one in out if one.asker == asker]
            short = sum(not one.is_long for one in mine)
            assert len(mine) < workers or short == 1
    for one in out:
        queue.leave(one)
    while waiting:  # nobody is forgotten
        one = queue.take(lambda _: True)
        assert one is not None
        del waiting[one.item]
        queue.leave(one)


def test_two_long_questions_leave_a_worker_to_a_short_one() -> None:
    go_on = threading.Event()

    def long(_turn: Turn) -> None:
        go_on.wait(PATIENCE)

    with opened(Limits(workers=2)) as jobs:
        askers = ("ada", "bob", "ada")
        slow = [
            started(jobs, long, asker, f"long {place}", is_long=True)
            for place, asker in enumerate(askers)
        ]
        for asker in ("ada", "bob", "eve"):
            assert ended(started(jobs, napping(0), asker, f"short {asker}")).state() == "done"
        assert [job.state() for job in slow] == ["answering", "waiting", "waiting"]
        go_on.set()
        assert [ended(job).state() for job in slow] == ["done"] * 3


def test_a_revoked_token_loses_its_turn_and_whoever_joined_in_takes_it() -> None:
    with opened(revoked=("ada",)) as jobs:
        alone = started(jobs, napping(0), key="alone")
        with pytest.raises(NotAllowed, match="Nothing was charged"):
            ended(alone).result()
    both_wait = threading.Event()
    with opened(Limits(workers=1), revoked=("ada",)) as jobs:
        started(jobs, lambda _turn: both_wait.wait(PATIENCE), "bob", "before")
        adas = started(jobs, lambda _turn: "in ada's name", key="both")
        bobs = started(jobs, lambda _turn: "in bob's name", "bob", "both")
        both_wait.set()
        assert ended(bobs).result() == "in bob's name"
        assert (adas.leads, bobs.leads) == (False, True)


def test_whoever_joins_what_was_stopped_has_it_go_on_and_whoever_stopped_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_module, "FIRST_RELEASE_SECONDS", 0.9 * PATIENCE)
    go_on = threading.Event()
    parted: list[Job[Any]] = []

    def ask(_turn: Turn) -> str:
        go_on.wait(PATIENCE)
        return "answer"

    jobs: Jobs[Any] = Jobs(Limits(workers=1, stop_seconds=0), lambda _: True, parted.append)
    try:
        stopped = started(jobs, ask)
        eventually(lambda: stopped.state() == "answering")
        jobs.stop(stopped.id, lambda _: True)  # has its effect at a release time, which is far off
        joined = started(jobs, ask, "bob")
        assert joined.work.stop_age is None
        assert parted == [stopped]
        with pytest.raises(NotAllowed, match="You no longer wait"):
            stopped.result()
        jobs.stop(joined.id, lambda _: True)
        assert joined.work.is_stopped_unbegun(), "now it has its effect"
        assert started(jobs, ask, "cyd").work is not joined.work
    finally:
        go_on.set()
        jobs.close()


def test_whoever_stops_while_another_process_answers_leaves_the_question_to_who_joined() -> None:
    is_waiting, go_on = threading.Event(), threading.Event()

    def asking(name: str) -> Callable[[Turn], str]:
        def ask(turn: Turn) -> str:
            is_waiting.set()
            go_on.wait(PATIENCE)
            turn.go_on()
            return f"in {name}'s name"

        return ask

    with opened() as jobs:
        adas = started(jobs, asking("ada"))
        assert is_waiting.wait(PATIENCE)
        bobs = started(jobs, asking("bob"), "bob")
        jobs.stop(adas.id, lambda job: job.asker == "ada")
        go_on.set()
        assert ended(bobs).result() == "in bob's name"


def test_stopping_drops_what_waits_and_does_not_wait_for_what_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs_module, "END_SECONDS", 0.1)
    go_on = threading.Event()

    def long(_turn: Turn) -> None:
        go_on.wait(PATIENCE)

    jobs: Jobs[Any] = Jobs(Limits(workers=1, stop_seconds=0.1), lambda _asker: True)
    running_one = started(jobs, long, key="running")
    eventually(lambda: running_one.state() == "answering")
    waiting = started(jobs, napping(0), key="waiting")
    jobs.close()
    assert running_one.state() == "answering"  # nobody waited for its end
    with pytest.raises(Unavailable, match="Nothing was charged"):
        ended(waiting).result()
    with pytest.raises(Unavailable, match="stopping"):
        started(jobs, napping(0), key="late")
    go_on.set()


def waiting(gate: Path, epsilon: str = "1") -> dict[str, str]:
    """A question whose answer, once it is charged, waits until the gate is open."""
    return {"name": "odd", "epsilon": epsilon, "deed": "wait", "gate": str(gate)}


def let_through(gate: Path) -> None:
    """Open the gate."""
    gate.with_name(f"{gate.name}.open").touch()


def charged(curator: Curator, of: str) -> int:
    return sum(entry.kind == "charge" for entry in curator.history(of))


@pytest.mark.usefixtures("odd")
def test_asking_again_what_took_all_of_the_budget_holds_nobody_up(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(tmp_path / "curator") as server:
        server.curator.register("small", ROWS, DOMAIN)
        server.curator.open_budget("small", AddRemove(), Loss("1"))
        with server.api(server.token("analyst")) as api:
            form = {"query": waiting(gate), "wait": 0}
            first = api.post("/datasets/small/ask", json=form).json()["job"]
            eventually(gate.exists)
            again = [api.post("/datasets/small/ask", json=form) for _ in range(45)]
            assert {response.status_code for response in again} == {202}
            assert {response.json()["job"] for response in again} == {first}
            assert api.get("/health").status_code == 200
            refused = api.post(
                "/datasets/small/ask", json={"query": waiting(gate, "0.5"), "wait": 60}
            )
            assert refused.json()["error"]["kind"] == "budget-exceeded"
            let_through(gate)
            done = api.post("/datasets/small/ask", json={"query": waiting(gate), "wait": 60})
            assert done.status_code == 200
            assert charged(server.curator, "small") == 1


@pytest.mark.usefixtures("odd")
def test_whoever_joins_in_pays_nothing(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(tmp_path / "curator") as server:
        tokens = [server.token("analyst") for _ in range(2)]
        with server.api(tokens[0]) as ada, server.api(tokens[1]) as bob:
            form = {"query": waiting(gate), "wait": 0}
            jobs = [api.post("/datasets/patients/ask", json=form).json() for api in (ada, bob)]
            let_through(gate)
            paths = [f"/jobs/{job['job']}" for job in jobs]
            eventually(lambda: bob.get(paths[1]).json()["state"] == "done")
            answers = [ada.get(paths[0]).json()["answer"], bob.get(paths[1]).json()["answer"]]
        assert [answer["stored"] for answer in answers] == [False, True]
        assert [len(answer["charges"]) for answer in answers] == [1, 0]
        assert answers[0]["release"] == answers[1]["release"]
        assert charged(server.curator, "patients") == 1


@pytest.mark.usefixtures("odd")
def test_a_token_revoked_while_its_questions_wait_is_charged_for_none_of_them(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    with running(tmp_path / "curator") as server:
        owner, analyst = server.token("owner"), server.token("analyst")
        with server.api(owner) as api, server.api(analyst) as asking:
            for epsilon in ("0.1", "0.2", "0.3"):
                form = {"query": waiting(gate, epsilon), "wait": 0}
                asking.post("/datasets/patients/ask", json=form)
            eventually(gate.exists)
            for token in api.get("/tokens").json():
                if token["name"] == "test analyst":
                    api.delete(f"/tokens/{token['id']}")
            # The gate stays shut: what is under way ends because nobody may wait for it any more.
            eventually(lambda: not server.site.jobs._works)
        assert charged(server.curator, "patients") == 1
        assert [entry.kind for entry in server.curator.history("patients")].count("release") == 0


def test_an_answer_stands_in_the_ledger_at_the_release_time_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 8.0  # so late that it is looked for before, however busy the machine
    monkeypatch.setattr(work_module, "FIRST_RELEASE_SECONDS", first)
    query = Histogram(columns=("age",), epsilon="1")
    key = answer_key(query)
    with running(tmp_path) as server, server.api(server.token("analyst")) as api:
        form = {"query": query.to_json(), "wait": 0}
        start = time.monotonic()
        api.post("/datasets/patients/ask", json=form)
        looks = 0
        while api.get(f"/datasets/patients/answers/{key}").status_code != 200:
            priced = api.post("/datasets/patients/price", json={"query": query.to_json()}).json()
            looks += not priced["already_answered"]
            assert time.monotonic() < start + PATIENCE
        assert looks
        assert time.monotonic() - start >= first  # it was there within milliseconds
        times = {
            entry["kind"]: entry["time"] for entry in api.get("/datasets/patients/history").json()
        }
        assert (
            times["release"] == times["charge"]
        )  # so that the ledger tells no more than the release times


def test_who_may_not_pay_keeps_nobody_else_from_the_answer() -> None:
    release = threading.Event()

    def refused(_turn: Turn) -> int:
        raise BudgetExceeded("This token may spend nothing. Nothing was charged.")

    def busy(_turn: Turn) -> int:
        release.wait(PATIENCE)
        return 0

    jobs: Jobs[int] = Jobs(Limits(workers=1), lambda _: True)
    try:
        jobs.start(busy, asker="other", key=("d", "first"), question="q")
        theirs = jobs.start(refused, asker="mallory", key=("d", "second"), question="q")
        mine = jobs.start(napping(0), asker="victim", key=("d", "second"), question="q")
        release.set()
        assert ended(mine).result() == 1
        with pytest.raises(BudgetExceeded):
            ended(theirs).result()
    finally:
        release.set()
        jobs.close()


def test_an_answer_goes_on_while_nobody_can_be_asked_whether_it_is_wanted() -> None:
    work: Work[int] = Work(("d", "k"), threading.Event())
    work.begin()
    is_away = True

    def stop_unwanted() -> None:
        if is_away:
            raise Unavailable("The database is restarting.")
        work.stop()

    turn = Turn(work, Worker(1, 1), lambda: None, stop_unwanted)
    for is_away in (True, False):
        turn._looked -= 2 * VALID_SECONDS
        turn._is_stopped()
        assert (work.stop_age is None) is is_away


def test_a_stop_has_its_effect_at_a_release_time_and_tells_no_finer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    work: Work[int] = Work(("d", "k"), threading.Event())
    work.begin()
    now += 1.01 * FIRST_RELEASE_SECONDS
    work.stop()
    expected = FIRST_RELEASE_SECONDS * RELEASE_RATIO
    assert work.stop_age == pytest.approx(expected)
    now = 1000.0 + 0.99 * expected
    assert not work.is_stopped()
    now = 1000.0 + 1.01 * expected
    assert work.is_stopped()


def test_an_answer_that_is_there_when_the_server_stops_is_left_unless_its_release_time_comes() -> (
    None
):
    """Stored at once, it would tell how long the rows took to everybody who reads the ledger."""
    moment = next_release_time(1000.0)
    for age, patience in ((moment - 0.1, 3600.0), (moment + 1.0, 0.1)):
        closing = threading.Event()
        work: Work[str] = Work(("d", "k"), closing)
        work.began = time.monotonic() - age
        turn = Turn(work, None, lambda: None, lambda: None)  # type: ignore[arg-type]  # no rows
        closing.set()
        over = threading.Timer(patience, work.leave)
        over.start()
        if patience > 1.0:
            turn.wait_for_release_time()
            assert time.monotonic() - work.began >= moment
        else:
            with pytest.raises(Interrupted, match="answered then at no further charge"):
                turn.wait_for_release_time()
        over.cancel()


def test_a_stop_with_the_server_waits_for_no_release_time() -> None:
    closing = threading.Event()
    work: Work[int] = Work(("d", "k"), closing)
    work.begin()
    work.stop()
    assert not work.is_stopped()
    closing.set()
    assert work.is_stopped()
