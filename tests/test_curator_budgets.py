"""Data sets, their versions and their budgets at the curator."""

from __future__ import annotations

# slow: left out by `make quick`
from pathlib import Path

import pytest

from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.errors import (
    AlreadyExists,
    BudgetExceeded,
    InvalidParameter,
    NeedsConfirmation,
    NotFound,
)
from privod.privacy import AddRemove, Adjacency, InCrowd, Loss, Replace
from tests.test_curator import AGES, ROWS, question, with_people

PERSONS = Domain((Numeric("age", 0, 120),), person="who", max_rows_per_person=3)


CROWD = InCrowd(1.0, ("age",), 5)


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    return with_people(tmp_path)


def test_a_new_version_continues_the_same_budgets(curator: Curator) -> None:
    curator.ask(question(epsilon="0.6"), "people")
    curator.register("people-2", ROWS, AGES, continues="people")
    curator.register("people-3", ROWS, AGES, continues="people-2")
    assert curator.dataset("people-3").root == "people"
    assert curator.budget("people-3") == curator.budget("people")
    with pytest.raises(BudgetExceeded):
        curator.ask(question(epsilon="0.6"), "people-3")
    assert not curator.ask(question(epsilon="0.4"), "people-2").stored
    assert curator.budget("people")[0].left == Loss(0)
    with pytest.raises(AlreadyExists, match="has a budget"):
        curator.open_budget("people-3", AddRemove(), Loss(1))
    assert len(curator.history("people-2")) == len(curator.history("people")) == 8
    curator.verify()


def test_other_data_has_other_budgets(curator: Curator) -> None:
    curator.register("animals", ROWS, AGES)
    curator.open_budget("animals", AddRemove(), Loss(2))
    curator.ask(question(), "animals")
    assert curator.budget("people")[0].spent == Loss(0)
    assert [dataset.name for dataset in curator.datasets()] == ["people", "animals"]


def test_names_are_for_good(curator: Curator) -> None:
    with pytest.raises(AlreadyExists, match="data sets never change"):
        curator.register("people", ROWS, AGES)
    with pytest.raises(NotFound, match="to continue"):
        curator.register("new", ROWS, AGES, continues="animals")
    with pytest.raises(InvalidParameter, match="name"):
        curator.register("", ROWS, AGES)


def test_a_person_pays_for_all_rows_they_may_have(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, PERSONS)
    curator.open_budget("people", AddRemove(), Loss(1))
    assert curator.price(question(), "people").charges[0].loss == Loss("0.3")
    curator.ask(question(), "people")
    assert curator.budget("people")[0].spent == Loss("0.3")
    curator.verify()


@pytest.mark.parametrize("adjacency", [Replace(), CROWD], ids=lambda a: str(a.name))
def test_budgets_that_do_not_stretch_to_persons_are_refused_for_them(
    tmp_path: Path, adjacency: Adjacency
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("persons", ROWS, PERSONS)
    with pytest.raises(InvalidParameter, match="does not stretch to a person"):
        curator.open_budget("persons", adjacency, Loss(1), confirmed=True)
    curator.register("once", ROWS, Domain(AGES.columns, person="who"))
    if adjacency == CROWD:
        curator.open_budget("once", AddRemove(), Loss(1))
    curator.open_budget("once", adjacency, Loss(1), confirmed=True)
    with pytest.raises(InvalidParameter, match="does not stretch to a person"):
        curator.register("once-2", ROWS, PERSONS, continues="once")


def test_what_a_narrow_budget_gives_up_must_be_confirmed(curator: Curator) -> None:
    with pytest.raises(NeedsConfirmation, match="number of records becomes public"):
        curator.open_budget("people", Replace(), Loss(1))
    assert len(curator.budget("people")) == 1
    curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    assert len(curator.budget("people")) == 2


def test_an_owner_confirms_who_is_protected_with_the_numbers_in_it(curator: Curator) -> None:
    with pytest.raises(NeedsConfirmation) as needed:
        curator.open_budget("people", InCrowd(2.5, ("age",), 7), Loss(1))
    assert str(needed.value).startswith(
        "Every record with at least 7 records within 2.5 of it over age, itself included,"
        " is protected."
        " A record with fewer than 7 records within 2.5 of it over age, itself included, is not"
    )


def test_a_budget_opened_late_begins_with_what_was_spent(curator: Curator) -> None:
    curator.ask(question(3), "people")
    curator.ask(question(4), "people")
    with pytest.raises(InvalidParameter, match=r"must cover the epsilon 0\.4"):
        curator.open_budget("people", Replace(), Loss("0.3"), confirmed=True)
    opened = curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    assert opened.spent == Loss("0.4")
    curator.ask(question(5), "people")
    assert curator.budget("people")[1].spent == Loss("0.6")
    curator.verify()


@pytest.mark.parametrize("budget", [Loss(0), Loss(1, 1)])
def test_a_budget_must_be_one(curator: Curator, budget: Loss) -> None:
    with pytest.raises(InvalidParameter, match=r"must (be greater than|have an epsilon above) 0"):
        curator.open_budget("people", Replace(), budget, confirmed=True)
