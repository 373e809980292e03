"""Labels of new records with numbers and categories: true edits, the exact law, refusals."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privod.audit import replay_case
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NotFound
from privod.mechanisms import seeded
from privod.outliers.crowds.anomalies import edits_by_search
from privod.privacy import AddRemove, Loss
from privod.questions.novelty_labels.audit import worst_cases
from privod.questions.novelty_labels.query import NoveltyLabels
from tests.alike import alike_of, altered, crowd_of, novelties

DOMAIN = Domain(
    (
        Categorical("ward", ("a", "b", "c")),
        Categorical("grade", (1, 2, 3)),
        Numeric("age", 0, 100),
    )
)
ASK = novelties(
    columns=("ward", "grade", "age"),
    records=(("a", 1, 50.0),),
    max_crowd=3,
    epsilon=1,
    max_distance=1,
    tolerances=(("age", 5.0),),
)


def table_of(rows: list[tuple[str, int, float]]) -> Table:
    wards, grades, ages = zip(*rows, strict=True) if rows else ((), (), ())
    return Table(DOMAIN, {"ward": list(wards), "grade": list(grades), "age": list(ages)})


def near(query: NoveltyLabels, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """The definition, straight."""
    weights: dict[Any, Any] = {row[0]: row[1] for row in alike_of(query).weights}
    tolerances: dict[Any, Any] = {row[0]: row[1] for row in alike_of(query).tolerances}
    apart = 0
    for name, a, b in zip(query.columns, one, other, strict=True):
        agree = a == b if isinstance(a, str) else abs(a - b) <= tolerances.get(name, 0)
        apart += 0 if agree else int(weights.get(name, 1))
    return apart <= alike_of(query).max_distance


def margin_of(query: NoveltyLabels, others: int) -> int:
    """How far the verdict on a record with so many others near it is from changing."""
    return crowd_of(query).max_crowd - 1 - others


EVERY = [
    (ward, grade, age)
    for ward in ("a", "b", "c")
    for grade in (1, 2, 3)
    for age in (40.0, 45.0, 50.0, 55.0, 55.1)
]


@pytest.mark.parametrize("distance", [0, 1, 2])
@pytest.mark.parametrize("weights", [(), (("ward", 2),), (("age", 0),)])
def test_clear_cases_are_labeled_by_who_is_near(distance: int, weights: Any) -> None:
    """With much epsilon a label is the truth."""
    query = altered(ASK, max_distance=distance, weights=weights, epsilon=5000)
    seen = set()
    for size, most in itertools.product((3, 20, 45), (1, 3, 9, 40)):
        rows = EVERY[::2][:size] + EVERY[1::3][:size]
        asked = altered(query, records=tuple(EVERY[:12]), max_crowd=most)
        truth = tuple(sum(near(query, one, row) for row in rows) < most for one in EVERY[:12])
        assert asked.answer(table_of(rows), seeded(1)).value == truth
        seen |= set(truth)
    assert seen == {False, True}


def test_the_edits_are_the_fewest_that_change_the_answer() -> None:
    """All tables of up to four copies of three values, two of them near the record."""
    values = [("a", 1, 50.0), ("a", 2, 54.0), ("b", 2, 0.0)]
    flags = [near(ASK, ASK.records[0], one) for one in values]
    assert flags == [True, True, False]
    for counts in itertools.product(range(5), repeat=3):
        others = sum(n for n, flag in zip(counts, flags, strict=True) if flag)
        found = edits_by_search(
            counts,
            lambda data: margin_of(ASK, sum(itertools.compress(data, flags))) >= 0,
            lambda *_: True,
            farthest=9,
        )
        assert ASK.edits(margin_of(ASK, others)) == found


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "4"])
def test_no_label_becomes_likelier_than_promised_exactly(epsilon: str) -> None:
    query = altered(ASK, epsilon=epsilon)
    loss = float(query.guarantee().loss.epsilon)
    for others in range(12):
        chances = []
        for crowd in (others, others + 1):
            wrong = query.error(margin_of(query, crowd))
            anomalous = margin_of(query, crowd) >= 0
            chances.append((1 - wrong, wrong) if anomalous else (wrong, 1 - wrong))
        for left, right in zip(*chances, strict=True):
            assert abs(math.log(left / right)) <= loss * (1 + 1e-9)


def test_one_record_moves_no_more_labels_than_is_charged() -> None:
    """Every possible record, against all asked about, for several notions of near."""
    for distance, weights, tolerance in ((0, (), 5.0), (1, (), 0.0), (2, (("ward", 2),), 2.6)):
        query = altered(
            ASK,
            records=tuple(EVERY[::3]),
            max_distance=distance,
            weights=weights,
            tolerances=(("age", tolerance),),
        )
        moved = max(sum(near(query, one, row) for one in query.records) for row in EVERY)
        assert 1 <= moved <= query.labels_moved <= len(query.records)
        assert query.label_epsilon == Fraction(1, query.labels_moved)
    apart = altered(ASK, records=(("a", 1, 0.0), ("b", 2, 50.0), ("c", 3, 100.0)), max_distance=0)
    assert apart.labels_moved == 1


def test_a_lone_newcomer_is_labeled_right_under_plain_dp() -> None:
    query = altered(ASK, max_crowd=20)
    assert query.guarantee().adjacency == AddRemove()
    assert query.error(margin_of(query, 0)) < 1e-8
    assert (
        query.error(margin_of(query, 19))
        == query.error(margin_of(query, 20))
        == pytest.approx(1 / (1 + math.e))
    )


def test_the_curator_answers_and_charges_once_for_the_batch(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("stays", table_of(EVERY), DOMAIN)
        curator.open_budget("stays", AddRemove(), Loss(1))
        query = altered(ASK, records=(("a", 1, 50.0), ("c", 3, 0.0)))
        assert len(curator.ask(query, of="stays").release.value) == 2
        assert [state.spent for state in curator.budget("stays")] == [Loss(1)]


class EachPaysAll(NoveltyLabels):
    """A planted bug: labels that one record moves are not counted together."""

    @property
    def label_epsilon(self) -> Fraction:
        return self.epsilon


class OneEditMore(NoveltyLabels):
    """A planted bug: one edit more than there is, so the border is too sharp."""

    def edits(self, margin: int) -> int:
        return super().edits(margin) + 2


def test_planted_bugs_are_caught_by_the_games() -> None:
    assert not replay_case(worst_cases(EachPaysAll)[0]).holds
    assert not replay_case(worst_cases(OneEditMore)[1]).holds


def changed(**parameters: Any) -> Callable[[], NoveltyLabels]:
    return lambda: altered(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=()), "name a column"),
        (changed(columns=tuple(f"c{place}" for place in range(201))), "at most 200"),
        (changed(records=()), "1 to 1000 rows"),
        (changed(records=(("a", 1),)), "3 values each"),
        (changed(records=(("a", None, 1.0),)), "texts and numbers"),
        (changed(records=(("a", 1, float("inf")),)), "finite"),
        (changed(records=(("a", 1, 10**400),)), "64 bits"),
        (changed(max_crowd=0), "max_crowd"),
        (changed(max_distance=-1), "max_distance"),
        (changed(tolerances=(("age", -1),)), "at least 0"),
        (changed(tolerances=(("age", "x"),)), "finite"),
        (changed(tolerances=(("size", 1),)), "name columns"),
        (changed(model="crowd(max_crowd=3, near=alike(weights=3))"), "name columns"),
        (changed(model="crowd(near=alike())"), "max_crowd and near"),
        (changed(model="crowd(3)"), "name with parameters"),
        (changed(model="crowd(max_crowd=3, near=alike(size=1))"), "known parameters"),
        (changed(model="crowd(max_crowd=3, near=closeness())"), "known one"),
        (changed(model="crowd(max_crowd=3, near=distance())"), "known parameters"),
        (changed(model="crowd(max_crowd=3, near=distance(radius=-1))"), "at least 0"),
        (changed(model="(" * 99_999), "name with parameters"),
        (changed(model=5), "name with parameters"),
        (changed(weights=(("age", 1.5),)), "whole number"),
        (changed(epsilon=0), "epsilon"),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], NoveltyLabels], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(records=(("z", 1, 1.0),)), "declared value as ward"),
        (changed(records=(("a", 9, 1.0),)), "declared value as grade"),
        (changed(records=(("a", 1, "old"),)), "number as age"),
        (changed(tolerances=(("grade", 1),)), "numeric columns"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused_before_any_charge(
    make: Callable[[], NoveltyLabels], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(NotFound, match="no column 'size'"):
        altered(ASK, columns=("ward", "grade", "size"), tolerances=()).check(DOMAIN)
