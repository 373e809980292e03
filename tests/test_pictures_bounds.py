"""However large an answer is, its picture has few marks and few bytes."""

from __future__ import annotations

# slow: left out by `make quick`
from typing import Any

import numpy as np
import pytest

from privod.data import Categorical, Domain, Numeric
from privod.data.sources import read
from privod.mechanisms import seeded
from privod.pictures import draw, svg
from privod.pictures.canvas import MOST_TICKS, few_ticks, summed
from privod.query.query import Query
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_subspaces.query import OutlierSubspaces

MOST_BYTES = 2_000_000
SIDE = 1000
DOMAIN = Domain(
    (
        *(Numeric(f"c{place}", 0, 1) for place in range(40)),
        *(Categorical(name, tuple(f"{name}{place}" for place in range(SIDE))) for name in "ab"),
    )
)
LARGEST: dict[str, Query[Any]] = {
    "a million cells in one column": Histogram(columns=("c0",), bins=10**6, epsilon="1e-6"),
    "a million cells in two": Histogram(columns=("a", "b"), epsilon=1),
    "a million cells in three": Histogram(columns=("c0", "c1", "c2"), bins=100, epsilon=1),
    "a grid of two columns": GridKnn(columns=("c0", "c1"), cells_per_axis=300, epsilon=1),
    "every set of columns": OutlierSubspaces(
        radius_per_column=0.1, max_crowd=2, epsilon=100, n_subspaces=780, size=2
    ),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_answers_make_small_pictures(name: str) -> None:
    numbers = {column: [0.25, 0.75] for column in DOMAIN.numeric_names}
    table = read({**numbers, "a": ["a0", "a1"], "b": ["b0", "b1"]}, DOMAIN)
    assert len(svg(draw(LARGEST[name].answer(table, seeded(1))))) < MOST_BYTES


def test_bins_that_are_drawn_as_one_keep_their_sum() -> None:
    counts = np.arange(1003, dtype=np.int64)
    drawn = summed(counts, 60)
    assert len(drawn) == 60
    assert drawn.sum() == counts.sum()
    assert summed(counts, len(counts)).tolist() == counts.tolist()


def test_few_cells_are_all_named_and_of_many_some_at_even_steps() -> None:
    few = [str(place) for place in range(MOST_TICKS)]
    assert few_ticks(few)[1] == few
    places, names = few_ticks([str(place) for place in range(1000)])
    assert MOST_TICKS // 2 < len(names) <= MOST_TICKS
    assert names[0] == "0"
    assert len(set(np.diff(places))) == 1
    assert [str(place) for place in places] == names
