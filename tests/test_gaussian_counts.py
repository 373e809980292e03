"""Histograms and grids with Gaussian noise: guarantee, cost, audit, files, merges."""

from __future__ import annotations

# slow: left out by `make quick`
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
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
from privod.questions.histogram.audit import worst_cases as histogram_cases
from privod.questions.histogram.query import Histogram

NAMES = tuple(f"c{place}" for place in range(30))
DOMAIN = Domain(tuple(Numeric(name, 0, 1) for name in NAMES))
ROWS = np.random.default_rng(0).random((500, 30))
TABLE = Table(DOMAIN, dict(zip(NAMES, ROWS.T, strict=True)))
GAUSSIAN: dict[str, Any] = {"epsilon": 1, "noise": "gaussian", "delta": "1e-6"}
QUESTIONS: list[Query[Any]] = [
    Histogram(columns=NAMES[:2], **GAUSSIAN),
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
    assert asked.cost().zcdp == Zcdp(changed / (2 * noise.sigma2))


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda query: query.name)
def test_answers_survive_json_and_say_their_margin(query: Any) -> None:
    release = query.answer(TABLE, secure())
    again = release_from_json(release.to_json())
    assert again.to_json() == release.to_json()
    margin = query.count_noise.quantile(0.95)
    assert f"± {margin} " in release.sentence()
    assert svg(draw(release)).lstrip().startswith(b"<?xml")


def test_the_margin_covers_what_it_says() -> None:
    query = Histogram(columns=NAMES[:1], bins=300, **GAUSSIAN)
    truth = np.histogram(ROWS[:, 0], 300, (0, 1))[0]
    errors = [np.abs(query.answer(TABLE, seeded(seed)).value.counts - truth) for seed in range(20)]
    covered = np.mean(np.stack(errors) <= query.count_noise.quantile(0.95))
    assert 0.94 < covered < 0.965


def test_questions_with_gaussian_noise_survive_json() -> None:
    gaussian = QUESTIONS[0]
    assert gaussian.to_json()["noise"] == "gaussian"
    assert query_from_json(gaussian.to_json()) == gaussian


def test_a_grid_is_saved_scored_and_merged(tmp_path: Path) -> None:
    query = GridKnn(columns=NAMES[:2], cells_per_axis=5, **GAUSSIAN)
    grid = query.answer(TABLE, secure()).value
    grid.merge(grid).save(tmp_path / "grid.privod")
    again = NoisyGrid.load(tmp_path / "grid.privod")
    assert again == grid.merge(grid)
    assert np.isfinite(again.walk(ROWS[:5, :2]).basic).all()
    assert again.threshold(0.1) >= 0


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
    for kind in (Histogram, GridKnn):
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


def test_honest_questions_pass_the_audit_and_planted_bugs_are_caught() -> None:
    for game in histogram_cases()[2:]:
        assert replay_case(game).holds
    for game in histogram_cases(ThirdOfTheSigma)[2:]:
        assert not replay_case(game).holds
