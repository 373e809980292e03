"""Histograms, marginals and grids with Gaussian noise: guarantee, cost, audit, files, merges."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_game
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace, secure, seeded
from privod.mechanisms.merged import MergedNoise
from privod.pictures import draw, svg
from privod.privacy import AddRemove, Guarantee, Loss, Replace, Zcdp
from privod.query.catalog import query_from_json, release_from_json
from privod.query.query import Query
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid
from privod.questions.histogram.audit import games as histogram_games
from privod.questions.histogram.query import Histogram
from privod.questions.marginals.audit import games as marginal_games
from privod.questions.marginals.query import Marginals
from privod.questions.marginals.release import NoisyMarginals

NAMES = tuple(f"c{place}" for place in range(30))
DOMAIN = Domain(tuple(Numeric(name, 0, 1) for name in NAMES))
ROWS = np.random.default_rng(0).random((500, 30))
TABLE = Table(DOMAIN, dict(zip(NAMES, ROWS.T, strict=True)))
GAUSSIAN: dict[str, Any] = {"epsilon": 1, "noise": "gaussian", "delta": "1e-6"}
QUESTIONS: list[Query[Any]] = [
    Histogram(columns=NAMES[:2], **GAUSSIAN),
    Marginals(columns=NAMES, bins=10, **GAUSSIAN),
    GridKnn(columns=NAMES[:2], cells_per_axis=5, **GAUSSIAN),
]


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()], ids=lambda a: a.name)
@pytest.mark.parametrize("query", QUESTIONS, ids=lambda query: query.name)
def test_the_guarantee_follows_from_the_noise(query: Any, adjacency: Any) -> None:
    asked = replace(query, adjacency=adjacency)
    changed = asked.n_histograms * (1 if adjacency == AddRemove() else 2)
    noise = asked.count_noise
    assert isinstance(noise, DiscreteGaussian)
    assert noise.keeps(Loss(1, "1e-6"), changed)
    assert asked.guarantee() == Guarantee(Loss(1, "1e-6"), adjacency)
    scores = Zcdp(Fraction(1, 10) ** 2 / 2) if query.name == "marginals" else Zcdp(Fraction(0))
    assert asked.cost().zcdp == Zcdp(changed / (2 * noise.sigma2)) + scores


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda query: query.name)
def test_answers_survive_json_and_say_their_margin(query: Any) -> None:
    release = query.answer(TABLE, secure())
    again = release_from_json(release.to_json())
    assert again.to_json() == release.to_json()
    margin = query.count_noise.quantile(0.95)
    assert f"right to within {margin} " in release.sentence()
    assert svg(draw(release)).lstrip().startswith(b"<?xml")


def test_the_margin_covers_what_it_says() -> None:
    query = Marginals(columns=NAMES, bins=10, **GAUSSIAN)
    truth = np.stack([np.histogram(column, 10, (0, 1))[0] for column in ROWS.T])
    errors = [np.abs(query.answer(TABLE, seeded(seed)).value.counts - truth) for seed in range(20)]
    covered = np.mean(np.stack(errors) <= query.count_noise.quantile(0.95))
    assert 0.94 < covered < 0.965


def test_auto_takes_what_is_smaller_by_public_parameters() -> None:
    asked: dict[str, Any] = {"epsilon": 1, "noise": "auto", "delta": "1e-6"}
    assert Marginals(columns=NAMES[:8], **asked).chosen_noise == "laplace"
    assert Marginals(columns=NAMES, **asked).chosen_noise == "gaussian"
    few = Marginals(columns=NAMES[:8], **asked)
    assert few.guarantee() == Guarantee(Loss(1), AddRemove())  # no delta where none is used
    assert isinstance(few.count_noise, DiscreteLaplace)
    without = Marginals(columns=NAMES, epsilon=1, noise="auto")
    assert without.chosen_noise == "laplace"


def test_questions_with_laplace_noise_are_written_as_they_always_were() -> None:
    query = Histogram(columns=("c0",), epsilon=1)
    assert set(query.to_json()) == {"name", "columns", "epsilon", "bins", "adjacency"}
    gaussian = QUESTIONS[0]
    assert gaussian.to_json()["noise"] == "gaussian"
    assert query_from_json(gaussian.to_json()) == gaussian


def marginals(**parameters: Any) -> NoisyMarginals:
    query = Marginals(columns=NAMES, bins=10, **parameters)
    return query.answer(TABLE, secure()).value


def test_merged_histograms_carry_the_noise_and_the_loss_of_all_parts(tmp_path: Path) -> None:
    one, two = marginals(**GAUSSIAN), marginals(epsilon=2, noise="gaussian", delta="1e-5")
    plain = marginals(epsilon="0.5")
    merged = one.merge(two, plain)
    assert merged.guarantee.loss == Loss(2, "1e-5")
    variances = [part.noise.deviation**2 for part in (one, two, plain)]
    assert merged.noise.deviation == pytest.approx(math.sqrt(sum(variances)))
    merged.save(tmp_path / "merged.privod")
    assert NoisyMarginals.load(tmp_path / "merged.privod") == merged


def test_a_grid_is_saved_scored_and_merged(tmp_path: Path) -> None:
    query = GridKnn(columns=NAMES[:2], cells_per_axis=5, **GAUSSIAN)
    grid = query.answer(TABLE, secure()).value
    grid.merge(grid).save(tmp_path / "grid.privod")
    again = NoisyGrid.load(tmp_path / "grid.privod")
    assert again == grid.merge(grid)
    assert np.isfinite(again.walk(ROWS[:5, :2]).basic).all()
    assert float(again.limits(0.1).graded[0]) > 0


def test_a_file_that_claims_less_than_its_noise_loses_is_refused() -> None:
    data = marginals(**GAUSSIAN).to_json()
    data["guarantee"]["loss"] = Loss("0.9", "1e-6").to_json()
    with pytest.raises(InvalidData, match="not the one that the noise keeps"):
        NoisyMarginals.from_json(data)
    data["guarantee"]["loss"] = Loss(1, "1e-7").to_json()
    with pytest.raises(InvalidData, match="not the one that the noise keeps"):
        NoisyMarginals.from_json(data)
    mixed = marginals(**GAUSSIAN).merge(marginals(epsilon="0.5")).to_json()
    mixed["noise"][0][0] = "1"
    with pytest.raises(InvalidData, match="not the one that the noise keeps"):
        NoisyMarginals.from_json(mixed)


@pytest.mark.parametrize("sigma2s", [["16"], ["1/3"] * 3, ["10", "1000"], ["1000000"] * 4], ids=str)
@pytest.mark.parametrize("scales", [[], ["5"]], ids=str)
def test_the_margin_of_a_sum_is_that_of_its_draws(sigma2s: list[str], scales: list[str]) -> None:
    draws: list[DiscreteGaussian | DiscreteLaplace] = [
        *(DiscreteGaussian(Fraction(sigma2)) for sigma2 in sigma2s),
        *(DiscreteLaplace(Fraction(scale)) for scale in scales),
    ]
    noise = MergedNoise.of(draws[0])
    for other in draws[1:]:
        noise = noise + MergedNoise.of(other)
    assert MergedNoise.from_json(noise.to_json()) == noise
    source = seeded(1)
    total = np.sum([each.draw(20_000, source) for each in draws], axis=0)
    margin = noise.quantile(0.95)
    assert (np.abs(total) <= margin).mean() > 0.944
    assert (np.abs(total) <= 0.97 * margin - 1).mean() < 0.954
    assert noise.deviation == pytest.approx(total.std(), rel=0.05)
    places = np.arange(-4000.0, 4001.0)
    assert noise.density(places).sum() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("wrong", [["gaussian", "4"], ["other", "4", 1], ["gaussian", "4", 0]])
def test_noise_that_nobody_wrote_is_refused(wrong: list[Any]) -> None:
    with pytest.raises((InvalidData, InvalidParameter)):
        MergedNoise.from_json([wrong])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": "gaussian"}, "delta must be greater than 0"),
        ({"delta": "1e-6"}, "delta must be 0 for laplace"),
        ({"noise": "cauchy"}, "noise must be one of"),
        ({"noise": "gaussian", "delta": "0.6"}, "delta must lie between 0 and 1/2"),
        ({"noise": "gaussian", "delta": "1e-6", "epsilon": 600}, "epsilon must be"),
    ],
)
def test_bad_parameters_are_told_by_name(parameters: dict[str, Any], message: str) -> None:
    for kind in (Histogram, Marginals, GridKnn):
        with pytest.raises(InvalidParameter, match=message):
            kind(**{"columns": ("c0",), "epsilon": 1, **parameters})


def test_sparse_grids_have_laplace_noise_alone() -> None:
    with pytest.raises(InvalidParameter, match="drop_below must be None"):
        GridKnn(columns=NAMES[:2], drop_below=5, **GAUSSIAN)
    large = GridKnn(columns=NAMES[:8], cells_per_axis=10, **GAUSSIAN)
    with pytest.raises(InvalidParameter, match="drop_below"):
        large.check(DOMAIN)


@dataclass(frozen=True, kw_only=True)
class ThirdOfTheSigma(Histogram):
    """A planted bug: noise of a ninth of the sigma2 that is promised."""

    @property
    def count_noise(self) -> DiscreteGaussian:
        promised = DiscreteGaussian.for_loss(self.epsilon, self.delta, self._counts_changed)
        return DiscreteGaussian(promised.sigma2 / 9)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


@dataclass(frozen=True, kw_only=True)
class OneColumnOnly(Marginals):
    """A planted bug: noise as if a record were counted in one histogram."""

    @property
    def count_noise(self) -> DiscreteGaussian:
        return DiscreteGaussian.for_loss(self.epsilon * 2, self.delta, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


def test_honest_questions_pass_the_audit_and_planted_bugs_are_caught() -> None:
    for game in (*histogram_games()[2:], *marginal_games()[2:4]):
        assert replay_game(game).holds
    for game in histogram_games(ThirdOfTheSigma)[2:]:
        assert not replay_game(game).holds
    for game in marginal_games(OneColumnOnly)[2:4]:
        assert not replay_game(game).holds
