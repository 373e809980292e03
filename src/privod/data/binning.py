"""Which bin does a value lie in? One rule for every question that counts.

Two rules that agree almost everywhere disagree one float from a border, and then a histogram and a
grid of the same column count different records in the same bin. The rule is the one that the
grid's compiled loops follow: a difference, one multiplication, the whole part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints

NOWHERE = -1


class Binning(Protocol):
    """A public rule that gives every value of a column one of `size` bins, or none."""

    @property
    def size(self) -> int:
        """How many bins there are."""

    def places(self, values: NDArray[np.generic]) -> Ints:
        """The bin of each value, -1 for a value that is counted nowhere."""


@dataclass(frozen=True)
class Equal:
    """Bins of one width between two ends, both of which belong to them; none outside."""

    low: float
    high: float
    bins: int

    @property
    def size(self) -> int:
        return self.bins

    @property
    def scale(self) -> float:
        """Bins to a unit; infinite where the ends are too close to be told apart by it."""
        width = self.high - self.low
        return self.bins / width if width > 0 else math.inf

    def places(self, values: NDArray[np.generic]) -> Ints:
        """The bin of each value; a value at the upper end lies in the last one."""
        numbers = np.asarray(values, np.float64)
        if not math.isfinite(self.scale):
            return np.full(numbers.shape, NOWHERE)
        inside = (numbers >= self.low) & (numbers <= self.high)
        along = np.where(inside, numbers - self.low, 0.0) * self.scale
        places = np.minimum(along, self.bins - 1).astype(np.int64)
        places[~inside] = NOWHERE
        return places


@dataclass(frozen=True)
class Octaves:
    """Bins by magnitude, each half as large as the one before; zero has none.

    The first holds all from 2^(top - 1) on, the last all that are smaller than its own.
    """

    top: int
    octaves: int

    @property
    def size(self) -> int:
        return self.octaves

    def places(self, values: NDArray[np.generic]) -> Ints:
        """The bin of each value, exactly: a float holds its exponent."""
        numbers = np.asarray(values, np.float64)
        octaves = np.clip(self.top - np.frexp(numbers)[1].astype(np.int64), 0, self.octaves - 1)
        return np.where(numbers == 0, NOWHERE, octaves)


@dataclass(frozen=True)
class Codes:
    """A bin for each declared value of a categorical column."""

    size: int

    def places(self, values: NDArray[np.generic]) -> Ints:
        return np.asarray(values, np.int64)


@dataclass(frozen=True)
class Ranks:
    """A bin for each value of an ordered column."""

    size: int

    def places(self, values: NDArray[np.generic]) -> Ints:
        """The ranks themselves, which are whole numbers."""
        return np.asarray(values).astype(np.int64)


@dataclass(frozen=True)
class Edges:
    """Bins between increasing edges; each holds its lower edge, the last its upper one too."""

    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def places(self, values: NDArray[np.generic]) -> Ints:
        numbers = np.asarray(values, np.float64)
        inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        found = np.searchsorted(self.edges, numbers, side="right") - 1
        return np.where(inside, np.minimum(found, self.size - 1), NOWHERE)


@dataclass(frozen=True)
class WithGaps:
    """Bins of stored numbers, and behind them bins for missing, below and above.

    There is one behind them, for missing, where nothing lies outside.
    """

    inner: Binning
    more: int

    @property
    def size(self) -> int:
        return self.inner.size + self.more

    def places(self, values: NDArray[np.generic]) -> Ints:
        numbers = np.asarray(values, np.float64)
        known = np.isfinite(numbers)
        found = self.inner.places(np.where(known, numbers, 0.0))
        behind = np.where(np.isnan(numbers), 0, np.where(numbers < 0, 1, 2))
        return np.where(known, found, self.inner.size + behind)


@dataclass(frozen=True)
class GapCodes(Codes):
    """Bins of stored codes, the last one for what is missing."""

    def places(self, values: NDArray[np.generic]) -> Ints:
        """The codes themselves, the last bin where there is none."""
        codes = np.asarray(values, np.int64)
        return np.where(codes < 0, self.size - 1, codes)
