"""One binning rule: a value is counted in the same bin by everybody, at a border too."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Codes, Equal, Octaves
from privod.mechanisms import seeded
from privod.outliers.grid.grid import Grid
from privod.questions.histogram.query import Histogram

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


def borders(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """Values at, one float below and one float above every border, within the range."""
    edges = np.concatenate([np.linspace(low, high, bins + 1), low + np.arange(bins) / bins])
    near = [edges, np.nextafter(edges, -math.inf), np.nextafter(edges, math.inf)]
    values: NDArray[np.float64] = np.clip(np.concatenate(near), low, high)
    return values


@settings(deadline=None, max_examples=50)
@given(FINITE, st.floats(1e-3, 1e12), st.integers(2, 60))
def test_histogram_and_grid_count_a_value_in_one_bin(low: float, width: float, bins: int) -> None:
    if not low < low + width:
        return
    column = Numeric("x", low, low + width)
    table = Table(Domain((column,)), {"x": borders(low, column.high, bins)})
    values = table.numbers()[:, 0]
    by_rule = np.bincount(Equal(column.low, column.high, bins).places(values), minlength=bins)
    histogram = Histogram(columns=("x",), bins=bins, epsilon="1000000")
    grid = Grid((column,), bins).all_counts(values[:, None])
    assert grid.tolist() == by_rule.tolist()
    drawn = histogram.answer(table, seeded(1)).value.counts  # so large an epsilon adds nothing
    assert drawn.tolist() == by_rule.tolist()


@given(st.lists(FINITE, max_size=20), FINITE, FINITE, st.integers(1, 50))
def test_equal_bins_follow_the_plain_rule(
    values: list[float], one: float, other: float, bins: int
) -> None:
    low, high = min(one, other), max(one, other)
    found = Equal(low, high, bins).places(np.array([*values, low, high]))
    scale = bins / (high - low) if high > low else math.inf
    for value, place in zip([*values, low, high], found.tolist(), strict=True):
        if math.isinf(scale) or not low <= value <= high:
            assert place == -1
        else:
            assert place == min(math.floor((value - low) * scale), bins - 1)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_octaves_are_exact_powers_of_two(values: list[float]) -> None:
    for value, place in zip(values, Octaves(3, 10).places(np.array(values)).tolist(), strict=True):
        if value == 0:
            assert place == -1
        elif abs(value) >= 4:
            assert place == 0
        elif place < 9:
            assert 2.0 ** (2 - place) <= abs(value) < 2.0 ** (3 - place)
        else:
            assert abs(value) < 2.0 ** (3 - 9)


def test_codes_are_their_own_bins() -> None:
    column = Categorical("sex", ("f", "m"))
    codes = Table(Domain((column,)), {"sex": ["m", "f"]}).codes()[:, 0]
    assert Codes(2).places(codes).tolist() == [1, 0]
