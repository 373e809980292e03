"""Labels of records with categories under sensitive privacy: who is alike, bugs, refusals."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privod.audit import replay_case
from privod.curator import Curator, who_is_protected
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NeedsConfirmation, NoPromise
from privod.mechanisms import seeded
from privod.outliers.crowds.anomalies import is_anomalous, protected_crowd
from privod.privacy import (
    AddRemove,
    CrowdAdjacency,
    Guarantee,
    InAlikeCrowd,
    InCrowd,
    Loss,
    adjacency_from_json,
)
from privod.questions.anomaly_labels.audit import table_of, worst_cases
from privod.questions.anomaly_labels.query import AnomalyLabels
from tests.alike import alike_of, altered, anomalies

DOMAIN = Domain(
    (
        Categorical("ward", ("a", "b", "c")),
        Categorical("grade", (1, 2, 3)),
        Numeric("age", 0, 100),
    )
)
ASK = anomalies(
    columns=("ward", "grade", "age"),
    records=(("a", 1, 50.0),),
    max_crowd=3,
    epsilon=1,
    edit_margin=1,
    max_distance=1,
    tolerances=(("age", 5.0),),
)
EVERY = [
    (ward, grade, age)
    for ward in ("a", "b", "c")
    for grade in (1, 2, 3)
    for age in (40.0, 45.0, 50.0, 55.0, 55.1)
]


def rows_of(rows: list[tuple[str, int, float]]) -> Table:
    wards, grades, ages = zip(*rows, strict=True) if rows else ((), (), ())
    return Table(DOMAIN, {"ward": list(wards), "grade": list(grades), "age": list(ages)})


def alike(query: AnomalyLabels, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """The definition, straight."""
    weights: dict[Any, Any] = {row[0]: row[1] for row in alike_of(query).weights}
    tolerances: dict[Any, Any] = {row[0]: row[1] for row in alike_of(query).tolerances}
    apart = 0
    for name, a, b in zip(query.columns, one, other, strict=True):
        agree = a == b if isinstance(a, str) else abs(a - b) <= tolerances.get(name, 0)
        apart += 0 if agree else int(weights.get(name, 1))
    return apart <= alike_of(query).max_distance


@pytest.mark.parametrize("distance", [0, 1, 2])
@pytest.mark.parametrize("weights", [(), (("ward", 2),)])
def test_with_much_epsilon_labels_tell_who_is_there_and_rare(distance: int, weights: Any) -> None:
    query = altered(ASK, max_distance=distance, weights=weights, epsilon=5000)
    seen = set()
    for size, most in itertools.product((3, 20), (1, 3, 9)):
        rows = EVERY[::2][:size] + EVERY[1::3][:size]
        asked = altered(query, records=tuple(EVERY[:12]), max_crowd=most)
        truth = tuple(
            one in rows and sum(alike(query, one, row) for row in rows) <= most
            for one in EVERY[:12]
        )
        assert asked.answer(rows_of(rows), seeded(1)).value == truth
        seen |= set(truth)
    assert seen == {False, True}


# The possible records (0, 0), (0, 1), (1, 0), (1, 1), alike where they differ in one column: alike
# is no equivalence, and no distance on a line has these crowds.
VALUES = list(itertools.product((0, 1), repeat=2))
NEAR = [
    [sum(a != b for a, b in zip(one, other, strict=True)) <= 1 for other in VALUES]
    for one in VALUES
]
Counts = tuple[int, ...]


def crowd(value: int, data: Counts) -> int:
    return sum(itertools.compress(data, NEAR[value]))


@pytest.mark.parametrize(("beta", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2), (3, None)])
def test_labels_and_batches_keep_their_promise_on_all_small_databases(
    beta: int, k: int | None
) -> None:
    """Every pair of tables of up to three copies of four records, two labels, every answer."""
    both = anomalies(
        columns=("p", "q"),
        records=((0, 0), (1, 1)),
        max_crowd=beta,
        epsilon=1,
        edit_margin=k,
        max_distance=1,
    )
    assert both.labels_moved == 2
    for data in itertools.product(range(4), repeat=4):
        for value in range(4):
            more = (*data[:value], data[value] + 1, *data[value + 1 :])
            if k is not None and crowd(value, more) < protected_crowd(beta, k):
                continue
            worst = 0.0
            for asked in (0, 3):  # (0, 0) and (1, 1), which all records alike both of them move
                chances = []
                for table in (data, more):
                    state = (crowd(asked, table), table[asked])
                    wrong = both.error(*state)
                    yes = is_anomalous(*state, beta)
                    chances.append((1 - wrong, wrong) if yes else (wrong, 1 - wrong))
                worst += max(abs(math.log(a / b)) for a, b in zip(*chances, strict=True))
            assert worst <= 1 + 1e-9


def test_a_lone_record_is_told_surely_and_the_words_say_so() -> None:
    query = altered(ASK, max_crowd=20, edit_margin=2)
    assert query.lone_error < 1e-8
    assert "is not protected" in query.not_protected()
    assert "at most 1 in 10^8" in query.not_protected()
    plain = altered(query, edit_margin=None)
    assert plain.not_protected() == ""
    assert plain.lone_error == plain.largest_error == pytest.approx(1 / (1 + math.e))
    assert plain.guarantee() == Guarantee(Loss(1), AddRemove())


def test_an_exact_match_of_one_number_is_what_anomaly_labels_ask() -> None:
    """Radius and tolerance are one thing in one column: the same edits, the same errors."""
    mixed = anomalies(
        columns=("age",),
        records=((50.0,),),
        max_crowd=4,
        epsilon="0.5",
        edit_margin=2,
        tolerances=(("age", 5.0),),
    )
    there = AnomalyLabels(
        columns=("age",),
        records=((50.0,),),
        max_crowd=4,
        epsilon="0.5",
        edit_margin=2,
        near="distance(radius=5)",
    )
    for state in itertools.product(range(9), range(4)):
        assert mixed.error(*state) == there.error(*state)


# ---- the adjacency -----------------------------------------------------------------------------

CROWD = InAlikeCrowd(("ward", "age"), 3, 1, (("age", 5.0),), (("ward", 2),))


def test_the_promise_is_about_crowds_alike_and_survives_json() -> None:
    assert ASK.guarantee().adjacency == InAlikeCrowd(
        ("age", "grade", "ward"), 3, 1, (("age", 5.0),)
    )
    read = adjacency_from_json(json.loads(json.dumps(CROWD.to_json())))
    assert read == CROWD
    assert "at least 3 records alike it in age (within 5), ward (weight 2)" in CROWD.protected


@pytest.mark.parametrize(
    ("change", "nested"),
    [
        ({}, True),
        ({"crowd": 2}, True),
        ({"crowd": 4}, False),
        ({"max_distance": 2}, True),
        ({"max_distance": 0}, False),
        ({"tolerances": (("age", 6.0),)}, True),
        ({"tolerances": ()}, False),
        ({"weights": ()}, True),
        ({"weights": (("ward", 3),)}, False),
        ({"columns": ("age",), "weights": ()}, True),
        ({"columns": ("age", "ward", "grade")}, False),
    ],
)
def test_a_wider_adjacency_pays_and_a_narrower_one_does_not(
    change: dict[str, Any], nested: bool
) -> None:
    assert CROWD.steps_of(replace(CROWD, **change)) == (1 if nested else None)


def test_it_nests_only_where_crowds_do() -> None:
    assert CROWD.steps_of(AddRemove()) == 1
    assert CROWD.steps_of(InCrowd(5.0, ("age",), 1)) == 1
    assert CROWD.steps_of(InCrowd(5.0, ("age",), 2)) is None
    assert AddRemove().steps_of(CROWD) is None
    assert InCrowd(5.0, ("age",), 3).steps_of(CROWD) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ()}, "name a column"),
        ({"crowd": 1}, "whole number from 2"),
        ({"crowd": True}, "whole number from 2"),
        ({"max_distance": -1}, "whole number from 0"),
        ({"tolerances": (("age", -1),)}, "at least 0"),
        ({"tolerances": (("size", 1),)}, "column that is compared"),
        ({"tolerances": 5}, "column that is compared"),
        ({"weights": (("ward", 0),)}, "whole number from 1"),
        ({"weights": (("ward", 1), ("ward", 2))}, "column that is compared"),
    ],
)
def test_an_adjacency_without_meaning_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        replace(CROWD, **change)


# ---- in the ledger -----------------------------------------------------------------------------


def test_the_curator_charges_an_allowance_that_was_confirmed(tmp_path: Path) -> None:
    crowd = ASK.guarantee().adjacency
    with Curator.open(tmp_path) as curator:
        curator.register("stays", rows_of(EVERY), DOMAIN)
        curator.open_budget("stays", AddRemove(), Loss(1))
        with pytest.raises(NoPromise):
            curator.ask(ASK, of="stays")
        with pytest.raises(NeedsConfirmation, match="is not protected"):
            curator.open_budget("stays", crowd, Loss(1))
        curator.open_budget("stays", crowd, Loss(1), confirmed=True)
        assert len(curator.ask(ASK, of="stays").release.value) == 1
        assert [state.spent for state in curator.budget("stays")] == [Loss(0), Loss(1)]
        (found,) = curator.who_is_protected("stays")
        assert found.examined == found.records == len(EVERY)


@pytest.mark.parametrize(
    ("crowd", "message"),
    [
        (InAlikeCrowd(("ward", "size"), 3), "columns must be declared"),
        (InAlikeCrowd(("ward",), 3, 0, (("ward", 1.0),)), "numeric columns"),
        (InAlikeCrowd(("ward", "age"), 3, 3, (), (("ward", 2),)), "must be below 3"),
        (InAlikeCrowd(("ward", "age"), 3, 0, (), (("ward", 2**53),)), "must sum up to at most"),
    ],
)
def test_an_allowance_that_suits_no_record_of_the_data_is_refused(
    tmp_path: Path, crowd: InAlikeCrowd, message: str
) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("stays", rows_of(EVERY), DOMAIN)
        curator.open_budget("stays", AddRemove(), Loss(1))
        with pytest.raises(InvalidParameter, match=message):
            curator.open_budget("stays", crowd, Loss(1), confirmed=True)
        assert len(curator.budget("stays")) == 1


def test_the_owner_sees_how_many_have_a_crowd_alike() -> None:
    rows = [("a", 1, 50.0), ("a", 1, 54.0), ("a", 2, 50.0), ("b", 2, 0.0), ("c", 3, 100.0)]
    crowd = ASK.guarantee().adjacency
    truth = sum(sum(alike(ASK, one, row) for row in rows) >= 3 for one in rows)
    found = who_is_protected(rows_of(rows), [crowd])
    assert (found.records, found.examined, found.protected) == (5, 5, truth) == (5, 5, 3)
    some = who_is_protected(rows_of(rows * 40), [crowd], sample=20)
    assert (some.records, some.examined) == (200, 20)
    assert any("chosen at random" in sentence for sentence in some.sentences())


def test_crowds_alike_in_more_columns_than_a_question_has_are_reported_on() -> None:
    """An allowance may name them: who is alike in all of them is alike in fewer."""
    names = tuple(f"c{place:03}" for place in range(250))
    wide = Domain(tuple(Categorical(name, ("a", "b")) for name in names))
    rows = {name: ["a", "a", "a", "b"] for name in names}
    crowd = InAlikeCrowd(names, 3, 10**7, (), (("c000", 10**7 + 1),))
    found = who_is_protected(Table(wide, rows), [crowd])
    assert (found.records, found.examined, found.protected) == (4, 4, 3)


# ---- the audit ---------------------------------------------------------------------------------


class EachPaysAll(AnomalyLabels):
    """A planted bug: labels that one record moves are not counted together."""

    @property
    def label_epsilon(self) -> Fraction:
        return self.epsilon


class ClaimsToProtectEverybody(AnomalyLabels):
    """A planted bug: sensitive labels with the promise of plain ones."""

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())


class TwoEditsMore(AnomalyLabels):
    """A planted bug: the border is sharper than it may be."""

    def edits(self, crowd: int, copies: int) -> int:
        return super().edits(crowd, copies) + 2


def test_a_record_farther_than_floats_go_is_far_and_nothing_is_warned_of() -> None:
    """Whether a row is there that is so far from it would stand in a log."""
    domain = Domain((Numeric("x", -8e307, 8e307),))
    asked = AnomalyLabels(
        columns=("x",),
        records=((1e308,), (-8e307,)),
        max_crowd=2,
        epsilon=1000,
        near="alike(max_distance=0, tolerances={'x': 1e300})",
    )
    asked.check(domain)
    table = Table(domain, {"x": [-8e307]})
    assert asked.answer(table, seeded(0)).value == (False, True)


def test_planted_bugs_are_caught_by_the_games() -> None:
    assert not all(replay_case(game).holds for game in worst_cases(EachPaysAll))
    assert not replay_case(worst_cases(ClaimsToProtectEverybody)[-1]).holds
    assert not all(replay_case(game).holds for game in worst_cases(TwoEditsMore))


def test_the_pairs_of_the_games_are_protected_records() -> None:
    for game in worst_cases():
        adjacency = game.query.guarantee().adjacency
        assert len(game.right) == len(game.left) + 1
        if isinstance(adjacency, CrowdAdjacency):
            found = who_is_protected(game.right, [adjacency])
            assert found.protected >= adjacency.crowd
    assert len(table_of(("a", 1.0))) == 1


# ---- refusals ----------------------------------------------------------------------------------


def changed(**parameters: Any) -> Callable[[], AnomalyLabels]:
    return lambda: altered(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=()), "name a column"),
        (changed(records=()), "1 to 1000 rows"),
        (changed(records=(("a", 1),)), "3 values each"),
        (changed(max_crowd=0), "max_crowd"),
        (changed(edit_margin=0), "edit_margin"),
        (changed(max_distance=-1), "max_distance"),
        (changed(tolerances=(("age", -1),)), "at least 0"),
        (changed(weights=(("age", 0),)), "at least 1, for age too"),
        (changed(epsilon=0), "epsilon"),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], AnomalyLabels], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(records=(("z", 1, 1.0),)), "declared value as ward"),
        (changed(records=(("a", 1, "old"),)), "number as age"),
        (changed(tolerances=(("grade", 1),)), "numeric columns"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused_before_any_charge(
    make: Callable[[], AnomalyLabels], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)
