"""A noisy sketch that may be carried away: score new records against it, free and offline.

It says which of two records lies where fewer do, and names no score beyond which some share of the
reference lies: how far tables agree on which records stand out is not released. Whatever is
computed here looks at the released counts only, so none of it costs budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.data import Column
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee
from privod.query.checks import checked_truth
from privod.query.release_file import ArrayOf, check_counts, checked_promise
from privod.query.scorer import Scorable
from privod.query.scores import scored_points
from privod.questions.density_sketch.hashing import ROWS, Hashing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NoisySketch(Scorable):
    """Noisy counts of the bins of keyed tables.

    Guarantee
    ---------
    What `guarantee` says holds for all tables together, and for whatever is computed of them.

    Parameters
    ----------
    hashing : Hashing
        Which bins a record lies in; public.
    counts : array of int, shape (tables, bins)
        The noisy counts.
    noise : MergedNoise
        The noise of each count, public.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a sketch protects nobody.
    """

    question = "density-sketch"
    added = ("counts", "noise")

    hashing: Hashing
    counts: Ints
    noise: MergedNoise
    guarantee: Guarantee
    seeded: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.hashing.columns

    @property
    def total(self) -> int:
        """About how many records there are: the counts of every table add up to it."""
        return round(float(self.counts.sum()) / len(self.counts))

    def scores(self, records: ArrayLike) -> Floats:
        """Minus the log of the share of records near each new one; higher is more outlying.

        At every bandwidth that is the mean count of its bins, less what records that are not near
        add by chance [Coleman and Shrivastava 2020]; then the mean over the bandwidths.
        """
        asked = scored_points(records, len(self.hashing.columns))
        found = np.empty(len(asked))
        tables = np.arange(self.hashing.all_tables)
        for start in range(0, len(asked), ROWS):
            bins = self.hashing.bins_of(asked[start : start + ROWS])
            found[start : start + ROWS] = self._surprise(self.counts[tables, bins])
        return found

    def header(self) -> dict[str, Any]:
        """Which bins there are, and the noise of their counts."""
        return {"hashing": self.hashing.to_json(), "noise": self.noise.to_json()}

    def arrays(self) -> dict[str, Ints]:
        """The counts."""
        return {"counts": self.counts}

    @classmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
        """Build a sketch of parts that came from outside."""
        hashing = Hashing.from_json(header["hashing"])
        promise, noise = checked_promise(header, hashing.all_tables)
        counts = array("counts", "<i8", (hashing.all_tables, hashing.bins))
        check_counts(counts)
        return cls(hashing, counts, noise, promise, checked_truth(header["seeded"]))

    @cached_property
    def _records(self) -> float:
        return max(float(self.total), 1.0)

    def _surprise(self, counts: NDArray[Any]) -> Floats:
        """The score of records with these counts, one column a table."""
        records, bins, n_tables = self._records, self.hashing.bins, self.hashing.n_tables
        by_width = counts.reshape(len(counts), -1, n_tables).mean(axis=2)
        near = (by_width / records - 1 / bins) * bins / (bins - 1)
        least = max(self.noise.deviation / math.sqrt(n_tables), 0.5) / records
        return np.asarray(-np.log(np.maximum(near, least)).mean(axis=1))
