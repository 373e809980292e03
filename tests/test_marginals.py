"""Noisy histograms of single columns and the scores read off them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit.game import play
from privod.audit.marginals import games
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteLaplace, secure, seeded
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.queries.marginals.query import MarginalHistograms, NoisyMarginals


def normal_table(n: int, n_columns: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(Numeric(f"x{place}", -6, 6) for place in range(n_columns)))
    return Table(domain, {name: rng.normal(size=n) for name in domain.names})


def histograms(n: int, n_columns: int = 4, seed: int = 0, **more: Any) -> NoisyMarginals:
    table = normal_table(n, n_columns, seed)
    asked = {"columns": table.domain.names, "epsilon": 1, "bins": 24, **more}
    return MarginalHistograms(**asked).answer(table, seeded(seed)).value


def test_the_loss_covers_all_columns_together() -> None:
    names = tuple("abcde")
    query = MarginalHistograms(columns=names, epsilon="0.5", bins=8)
    assert query.guarantee() == Guarantee(Loss(Fraction(1, 2)), AddRemove())
    assert query.count_noise == DiscreteLaplace(Fraction(10))
    replaced = MarginalHistograms(columns=names, epsilon="0.5", bins=8, adjacency=Replace())
    assert replaced.guarantee() == Guarantee(Loss(Fraction(1, 2)), Replace())
    assert replaced.count_noise == DiscreteLaplace(Fraction(20))


def test_little_noise_leaves_the_histograms() -> None:
    domain = Domain((Numeric("x", 0, 4), Numeric("y", 0, 1)))
    table = Table(domain, {"x": [0.5, 0.6, 3.9], "y": [0.0, 1.0, 0.5]})
    query = MarginalHistograms(columns=("x", "y"), epsilon=1000, bins=4)
    value = query.answer(table, seeded(0)).value
    assert value.counts.tolist() == [[2, 0, 0, 1], [1, 0, 1, 1]]


def test_rare_values_score_higher_by_both_scores() -> None:
    value = histograms(5000)
    scores = value.scores(np.vstack([np.zeros(4), np.full(4, 2.0), np.full(4, 5.0)]))
    for score in scores:
        assert score[0] < score[1] < score[2]
    left = value.scores(np.full((1, 4), -5.0))
    assert left.tail[0] > scores.tail[1]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_threshold_flags_about_the_share_asked_for(share: float) -> None:
    value = histograms(20_000, n_columns=6)
    limit = value.threshold(share)
    scores = value.scores(normal_table(5000, 6, seed=1).numbers())
    for kind in ("density", "tail"):
        flagged = (getattr(scores, kind) > getattr(limit, kind)).mean()
        assert share * 0.7 < flagged < share * 1.4, (kind, flagged)


@pytest.mark.parametrize("n_columns", [6, 30, 100, 200])
@pytest.mark.parametrize("bins", [None, 24])
def test_the_share_is_met_however_many_columns_there_are(n_columns: int, bins: int | None) -> None:
    value = histograms(50_000, n_columns, bins=bins, expected_records=50_000)
    limit = value.threshold(0.1)
    scores = value.scores(normal_table(5000, n_columns, seed=1).numbers())
    assert 0.06 < (scores.density > limit.density).mean() < 0.14
    assert 0.035 < (scores.tail > limit.tail).mean() < 0.14


def test_many_columns_are_scored_well() -> None:
    value = histograms(20_000, n_columns=30, bins=None, expected_records=20_000)
    rng = np.random.default_rng(3)
    inliers, outliers = rng.normal(size=(200, 30)), rng.normal(0, 2, size=(200, 30))
    scores = value.scores(np.vstack([inliers, outliers]))
    better = scores.density[200:, None] > scores.density[None, :200]
    assert better.mean() > 0.95


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(allow_nan=True), max_size=30), bins=st.integers(2, 9))
def test_no_rows_make_it_fail(values: list[float], bins: int) -> None:
    domain = Domain((Numeric("x", -1, 1),))
    query = MarginalHistograms(columns=("x",), epsilon=1, bins=bins)
    value = query.answer(Table(domain, {"x": np.array(values, dtype=float)}), secure()).value
    for score in (*value.scores([[0.3], [9.0]]), *value.threshold(0.1)):
        assert np.isfinite(score).all()
    assert "Histograms of 1 columns" in query.sentence(value)
    assert NoisyMarginals.from_json(json.loads(json.dumps(value.to_json()))) == value


@pytest.mark.parametrize("epsilons", [(1, 2), (2, 1)])
def test_merging_adds_up_counts_and_noise_and_marks(epsilons: tuple[int, int]) -> None:
    first, second = (histograms(500, seed=each, epsilon=each) for each in epsilons)
    both = first.merge(second)
    assert both.counts.tolist() == (first.counts + second.counts).tolist()
    assert both.guarantee.loss == Loss(2)
    assert both.noise.parts == ((Fraction(2), 1), (Fraction(4), 1))
    assert both.noise.scale == pytest.approx(20**0.5)
    assert both.seeded
    assert NoisyMarginals.from_json(json.loads(json.dumps(both.to_json()))) == both
    with pytest.raises(InvalidData, match="add up only"):
        first.merge(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="add up only"):
        first.merge(histograms(10, bins=5))


def test_merged_histograms_say_how_far_off_their_counts_are() -> None:
    parts = [histograms(100, seed=seed, epsilon="0.2") for seed in range(20)]
    merged = parts[0].merge(*parts[1:])
    records = np.zeros_like(merged.counts)
    for seed in range(20):
        table = normal_table(100, 4, seed)
        for place, column in enumerate(table.domain.names):
            numbers = table.numbers((column,))
            records[place] += Grid((merged.columns[place],), 24).all_counts(numbers)
    margin = merged.noise.quantile(0.95)
    assert (np.abs(merged.counts - records) <= margin).mean() > 0.9
    query = MarginalHistograms(columns=("x0", "x1", "x2", "x3"), epsilon="0.2", bins=24)
    assert f"right to within {margin} with" in query.sentence(merged)


def test_values_from_before_histograms_kept_their_noise_are_still_read() -> None:
    value = histograms(500)
    new = {"format", "version", "noise"}
    old = {key: entry for key, entry in value.to_json().items() if key not in new}
    assert NoisyMarginals.from_json({**old, "scale": "4"}) == value


def test_saved_histograms_are_read_back_equal(tmp_path: Path) -> None:
    value = histograms(500).merge(histograms(300, seed=3))
    value.save(tmp_path / "m.privod")
    assert NoisyMarginals.load(tmp_path / "m.privod") == value


def test_a_wild_guess_of_the_number_of_records_does_no_harm() -> None:
    assert histograms(10, bins=None, expected_records=10**400).counts.shape == (4, 64)


@pytest.mark.parametrize("noise", [{}, {"noise": "gaussian", "delta": "1e-6"}])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_where_nobody_says_how_many_records_there_are_a_fiftieth_buys_it(
    noise: dict[str, Any], adjacency: AddRemove | Replace
) -> None:
    few, many = (histograms(n, bins=None, adjacency=adjacency, **noise) for n in (50, 20_000))
    assert few.counts.shape[1] < many.counts.shape[1] <= 64
    assert many.records is not None
    assert abs(many.records.count - 20_000) < 1000
    assert many.guarantee.loss == Loss(1, noise.get("delta", 0))
    changed = 4 if adjacency == AddRemove() else 8
    if not noise:
        assert many.noise.least_scale == changed / Fraction(49, 50)
    assert NoisyMarginals.from_json(json.loads(json.dumps(many.to_json()))) == many
    forged = {**many.to_json(), "records": {"count": 20_000, "noise": [["1", 1]]}}
    with pytest.raises(InvalidData, match="promise"):
        NoisyMarginals.from_json(forged)
    batch = histograms(300, seed=1, bins=many.counts.shape[1], adjacency=adjacency, **noise)
    merged = many.merge(batch)
    assert NoisyMarginals.from_json(json.loads(json.dumps(merged.to_json()))) == merged


def test_what_is_stated_under_add_remove_counts_the_bought_number_too() -> None:
    asked: dict[str, Any] = {"columns": ("x0", "x1"), "epsilon": 1, "adjacency": Replace()}
    domain = normal_table(0, 2).domain
    (laplace,) = MarginalHistograms(**asked).also(domain)
    assert laplace.cost.loss == Loss(Fraction(49, 100) + Fraction(1, 50))
    query = MarginalHistograms(**asked, noise="gaussian", delta="1e-6")
    (gaussian,) = query.also(domain)
    assert gaussian.cost.loss == query.guarantee().loss
    rho = MergedNoise.of(query.count_noise).gaussian[0][0]
    assert gaussian.cost.zcdp.rho == Fraction(2) / (2 * rho) + Fraction(1, 50) ** 2 / 2
    assert query.cost().zcdp.rho == Fraction(4) / (2 * rho) + Fraction(1, 50) ** 2 / 2


def test_a_number_that_is_said_costs_nothing() -> None:
    value = histograms(5000, bins=None, expected_records=5000)
    assert value.records is None
    assert value.noise.least_scale == 4
    assert histograms(5000, bins=None).counts.shape[1] in range(
        value.counts.shape[1] - 1, value.counts.shape[1] + 2
    )


def test_damaged_histograms_are_refused() -> None:
    data = {**histograms(10).to_json(), "counts": [[1, 2]]}
    with pytest.raises(InvalidData, match="damaged"):
        NoisyMarginals.from_json(data)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"bins": 1}, "bins must be at least 2"),
        ({"expected_records": 0}, "expected_records must be at least 1"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object], message: str) -> None:
    right: dict[str, object] = {"columns": ("x",), "epsilon": 1}
    with pytest.raises(InvalidParameter, match=message):
        MarginalHistograms(**{**right, **wrong})  # type: ignore[arg-type]
    domain = Domain((Numeric("x", 0, 1),))
    with pytest.raises(InvalidParameter, match="bins must give at most"):
        MarginalHistograms(columns=("x",), epsilon=1, bins=10**8).check(domain)


class _NoiseOfOneColumn(MarginalHistograms):
    """A planted bug: each histogram is noisy as if it were the only one."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / Fraction(self.epsilon))

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


class _ExactTotal(MarginalHistograms):
    """A planted bug: the number of records is bought for next to nothing."""

    @property
    def noise_of_total(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise_of_total.scale / 500)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


def test_the_audit_catches_a_number_of_records_that_is_nearly_exact() -> None:
    caught = play(games(_ExactTotal)[4], 1500, seeded(1))
    assert not caught.holds, caught.sentence()


@pytest.mark.parametrize("place", [0, 1])
def test_the_audit_catches_the_noise_of_one_column_and_not_the_honest_one(place: int) -> None:
    caught = play(games(_NoiseOfOneColumn)[place], 2500, seeded(1))
    assert not caught.holds, caught.sentence()
    honest = play(games()[place], 2500, seeded(2))
    assert honest.holds, honest.sentence()
