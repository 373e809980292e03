"""In which bin of every table does a record lie? By a public key and declared ranges alone.

A fold: counts of disjoint rows add up, whoever holds them.

Columns are scaled to [0, 1] by their ranges. A table projects a record onto a few random
directions, cuts each projection into intervals of the table's bandwidth, and hashes the intervals
together into one of its bins [Datar 2004; Coleman and Shrivastava 2020]. Near records mostly share
bins, far ones hardly ever. Nothing here depends on any row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privod.data import Numeric
from privod.data.folding import Block
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import seeded
from privod.query.checks import whole_number
from privod.query.release_file import checked_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS = 1 << 14  # hashed at a time, at most ...
VALUES = 1 << 22  # ... and hashes of them
FARTHEST = 2.0**40  # intervals from zero past which farther makes no difference
MOST_KEY = 2**32 - 1
MOST_TABLES = 10_000  # with all bandwidths
MOST_BINS = 1 << 20
MOST_COUNTS = 1 << 24
MOST_HASHES = 64
LEAST_WIDTH, MOST_WIDTH = 1e-6, 1e6


@dataclass(frozen=True)
class Hashing:
    """Keyed bins of records, for several bandwidths.

    Parameters
    ----------
    columns : tuple of Numeric
        As declared.
    n_tables : int
        Tables for each bandwidth.
    bandwidths : tuple of float
        Lengths of intervals, in shares of the diagonal of the ranges.
    hashes_per_table : int
        Directions that a table projects onto.
    bins : int
        Of each table, a power of two.
    key : int
        Which directions; public.
    """

    columns: tuple[Numeric, ...]
    n_tables: int
    bandwidths: tuple[float, ...]
    hashes_per_table: int
    bins: int
    key: int

    def __post_init__(self) -> None:
        whole_number(self.n_tables, "n_tables", at_least=1, at_most=MOST_TABLES)
        whole_number(self.hashes_per_table, "hashes_per_table", at_least=1, at_most=MOST_HASHES)
        whole_number(self.bins, "bins", at_least=2, at_most=MOST_BINS)
        whole_number(self.key, "key", at_least=0, at_most=MOST_KEY)
        if self.bins & (self.bins - 1):
            raise InvalidParameter("bins", "must be a power of two", self.bins, "Try 256.")
        if not all(LEAST_WIDTH <= width <= MOST_WIDTH for width in self.bandwidths):
            raise InvalidData("The bandwidths are none that are asked for.")
        if self.all_tables > MOST_TABLES or self.all_tables * self.bins > MOST_COUNTS:
            rule = f"must make at most {MOST_TABLES} tables and {MOST_COUNTS} counts in all"
            raise InvalidParameter("n_tables", rule, self.all_tables, "Try 10.")

    @property
    def all_tables(self) -> int:
        """Tables of all bandwidths: a record lies in one bin of each."""
        return self.n_tables * len(self.bandwidths)

    @property
    def rows_at_once(self) -> int:
        """How many rows are hashed at a time: fewer where there are many hashes."""
        return max(1, min(ROWS, VALUES // (self.all_tables * self.hashes_per_table)))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of a block of rows."""
        return tuple(column.name for column in self.columns)

    @property
    def codes(self) -> tuple[str, ...]:
        """No categories."""
        return ()

    def start(self) -> Ints:
        """All bins of all tables empty."""
        return np.zeros((self.all_tables, self.bins), dtype=np.int64)

    def add(self, state: Ints, block: Block) -> Ints:
        """Count each record in its bin of every table."""
        rows = self.rows_at_once
        for start in range(0, len(block), rows):
            for table, places in enumerate(self.bins_of(block.numbers[start : start + rows]).T):
                state[table] += np.bincount(places, minlength=self.bins)
        return state

    def merge(self, left: Ints, right: Ints) -> Ints:
        """Add bin by bin."""
        left += right
        return left

    def bins_of(self, rows: Floats) -> Ints:
        """The bin of each record in each table, shape (records, tables)."""
        directions, offsets, mixers = _drawn(
            len(self.columns), self.n_tables, self.bandwidths, self.hashes_per_table, self.key
        )
        lows = np.array([column.low for column in self.columns])
        spans = np.array([column.high - column.low for column in self.columns])
        with np.errstate(over="ignore"):  # what is too far for a float is cut below
            scaled = np.clip((rows - lows) / spans, -FARTHEST, FARTHEST)
        # Axis by axis, not as a product of matrices: how that rounds a row may hang on how many
        # rows there are beside it, and one record must never change how another is read.
        steps = np.tile(offsets, (len(rows), 1))
        for axis, along in enumerate(directions):
            steps += scaled[:, axis, None] * along
        np.floor(steps, out=steps)
        np.clip(steps, -FARTHEST, FARTHEST, out=steps)
        whole = steps.astype(np.int64).view(np.uint64).reshape(len(rows), self.all_tables, -1)
        mixed = (whole * mixers[:, :-1]).sum(axis=2, dtype=np.uint64) * mixers[:, -1]
        places: Ints = (mixed >> np.uint64(65 - self.bins.bit_length())).astype(np.int64)
        return places

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        columns = [column.to_json() for column in self.columns]
        return {**plain, "columns": columns, "bandwidths": list(self.bandwidths)}

    @classmethod
    def from_json(cls, data: Any) -> Hashing:
        """Read back what `to_json` wrote; it may come from anywhere."""
        given = {name: data[name] for name in cls.__dataclass_fields__}
        given["columns"] = checked_columns(data["columns"])
        given["bandwidths"] = tuple(map(float, data["bandwidths"]))
        if len(data) != len(given):
            raise InvalidData("The tables are described by other values.")
        return cls(**given)


@lru_cache(maxsize=8)
def _drawn(
    n_axes: int, n_tables: int, bandwidths: tuple[float, ...], hashes_per_table: int, key: int
) -> tuple[Floats, Floats, NDArray[np.uint64]]:
    """Directions in intervals, offsets within them, and odd numbers that mix intervals."""
    all_tables = n_tables * len(bandwidths)
    hashes = all_tables * hashes_per_table
    source = seeded(key)  # public: no promise rests on it
    words = source.words(n_axes * hashes + hashes) >> np.uint64(11)
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-53
    widths = np.repeat(bandwidths, n_tables * hashes_per_table)
    normal = ndtri(uniform[hashes:]).reshape(n_axes, hashes)
    mixers = source.words(all_tables * (hashes_per_table + 1)) | np.uint64(1)
    directions = normal / (widths * math.sqrt(n_axes))
    return directions, uniform[:hashes], mixers.reshape(all_tables, hashes_per_table + 1)
