"""Hashing: kernels equal their twins, closed forms equal counts, suspects contain the outliers."""

# slow: left out by `make quick`

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from privod.errors import InvalidParameter
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.plan import (
    HashPlan,
    HashSettings,
    collision_probability,
    smallest_bin_threshold,
)
from privod.outliers.hashing.tables import bin_records, draw_family, find_suspects
from tests.reference import hashing as reference
from tests.reference.hashing import HashedOutliers


def small_plan(tables: int = 6, hashes: int = 3, shared: int = 2) -> HashPlan:
    return HashPlan(
        radius=1.0,
        approximation=2.0,
        bucket_width=1.5,
        hashes_per_table=hashes,
        n_tables=tables,
        min_shared_tables=shared,
    )


def clustered(seed: int, n: int, strangers: int, columns: int = 2) -> NDArray[np.float64]:
    """A tight cluster, and the last rows far away from it and from each other."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(n, columns)) * 0.1
    if strangers:
        points[-strangers:] = 50 + 20 * np.arange(strangers)[:, None]
    return points


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(0, 60), shared=st.integers(1, 6))
def test_suspects_are_those_of_the_printed_algorithm(seed: int, n: int, shared: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 2)) * 2
    plan = small_plan(shared=shared)
    family = draw_family(plan, 2, b"%d" % seed)
    found = find_suspects(bin_records(family.keys(points)), 3, shared)
    if n:
        rows, neighbors, processed = reference.suspects(reference.codes(points, family), 3, shared)
        assert found.rows.tolist() == rows
        assert found.neighbors.tolist() == neighbors
        assert found.processed == processed
    else:
        assert len(found.rows) == 0


def test_equal_codes_are_equal_keys_and_other_codes_other_keys() -> None:
    points = np.random.default_rng(2).normal(size=(400, 3)) * 2
    family = draw_family(small_plan(), 3, b"keys")
    keys = family.keys(points)
    for table, line in enumerate(reference.codes(points, family)):
        assert len(set(line)) == len(np.unique(keys[table]))
        assert len(set(zip(line, keys[table].tolist(), strict=True))) == len(set(line))


def test_a_seed_means_the_same_hashes_everywhere() -> None:
    family = draw_family(small_plan(), 3, b"seed")
    again = draw_family(small_plan(), 3, b"seed")
    other = draw_family(small_plan(), 3, b"another seed")
    assert np.array_equal(family.directions, again.directions)
    assert not np.array_equal(family.directions, other.directions)
    assert float(family.directions[0, 0]) == pytest.approx(0.47490072, rel=1e-6)


@pytest.mark.parametrize("distance", [0.3, 1.0, 2.5])
def test_collision_probability_is_how_often_hashes_collide(distance: float) -> None:
    plan = small_plan(tables=20_000, hashes=1, shared=1)
    points = np.array([[0.0, 0.0], [distance * 0.6, distance * 0.8]])
    keys = draw_family(plan, 2, b"collisions").keys(points)
    observed = np.mean(keys[:, 0] == keys[:, 1])
    expected = collision_probability(distance, plan.bucket_width)
    assert abs(observed - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)


def test_collision_probability_at_no_distance_is_one() -> None:
    assert collision_probability(0.0, 1.0) == 1.0


@settings(max_examples=50, deadline=None)
@given(
    tables=st.integers(1, 200),
    far_match=st.floats(1e-9, 0.4),
    rate=st.floats(1e-9, 0.1),
)
def test_the_bin_threshold_is_the_smallest_that_keeps_the_rate(
    tables: int, far_match: float, rate: float
) -> None:
    least, most = rate * (1 - 1e-9), rate * (1 + 1e-9)  # the two tails are rounded differently
    try:
        threshold = smallest_bin_threshold(tables, far_match, rate)
    except InvalidParameter:
        assert binom.sf(tables - 1, tables, far_match) > least
        return
    assert binom.sf(threshold - 1, tables, far_match) < most
    assert threshold == 1 or binom.sf(threshold - 2, tables, far_match) > least


def test_left_out_parameters_follow_the_papers_formulas() -> None:
    plan = HashSettings(radius=3.0, hashes_per_table=None, n_tables=None).plan(10**6)
    near, far = (collision_probability(r, plan.bucket_width) for r in (1.0, 3.0))
    assert far**plan.hashes_per_table <= 1e-6 < far ** (plan.hashes_per_table - 1)
    assert plan.n_tables == np.ceil((10**6) ** (np.log(near) / np.log(far)))
    assert plan.neighbor_probability(3.0) <= 1e-6
    _, false_negative = reference.paper_bounds(plan, n_rounds=3)
    assert 0 <= false_negative <= 1
    assert false_negative >= plan.neighbor_probability(3.0)  # Equation 8 is the looser one


def test_strangers_are_found_and_nobody_else() -> None:
    points = clustered(3, 5000, strangers=5)
    question = HashedOutliers(radius=5.0, far_fraction=0.99, n_rounds=2)
    assert question.find(points).tolist() == [4995, 4996, 4997, 4998, 4999]


def test_verified_survivors_are_outliers_exactly() -> None:
    generator = np.random.default_rng(4)
    points = generator.normal(size=(2000, 2))
    question = HashedOutliers(radius=0.5, far_fraction=0.99, verify=True)
    rows = question.find(points)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    outliers = np.flatnonzero((distances <= 0.5).sum(axis=1) <= crowd_limit(0.99, 2000))
    assert set(rows) <= set(outliers)
    assert len(rows) >= 0.99 * len(outliers)


def test_more_rounds_never_flag_more() -> None:
    points = np.random.default_rng(5).normal(size=(3000, 3))
    flagged = [
        set(HashedOutliers(radius=1.5, far_fraction=0.98, n_rounds=rounds).find(points))
        for rounds in (1, 2, 4)
    ]
    assert flagged[0] >= flagged[1] >= flagged[2]


def test_duplicates_count_as_separate_records() -> None:
    points = np.vstack([np.zeros((100, 2)), np.full((1, 2), 9.0)])
    assert HashedOutliers(radius=1.0, far_fraction=0.9).find(points).tolist() == [100]


def test_no_records_have_no_outliers() -> None:
    assert len(HashedOutliers(radius=1.0, far_fraction=0.9).find(np.empty((0, 2)))) == 0


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"radius": 0.0}, "radius"),
        ({"far_fraction": 1.0}, "far_fraction"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"approximation": -1.0}, "approximation"),
        ({"hashes_per_table": 0}, "hashes_per_table"),
        ({"n_tables": 0}, "n_tables"),
        ({"min_shared_tables": 51}, "min_shared_tables"),
        ({"false_negative_rate": 0.0}, "false_negative_rate"),
    ],
)
def test_a_wrong_parameter_is_named(wrong: dict[str, float], parameter: str) -> None:
    with pytest.raises(InvalidParameter, match=parameter):
        HashedOutliers(**{"radius": 1.0, "far_fraction": 0.9, **wrong})  # type: ignore[arg-type]


def test_a_radius_that_single_precision_cannot_resolve_is_refused() -> None:
    points = np.array([[0.0], [1e9]])
    with pytest.raises(InvalidParameter, match="radius"):
        HashedOutliers(radius=1e-3, far_fraction=0.9).find(points)
