"""The one door: checks before charges, charges before looks, one answer for one question."""

from __future__ import annotations

# slow: left out by `make quick`
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod import wire
from privod.curator import Answer, Curator
from privod.curator.results import NO_ANSWER
from privod.data import Domain, Numeric, Table
from privod.errors import (
    AnswerFailed,
    BudgetExceeded,
    InvalidParameter,
    NoPromise,
    NotFound,
    PrivodError,
    SeededRelease,
    Unavailable,
)
from privod.mechanisms import Randomness, seeded
from privod.privacy import AddRemove, Adjacency, Loss, loss
from privod.query.query import Release
from privod.questions.anomaly_labels.query import AnomalyLabels
from privod.questions.histogram.query import Histogram

AGES = Domain((Numeric("age", 0, 120),))
ROWS = {"age": np.arange(100.0), "who": np.arange(100) // 4}


def question(bins: int = 3, epsilon: Any = "0.1", adjacency: Adjacency = AddRemove()) -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon, adjacency=adjacency)


def with_people(directory: Path) -> Curator:
    """A curator of one data set with one budget."""
    curator = Curator.open(directory)
    curator.register("people", ROWS, AGES)
    curator.open_budget("people", AddRemove(), Loss(1))
    return curator


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    return with_people(tmp_path)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Release[Any]]) -> None:
    monkeypatch.setattr(Histogram, "answer", answer)


# ---- asking ------------------------------------------------------------------------------------


def test_numbers_are_read_where_they_come_in_and_not_again(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    usual_text = loss._usual_text

    def counted(text: str, name: str, way_out: str) -> str:
        read.append(name)
        return usual_text(text, name, way_out)

    query = question()
    monkeypatch.setattr(loss, "_usual_text", counted)
    curator.ask(query, "people")
    # Only of the release, which is read back before it is stored: its query.
    assert sorted(read) == ["delta", "epsilon"]


def test_a_question_is_priced_charged_answered_and_stored(curator: Curator) -> None:
    price = curator.price(question(), "people")
    (priced,) = price.charges
    assert (priced.loss, priced.left) == (Loss("0.1"), Loss("0.9"))
    assert price.affordable
    assert not price.already_answered
    answer = curator.ask(question(), "people", asked_by="ann")
    (charge,) = answer.charges
    assert charge.loss == priced.loss
    assert not answer.stored
    assert not answer.release.seeded
    kinds = [entry.kind for entry in curator.history("people")]
    assert kinds == ["register", "open", "charge", "release"]
    entry = curator.history("people")[charge.entry - 1]
    assert (entry.asked_by, entry.loss, entry.adjacency) == ("ann", Loss("0.1"), AddRemove())
    assert entry.query == question().to_json()
    assert curator.release("people", question()) == answer.release
    assert curator.releases("people") == (answer.release,)
    curator.verify()


def test_the_same_question_again_is_the_same_answer_at_no_cost(curator: Curator) -> None:
    first = curator.ask(question(), "people")
    head = curator.head()
    price = curator.price(question(), "people")
    assert price.already_answered
    assert price.affordable
    assert price.charges == ()
    again = curator.ask(question(3, "1/10"), "people", asked_by="bob")
    assert again == Answer(first.release, (), stored=True, head=head)
    assert curator.head() == head


def test_a_stored_answer_is_given_even_when_nothing_is_left(curator: Curator) -> None:
    first = curator.ask(question(epsilon=1), "people")
    assert not curator.price(question(4), "people").affordable
    assert curator.price(question(4), "people").charges[0].left is None
    with pytest.raises(BudgetExceeded):
        curator.ask(question(4), "people")
    assert curator.ask(question(epsilon=1), "people").release == first.release


@pytest.mark.parametrize(
    ("query", "of", "problem"),
    [
        (Histogram(columns=("height",), epsilon=1), "people", InvalidParameter),
        ("how old?", "people", InvalidParameter),
        (question(), "animals", NotFound),
        (
            AnomalyLabels(
                records=((3.0,),),
                columns=("age",),
                near="distance(radius=1)",
                max_crowd=3,
                edit_margin=2,
                epsilon="0.1",
            ),
            "people",
            NoPromise,
        ),
        (question(), "without a budget", NotFound),
    ],
)
def test_what_cannot_be_asked_is_refused_alike_by_price_and_ask(
    curator: Curator, query: Any, of: str, problem: type[PrivodError]
) -> None:
    curator.register("without a budget", ROWS, AGES)
    head = curator.head()
    with pytest.raises(problem) as priced:
        curator.price(query, of)
    with pytest.raises(problem) as asked:
        curator.ask(query, of)
    assert str(priced.value) == str(asked.value)
    assert curator.head() == head


def test_a_question_outside_the_catalog_is_refused(curator: Curator) -> None:
    class Cheaper(Histogram):
        """Claims the catalog's name."""

    with pytest.raises(InvalidParameter, match="question of the catalog"):
        curator.ask(Cheaper(columns=("age",), epsilon=1), "people")


# ---- when answering fails ----------------------------------------------------------------------


@pytest.mark.parametrize("quoted", ["row 17 is ill", "row 18 is well"])
def test_a_charge_stands_when_answering_fails_and_the_message_says_nothing(
    curator: Curator, monkeypatch: pytest.MonkeyPatch, quoted: str
) -> None:
    def fail(*_: object) -> Release[Any]:
        raise ValueError(quoted)

    answering(monkeypatch, fail)
    with pytest.raises(AnswerFailed) as failure:
        curator.ask(question(), "people")
    assert str(failure.value) == NO_ANSWER
    assert failure.value.__context__ is None
    assert failure.value.__cause__ is None
    assert curator.budget("people")[0].spent == Loss("0.1")
    monkeypatch.undo()
    curator.ask(question(), "people")
    assert curator.budget("people")[0].spent == Loss("0.2")
    curator.verify()


def test_an_answer_that_cannot_be_written_down_is_not_given(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Histogram, "value_to_json", lambda *_: float("nan"))
    with pytest.raises(AnswerFailed, match="The charge stands"):
        curator.ask(question(), "people")


def test_an_answer_with_another_promise_is_not_given(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Histogram.answer

    def cheaper(query: Histogram, table: Table, randomness: Randomness) -> Release[Any]:
        return answer(question(epsilon="0.01"), table, randomness)

    answering(monkeypatch, cheaper)
    with pytest.raises(AnswerFailed):
        curator.ask(question(), "people")


def test_a_seeded_release_is_not_published(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Histogram.answer

    def replayable(query: Histogram, table: Table, _: Randomness) -> Release[Any]:
        return answer(query, table, seeded(1))

    answering(monkeypatch, replayable)
    with pytest.raises(SeededRelease):
        curator.ask(question(), "people")
    assert curator.releases("people") == ()
    assert curator.budget("people")[0].spent == Loss("0.1")
    curator.verify()


def test_damaged_rows_fail_like_everything_else(curator: Curator) -> None:
    path = next((curator.directory / "rows").glob("*/rows-0000.columns"))
    path.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(AnswerFailed) as failure:
        curator.ask(question(), "people")
    assert str(failure.value) == NO_ANSWER


def test_missing_rows_are_noticed_before_any_charge(curator: Curator) -> None:
    path = next((curator.directory / "rows").glob("*/rows-0000.columns"))
    path.unlink()
    with pytest.raises(Unavailable, match="Nothing was charged"):
        curator.ask(question(), "people")
    assert curator.budget("people")[0].spent == Loss(0)
    assert curator.verify().without_rows == ("people",)


def test_a_full_disk_after_the_charge_gives_no_answer(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privod.ledger import store

    def full(*_: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(store, "enter_release", full)
    with pytest.raises(AnswerFailed) as failure:
        curator.ask(question(), "people")
    assert "disk is full" in str(failure.value.__cause__)
    assert curator.releases("people") == ()
    curator.verify()


# ---- asking again ------------------------------------------------------------------------------


def test_a_retry_under_the_same_request_id_never_pays_twice(curator: Curator) -> None:
    first = curator.ask(question(), "people", request_id="r1")
    again = curator.ask(question(), "people", request_id="r1")
    assert again.release == first.release
    assert curator.budget("people")[0].spent == Loss("0.1")


def test_a_retry_after_a_failure_does_not_pay_and_does_not_look_again(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda *_: 1 / 0)  # type: ignore[arg-type]
    with pytest.raises(AnswerFailed):
        curator.ask(question(), "people", request_id="r1")
    monkeypatch.undo()
    with pytest.raises(AnswerFailed, match="new request id"):
        curator.ask(question(), "people", request_id="r1")
    assert curator.budget("people")[0].spent == Loss("0.1")
    assert not curator.ask(question(), "people", request_id="r2").stored
    assert curator.ask(question(), "people", request_id="r1").stored


def test_a_request_id_belongs_to_one_question(curator: Curator) -> None:
    curator.ask(question(), "people", request_id="r1")
    head = curator.head()
    with pytest.raises(InvalidParameter, match="was used for another question"):
        curator.ask(question(4), "people", request_id="r1")
    with pytest.raises(InvalidParameter, match="request_id"):
        curator.ask(question(4), "people", request_id="")
    with pytest.raises(InvalidParameter, match="asked_by"):
        curator.ask(question(4), "people", asked_by="a\nb")
    assert curator.head() == head


def test_askers_of_one_question_wait_for_one_answer(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Histogram.answer
    looks = []

    def slowly(query: Histogram, table: Table, randomness: Randomness) -> Release[Any]:
        looks.append(threading.get_ident())
        time.sleep(0.2)
        return answer(query, table, randomness)

    answering(monkeypatch, slowly)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: curator.ask(question(epsilon=1), "people"), range(8)))
    assert len(looks) == 1
    assert sum(not given.stored for given in answers) == 1
    assert len({given.release.sentence() for given in answers}) == 1
    assert curator.budget("people")[0].spent == Loss(1)


def test_threads_never_overspend(curator: Curator) -> None:
    def grab(bins: int) -> bool:
        try:
            curator.ask(question(bins, "1/20"), "people")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(grab, range(1, 41)))
    assert sum(granted) == 20
    assert curator.budget("people")[0].left == Loss(0)
    curator.verify()
    assert list((curator.directory / "locks").iterdir()) == []


def test_two_who_were_both_charged_get_the_first_answer(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a lock be lost, the second pays for nothing but never adds noise to a second time."""
    answer = Histogram.answer
    others: list[Answer] = []

    def overtaken(query: Histogram, table: Table, randomness: Randomness) -> Release[Any]:
        monkeypatch.undo()
        for lock in (curator.directory / "locks").iterdir():
            lock.unlink()
        others.append(curator.ask(query, "people"))
        return answer(query, table, randomness)

    answering(monkeypatch, overtaken)
    given = curator.ask(question(), "people")
    assert given.release == others[0].release
    assert curator.budget("people")[0].spent == Loss("0.2")
    curator.verify()


def test_everything_is_there_after_a_restart(curator: Curator) -> None:
    answer = curator.ask(question(), "people")
    curator.close()
    with Curator.open(curator.directory) as again:
        assert again.ask(question(), "people").release == answer.release
        assert again.budget("people") == curator.budget("people")
        assert again.dataset("people") == curator.dataset("people")
        assert again.history() == curator.history()


def test_everything_public_can_be_written_as_json(curator: Curator) -> None:
    price = curator.price(question(), "people")
    priced = wire.Price.about(price, question(), curator.dataset("people").domain)
    answer = wire.Answer.with_cost(curator.ask(question(), "people"))
    state = wire.Budget.of(curator.budget("people")[0])
    entries = [wire.Entry.of(entry) for entry in curator.history()]
    text = wire.to_text([priced, answer, state, *entries])
    assert '"left": {"epsilon": "9/10", "delta": "0"}' in text


def test_a_stored_answer_needs_a_release(curator: Curator) -> None:
    with pytest.raises(NotFound, match="has no stored answer"):
        curator.release("people", question())


def test_rows_that_lack_what_reading_takes_are_refused_before_the_charge(curator: Curator) -> None:
    (lost,) = (curator.directory / "rows").glob("*/*.seals")
    lost.unlink()
    with pytest.raises(Unavailable, match="Nothing was charged"):
        curator.ask(question(), "people")
    assert curator.budget("people")[0].spent == Loss(0)
