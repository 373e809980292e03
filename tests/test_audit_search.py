"""The audit where no pair is given: it looks for one, over persons, versions, estimators, work."""

from __future__ import annotations

# slow: left out by `make quick`
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privod.audit import (
    Power,
    Reading,
    search,
    table_pairs,
)
from privod.data import Categorical, Domain, Numeric
from privod.estimators import PrivacyWarning, PrivateDetector
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, InCrowd, Replace

VALUE = (Reading("the value", float),)
DOMAIN = Domain((Numeric("x", 0, 10), Categorical("letter", ("a", "b", "c"))))


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace(), InCrowd(0.0, ("letter",), 3)])
def test_every_pair_that_is_made_is_adjacent(adjacency: Any) -> None:
    for left, right in islice(table_pairs(DOMAIN, adjacency), 40):
        rows = [
            sorted(zip(table.numbers()[:, 0], table.codes()[:, 0], strict=True))
            for table in (left, right)
        ]
        gone, come = (
            list((Counter(one) - Counter(other)).elements()) for one, other in _both(rows)
        )
        if adjacency == Replace():
            assert len(gone) <= 1
            assert len(come) <= 1
        else:
            assert len(gone) + len(come) <= 1  # none where it misses a value
        if isinstance(adjacency, InCrowd):
            for (_, code), table in [(row, 0) for row in gone] + [(row, 1) for row in come]:
                assert [each for _, each in rows[table]].count(code) >= 3


def _both(rows: list[Any]) -> Iterator[tuple[Any, Any]]:
    yield rows[0], rows[1]
    yield rows[1], rows[0]


# ---- estimators and pipelines ------------------------------------------------------------------


@pytest.mark.parametrize(("scaled", "holds"), [(False, True), (True, False)])
def test_an_estimator_holds_and_the_same_behind_a_scaler_does_not(
    scaled: bool, holds: bool
) -> None:
    """One record far out moves all others to one cell, once a scaler learned from it."""
    rows = np.random.default_rng(1).uniform(-1, 1, size=(60, 1))
    far = np.vstack([rows, [[1e9]]])
    detector = PrivateDetector(epsilon=1, bounds=(-3, 3), delta=0)

    def fitted(data: Any, _randomness: Randomness) -> float:
        pipeline = make_pipeline(StandardScaler(), detector) if scaled else detector
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            pipeline.fit(data)
        return float(detector.release_.value.counts.max())

    claimed = detector.promised().loss
    found = search(fitted, claimed, lambda: iter([(rows, far)]), VALUE, runs=300)
    assert found.holds is holds


# ---- power -------------------------------------------------------------------------------------


def test_more_runs_catch_smaller_breaches() -> None:
    breaches = [Power(runs, 0.0).least_breach(1.0) for runs in (500, 2000, 20_000, 200_000)]
    assert breaches == sorted(breaches, reverse=True)
    assert breaches[-1] < 1.05
    assert replace(Power(2000, 0.0), delta=0.01).least_breach(1.0) > breaches[1]
