"""Detectors that grow by batches pay the largest loss and draw fresh noise."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privod.privacy import Loss
from privod.query.catalog import release_from_json
from tests.test_estimators import both, cloud


@both
def test_batches_add_up_at_their_own_epsilon(kind: Any) -> None:
    detector = kind(epsilon=1, bounds=(-4, 4), delta=0, random_state=0)
    detector.partial_fit(cloud(1500))
    first = detector.release_.value
    detector.set_params(epsilon=2.5).partial_fit(cloud(1500, seed=1))
    assert detector.guarantee_.loss == Loss(Fraction(5, 2))
    both_counts, one_count = (value.counts.sum() for value in (detector.release_.value, first))
    assert both_counts > 1.8 * one_count
    assert detector.release_.value.counts.shape == first.counts.shape
    again = release_from_json(json.loads(json.dumps(detector.release_.to_json())))
    assert again.value == detector.release_.value
    with pytest.raises(ValueError, match="features"):
        detector.partial_fit(cloud(10, 3))


@both
@pytest.mark.parametrize("epsilons", [(2.5, 1, 0.5), (0.5, 2.5, 1), (1, 1, 2.5)])
def test_the_loss_of_batches_is_the_largest_in_whatever_order(kind: Any, epsilons: Any) -> None:
    detector = kind(bounds=(-4, 4), delta=0)
    for place, epsilon in enumerate(epsilons):
        detector.set_params(epsilon=epsilon).partial_fit(cloud(200, seed=place))
    assert detector.guarantee_.loss == Loss(Fraction(5, 2))
    assert detector.release_.guarantee.loss == Loss(Fraction(5, 2))


@both
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_only_the_first_batch_pays_for_ranges(kind: Any, adjacency: Any) -> None:
    detector = kind(epsilon=1, delta=0, adjacency=adjacency).partial_fit(cloud(800))
    layout = detector.bounds_release_.value.layout
    detector.set_params(epsilon=0.9).partial_fit(cloud(800, seed=1) + 50)
    assert detector.release_.value.layout == layout
    assert detector.guarantee_.loss == Loss(1)  # of the first batch, ranges included
    assert detector.set_params(epsilon=2).partial_fit(cloud(9)).guarantee_.loss == Loss(2)
    assert detector.guarantee_.adjacency.name == adjacency


@both
def test_seeded_batches_have_other_noise_each(kind: Any) -> None:
    rows = cloud(300)
    counts = [np.zeros(1, dtype=np.int64)]
    detector = kind(epsilon=0.1, bounds=(-4, 4), random_state=3)
    for _ in range(3):
        counts.append(detector.partial_fit(rows).release_.value.counts)
        assert detector.release_.seeded
    added = [after - before for before, after in itertools.pairwise(counts)]
    assert all((one != other).any() for one, other in itertools.combinations(added, 2))
    again = kind(epsilon=0.1, bounds=(-4, 4), random_state=3)
    for _ in range(3):
        again.partial_fit(rows)
    assert again.release_.value == detector.release_.value
