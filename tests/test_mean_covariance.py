"""Means and covariances: sums change by what is proved; shares, files, merges, planted bugs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit import replay_game
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, seeded
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.privacy.zcdp import rho_of_loss
from privod.query.count_query import CountNoise
from privod.query.moments import coordinate_sums, distance_counts, product_sums
from privod.questions.mean_covariance.audit import games
from privod.questions.mean_covariance.frame import Frame, change_of, half_ranges
from privod.questions.mean_covariance.query import MeanCovariance
from privod.questions.mean_covariance.release import NoisyMoments

DOMAIN = Domain((Numeric("x", -16, 16), Numeric("y", -100, 60)))
NAMES = DOMAIN.names
GAUSSIAN: dict[str, Any] = {"noise": "gaussian", "delta": "1e-6"}


def rows_of(n: int, seed: int = 0) -> Any:
    normal = np.random.default_rng(seed).normal(size=(n, 2))
    return np.column_stack([normal[:, 0] + 2, 5 * (normal[:, 0] + 0.5 * normal[:, 1])])


def table(n: int, seed: int = 0) -> Table:
    rows = rows_of(n, seed)
    return Table(DOMAIN, {"x": rows[:, 0], "y": rows[:, 1]})


def moments(n: int = 20_000, seed: int = 0, **more: Any) -> NoisyMoments:
    query = MeanCovariance(**{"columns": NAMES, "epsilon": 1, **more})
    return query.answer(table(n, seed), seeded(seed)).value


points = st.lists(st.floats(-200, 200), min_size=2, max_size=2)


@settings(max_examples=80, deadline=None)
@given(one=points, other=points, radius=st.floats(0.01, 2), mean=st.floats(-1, 1))
def test_no_record_changes_any_part_by_more_than_proved(
    one: list[float], other: list[float], radius: float, mean: float
) -> None:
    frame = Frame(DOMAIN.numeric(), (mean, -mean), radius)
    middles, halves = half_ranges(frame.columns)

    def parts(rows: Any) -> dict[str, Any]:
        return {
            "sums": coordinate_sums(rows, middles, halves),
            "radius": distance_counts(rows, frame.centers, halves, frame.distance_ends),
            "products": product_sums(rows, frame.centers, halves, frame.radius),
        }

    first, second, nobody = (parts(np.array(rows).reshape(-1, 2)) for rows in ([one], [other], []))
    for part in first:
        for adjacency, base in ((AddRemove(), nobody), (Replace(), second)):
            change = [int(each) for each in first[part] - base[part]]
            most = change_of(part, 2, adjacency)
            assert sum(map(abs, change)) <= most.absolute
            assert sum(each**2 for each in change) <= most.squared


def test_a_corner_reaches_what_is_proved_of_sums_and_nearly_of_products() -> None:
    corner, opposite = np.array([[16.0, 60.0]]), np.array([[-16.0, -100.0]])
    frame = Frame(DOMAIN.numeric(), (0.0, 0.0), 1.0)
    middles, halves = half_ranges(frame.columns)
    apart = coordinate_sums(corner, middles, halves) - coordinate_sums(opposite, middles, halves)
    assert int(np.abs(apart).sum()) == change_of("sums", 2, Replace()).absolute
    assert int((apart**2).sum()) == change_of("sums", 2, Replace()).squared
    product = product_sums(corner, frame.centers, halves, 1.0)
    most = change_of("products", 2, AddRemove()).absolute
    assert 0.99 * most < int(np.abs(product).sum()) <= most


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_the_losses_of_the_parts_add_up_to_epsilon_or_to_rho(adjacency: Any) -> None:
    for frame in (None, Frame(DOMAIN.numeric(), (0.0, 0.0), 1.0).text):
        pure = MeanCovariance(columns=NAMES, epsilon="1/3", frame=frame, adjacency=adjacency)
        assert pure.guarantee() == Guarantee(Loss("1/3"), adjacency)
        noisy = MeanCovariance(
            columns=NAMES, epsilon="1/3", frame=frame, adjacency=adjacency, **GAUSSIAN
        )
        assert noisy.guarantee() == Guarantee(Loss("1/3", "1e-6"), adjacency)
        rho = noisy.cost().zcdp.rho
        assert rho == rho_of_loss(Fraction(1, 3), Fraction(1, 10**6))


@pytest.mark.parametrize("noise", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
def test_what_is_released_is_near_the_truth_and_flags_about_the_share_asked_for(noise: Any) -> None:
    value = moments(**noise)
    rows = rows_of(20_000)
    assert np.abs(value.mean - rows.mean(axis=0)).max() < 0.5
    found, truth = value.covariance, np.cov(rows.T)
    alike = found[0, 1] / np.sqrt(found[0, 0] * found[1, 1])
    assert abs(alike - truth[0, 1] / np.sqrt(truth[0, 0] * truth[1, 1])) < 0.1
    both = value.scorer(), value.scorer(score_by="residual")
    for scorer in both:
        assert 0.01 < (scorer.scores(rows) > scorer.threshold(0.05)).mean() < 0.2
    fresh = value.scores(rows_of(20_000, seed=1))
    assert 0.035 < (fresh > value.threshold(0.05)).mean() < 0.07
    against = np.array([[5.0, -15.0]])  # ordinary in both columns, but not together
    along = np.array([[5.0, 15.0]])
    for scorer in both:
        assert scorer.scores(against)[0] > 5 * scorer.scores(along)[0]
    assert value.explain(against).shares.sum() == pytest.approx(value.scores(against)[0])
    assert both[1].explain(against) is None
    assert both[1].hidden_share == 1


@pytest.mark.parametrize("noise", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
def test_the_share_is_met_where_records_are_far_from_normal(noise: Any) -> None:
    rows = np.clip(np.exp(np.random.default_rng(5).normal(size=(20_000, 2))), 0, 60)
    half = Table(DOMAIN, {"x": rows[:10_000, 0], "y": rows[:10_000, 1]})
    value = MeanCovariance(columns=NAMES, epsilon=1, **noise).answer(half, seeded(0)).value
    held = value.scores(rows[10_000:])
    for share in (0.02, 0.05, 0.1):
        limit = value.threshold(share)
        flagged = float((held > limit).mean())
        assert share / 2 < flagged < share * 1.6, (share, flagged)
        known = value.share_beyond(limit)
        assert known is not None
        assert known[0] <= flagged <= known[1]
    normal = replace(value, scored=None)  # as releases were before distances were counted
    assert (held > normal.threshold(0.02)).mean() > 0.04
    assert normal.hidden_share == 1
    assert normal.share_beyond(1.0) is None
    assert "guesses" in MeanCovariance(columns=NAMES, epsilon=1).sentence(normal)


def test_a_record_is_as_far_whichever_others_there_are() -> None:
    domain = Domain(tuple(Numeric(f"x{place}", -1, 1) for place in range(7)))
    rows = np.random.default_rng(6).uniform(-1, 1, size=(1001, 7))
    table = Table(domain, dict(zip(domain.names, rows.T, strict=True)))
    value = MeanCovariance(columns=domain.names, epsilon=1).answer(table, seeded(0)).value
    together = value.scores(rows)
    alone = np.concatenate([value.scores(row[None]) for row in rows])
    assert together.tolist() == alone.tolist()
    assert value.scores(rows[1:]).tolist() == together[1:].tolist()
    assert value.scores(rows[::-1]).tolist() == together[::-1].tolist()


def test_moments_from_before_distances_were_counted_are_still_read() -> None:
    value = moments(3000)
    wide = DiscreteLaplace.for_loss(Fraction(7, 10), change_of("products", 2, AddRemove()).absolute)
    old = replace(value, scored=None, noise_of_products=MergedNoise.of(wide))
    assert "scored" not in old.to_json()
    assert NoisyMoments.from_json(old.to_json()) == old
    assert old.merge(moments(2000, frame=old.frame.text)).scored is None


def test_moments_of_one_frame_add_up_and_others_do_not(tmp_path: Path) -> None:
    for noise in ({}, GAUSSIAN):
        first = moments(3000, **noise)
        second = moments(2000, seed=1, frame=first.frame.text, **noise)
        merged = first.merge(second)
        assert merged.products.tolist() == (first.products + second.products).tolist()
        assert merged.guarantee == first.guarantee
        assert first.scored
        assert second.scored
        assert merged.scored == first.scored + second.scored
        assert merged.share_beyond(1.0) is None
        for place, value in enumerate((first, second, merged)):
            value.save(tmp_path / f"{place}.privod")
            assert NoisyMoments.load(tmp_path / f"{place}.privod") == value
        with pytest.raises(InvalidData, match="merged only"):
            first.merge(moments(2000, seed=2, **noise))
    with pytest.raises(InvalidData, match="merged only"):
        first.merge(moments(2000, frame=first.frame.text))


@pytest.mark.parametrize("noise", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
def test_a_forged_promise_is_not_read(noise: Any) -> None:
    data = moments(100, **noise).to_json()
    promise = Guarantee.from_json(data["guarantee"])
    less = Loss(promise.loss.epsilon / 2, promise.loss.delta)
    for wrong in (
        {"guarantee": Guarantee(less, promise.adjacency).to_json()},
        {"frame_loss": "1/2"},
        {"frame_loss": "-1/2"},
        {"total": 1.5},
        {"products": data["products"][:-1]},
        {"frame": {**data["frame"], "radius": 0}},
        {"scored": None} if not noise else {"scored": 1},  # Gaussian noise may promise less
        {"scored": {**data["scored"], "noise": [["1", 1]]}},
        {"scored": {**data["scored"], "counts": [0]}},
    ):
        with pytest.raises(InvalidData):
            NoisyMoments.from_json({**data, **wrong})


def test_wrong_questions_are_refused() -> None:
    asked: dict[str, Any] = {"columns": ("x",), "epsilon": 1}
    for wrong in (
        {"frame": "{}"},
        {"frame": 1},
        {"noise": "auto"},
        {"noise": "gaussian"},
        {"delta": "1e-6"},
        {"epsilon": 0},
    ):
        with pytest.raises(InvalidParameter):
            MeanCovariance(**(asked | wrong))
    other = Frame((Numeric("x", 0, 1),), (0.0,), 1.0).text
    with pytest.raises(InvalidParameter, match="frame"):
        MeanCovariance(columns=("x",), epsilon=1, frame=other).check(DOMAIN)


class _ProductsOfOneCoordinate(MeanCovariance):
    """A planted bug: noise as if a record had one coordinate, and a small one."""

    part = "products"
    smaller = 32

    def noise_of(self, part: str) -> CountNoise:
        found = super().noise_of(part)
        if part != self.part:
            return found
        if isinstance(found, DiscreteLaplace):
            return DiscreteLaplace(found.scale / self.smaller)
        return DiscreteGaussian(found.sigma2 / self.smaller**2)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


class _SumsOfOneCoordinate(_ProductsOfOneCoordinate):
    part = "sums"


class _ExactScores(_ProductsOfOneCoordinate):
    """A planted bug: records are counted by their distances for next to nothing."""

    part = "scores"
    smaller = 500


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (_ProductsOfOneCoordinate, (1, 2)),
        (_SumsOfOneCoordinate, (0, 3)),
        (_ExactScores, (0, 2)),
    ],
)
def test_the_audit_catches_planted_bugs(kind: Any, places: tuple[int, ...]) -> None:
    for place in places:
        caught = replay_game(games(kind)[place])
        assert not caught.holds, caught.sentence()
