"""Noisy histograms of single columns and the scores read off them."""

from __future__ import annotations

import json
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
from privod.mechanisms import DiscreteLaplace, secure, seeded
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.score_counts import FAR_EDGES
from privod.questions.marginals.audit import games
from privod.questions.marginals.query import Marginals, NoisyMarginals


def normal_table(n: int, n_columns: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(Numeric(f"x{place}", -6, 6) for place in range(n_columns)))
    return Table(domain, {name: rng.normal(size=n) for name in domain.names})


def histograms(n: int, n_columns: int = 4, seed: int = 0, **more: Any) -> NoisyMarginals:
    table = normal_table(n, n_columns, seed)
    asked = {"columns": table.domain.names, "epsilon": 1, "bins": 24, **more}
    return Marginals(**asked).answer(table, seeded(seed)).value


def test_the_loss_covers_all_columns_together() -> None:
    names = tuple("abcde")
    query = Marginals(columns=names, epsilon="0.5", bins=8)
    assert query.guarantee() == Guarantee(Loss(Fraction(1, 2)), AddRemove())
    assert query.count_noise == DiscreteLaplace(Fraction(5) / Fraction(9, 20))
    assert query.noise_of_scores == DiscreteLaplace(Fraction(20))
    replaced = Marginals(columns=names, epsilon="0.5", bins=8, adjacency=Replace())
    assert replaced.guarantee() == Guarantee(Loss(Fraction(1, 2)), Replace())
    assert replaced.count_noise == DiscreteLaplace(Fraction(10) / Fraction(9, 20))
    assert replaced.noise_of_scores == DiscreteLaplace(Fraction(40))


def test_little_noise_leaves_the_histograms() -> None:
    domain = Domain((Numeric("x", 0, 4), Numeric("y", 0, 1)))
    table = Table(domain, {"x": [0.5, 0.6, 3.9], "y": [0.0, 1.0, 0.5]})
    query = Marginals(columns=("x", "y"), epsilon=1000, bins=4)
    value = query.answer(table, seeded(0)).value
    assert value.counts.tolist() == [[2, 0, 0, 1], [1, 0, 1, 1]]


def test_rare_values_score_higher_by_both_scores() -> None:
    value = histograms(5000)
    rows = np.vstack([np.zeros(4), np.full(4, 2.0), np.full(4, 5.0), np.full(4, -5.0)])
    for score_by in ("density", "tail"):
        middle, side, right, left = value.scorer(score_by=score_by).scores(rows)
        assert middle < side < min(left, right)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_threshold_flags_about_the_share_asked_for(share: float) -> None:
    value = histograms(20_000, n_columns=6)
    fresh = normal_table(5000, 6, seed=1).numbers()
    for score_by in ("density", "tail"):
        scorer = value.scorer(score_by=score_by)
        flagged = (scorer.scores(fresh) > scorer.threshold(share)).mean()
        assert share * 0.7 < flagged < share * 1.4, (score_by, flagged)


@pytest.mark.parametrize("score_by", ["density", "tail"])
@pytest.mark.parametrize("n_columns", [6, 30, 100, 200])
def test_the_share_is_met_however_many_columns_there_are(n_columns: int, score_by: str) -> None:
    value = histograms(50_000, n_columns, bins=None, score_by=score_by)
    scores = value.scores(normal_table(5000, n_columns, seed=1).numbers())
    assert 0.06 < (scores > value.threshold(0.1)).mean() < 0.14


@pytest.mark.parametrize("score_by", ["density", "tail"])
def test_the_share_is_met_where_columns_go_together(score_by: str) -> None:
    rng = np.random.default_rng(4)
    shared = rng.standard_t(3, size=(20_000, 1))
    rows = np.clip(shared + 0.3 * rng.normal(size=(20_000, 6)), -6, 6)
    domain = Domain(tuple(Numeric(f"x{place}", -6, 6) for place in range(6)))
    table = Table(domain, dict(zip(domain.names, rows[:10_000].T, strict=True)))
    asked = Marginals(columns=domain.names, epsilon=1, score_by=score_by)  # type: ignore[arg-type]
    value = asked.answer(table, seeded(0)).value
    scores = value.scores(rows[10_000:])
    for share in (0.02, 0.05, 0.1):
        flagged = float((scores > value.threshold(share)).mean())
        assert share / 2 < flagged < share * 1.6, (share, flagged)
        known = value.share_beyond(value.threshold(share))
        assert known is not None
        assert known[0] <= flagged <= known[1]
    guessed = replace(value, scored=None)  # columns taken as independent, as the other score is
    flagged = float((scores > guessed.threshold(0.02)).mean())
    assert flagged > 0.04
    assert guessed.hidden_share == 1
    assert guessed.share_beyond(1.0) is None


def test_many_columns_are_scored_well() -> None:
    value = histograms(20_000, n_columns=30, bins=None, expected_records=20_000)
    rng = np.random.default_rng(3)
    inliers, outliers = rng.normal(size=(200, 30)), rng.normal(0, 2, size=(200, 30))
    scores = value.scores(np.vstack([inliers, outliers]))
    better = scores[200:, None] > scores[None, :200]
    assert better.mean() > 0.95


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(allow_nan=True), max_size=30), bins=st.integers(2, 9))
def test_no_rows_make_it_fail(values: list[float], bins: int) -> None:
    domain = Domain((Numeric("x", -1, 1),))
    query = Marginals(columns=("x",), epsilon=1, bins=bins)
    value = query.answer(Table(domain, {"x": np.array(values, dtype=float)}), secure()).value
    for scorer in (value.scorer(score_by="density"), value.scorer(score_by="tail")):
        assert np.isfinite([*scorer.scores([[0.3], [9.0]]), scorer.threshold(0.1)]).all()
    assert "Histograms of 1 columns" in query.sentence(value)
    assert NoisyMarginals.from_json(json.loads(json.dumps(value.to_json()))) == value


@pytest.mark.parametrize("epsilons", [(1, 2), (2, 1)])
def test_merging_adds_up_counts_and_noise_and_marks(epsilons: tuple[int, int]) -> None:
    first, second = (histograms(500, seed=each, epsilon=each) for each in epsilons)
    both = first.merge(second)
    assert both.counts.tolist() == (first.counts + second.counts).tolist()
    assert both.guarantee.loss == Loss(2)
    assert both.noise.parts == ((Fraction(20, 9), 1), (Fraction(40, 9), 1))
    assert both.noise.scale == pytest.approx(20**0.5 / 0.9)
    assert first.scored
    assert second.scored
    assert both.scored == first.scored + second.scored
    assert both.seeded
    assert NoisyMarginals.from_json(json.loads(json.dumps(both.to_json()))) == both
    with pytest.raises(InvalidData, match="merged only"):
        first.merge(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="merged only"):
        first.merge(histograms(10, bins=5))
    with pytest.raises(InvalidData, match="merged only"):
        first.merge(histograms(10, score_by="tail"))


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
    query = Marginals(columns=("x0", "x1", "x2", "x3"), epsilon="0.2", bins=24)
    assert f"right to within {margin} with" in query.sentence(merged)


def test_values_without_counts_of_scores_are_read() -> None:
    noise = MergedNoise.of(DiscreteLaplace(Fraction(4)))
    value = replace(histograms(500), noise=noise, scored=None)
    data = value.to_json()
    assert "scored" not in data
    assert NoisyMarginals.from_json(data) == value
    assert value.merge(histograms(500)).scored is None
    assert "guesses" in Marginals(columns=("x0",), epsilon=1).sentence(value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": [1]},
        {"counts": [0.5] * len(FAR_EDGES)},
        {"counts": [2**62] * len(FAR_EDGES)},
        {"noise": [["5", 1]]},
        {"noise": [["gaussian", "100", 1]]},
    ],
)
def test_forged_counts_of_scores_are_not_read(wrong: dict[str, object]) -> None:
    data = histograms(500).to_json()
    assert NoisyMarginals.from_json(data).scored is not None
    with pytest.raises(InvalidData):
        NoisyMarginals.from_json({**data, "scored": {**data["scored"], **wrong}})
    with pytest.raises(InvalidData):
        NoisyMarginals.from_json({**data, "score_by": "width"})


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
        assert many.noise.least_scale == changed / Fraction(44, 50)
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
    (laplace,) = Marginals(**asked).also(domain)
    assert laplace.cost.loss == Loss(Fraction(44, 100) + Fraction(1, 20) + Fraction(1, 50))
    query = Marginals(**asked, noise="gaussian", delta="1e-6")
    (gaussian,) = query.also(domain)
    assert gaussian.cost.loss == query.guarantee().loss
    rho = MergedNoise.of(query.count_noise).gaussian[0][0]
    bought = Fraction(1, 50) ** 2 / 2
    scores = [Fraction(1, parts) ** 2 / 2 for parts in (20, 10)]
    assert gaussian.cost.zcdp.rho == Fraction(2) / (2 * rho) + bought + scores[0]
    assert query.cost().zcdp.rho == Fraction(4) / (2 * rho) + bought + scores[1]


def test_a_number_that_is_said_costs_nothing() -> None:
    value = histograms(5000, bins=None, expected_records=5000)
    assert value.records is None
    assert value.noise.least_scale == 4 / Fraction(9, 10)
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
        ({"score_by": "width"}, "score_by must be one of density, tail"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object], message: str) -> None:
    right: dict[str, object] = {"columns": ("x",), "epsilon": 1}
    with pytest.raises(InvalidParameter, match=message):
        Marginals(**{**right, **wrong})  # type: ignore[arg-type]
    domain = Domain((Numeric("x", 0, 1),))
    with pytest.raises(InvalidParameter, match="bins must give at most"):
        Marginals(columns=("x",), epsilon=1, bins=10**8).check(domain)


class _NoiseOfOneColumn(Marginals):
    """A planted bug: each histogram is noisy as if it were the only one."""

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / Fraction(self.epsilon))

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


class _ExactTotal(Marginals):
    """A planted bug: the number of records is bought for next to nothing."""

    @property
    def noise_of_total(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise_of_total.scale / 500)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


class _ExactScores(Marginals):
    """A planted bug: records are counted by their scores for next to nothing."""

    @property
    def noise_of_scores(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise_of_scores.scale / 500)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(Fraction(self.epsilon)), self.adjacency)


def test_the_audit_catches_counts_of_scores_that_are_nearly_exact() -> None:
    caught = replay_game(games(_ExactScores)[0])
    assert not caught.holds, caught.sentence()


def test_the_audit_catches_a_number_of_records_that_is_nearly_exact() -> None:
    caught = replay_game(games(_ExactTotal)[4])
    assert not caught.holds, caught.sentence()


@pytest.mark.parametrize("place", [0, 1])
def test_the_audit_catches_the_noise_of_one_column_and_not_the_honest_one(place: int) -> None:
    caught = replay_game(games(_NoiseOfOneColumn)[place])
    assert not caught.holds, caught.sentence()
    honest = replay_game(games()[place])
    assert honest.holds, honest.sentence()


def test_before_paying_it_says_of_how_many_records_a_threshold_is_a_guess() -> None:
    domain = normal_table(0, 2).domain
    query = Marginals(columns=domain.names, epsilon=1)
    sentence = query.preview(domain).sentence()
    assert "flag 1% of the records is a guess where they are fewer than about 10,000" in sentence
    value = query.answer(normal_table(10_000, 2), seeded(0)).value
    assert 0.005 < value.hidden_share < 0.015
