"""The sizes of the engine's program, all public, and what a run of it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

ENGINE = "0.9.5"  # of SPU: everybody runs this one
MISSED = 10**4  # one in so many outliers at most is no candidate

# Measured by benchmarks/exact_runs.py, forwarding included; seconds are of all three parties.
START_SECONDS = 4.0
PAIR_SECONDS, PAIR_BYTES = 9e-6, 55.0
SORT_SECONDS, SORT_BYTES = 2e-4, 700.0  # of a word
SORT_WORDS = 8  # of a row besides its columns


@dataclass(frozen=True)
class Program:
    """What every computing party compiles.

    `widths` are the largest integers of the columns. All rows are first counted against a `sample`,
    none if it is 0. The `candidates` with the fewest neighbors there are then counted exactly; up
    to the sample count `fewest` a row may be an outlier. `most_outliers` is the answer cap.
    """

    rows: int
    widths: tuple[int, ...]
    squared_radius: int
    max_crowd: int
    sample: int
    candidates: int
    fewest: int
    most_outliers: int

    @property
    def pairs(self) -> int:
        """How many numbers are compared: distances with the radius, values with their range."""
        return self.rows * (self.sample + self.candidates + 2 * len(self.widths))

    def bytes_sent(self) -> float:
        """About how many bytes each computing party sends."""
        return PAIR_BYTES * self.pairs + SORT_BYTES * self._sorted()

    def core_seconds(self) -> float:
        """About how many seconds of one core all three computing parties need together."""
        return START_SECONDS + PAIR_SECONDS * self.pairs + SORT_SECONDS * self._sorted()

    def _sorted(self) -> int:
        """How many words are sorted: counts with all columns, and verdicts back into order."""
        return self.rows * (len(self.widths) + SORT_WORDS) if self.sample else 0


def sample_count(rows: int, crowd: int, sample: int) -> int:
    """Return the sample count that a record in such a crowd exceeds once in `MISSED` at most.

    The crowd's records in the sample are hypergeometric. Integers, so that all parties agree.
    """
    total = math.comb(rows, sample)
    count = max(0, sample - (rows - crowd))
    term = math.comb(crowd, count) * math.comb(rows - crowd, sample - count)
    below = term
    while MISSED * (total - below) > total:
        term = term * (crowd - count) * (sample - count)
        term //= (count + 1) * (rows - crowd - sample + count + 1)
        count += 1
        below += term
    return count
