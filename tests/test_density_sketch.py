"""Sketches of density: bins, scores, files, merges, memory, and bugs they must not have."""

from __future__ import annotations

import json
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit import replay_game
from privod.data import Domain, Numeric, Table
from privod.data.folding import Block
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import DiscreteLaplace, seeded
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.count_query import CountNoise
from privod.questions.density_sketch.audit import HIGH, LOW, games
from privod.questions.density_sketch.hashing import VALUES, Hashing
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.density_sketch.release import NoisySketch

DOMAIN = Domain(tuple(Numeric(f"x{place}", -6, 6) for place in range(5)))
HASHING = Hashing(DOMAIN.numeric(), 4, (0.05, 0.3), 2, 64, 7)


def ring(n: int, seed: int = 0) -> Any:
    """Records on a ring in two columns, of which no single column shows the empty middle."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 2 * np.pi, n)
    round_it = np.column_stack([3 * np.cos(angles), 3 * np.sin(angles)])
    return np.hstack([round_it + 0.2 * rng.normal(size=(n, 2)), 0.3 * rng.normal(size=(n, 3))])


def counts_of(rows: Any, hashing: Hashing = HASHING) -> Any:
    none = np.zeros((len(rows), 0), dtype=np.int64)
    return hashing.add(hashing.start(), Block(np.asarray(rows), none))


def table(n: int, seed: int = 0) -> Table:
    rows = ring(n, seed)
    return Table(DOMAIN, {name: rows[:, place] for place, name in enumerate(DOMAIN.names)})


def sketch(n: int = 5000, seed: int = 0, **more: Any) -> NoisySketch:
    query = DensitySketch(**{"columns": DOMAIN.names, "epsilon": 5, **more})
    return query.answer(table(n, seed), seeded(seed)).value


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(allow_nan=False), min_size=5, max_size=5), max_size=5))
def test_every_record_is_in_one_bin_of_each_table_whoever_else_is_there(rows: Any) -> None:
    records = np.array(rows, dtype=float).reshape(-1, 5)
    counts = counts_of(records)
    assert (counts.sum(axis=1) == len(records)).all()
    alone = [counts_of(record[None]) for record in records]
    assert np.array_equal(counts, np.sum([np.zeros_like(counts), *alone], axis=0))


def test_many_hashes_are_taken_of_few_records_at_a_time_and_estimated_to_take_long() -> None:
    heavy = Hashing(DOMAIN.numeric(), 1000, (0.05, 0.3), 64, 4, 7)
    tracemalloc.start()
    try:
        counts = counts_of(ring(200), heavy)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (counts.sum(axis=1) == 200).all()
    hashes = heavy.all_tables * heavy.hashes_per_table
    assert most < 6 * 8 * VALUES < 200 * 8 * hashes * 6
    asked: dict[str, Any] = {"columns": DOMAIN.names, "epsilon": 1, "bins": 4}
    few, many = (DensitySketch(**asked, n_tables=n, hashes_per_table=64) for n in (1, 1000))
    assert many.work(DOMAIN, 10**6) > 500 * few.work(DOMAIN, 10**6)


def test_near_records_share_bins_and_far_ones_hardly_ever() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-6, 6, size=(2000, 5))
    bins = HASHING.bins_of(rows)
    near = (bins == HASHING.bins_of(rows + 0.02 * rng.normal(size=rows.shape))).mean(axis=0)
    far = (bins == HASHING.bins_of(rng.permutation(rows))).mean(axis=0)
    assert (near > 0.7).all()
    assert (far[:4] < 0.1).all()  # the narrow bandwidth
    assert (near[4:] > near[:4].max()).all()


def test_the_loss_covers_all_tables_together() -> None:
    asked: dict[str, Any] = {"columns": ("x",), "epsilon": "1/2", "n_tables": 3}
    query = DensitySketch(**asked)
    assert query.guarantee() == Guarantee(Loss(Fraction(1, 2)), AddRemove())
    assert query.count_noise == DiscreteLaplace(Fraction(12))
    replaced = DensitySketch(**asked, adjacency=Replace())
    assert replaced.guarantee() == Guarantee(Loss(Fraction(1, 2)), Replace())
    assert replaced.count_noise == DiscreteLaplace(Fraction(24))


def test_what_no_single_column_shows_scores_higher() -> None:
    value = sketch(bandwidths=(0.05,), n_tables=40, epsilon=20)  # narrower than the ring
    ordinary = value.scores(ring(500, seed=1))
    middle = value.scores(np.random.default_rng(2).normal(0, 0.3, size=(500, 5)))
    assert (middle[:, None] > ordinary[None, :]).mean() > 0.95
    assert np.isfinite(value.scores([[1e300] * 5, [-1e300] * 5])).all()
    assert value.scores([[1e300] * 5])[0] >= ordinary.max() - 1e-9
    assert abs(value.total - 5000) < 300


@pytest.mark.parametrize("noise", [{}, {"noise": "gaussian", "delta": "1e-6"}])
def test_sketches_of_one_key_add_up_and_others_do_not(tmp_path: Path, noise: Any) -> None:
    first, second = sketch(500, **noise), sketch(300, seed=1, **{**noise, "epsilon": 1})
    merged = first.merge(second)
    assert merged.counts.tolist() == (first.counts + second.counts).tolist()
    assert merged.guarantee.loss == Loss(5, noise.get("delta", 0))
    for value in (first, merged):
        value.save(tmp_path / "s.privod")
        assert NoisySketch.load(tmp_path / "s.privod") == value
    for other in ({"key": 1}, {"bins": 128}, {"adjacency": "replace"}, {"bandwidths": (0.1,)}):
        with pytest.raises(InvalidData, match="merged only"):
            first.merge(sketch(10, **noise, **other))


def test_a_forged_sketch_is_not_read() -> None:
    data = json.loads(json.dumps(sketch(10).to_json()))
    assert NoisySketch.from_json(data) == sketch(10)
    hashing = data["hashing"]
    for wrong in (
        {"guarantee": Guarantee(Loss(1), AddRemove()).to_json()},
        {"hashing": {**hashing, "n_tables": 9}},
        {"hashing": {**hashing, "bins": 100}},
        {"hashing": {**hashing, "more": 1}},
        {"counts": data["counts"][:-1]},
        {"seeded": 1},
    ):
        with pytest.raises(InvalidData):
            NoisySketch.from_json({**data, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [{"bins": 100}, {"bins": 1}, {"n_tables": 0}, {"bandwidths": ()}, {"bandwidths": (0.0,)},
     {"bandwidths": 0.1}, {"bandwidths": "0.1"}, {"bandwidths": ("a",)}, {"bandwidths": (10**400,)},
     {"hashes_per_table": 0}, {"key": -1}, {"n_tables": 10_001}, {"delta": "1e-6"}],
)  # fmt: skip
def test_wrong_questions_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        DensitySketch(**{"columns": ("x",), "epsilon": 1, **wrong})


def test_counting_takes_less_memory_than_the_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(400_000, 10))
    columns = tuple(Numeric(f"x{place}", -6, 6) for place in range(10))
    hashing = Hashing(columns, 10, (0.1, 0.4), 2, 256, 0)
    counts_of(rows[:10], hashing)
    tracemalloc.start()
    counts_of(rows, hashing)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes


class _NoiseOfOneTable(DensitySketch):
    """A planted bug: each table is noisy as if it were the only one."""

    @property
    def count_noise(self) -> CountNoise:
        found = super().count_noise
        if isinstance(found, DiscreteLaplace):
            return DiscreteLaplace(found.scale / self.n_histograms)
        return type(found)(found.sigma2 / self.n_histograms**2)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon, self.delta), self.adjacency)


def test_the_audit_catches_the_noise_of_one_table() -> None:
    for place in (0, 1, 2):
        game = games(_NoiseOfOneTable)[place]
        caught = replay_game(game)
        assert not caught.holds, caught.sentence()
    hashing = game.query.answer(game.left, seeded(0)).value.hashing
    low, high = hashing.bins_of(np.array([LOW, HIGH]))
    assert (low != high).mean() > 0.8  # the pair under Replace moves in nearly every table
