"""What owners do keeps the budgets honest: versions, late budgets, what was revealed elsewhere."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from privod.curator import Curator, backup, restore
from privod.data import Domain, Numeric
from privod.errors import BudgetExceeded, InvalidParameter
from privod.ledger import verification
from privod.ledger.acts import ChargeElsewhere, Retire
from privod.ledger.sqlite import SQLite
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.questions.histogram.query import Histogram
from tests.patience import PATIENCE

AGES = (Numeric("age", 0, 120),)
ROWS = {"age": np.arange(100.0), "who": np.arange(100) // 4, "whose": np.arange(100) // 2}


def question(bins: int = 3, epsilon: str = "0.1") -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon)


def start(directory: Path, *, epsilon: int = 5) -> Curator:
    curator = Curator.open(directory)
    curator.register("people", ROWS, Domain(AGES))
    curator.open_budget("people", AddRemove(), Loss(epsilon))
    return curator


def test_a_late_budget_carries_what_was_revealed_elsewhere_and_verifies(tmp_path: Path) -> None:
    curator = start(tmp_path / "at")
    curator.ask(question(), "people")
    lost = Guarantee(Loss(1), AddRemove())
    curator.do(ChargeElsewhere("people", lost, "a paper"), confirmed=True)
    late = curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    assert late.spent == Loss("2.2")
    curator.verify()
    backup(curator, tmp_path / "copy")


def test_a_retired_data_set_stays_in_backups_without_its_rows(tmp_path: Path) -> None:
    curator = start(tmp_path / "at")
    curator.register("others", {**ROWS, "age": ROWS["age"] / 2}, Domain(AGES))
    kept = curator.ask(question(), "people").release
    curator.do(Retire("people", "the study ended"), confirmed=True)
    backup(curator, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "again")
    with Curator.open(tmp_path / "again", restoring=True) as again:
        assert again.verify().datasets == 2
        assert again.releases("people") == (kept,)


def test_a_late_budget_may_carry_questions_of_another_version_of_privod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = start(tmp_path)
    curator.ask(question(), "people")
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    monkeypatch.setattr(verification, "known_kind", lambda *_: None)
    curator.verify()


def test_more_revealed_elsewhere_than_is_left_exhausts_the_ledger(tmp_path: Path) -> None:
    curator = start(tmp_path / "at")
    curator.open_budget("people", Replace(), Loss(100), confirmed=True)
    answer = curator.ask(question(epsilon="1"), "people")
    leak = Guarantee(Loss(9), AddRemove())
    charges = curator.do(ChargeElsewhere("people", leak, "a stolen laptop"), confirmed=True)
    assert [charge.loss for charge in charges] == [Loss(9), Loss(18)]
    spent, other = curator.budget("people")
    assert (spent.spent, spent.left, other.left) == (Loss(10), Loss(0), Loss(80))
    assert not curator.price(question(4), "people").affordable
    with pytest.raises(BudgetExceeded, match=r"bring it to epsilon 10\.1\. Left is epsilon 0\."):
        curator.ask(question(4), "people")
    assert curator.ask(question(epsilon="1"), "people").release == answer.release
    curator.do(ChargeElsewhere("people", leak, "and another"), confirmed=True)
    assert curator.budget("people")[0].spent == Loss(19)
    curator.verify()
    backup(curator, tmp_path / "copy")


def test_a_delta_revealed_elsewhere_exhausts_a_budget_that_allows_none(tmp_path: Path) -> None:
    curator = start(tmp_path)
    lost = Guarantee(Loss("0.1", "1e-6"), AddRemove())
    curator.do(ChargeElsewhere("people", lost, "a noisy mean, by hand"), confirmed=True)
    (state,) = curator.budget("people")
    assert (state.spent, state.left) == (Loss("0.1", "1e-6"), Loss(0))
    with pytest.raises(BudgetExceeded):
        curator.ask(question(), "people")
    curator.verify()


def test_a_late_budget_must_cover_what_was_revealed_elsewhere(tmp_path: Path) -> None:
    curator = start(tmp_path)
    curator.do(
        ChargeElsewhere("people", Guarantee(Loss(9), AddRemove()), "a stolen laptop"),
        confirmed=True,
    )
    with pytest.raises(InvalidParameter, match="must cover the epsilon 18"):
        curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    curator.open_budget("people", Replace(), Loss(20), confirmed=True)
    curator.verify()


@pytest.mark.parametrize(
    ("first", "second"), [("who", None), (None, "who"), ("who", "whose")], ids=str
)
def test_a_version_with_another_unit_of_privacy_is_refused(
    tmp_path: Path, first: str | None, second: str | None
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("v1", ROWS, Domain(AGES, person=first))
    curator.open_budget("v1", AddRemove(), Loss(1))
    with pytest.raises(InvalidParameter, match=r"person must be .*, as in 'v1', whose budget"):
        curator.register("v2", ROWS, Domain(AGES, person=second), continues="v1")
    assert [dataset.name for dataset in curator.datasets()] == ["v1"]


def test_a_version_may_cap_the_rows_of_a_person_otherwise_and_pays_for_it(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("v1", ROWS, Domain(AGES, person="who"))
    curator.open_budget("v1", AddRemove(), Loss(1))
    curator.register("v2", ROWS, Domain(AGES, "who", 3), continues="v1")
    curator.ask(question(), "v1")
    curator.ask(question(), "v2")
    assert curator.budget("v2")[0].spent == Loss("0.4")
    curator.verify()


def test_a_lock_ends_with_its_holder_though_a_forked_child_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = SQLite(tmp_path)
    copies: list[int] = []
    hold = SQLite._hold

    def held_and_copied(self: SQLite, path: Path) -> int:
        handle = hold(self, path)
        copies.append(os.dup(handle))  # what a child inherits that is forked right now
        return handle

    def wait() -> None:
        waiting.set()
        with database.alone("question"):
            came.set()

    waiting, came = threading.Event(), threading.Event()
    other = threading.Thread(target=wait)
    with monkeypatch.context() as forked:
        forked.setattr(SQLite, "_hold", held_and_copied)
        lock = database.alone("question")
        lock.__enter__()
    try:
        other.start()
        waiting.wait(PATIENCE)
        came.wait(0.2)  # let it open the lock file and wait there
        lock.__exit__(None, None, None)
        assert came.wait(PATIENCE)
    finally:
        for copy in copies:
            os.close(copy)
        other.join(PATIENCE)
