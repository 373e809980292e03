"""The owner's own analysis: exact, not private, and refused where it would never end."""

from __future__ import annotations

import numpy as np
import pytest

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import ContextSpace
from privod.outliers.contexts.detectors import Detector, Grubbs, PluggedIn
from privod.outliers.contexts.for_owner import contexts_moved, rows_alike


def moved(n_values: int, detector: Detector, salaries: list[float]) -> list[bool]:
    """Whether each row's removal changes the contexts of somebody with tag 1 and salary 400."""
    domain = Domain((Categorical("tag", tuple(range(n_values))), Numeric("salary", 0, 500)))
    table = Table(domain, {"tag": np.ones(len(salaries), int), "salary": np.array(salaries)})
    space = ContextSpace.around(domain, {"tag": 1})
    assert rows_alike(table, space).all()
    groups = [np.array([row]) for row in range(len(salaries))]
    return list(contexts_moved(table, space, "salary", 400.0, detector, groups))


def test_a_record_counts_if_contexts_change_without_it() -> None:
    spread = [100.0, 100.5, 101.0, 101.5, 102.0, 102.5, 350.0]
    assert moved(2, Grubbs(), spread) == [False] * 6 + [True]


def test_too_many_contexts_are_refused_and_bfs_is_offered() -> None:
    with pytest.raises(InvalidParameter, match="bfs"):
        moved(30, Grubbs(), [2.0])
    plugged = PluggedIn("any", lambda everyone, value: len(everyone) > value)
    with pytest.raises(InvalidParameter, match="65536"):
        moved(20, plugged, [2.0])
