"""Bugs planted in the noise of the outlier count are found; tests/test_replay.py is honest."""

from __future__ import annotations

# slow: left out by `make quick`
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

from privod.audit import replay_case
from privod.data import Table
from privod.mechanisms import DiscreteLaplace
from privod.outliers.crowds.distance import crowds
from privod.privacy import Guarantee, Loss
from privod.query.crowd_bounds import GroupedCover, local_bound
from privod.questions.outlier_count.audit import worst_cases
from privod.questions.outlier_count.query import NOISES, CountedOutliers, OutlierCount


class HalfTheNoise(OutlierCount):
    def _global_scale(self, *known: Any) -> Any:
        return super()._global_scale(*known) / 2


class ForgetsTheOtherRecords(OutlierCount):
    def _global_scale(self, *known: Any) -> Any:  # noqa: ARG002
        return 1 / Fraction(self.epsilon)


class ScalesToTheLocalSensitivity(OutlierCount):
    """The noise that every one of its kind asks for, on U_0 instead of the smooth bound."""

    def answer(self, table: Table, randomness: Any) -> Any:
        points = table.numbers(("x",))
        found = crowds(points, self.radius)
        covers = GroupedCover(points, self.radius, 100.0)
        bound = local_bound(found, covers, self.max_crowd, 10**6, self.adjacency)(0)
        count = int((found <= self.max_crowd).sum())
        smooth = super()._smooth(self.noise)
        spread = {"gaussian": Fraction(1), "laplace": smooth.spread / 2}.get(
            self.noise, Fraction(1)
        )
        noisy = replace(smooth, spread=spread).add_to(count, Fraction(bound), randomness)
        return self.release(CountedOutliers(noisy, 1), randomness)


class QuarterOfTheNoise(OutlierCount):
    """The smooth bound is right and so is the promise; a quarter of the bound is drawn with."""

    def _smooth(self, kind: str) -> Any:
        honest = super()._smooth(kind)

        class Cut(type(honest)):  # type: ignore[misc]
            def loss(self) -> Loss:
                return honest.loss()

        parts = {one.name: getattr(honest, one.name) for one in fields(honest)}
        return Cut(**{**parts, "spread": honest.spread / 4})


@pytest.mark.parametrize("bug", [HalfTheNoise, ForgetsTheOtherRecords])
def test_the_audit_catches_bugs_planted_in_the_global_noise(bug: type[OutlierCount]) -> None:
    some = [case for case in worst_cases(bug) if case.query.noise == "global"]  # type: ignore[attr-defined]
    some = [case for case in some if len(case.left.domain.columns) == 1]
    assert len(some) == 2
    assert not any(replay_case(case).holds for case in some)


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
def test_the_audit_catches_a_quarter_of_every_smooth_noise(noise: str, place: int) -> None:
    some = [case for case in worst_cases(QuarterOfTheNoise) if case.query.noise == noise]  # type: ignore[attr-defined]
    assert len(some) == 4
    verdict = replay_case(some[place])
    assert verdict.claimed.loss == worst_cases()[NOISES.index(noise) - 1].query.guarantee().loss
    assert not verdict.holds


@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
def test_the_audit_catches_smooth_noise_that_follows_the_local_sensitivity(noise: str) -> None:
    some = [case for case in worst_cases(ScalesToTheLocalSensitivity) if case.query.noise == noise]  # type: ignore[attr-defined]
    assert not replay_case(some[2]).holds


class BuysTheRungForOneRung(OutlierCount):
    """Noise of the rung as if one change moved it by one, and a promise that does not know it."""

    def _rung_noise(self, smooth: Any) -> Any:  # noqa: ARG002
        return DiscreteLaplace.for_loss(self.margin_share * self.epsilon, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


class ForgetsTheCategories(OutlierCount):
    """Noise as if all records within the radius were of one category."""

    def _global_scale(self, *known: Any) -> Any:
        return super()._global_scale(known[0]) * Fraction(1, 2)


def test_the_audit_catches_a_rung_bought_too_cheaply() -> None:
    some = [case for case in worst_cases(BuysTheRungForOneRung) if case.query.noise == "laplace"]  # type: ignore[attr-defined]
    verdict = replay_case(some[2])
    assert not verdict.holds
    assert "times what is claimed" in verdict.trouble


def test_the_audit_catches_noise_that_forgets_the_categories() -> None:
    mixed = [
        case for case in worst_cases(ForgetsTheCategories) if len(case.left.domain.columns) == 2
    ]
    assert len(mixed) == 1
    assert not replay_case(mixed[0]).holds
