"""Score new records by a grid whose cells get their noise when they are asked for [Rauch 2021].

The paper's own server. A grid over many columns has more cells than can be held; those that anybody
ever asks for are few. A cell always has the same noise: it comes from a stream that the salt of the
rows and the cell determine. Proof in docs/proofs/interactive_grid.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.outliers.grid.grid import MOST_CELLS_PER_AXIS, Grid, cells_within
from privod.outliers.grid.nearby import cells_around, offsets_within, walk_scores
from privod.privacy import AddRemove, Guarantee, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_records,
    column_names,
    numeric_columns,
    whole_number,
)
from privod.query.frames import of_records
from privod.query.preview import Preview, of_counts
from privod.query.query import Query, Release, canonical_json

COUNT_SENSITIVITY = 1  # a record lies in exactly one cell
SAMPLER = 1  # raised if noise is ever drawn from a stream in another way: then it is another state
MOST_ASKED = 20_000  # cells of one question
MOST_WALKED = 50 * MOST_ASKED  # cells of all walks of one question, as often as they are met
MOST_STEPS = 100
NANOSECONDS_A_CELL = 100_000  # to begin its stream and draw its noise


@dataclass(frozen=True)
class GridScores:
    """How far out each record lies, in lengths of the declared ranges; higher is more outlying."""

    basic: tuple[float, ...]
    """How far the last visited cell is from the own one."""
    weighted: tuple[float, ...]
    """The sum of such distances over all visited cells, each times its noisy count."""
    graded: tuple[float, ...]
    """`basic`, and the part of the last cell that had to be filled."""


@dataclass(frozen=True, kw_only=True)
class InteractiveGrid(Query[GridScores]):
    """A score for each record you list, by a noisy grid that stays with the curator.

    Guarantee
    ---------
    Every record is protected, including whether it is in the data at all. Each cell has one draw
    of exact discrete Laplace noise, at a curator the same whenever it is asked for. There all
    questions with the same columns, cells_per_axis and epsilon lose epsilon together, and only the
    first is charged. The guarantee is computational: draws come from a secret of 32 bytes.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns that span the grid.
    cells_per_axis : int
        Into how many equal intervals each column's range is cut, at least 2.
    epsilon : number
        The privacy loss of all questions to this grid together, greater than 0.
    records : tuple of (float, ...)
        The new records to be scored, which are public: a value for each column.
    n_neighbors : int
        Which neighbor's distance is the score, at least 1.
    max_steps : int
        How many cells away from a record's own one its walk may go. All cells within this are
        drawn: 20,000 at most for one question.
    """

    name: ClassVar[str] = "interactive-grid"
    value_class: ClassVar[Any] = GridScores
    holds_rows: ClassVar[bool] = False
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How far are these records, by a grid too large to release?"
    goal: ClassVar[str] = "score"

    columns: tuple[str, ...]
    cells_per_axis: int
    epsilon: ExactNumber = ExactNumber(positive)
    records: tuple[tuple[float, ...], ...]
    n_neighbors: int = 5
    max_steps: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        whole_number(self.cells_per_axis, "cells_per_axis", 2, MOST_CELLS_PER_AXIS)
        object.__setattr__(self, "records", checked_records(self.records, len(self.columns)))
        whole_number(self.n_neighbors, "n_neighbors", 1, LARGEST_COUNT)
        whole_number(self.max_steps, "max_steps", 0, MOST_STEPS)
        around = cells_within(len(self.columns), self.max_steps)
        if around > MOST_ASKED:
            rule = f"must keep a walk over {len(self.columns)} columns within {MOST_ASKED} cells"
            raise InvalidParameter("max_steps", rule, self.max_steps, "Go less far.")
        self.guarantee()  # refuses an epsilon that is out of reach

    @property
    def state(self) -> str:
        return canonical_json(
            [self.name, SAMPLER, self.columns, self.cells_per_axis, str(self.epsilon)]
        )

    @property
    def count_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace.for_loss(self.epsilon, COUNT_SENSITIVITY)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.count_noise.loss(COUNT_SENSITIVITY), AddRemove())

    def preview(self, domain: Domain) -> Preview:
        return of_counts(self.count_noise, len(self.needed(domain)), "each cell's count")

    def check(self, domain: Domain) -> None:
        numeric_columns(domain, self.columns)
        within = len(self.records) * cells_within(len(self.columns), self.max_steps)
        asked = within if within > MOST_WALKED else len(self.needed(domain))
        if asked > MOST_ASKED:
            rule = f"must need at most {MOST_ASKED} cells in all"
            way_out = "Ask about fewer records at a time, or take fewer max_steps."
            raise InvalidParameter("records", rule, asked, way_out)

    def needed(self, domain: Domain) -> tuple[str, ...]:
        """The names of the cells it looks at, each once; public, whatever the rows."""
        names: dict[str, None] = {}
        for cells, _ in self._walks(domain):
            names |= dict.fromkeys(_names(cells))
        return tuple(names)

    def answer(self, table: Table, randomness: Randomness) -> Release[GridScores]:
        names, noise = self.needed(table.domain), self.count_noise
        counts = {
            name: int(noise.add_to(exact[None], randomness.stream(name))[0])
            for name, exact in zip(names, self.true_counts(table), strict=True)
        }
        return self.release(self._scores(table.domain, counts), randomness)

    def true_counts(self, table: Table) -> Ints:
        """The counts of these cells as they are. Private: they leave with noise only."""
        cells = [list(map(int, name.split(","))) for name in self.needed(table.domain)]
        keys = _keys(np.array(cells, np.int32))
        order = np.argsort(keys)
        counting = partial(_counts_at, self._grid(table.domain), keys[order])
        counts = np.empty(len(keys), np.int64)
        counts[order] = table.sums(self.columns, counting)
        return counts

    def work(self, domain: Domain, records: int) -> int:
        cells = len(self.records) * cells_within(len(self.columns), self.max_steps)
        return super().work(domain, records) + NANOSECONDS_A_CELL * min(cells, MOST_ASKED)

    def _scores(self, domain: Domain, counts: dict[str, int]) -> GridScores:
        """The scores, from noisy counts by name."""
        scored = []
        for cells, steps in self._walks(domain):
            around = np.array([counts[name] for name in _names(cells)], np.int64)
            scored.append(walk_scores(around, steps, self.n_neighbors))
        per_axis = self.cells_per_axis
        return GridScores(
            tuple(basic / per_axis for basic, _, _ in scored),
            tuple(weighted / per_axis for _, weighted, _ in scored),
            tuple((basic + share) / per_axis for basic, _, share in scored),
        )

    def sentence(self, value: GridScores) -> str:
        margin = self.count_noise.quantile(0.95)
        far = int(np.argmax(value.graded))
        numbers = ", ".join(f"{number:.10g}" for number in self.records[far])
        farthest = f"Of the {len(self.records)} records scored the farthest out is ({numbers})"
        if len(self.records) == 1:
            farthest = f"The record ({numbers}) was scored"
        return (
            f"{farthest}, at {value.graded[far]:.3g} of the ranges' length from its"
            f" {self.n_neighbors} nearest. Each cell count has a margin of ± {margin} (95 %"
            " confidence). Asking again repeats the same noise."
        )

    def table(self, value: GridScores) -> dict[str, list[Any]]:
        return of_records(self.columns, self.records, self.value_to_json(value))

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric()[:2]
        if not columns:
            return ()
        places = ((1, 2), (9, 10))  # the middle of the ranges, and near their upper end
        records = tuple(
            tuple(one.low + part / whole * (one.high - one.low) for one in columns)
            for part, whole in places
        )
        names = tuple(one.name for one in columns)
        return (cls(columns=names, cells_per_axis=10, epsilon="0.5", records=records),)

    def _grid(self, domain: Domain) -> Grid:
        return Grid(domain.numeric(self.columns), self.cells_per_axis)

    def _walks(self, domain: Domain) -> list[tuple[NDArray[np.int32], Ints]]:
        """Of each record the cells around it, nearest first, and how many steps each is away."""
        grid = self._grid(domain)
        offsets = self._offsets
        return [cells_around(grid, np.array(record), offsets) for record in self.records]

    @cached_property
    def _offsets(self) -> NDArray[np.int32]:
        return offsets_within(len(self.columns), self.cells_per_axis - 1, self.max_steps)


def _names(cells: NDArray[np.int32]) -> list[str]:
    """A cell by its position on each axis, such as "3,17"."""
    return [",".join(map(str, cell)) for cell in cells.tolist()]


def _keys(cells: NDArray[np.int32]) -> NDArray[np.bytes_]:
    """A cell as bytes that sort as cells do."""
    big_endian = np.ascontiguousarray(cells, dtype=">u4")
    return big_endian.view(f"S{4 * cells.shape[1]}")[:, 0]


def _counts_at(grid: Grid, keys: NDArray[np.bytes_], rows: NDArray[np.float64]) -> Ints:
    """How many rows lie in each of these cells, ascending keys."""
    own = _keys(grid.cells_of(rows))
    places = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    return np.bincount(places[keys[places] == own], minlength=len(keys))
