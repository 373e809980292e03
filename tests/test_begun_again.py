"""Answers that were charged and left: begun again from one key, charged once, then erased."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator, backup
from privod.curator.asking import Asker
from privod.curator.publication import GivenUp, Interrupted, written
from privod.curator.questions import Question
from privod.curator.results import Answer
from privod.curator.rows import KeptRows
from privod.curator.work import MOST_RUNS, JobRecord
from privod.data import Categorical, Domain, Numeric
from privod.data.mock import mock_rows
from privod.data.sources import read
from privod.errors import AnswerFailed, NotAllowed, NotFound, Unavailable
from privod.ledger.acts import CloseBudget, Retire
from privod.ledger.chain import now
from privod.ledger.sqlite import LEDGER_FILE
from privod.ledger.store import ReleaseText
from privod.ledger.witness import Head, Witnesses
from privod.mechanisms.randomness import KEY_BYTES, keyed
from privod.privacy import AddRemove, Loss
from privod.query.query import Query, canonical_json
from privod.questions.histogram.query import Histogram
from privod.questions.interactive_grid.query import InteractiveGrid
from tests.running_server import is_unfinished

SMALL = Domain((Numeric("height", 0, 10), Numeric("weight", -5, 5)))
DOMAIN = Domain((Categorical("group", tuple("abcdefgh")),))
ROWS = {"group": list("abcdefgh") * 5}
QUESTION = Histogram(columns=("group",), epsilon="0.01")  # so noisy that two draws differ


class Looking:
    """Looks at rows as a server's worker does, and is left as often as a test wants."""

    def __init__(self, left: int = 0, problem: type[Exception] = Interrupted) -> None:
        self.left = left
        self.problem = problem
        self.keys: list[bytes | None] = []
        self.found: list[Any] = []

    def __call__(self, question: Question, rows: KeptRows, key: bytes | None) -> ReleaseText:
        query = question.query
        self.keys.append(key)
        self.found.append(query.answer(rows.load(), rows.noise(key, query)))
        if len(self.keys) <= self.left:
            raise self.problem("left")
        return written(query, question.rows_per_person, self.found[-1])


def ask(
    curator: Curator, query: Query[Any], of: str, *, request_id: str | None = None, **how: Any
) -> Answer:
    """Ask as a server does."""
    asker = Asker("owner", request_id, None)
    found = curator.asking.ask(query, curator.dataset(of), asker, **how)
    return Answer(found.release.read(found.query), found.charges, found.stored, found.head)


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    with Curator.open(tmp_path / "curator") as made:
        made.register("d", ROWS, DOMAIN)
        made.open_budget("d", AddRemove(), Loss(1))
        yield made


def stored_keys(curator: Curator) -> list[str]:
    with curator.database.lookup() as connection:
        return [str(key) for (key,) in connection.execute("SELECT noise_key FROM unfinished")]


def spent(curator: Curator) -> Loss:
    return curator.budget("d")[0].spent


def bytes_of(directory: Path) -> bytes:
    """The ledger's files, byte by byte."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob(f"{LEDGER_FILE}*")))


def leave(curator: Curator, request: str = "r") -> None:
    """Charge the question under a request id, and leave its answer."""
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id=request, look=Looking(left=1))


def note(curator: Curator, job: str, request: str, query: Query[Any] = QUESTION) -> None:
    """An open job that asks the question under a request id, at the server process "s"."""
    records = curator.job_records
    told = (job, "s", "asker", "", "d", query.to_json(), request)
    records.add(JobRecord(*told, time=now()))


def test_an_answer_that_was_left_is_begun_again_from_its_key_and_charged_once(
    curator: Curator,
) -> None:
    looking = Looking(left=2)
    for _ in range(2):
        with pytest.raises(Interrupted):
            ask(curator, QUESTION, "d", request_id="r", look=looking)
        assert is_unfinished(curator, QUESTION, "d")
    answer = ask(curator, QUESTION, "d", request_id="r", look=looking)
    assert len(set(looking.keys)) == 1
    assert looking.keys[0] is not None
    assert [found.to_json() for found in looking.found] == [answer.release.to_json()] * 3
    assert [charge.loss for charge in answer.charges] == [Loss("0.01")]
    assert not answer.release.seeded
    assert spent(curator) == Loss("0.01")
    assert stored_keys(curator) == []
    assert curator.verify().releases == 1


def test_whoever_asks_goes_on_with_what_was_left_and_pays_nothing(curator: Curator) -> None:
    looking = Looking(left=1)
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=looking)
    answer = ask(curator, QUESTION, "d", request_id="other")  # in this process, from the key
    assert (answer.charges, answer.stored) == ((), True)
    assert answer.release.to_json() == looking.found[0].to_json()
    assert spent(curator) == Loss("0.01")


def test_an_answer_is_begun_a_public_number_of_times_and_has_failed_then(curator: Curator) -> None:
    looking = Looking(left=100)
    for _ in range(MOST_RUNS):
        with pytest.raises(Interrupted):
            ask(curator, QUESTION, "d", request_id="r", look=looking)
    for _ in range(2):
        with pytest.raises(AnswerFailed):
            ask(curator, QUESTION, "d", request_id="r", look=looking)
    assert len(looking.keys) == MOST_RUNS
    assert (stored_keys(curator), spent(curator)) == ([], Loss("0.01"))
    assert len(ask(curator, QUESTION, "d", look=Looking()).charges) == 1
    assert spent(curator) == Loss("0.02")


@pytest.mark.parametrize("problem", [ValueError, MemoryError, Unavailable])
def test_what_failed_by_itself_is_never_begun_again(
    curator: Curator, problem: type[Exception]
) -> None:
    looking = Looking(left=1, problem=problem)
    for _ in range(2):
        with pytest.raises(AnswerFailed):
            ask(curator, QUESTION, "d", request_id="r", look=looking)
    assert (len(looking.keys), stored_keys(curator)) == (1, [])
    ask(curator, QUESTION, "d", look=looking)
    assert len(set(looking.keys)) == 2, "another charge, another key"
    assert spent(curator) == Loss("0.02")


def test_an_answer_in_the_curators_own_process_has_no_key(curator: Curator) -> None:
    kept: list[list[str]] = []
    look = curator.asking._look

    def watched(question: Question, rows: KeptRows, key: bytes | None) -> ReleaseText:
        kept.append(stored_keys(curator))
        assert key is None
        return look(question, rows, key)

    curator.asking._look = watched  # type: ignore[method-assign]
    ask(curator, QUESTION, "d")
    assert kept == [[]]


def test_what_was_left_is_answered_though_its_budget_was_closed_meanwhile(
    curator: Curator,
) -> None:
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=Looking(left=1))
    curator.do(CloseBudget("d", AddRemove(), "enough"), confirmed=True)
    assert ask(curator, QUESTION, "d", request_id="r", look=Looking()).charges


def test_what_was_left_is_not_answered_once_its_rows_are_gone(curator: Curator) -> None:
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=Looking(left=1))
    curator.do(Retire("d", "over"), confirmed=True)
    with pytest.raises(NotFound, match="retired"):
        ask(curator, QUESTION, "d", request_id="r", look=Looking())


def test_what_was_left_waits_for_rows_that_are_elsewhere(curator: Curator, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=Looking(left=1))
    rows = curator.directory / "rows"
    rows.rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="begun again once they are there"):
        ask(curator, QUESTION, "d", request_id="r", look=Looking())
    (tmp_path / "elsewhere").rename(rows)
    assert ask(curator, QUESTION, "d", request_id="r", look=Looking()).charges


def test_counts_that_are_shared_get_their_noise_once_whatever_was_left(tmp_path: Path) -> None:
    query = InteractiveGrid.examples(SMALL)[0]
    with Curator.open(tmp_path / "curator") as made:
        made.register("d", mock_rows(SMALL, 100), SMALL)
        made.open_budget("d", AddRemove(), Loss(10))
        with pytest.raises(Interrupted):
            ask(made, query, "d", request_id="r", look=Looking(left=1))
        assert len(ask(made, query, "d", request_id="r", look=Looking()).charges) == 1
        assert made.verify().questions == 1


def test_the_key_is_erased_from_the_ledgers_bytes_with_the_release(
    curator: Curator, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=Looking(left=1))
    (key,) = stored_keys(curator)
    assert len(key) == 2 * KEY_BYTES
    assert key.encode() in bytes_of(tmp_path / "curator")
    ask(curator, QUESTION, "d", request_id="r", look=Looking())
    curator.close()
    with sqlite3.connect(tmp_path / "curator" / LEDGER_FILE) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert key.encode() not in bytes_of(tmp_path / "curator")
    assert bytes.fromhex(key) not in bytes_of(tmp_path / "curator")


def test_a_backup_holds_no_key_and_its_question_is_charged_anew(
    curator: Curator, tmp_path: Path
) -> None:
    looking = Looking(left=1)
    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=looking)
    (key,) = stored_keys(curator)
    backup(curator, tmp_path / "copy")
    assert key.encode() not in bytes_of(tmp_path / "copy")
    assert stored_keys(curator) == [key], "the original goes on"
    with Curator.open(tmp_path / "copy", restoring=True) as copy:
        assert not is_unfinished(copy, QUESTION, "d")
        copy.accept_restored("a test")
        with pytest.raises(AnswerFailed):
            ask(copy, QUESTION, "d", request_id="r", look=Looking())
        assert len(ask(copy, QUESTION, "d", request_id="new", look=Looking()).charges) == 1


def test_a_key_without_the_salt_of_the_rows_gives_other_noise(curator: Curator) -> None:
    looking = Looking()
    released = ask(curator, QUESTION, "d", look=looking).release
    (key,) = looking.keys
    assert key is not None
    (folder,) = (curator.directory / "rows").iterdir()
    salt = (folder / "salt").read_bytes()
    table = read(ROWS, DOMAIN)
    text = canonical_json(QUESTION.to_json())
    assert QUESTION.answer(table, keyed(key, salt, text)).to_json() == released.to_json()
    assert QUESTION.answer(table, keyed(key, bytes(32), text)).to_json() != released.to_json()


def test_a_key_that_is_put_beside_another_question_gives_other_noise(curator: Curator) -> None:
    """Who writes to the database, without the rows, has no two truths under one noise."""
    second = replace(QUESTION, epsilon="0.02")
    looking = Looking(left=2)
    for query in (QUESTION, second):
        with pytest.raises(Interrupted):
            ask(curator, query, "d", look=looking)
    with curator.database.writing() as connection:
        connection.execute("UPDATE unfinished SET noise_key = ?", stored_keys(curator)[0])
    first, other = (ask(curator, query, "d", look=looking) for query in (QUESTION, second))
    assert looking.keys[2] == looking.keys[3]
    (folder,) = (curator.directory / "rows").iterdir()
    rows = KeptRows(folder.parent, folder.name, "", DOMAIN)
    drawn = [rows.noise(looking.keys[2], query).bytes(16) for query in (QUESTION, second)]
    assert drawn[0] != drawn[1]
    assert first.release.value != other.release.value


def test_a_failure_changes_no_price_before_its_release_time(curator: Curator) -> None:
    """Nor whether the question is taken in: both say that it goes on until the failure is told."""
    costly = replace(QUESTION, epsilon="0.6")  # it cannot be paid for twice
    seen: list[tuple[bool, bool]] = []

    def look_up() -> None:
        seen.append((curator.price(costly, "d").affordable, is_unfinished(curator, costly, "d")))
        curator.asking.check_budget(costly, curator.dataset("d"), "other", None)

    def fail(*_: object) -> Any:
        look_up()
        raise MemoryError

    with pytest.raises(AnswerFailed):
        ask(curator, costly, "d", request_id="r", look=fail, wait_for_release_time=look_up)
    assert seen == [(True, True)] * 2
    assert not curator.price(costly, "d").affordable


def test_no_failure_is_told_beside_an_answer_that_another_process_stored(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on with the question because this process had lost its lock, and lives."""

    def fail(question: Question, rows: KeptRows, key: bytes | None) -> Any:
        with monkeypatch.context() as patch, Curator.open(curator.directory) as other:
            patch.setattr(other.database, "alone", lambda _key: nullcontext())
            ask(other, question.query, "d", request_id="r", look=Looking())
        raise MemoryError

    with pytest.raises(Interrupted):
        ask(curator, QUESTION, "d", request_id="r", look=fail)
    assert ask(curator, QUESTION, "d", request_id="r", look=Looking()).stored
    assert spent(curator) == Loss("0.01")


def test_whoever_reads_a_release_waits_until_it_is_on_disk(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit shows it to others before that, and a crash in between would lose it."""
    synced: list[int] = []
    note = Witnesses.note
    with Curator.open(curator.directory) as other:
        sync = other.database.sync

        def counted() -> None:
            synced.append(0)
            sync()

        monkeypatch.setattr(other.database, "sync", counted)

        def read_early(witnesses: Witnesses, head: Head, *, durably: bool = True) -> None:
            if not synced:
                with suppress(NotFound):  # it is the charge that is noted
                    assert other.release("d", QUESTION).query == QUESTION
            note(witnesses, head, durably=durably)

        monkeypatch.setattr(Witnesses, "note", read_early)
        ask(curator, QUESTION, "d")
        assert len(synced) == 1
        assert [one.query for one in other.releases("d")] == [QUESTION]
        assert len(synced) == 1, "it was on disk by then"


def refuse() -> None:
    raise NotAllowed("It was stopped.")


def test_whoever_stops_while_waiting_is_charged_nothing_and_destroys_nothing(
    curator: Curator,
) -> None:
    with pytest.raises(NotAllowed):
        ask(curator, QUESTION, "d", request_id="b", look=Looking(), go_on=refuse)
    assert spent(curator) == Loss(0)
    leave(curator)
    (key,) = stored_keys(curator)
    with pytest.raises(NotAllowed):
        ask(curator, QUESTION, "d", request_id="b", look=Looking(), go_on=refuse)
    assert stored_keys(curator) == [key]
    assert ask(curator, QUESTION, "d", request_id="r", look=Looking()).charges


@pytest.mark.parametrize(
    ("waiting", "asks", "is_left"),
    [("r", "b", True), ("r", "r", False), ("b", "b", False), (None, "r", False)],
)
def test_what_was_given_up_is_left_to_whoever_paid_and_waits_elsewhere(
    curator: Curator, waiting: str | None, asks: str, is_left: bool
) -> None:
    leave(curator)
    if waiting is not None:
        note(curator, "j", waiting)
    with pytest.raises(GivenUp):
        ask(curator, QUESTION, "d", request_id=asks, look=Looking(left=1, problem=GivenUp))
    assert bool(stored_keys(curator)) is is_left
    assert is_unfinished(curator, QUESTION, "d") is is_left


def test_a_jobs_end_gives_up_what_it_charged_and_nothing_else(curator: Curator) -> None:
    leave(curator)
    other = Histogram(columns=("group",), epsilon="0.02")
    note(curator, "other question", "r", other)
    note(curator, "other request", "b")
    note(curator, "asked twice", "r")
    note(curator, "own", "r")
    for job in ("other question", "other request", "asked twice"):
        curator.job_records.end(job, "s", "failed")
        assert is_unfinished(curator, QUESTION, "d")
    curator.job_records.end("own", "s", "stopped")
    assert stored_keys(curator) == []


def close(curator: Curator) -> None:
    curator.do(CloseBudget("d", AddRemove(), "enough"), confirmed=True)


def use_up(curator: Curator) -> None:
    ask(curator, Histogram(columns=("group",), epsilon="0.985"), "d")


@pytest.mark.parametrize("end", [close, use_up])
def test_what_was_left_can_be_asked_whatever_is_left_to_pay_with(
    curator: Curator, end: Callable[[Curator], None]
) -> None:
    assert not curator.price(QUESTION, "d").begun
    leave(curator)
    assert len(curator.price(QUESTION, "d").charges) == 1, "if it fails before it is gone on with"
    end(curator)
    price = curator.price(QUESTION, "d")
    assert (price.charges, price.affordable, price.already_answered) == ((), True, False)
    assert price.begun
    curator.asking.check_budget(QUESTION, curator.dataset("d"), "b", None)
    assert ask(curator, QUESTION, "d", request_id="b", look=Looking()).stored


def test_the_command_asks_nothing_about_noise_that_is_paid_already(curator: Curator) -> None:
    noisy = Histogram(columns=("group",), epsilon="0.0001")
    typed = [f"--at={curator.directory}", "d", "histogram", "columns=group", "epsilon=0.0001"]
    assert CliRunner().invoke(app, ["ask", *typed, "--json"]).exit_code != 0  # asks before it pays
    with pytest.raises(Interrupted):
        ask(curator, noisy, "d", request_id="r", look=Looking(left=1))
    told = CliRunner().invoke(app, ["price", *typed])
    assert "asking goes on with that at no price" in " ".join(told.output.split())
    went_on = CliRunner().invoke(app, ["ask", *typed, "--json"])
    assert went_on.exception is None
    assert spent(curator) == Loss("0.0001")


def test_what_failed_at_one_process_is_not_stored_by_another_that_lost_its_lock(
    curator: Curator,
) -> None:
    @contextmanager
    def no_lock(_key: str) -> Iterator[Callable[[], bool]]:
        yield lambda: True

    with Curator.open(curator.directory) as other:
        other.database.alone = no_lock  # type: ignore[method-assign, assignment]

        def look(question: Question, rows: KeptRows, key: bytes | None) -> Any:
            with pytest.raises(AnswerFailed):
                ask(other, QUESTION, "d", request_id="r", look=Looking(1, MemoryError))
            return Looking()(question, rows, key)

        with pytest.raises(AnswerFailed):
            ask(curator, QUESTION, "d", request_id="r", look=look)
    assert curator.verify().releases == 0


def test_a_key_that_failed_while_the_database_was_away_is_erased_and_never_run_again(
    curator: Curator,
) -> None:
    leave(curator)

    def look(_question: Question, _rows: KeptRows, _key: bytes | None) -> Any:
        curator.database.read_only = True
        raise MemoryError

    with pytest.raises(Interrupted):  # nothing is told before it is erased
        ask(curator, QUESTION, "d", request_id="b", look=look)  # what "r" paid for
    curator.database.read_only = False
    assert len(stored_keys(curator)) == 1
    with pytest.raises(AnswerFailed):
        ask(curator, QUESTION, "d", request_id="r", look=Looking())
    curator.asking.erase_failed()
    assert stored_keys(curator) == []
