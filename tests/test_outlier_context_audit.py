"""Outlier contexts that pay too little are caught by the audit, and exactly."""

from __future__ import annotations

# slow: left out by `make quick`
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from privod.audit import replay_case
from privod.mechanisms import ExponentialMechanism
from privod.privacy import Guarantee
from privod.questions.outlier_context.audit import worst_cases
from privod.questions.outlier_context.choosing import GroupChoice
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.utility import plug_in_utility
from tests.test_outlier_context import ASK, Small, adjacent_pairs, largest_ratio


def test_a_search_that_pays_once_is_caught() -> None:
    worst = 0.0
    for sampler in ("dfs", "bfs"):
        query = replace(ASK, sampler=sampler, max_visits=4)
        for here, there in adjacent_pairs(query):
            paid_once = float(1 / Fraction(query.epsilon))
            ratio = largest_ratio(here.law(query, paid_once), there.law(query, paid_once))
            worst = max(worst, ratio)
    assert worst > float(ASK.guarantee().loss.epsilon)


class TooSharp(GroupChoice):
    """Every choice is three times as sharp as it is paid for."""

    def mechanism(self, sampler: Any) -> ExponentialMechanism:
        right = super().mechanism(sampler)
        return ExponentialMechanism(right.scale / 3, right.monotone)


class ThirdPaid(OutlierContext):
    """A planted bug: every choice is three times as sharp as it is paid for."""

    @property
    def _choosing(self) -> GroupChoice:
        right = super()._choosing
        return TooSharp(*(getattr(right, field.name) for field in fields(right)))

    def guarantee(self) -> Guarantee:
        honest = OutlierContext(**{name: getattr(self, name) for name in self.parameters()})
        return honest.guarantee()


def test_a_choice_that_pays_a_third_is_caught_by_the_game_and_exactly() -> None:
    direct = worst_cases(ThirdPaid)[0]
    assert not replay_case(direct).holds
    assert replay_case(worst_cases()[0]).holds
    assert isinstance(direct.query, OutlierContext)
    query = replace(direct.query, sampler="direct")
    left, right = (Small.of(query, table).law(query) for table in (direct.left, direct.right))
    assert largest_ratio(left, right) > 1


def test_the_audits_tables_have_the_same_matching_contexts() -> None:
    for game in worst_cases()[:3]:
        assert isinstance(game.query, OutlierContext)
        left, right = (Small.of(game.query, table) for table in (game.left, game.right))
        assert left.matching == right.matching
        assert len(left.matching) == 2


def test_a_utility_of_ones_own_that_declares_too_little_is_caught() -> None:
    """One record more adds five to what the larger context is worth."""
    for name, sensitivity, holds in (("five", 5, True), ("five-for-one", 1, False)):
        plug_in_utility(name, _worth, sensitivity=sensitivity)
        case = worst_cases()[0]
        assert isinstance(case.query, OutlierContext)
        query = replace(case.query, utility=name)
        assert replay_case(replace(case, query=query)).holds is holds


def _worth(context: Any, values: Any) -> int:
    alone: bool = context.bits.count("1") == 1
    return 20 * alone + 5 * int((values == 44).sum())
