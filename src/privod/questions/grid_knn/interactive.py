"""The paper's own server: a cell's noise is drawn when first asked for, and never again [Rauch].

It holds exact counts and stays with the curator. It is for reproducing the paper in 13 and 30
dimensions, where a grid cannot be held and a sparse one forgets most cells.
"""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.outliers.grid.grid import Grid, OccupiedCells, WalkScores, cells_within
from privod.outliers.grid.nearby import cells_around, offsets_within, walk_scores
from privod.privacy import Guarantee, Number
from privod.query.count_query import CountNoise
from privod.query.scores import scored_points
from privod.questions.grid_knn.release import walk_depth

Ints = NDArray[np.int64]

MOST_LISTED_CELLS = 200_000  # cells within the depth of one point
ONE_OF_ITS_KIND = (
    "a second one would draw the noise of its cells anew. Share the grid itself between threads, or"
    " release a NoisyGrid."
)


class LazyGrid:
    """Scores like a `NoisyGrid` with all cells, and draws the noise of a cell on first use.

    There is one of its kind: a copy or a pickle would hold the exact counts and draw the noise of a
    cell anew, and who averages over copies takes the noise away. Both are refused, and so is a
    forked process. Several threads may score at once; a cell gets one of them.
    """

    def __init__(
        self,
        grid: Grid,
        occupied: OccupiedCells,
        noise: CountNoise,
        randomness: Randomness,
        guarantee: Guarantee,
    ) -> None:
        self.grid = grid
        self.guarantee = guarantee
        self._exact = {
            row.tobytes(): int(count)
            for row, count in zip(occupied.cells, occupied.counts, strict=True)
        }
        self._noise = noise
        self._randomness = randomness
        self._noisy: dict[bytes, int] = {}
        self._drawing = threading.Lock()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"LazyGrid({self.grid.n_axes} columns, records private)"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"A lazy grid cannot be copied or pickled: {ONE_OF_ITS_KIND}")

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a test seed; such a grid protects nobody."""
        return self._randomness.seeded

    def scores(self, points: ArrayLike, n_neighbors: int, max_depth: Number) -> WalkScores:
        """Score new records; as with a grid whose noise was drawn in one go."""
        asked = scored_points(points, self.grid.n_axes)
        offsets = self._offsets(walk_depth(n_neighbors, max_depth))
        scored = [self._score(point, offsets, n_neighbors) for point in asked]
        basic, weighted, share = np.array(scored, dtype=np.float64).reshape(-1, 3).T
        per_axis = self.grid.cells_per_axis
        return WalkScores(basic / per_axis, weighted / per_axis, (basic + share) / per_axis)

    def _score(
        self, point: NDArray[np.float64], offsets: NDArray[np.int32], n_neighbors: int
    ) -> tuple[int, int, float]:
        cells, steps = cells_around(self.grid, point, offsets)
        return walk_scores(self._counts(cells), steps, n_neighbors)

    def _counts(self, cells: NDArray[np.int32]) -> Ints:
        """The noisy counts of these cells; noise is drawn for those never asked for before."""
        if os.getpid() != self._process:
            raise RuntimeError(f"A lazy grid answers where it was made: {ONE_OF_ITS_KIND}")
        keys = [row.tobytes() for row in cells]
        with self._drawing:
            fresh = [key for key in keys if key not in self._noisy]
            exact_counts = np.array([self._exact.get(key, 0) for key in fresh], dtype=np.int64)
            noisy = self._noise.add_to(exact_counts, self._randomness)
            self._noisy.update(zip(fresh, noisy.tolist(), strict=True))
        return np.array([self._noisy[key] for key in keys], dtype=np.int64)

    def _offsets(self, max_depth: Fraction | None) -> NDArray[np.int32]:
        """Every step pattern within the depth, in ascending order of the cells it leads to."""
        n_axes, widest = self.grid.n_axes, self.grid.cells_per_axis - 1
        most = self.grid.max_steps(max_depth)
        if cells_within(n_axes, most) > MOST_LISTED_CELLS:
            rule = f"must keep the walk within {MOST_LISTED_CELLS} cells"
            raise InvalidParameter("max_depth", rule, max_depth, "Go less deep.")
        return offsets_within(n_axes, widest, most)
