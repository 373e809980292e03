"""The keyed table of a joint run: what is published of it, and how large it is."""

import numpy as np
import pytest

from privod.errors import InvalidParameter
from privod.joint.counters import check_crowd, publishable
from privod.joint.planning import slot_bits


def test_published_counts_are_neither_small_nor_large() -> None:
    counts = np.arange(300)
    shown = publishable(counts, 100)
    assert set(np.unique(shown)) == {0, *range(10, 201)}


def test_the_table_grows_until_collisions_do_not_matter() -> None:
    sizes = [slot_bits(n, crowd) for n, crowd in ((20_000, 2000), (300_000, 360), (10**7, 360))]
    assert sizes == sorted(sizes)
    assert 10 <= sizes[0] <= sizes[-1] <= 20


def test_crowds_below_the_smallest_published_count_are_refused() -> None:
    check_crowd(10)
    with pytest.raises(InvalidParameter, match="crowds of at least 10"):
        check_crowd(9)
