"""Labels of new records by any model that states its margin: the obligation, one's own models."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.outliers.crowds.anomalies import edits_by_search
from privod.questions.novelty_labels import models
from privod.questions.novelty_labels.audit import worst_cases
from privod.questions.novelty_labels.models import model_of, plug_in_model
from privod.questions.novelty_labels.query import NoveltyLabels

DOMAIN = Domain((Numeric("x", 0, 10), Numeric("y", 0, 10)))
TAIL = "crowd(max_crowd=3, near=tail())"
MODELS = ("crowd(max_crowd=3, near=distance(radius=2.0))", TAIL)
ASK = NoveltyLabels(columns=("x", "y"), records=((5.0, 5.0),), epsilon=1, model=TAIL)
VALUES = ((5.0, 5.0), (6.5, 5.5), (9.0, 1.0), (4.0, 4.0))


def margins_of(text: str, points: Any, records: Any) -> tuple[int, ...]:
    table = Table(DOMAIN, {"x": points[:, 0], "y": points[:, 1]})
    return tuple(model_of(text).margins(table, ("x", "y"), tuple(map(tuple, records)), 10**6))


def margin_of(text: str, points: Any, record: Any) -> int:
    (found,) = margins_of(text, points, [record])
    return found


def rows_of(counts: tuple[int, ...]) -> Any:
    rows = [value for value, n in zip(VALUES, counts, strict=True) for _ in range(n)]
    return np.array(rows, dtype=float).reshape(-1, 2)


@pytest.mark.parametrize("text", MODELS)
def test_a_margin_moves_by_at_most_one_and_is_no_more_than_the_true_edits(text: str) -> None:
    """On all tables of up to three copies of four values, for two records."""
    verdicts: set[bool] = set()
    places = (VALUES[0], (7.0, 5.2))

    @cache
    def margins(counts: tuple[int, ...]) -> tuple[int, ...]:
        return margins_of(text, rows_of(counts), places)

    for counts in itertools.product(range(4), repeat=4):
        verdicts.update(margin >= 0 for margin in margins(counts))
        for place in range(4):
            more = tuple(n + (place == at) for at, n in enumerate(counts))
            for one, other in zip(margins(counts), margins(more), strict=True):
                assert abs(one - other) <= 1
    assert verdicts == {False, True}

    def verdict(data: tuple[int, ...]) -> bool:
        return margins(data)[0] >= 0

    for counts in ((0, 0, 0, 0), (1, 1, 0, 0), (2, 1, 1, 1), (3, 2, 1, 0)):
        found = edits_by_search(counts, verdict, lambda *_: True, farthest=6)
        assert found is not None
        assert 1 <= ASK.edits(margins(counts)[0]) <= found


def test_the_distance_of_the_kth_nearest_is_a_crowd() -> None:
    """2000 cases: far by k-NN distance exactly if the crowd has at most k, itself included."""
    rng = np.random.default_rng(0)
    verdicts = set()
    for _ in range(125):
        points, records = rng.uniform(0, 10, (12, 2)), rng.uniform(0, 10, (4, 2))
        distances = np.sort(np.linalg.norm(points - records[:, None], axis=2))
        for n in (1, 3, 5, 7):
            text = f"crowd(max_crowd={n}, near=distance(radius=2.5))"
            for margin, distance in zip(
                margins_of(text, points, records), distances[:, n - 1], strict=True
            ):
                assert (margin >= 0) == bool(distance > 2.5)
                verdicts.add(margin >= 0)
    assert verdicts == {False, True}


def test_the_rank_in_the_tail_is_a_crowd() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        points = rng.integers(0, 10, (12, 2)).astype(float)
        record = rng.integers(0, 10, 2).astype(float)
        sides = [(points >= record).sum(axis=0).min(), (points <= record).sum(axis=0).min()]
        assert margin_of(TAIL, points, record) == 2 - min(sides)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "5"])
def test_no_label_becomes_likelier_than_promised_exactly(epsilon: str) -> None:
    query = replace(ASK, epsilon=epsilon)
    for margin in range(-8, 8):
        chances = []
        for one in (margin, margin + 1):
            wrong = query.error(one)
            chances.append((1 - wrong, wrong) if one >= 0 else (wrong, 1 - wrong))
        for left, right in zip(*chances, strict=True):
            assert abs(math.log(left / right)) <= float(query.epsilon) * (1 + 1e-9)


def test_clear_cases_are_labeled_right_and_labels_share_epsilon() -> None:
    rng = np.random.default_rng(1)
    table = Table(DOMAIN, {"x": rng.normal(5, 1, 400), "y": rng.normal(5, 1, 400)})
    for near, moved in (("distance(radius=0.5)", 1), ("tail()", 2)):
        text = f"crowd(max_crowd=20, near={near})"
        query = replace(ASK, records=((5.0, 5.0), (9.9, 0.1)), model=text, epsilon=8)
        assert query.answer(table, seeded(1)).value == (False, True)
        assert query.label_epsilon == Fraction(8, moved)


def test_a_model_of_ones_own_is_tried_before_the_charge_and_never_fails_after() -> None:
    def first(points: Any, record: Any, *, n: int = 2) -> int:
        return n - int((points[:, 0] >= record[0]).sum())

    def fails(points: Any, record: Any) -> int:
        return int(points[0, 0] > record[0])

    plug_in_model("first-column-test", first)
    plug_in_model("fails-empty-test", fails)
    plug_in_model("half-test", lambda points, record: 0.5)  # type: ignore[arg-type, return-value]
    query = replace(ASK, model="first-column-test(n=4)")
    query.check(DOMAIN)
    assert query.model == "first-column-test(n=4)"
    for name, problem in (("fails-empty-test", "IndexError"), ("half-test", "TypeError")):
        with pytest.raises(InvalidParameter, match=problem):
            replace(ASK, model=name).check(DOMAIN)
    empty = Table(DOMAIN, {"x": [], "y": []})
    assert len(replace(ASK, model="fails-empty-test").answer(empty, seeded(0)).value) == 1


def test_another_package_brings_a_model_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        @staticmethod
        def load() -> Any:
            return lambda points, record, *, n=3: n - len(points)

    def found(*, group: str, name: str) -> list[Any]:
        return [Point] if (group, name) == (models.GROUP, "few-rows-test") else []

    monkeypatch.setattr(models, "entry_points", found)
    assert str(model_of("few-rows-test(n=9)")) == "few-rows-test(n=9)"
    with pytest.raises(InvalidParameter, match="known one"):
        model_of("nobody-brought-test")


class EachPaysAll(NoveltyLabels):
    """A planted bug: labels do not share epsilon."""

    @property
    def label_epsilon(self) -> Fraction:
        return self.epsilon


def test_planted_bugs_are_caught_by_the_games() -> None:
    def four_at_a_time(points: Any, record: Any) -> int:
        return 3 - 4 * len(points)

    assert not replay_case(worst_cases(EachPaysAll)[2]).holds
    plug_in_model("four-at-a-time-test", four_at_a_time)
    game = worst_cases()[3]
    assert isinstance(game.query, NoveltyLabels)
    broken = replace(game.query, model="four-at-a-time-test", records=((9.0,),))
    nobody = Table(game.left.domain, {"group": [], "x": []})
    one_more = replace(game, query=broken, left=nobody, right=game.left)
    assert not replay_case(one_more).holds


plug_in_model("four-test", lambda points, record, *, n=4, far=1.0: n - len(points))


def changed(**parameters: Any) -> Callable[[], NoveltyLabels]:
    return lambda: replace(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(columns=()), "name a column"),
        (changed(records=()), "hold a record"),
        (changed(records=((1.0,),)), "2 values each"),
        (changed(records=((1.0, 2.0),) * 1001), "at most 1000"),
        (changed(epsilon=0), "epsilon"),
        (changed(model="nose"), "known one"),
        (changed(model="a b"), "name with parameters"),
        (changed(model="four-test(size=3)"), "known parameters"),
        (changed(model="four-test(n=0)"), "above 0"),
        (changed(model="four-test(n=2.5)"), "whole number"),
        (changed(model="four-test(far=nan)"), "finite"),
        (changed(model="four-test(far=inf)"), "finite"),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], NoveltyLabels], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_what_does_not_fit_the_domain_is_refused_before_any_charge() -> None:
    with pytest.raises(InvalidParameter, match="numeric columns"):
        replace(ASK, columns=("x", "z")).check(DOMAIN)
    for name in ("Tail", "crowd", "four-test"):
        with pytest.raises(InvalidParameter, match="must be new"):
            plug_in_model(name, lambda points, record: 0)
    with pytest.raises(InvalidParameter, match="number as default"):
        plug_in_model("no-default-test", lambda points, record, *, how: 0)
