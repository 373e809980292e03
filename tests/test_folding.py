"""What adds up over rows is the same however they are grouped and ordered."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.binning import Codes, Equal, Octaves
from privod.data.folding import Block, CellCounts, Fold, RowSums, folded
from privod.outliers.grid.folds import PackedCells, SomeCells
from privod.outliers.grid.grid import Grid

X, Y = Numeric("x", 0, 8), Numeric("y", -1, 1)
WIDE = tuple(Numeric(f"c{place}", 0, 8) for place in range(30))


def whole_sums(rows: Any) -> Any:
    """Sums that tell the columns of a row apart."""
    return np.rint(2 * rows * [1, 10, 100]).astype(np.int64).sum(axis=0)


FOLDS: dict[str, Fold[Any]] = {
    "bins and codes": CellCounts((("x", Equal(1, 7, 5)), ("kind", Codes(3)), ("y", Octaves(0, 4)))),
    "sums of a function": RowSums(("kind", "x", "y"), ("x", "y"), lambda rows: whole_sums(rows)),
    "all cells": Grid((X, Y), 4).counting(),
    "some cells": Grid((X, Y), 50).listing(),
    "cells of several words": Grid(WIDE, 50).listing(),
}


def rows_for(fold: Fold[Any], n: int, seed: int) -> Block:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 5, (n, len(fold.numbers))) / 2
    return Block(numbers, rng.integers(0, 3, (n, len(fold.codes))))


def plain(state: Any, fold: Fold[Any]) -> Any:
    if isinstance(state, PackedCells):
        assert isinstance(fold, SomeCells)
        cells, counts = fold.cells(state)
        return cells.tolist(), counts.tolist()
    return np.asarray(state).tolist()


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
@given(st.integers(0, 60), st.lists(st.integers(0, 60), max_size=5), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_folds_are_equal_however_rows_are_grouped_and_ordered(
    fold: Fold[Any], n: int, cuts: list[int], seed: int
) -> None:
    rows = rows_for(fold, n, seed)
    order = np.random.default_rng(seed).permutation(n)
    shuffled = Block(rows.numbers[order], rows.codes[order])
    ends = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [
        folded(fold, [Block(shuffled.numbers[start:end], shuffled.codes[start:end])])
        for start, end in pairwise(ends)
    ]
    merged = fold.start()
    for part in reversed(parts):
        merged = fold.merge(merged, part)
    assert plain(merged, fold) == plain(folded(fold, [rows]), fold)


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_no_rows_add_up_to_the_start(fold: Fold[Any]) -> None:
    assert plain(folded(fold, [rows_for(fold, 0, 0)]), fold) == plain(fold.start(), fold)


def test_cells_are_counted_row_by_row_as_their_bins_say() -> None:
    fold = FOLDS["bins and codes"]
    assert isinstance(fold, CellCounts)
    rows = rows_for(fold, 200, 3)
    counts = np.zeros(fold.shape, dtype=np.int64)
    for (x, y), (kind,) in zip(rows.numbers, rows.codes, strict=True):
        places = Equal(1, 7, 5).places(np.array([x]))[0], kind, Octaves(0, 4).places(np.array([y]))
        if places[0] >= 0 and places[2][0] >= 0:
            counts[places[0], kind, places[2][0]] += 1
    assert folded(fold, [rows]).tolist() == counts.tolist()
    assert 0 < counts.sum() < 200


def test_cells_of_several_words_are_those_of_their_points() -> None:
    grid = Grid(WIDE, 50)
    points = np.random.default_rng(1).integers(0, 2, (300, 30)).astype(np.float64) * 7.99
    points[:, 2:] = 4.0
    cells, counts = grid.occupied_counts(points)
    expected, times = np.unique(grid.cells_of(points), axis=0, return_counts=True)
    assert (cells.tolist(), counts.tolist()) == (expected.tolist(), times.tolist())


def test_columns_that_are_handed_out_are_copies() -> None:
    table = Table(Domain((X, Categorical("kind", ("a", "b")))), {"x": [1.0, 2.0], "kind": "ab"})
    table.numbers()[:] = 7.0
    table.codes()[:] = 1
    assert table.numbers().tolist() == [[1.0], [2.0]]
    assert table.codes().tolist() == [[0], [1]]
