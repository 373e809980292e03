"""The paper's server in memory [Rauch 2021]: a cell's noise is drawn when it is first asked for.

For 13 and 30 columns, where a grid cannot be held. What privod answers with is the question
`interactive-grid`, whose noise comes from a keyed stream; this one draws by a test seed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privod.data import Table
from privod.mechanisms import Randomness
from privod.outliers.grid.grid import WalkScores
from privod.outliers.grid.nearby import cells_around, offsets_within, walk_scores
from privod.questions.grid_knn.query import GridKnn


def lazy_scores(
    query: GridKnn,
    table: Table,
    points: NDArray[np.float64],
    n_neighbors: int,
    max_depth: Fraction,
    randomness: Randomness,
) -> WalkScores:
    """Scores by a grid of which only the cells that the points' walks meet get noise, once each."""
    grid = query.grid(table.domain)
    occupied = grid.listing().cells(table.fold(grid.listing()))
    listed = zip(occupied.cells, occupied.counts.tolist(), strict=True)
    exact = {row.tobytes(): count for row, count in listed}
    noisy: dict[bytes, int] = {}
    offsets = offsets_within(grid.n_axes, grid.cells_per_axis - 1, grid.max_steps(max_depth))
    scored = []
    for point in points:
        cells, steps = cells_around(grid, point, offsets)
        keys = [row.tobytes() for row in cells]
        fresh = [key for key in keys if key not in noisy]
        counts = np.array([exact.get(key, 0) for key in fresh], dtype=np.int64)
        drawn = query.count_noise.add_to(counts, randomness)
        noisy.update(zip(fresh, drawn.tolist(), strict=True))
        held = np.array([noisy[key] for key in keys], dtype=np.int64)
        scored.append(walk_scores(held, steps, n_neighbors))
    basic, weighted, share = np.array(scored, dtype=np.float64).reshape(-1, 3).T
    per_axis = grid.cells_per_axis
    return WalkScores(basic / per_axis, weighted / per_axis, (basic + share) / per_axis)
