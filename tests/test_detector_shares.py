"""Shares of cells where noise hides single columns: what all of them show together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Categorical, Numeric
from privod.mechanisms import DiscreteLaplace, seeded
from privod.mechanisms.merged import MergedNoise
from privod.questions.detector_profile.layout import Layout
from privod.questions.detector_profile.shares import believed_shares

BINS = 7


def layout_of(n_columns: int) -> Layout:
    columns = tuple(Numeric(f"x{place}", 0, 64) for place in range(n_columns))
    return Layout(columns, tuple((0.0, 64.0) for _ in columns), BINS)


def noisy_counts(
    layout: Layout, n_records: int, center: float, scale: int
) -> tuple[NDArray[np.int64], MergedNoise]:
    rows = np.random.default_rng(0).normal(center, 6, (n_records, len(layout.columns)))
    noise = DiscreteLaplace(Fraction(scale))
    return noise.add_to(layout.axes.counts(rows), seeded(0)), MergedNoise.of(noise)


@pytest.mark.parametrize(("center", "cell"), [(32.0, 4), (50.0, 6)])
def test_columns_that_drown_alone_show_together_where_records_lie(center: float, cell: int) -> None:
    layout = layout_of(60)
    counts, noise = noisy_counts(layout, 400, center, 150)  # as much noise as records in a cell
    together = believed_shares(layout, counts, noise, 400.0)
    split = np.split(counts, layout.starts[1:-1])
    alone = [believed_shares(layout_of(1), own, noise, 400.0)[0] for own in split]
    right, right_alone = (
        np.mean([shares.likely[cell] > shares.likely[1] for shares in found])
        for found in (together, alone)
    )
    assert right > right_alone + 0.1


def test_clear_counts_are_taken_at_their_word_whatever_is_usual() -> None:
    layout = layout_of(3)
    counts, noise = noisy_counts(layout, 100_000, 50.0, 5)
    for place, shares in enumerate(believed_shares(layout, counts, noise, 100_000.0)):
        own = counts[layout.starts[place] : layout.starts[place + 1]] / 100_000
        assert np.abs(shares.likely - own).max() < 0.01
        assert np.isclose(shares.likely.sum(), 1)
        assert (shares.likely > 0).all()


def test_categories_are_all_alike_before_any_is_seen() -> None:
    layout = Layout((Categorical("kind", ("a", "b", "c")),), (), BINS)
    noise = MergedNoise.of(DiscreteLaplace(Fraction(10**6)))
    (found,) = believed_shares(layout, np.array([3, -2, 5, 0]), noise, 100.0)
    assert found.likely.tolist() == [0.25] * 4
