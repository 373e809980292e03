"""A noisy sketch that may be carried away: score new records against it, free and offline.

It says which of two records lies where fewer do, and names no score beyond which some share of the
reference lies: how far tables agree on which records stand out is not released. Whatever is
computed here looks at the released counts only, so none of it costs budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.errors import InvalidData
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee
from privod.privacy.guarantee import merged_promise
from privod.query.checks import checked_truth
from privod.query.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    checked_promise,
    signed,
    write_file,
)
from privod.query.scores import scored_points
from privod.questions.density_sketch.hashing import ROWS, Hashing

__all__ = ["NoisySketch"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KIND = "sketch"


@dataclass(frozen=True, eq=False)
class NoisySketch:
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

    hashing: Hashing
    counts: Ints
    noise: MergedNoise
    guarantee: Guarantee
    seeded: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisySketch) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        """About how many records there are: the counts of every table add up to it."""
        return round(float(self.counts.sum()) / len(self.counts))

    def scores(self, points: ArrayLike) -> Floats:
        """Minus the log of the share of records near each new one; higher is more outlying.

        At every bandwidth that is the mean count of its bins, less what records that are not near
        add by chance [Coleman and Shrivastava 2020]; then the mean over the bandwidths.
        """
        asked = scored_points(points, len(self.hashing.columns))
        found = np.empty(len(asked))
        tables = np.arange(self.hashing.all_tables)
        for start in range(0, len(asked), ROWS):
            bins = self.hashing.bins_of(asked[start : start + ROWS])
            found[start : start + ROWS] = self._surprise(self.counts[tables, bins])
        return found

    def merge(self, *others: NoisySketch) -> NoisySketch:
        """Add up the sketches of disjoint records, of other holders or other batches; free."""
        parts = (self, *others)
        for part in others:
            if not isinstance(part, NoisySketch) or part._shape != self._shape:
                raise InvalidData(
                    "Sketches add up only with the same columns, tables, key and adjacency."
                    " Ask for them alike."
                )
        noise = self.noise
        for part in others:
            noise = noise + part.noise
        return replace(
            self,
            counts=np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64),
            noise=noise,
            guarantee=merged_promise([part.guarantee for part in parts]),
            seeded=any(part.seeded for part in parts),
        )

    @property
    def _shape(self) -> tuple[object, ...]:
        return self.hashing, self.guarantee.adjacency

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {**signed(KIND), **self._header(), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, data: Any) -> NoisySketch:
        """Read back what `to_json` wrote."""
        return build_from_json(data, KIND, cls._built)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and a plain array, no pickle."""
        write_file(path, KIND, self._header(), {"counts": self.counts})

    @classmethod
    def load(cls, path: str | Path) -> NoisySketch:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, KIND, cls._built)

    def _header(self) -> dict[str, Any]:
        return {
            "hashing": self.hashing.to_json(),
            "guarantee": self.guarantee.to_json(),
            "noise": self.noise.to_json(),
            "seeded": self.seeded,
        }

    @classmethod
    def _built(cls, header: dict[str, Any], array: ArrayOf) -> NoisySketch:
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
