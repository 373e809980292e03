"""Noisy histograms that may be carried away: score new records against them, free and offline.

How the release's own records score was counted with noise, and the threshold follows these
counts. Whatever is computed here looks at the released counts only, so none of it costs
budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.data import Numeric
from privod.errors import InvalidData
from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid
from privod.privacy import Guarantee
from privod.privacy.guarantee import merged_promise
from privod.query.checks import checked_truth
from privod.query.count_query import NoisyTotal
from privod.query.denoising import expected_counts
from privod.query.laws import Law, law_of
from privod.query.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    checked_columns,
    checked_promise,
    signed,
    write_file,
)
from privod.query.score_counts import FAR_EDGES, ScoreCounts
from privod.query.scores import check_fraction, limit, scored_points

__all__ = ["TABLES", "MarginalScores", "NoisyMarginals", "ScoreName"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ScoreName = Literal["density", "tail"]
TABLES = {"density": slice(0, 1), "tail": slice(1, 4)}  # of which a score is the largest sum
KIND = "marginals"
MOST_RECORDS = 5000  # put together for a threshold: a share of a hundredth is met to a seventh
FEWEST_RECORDS = 2000
MOST_DRAWN = 20_000_000  # values of them


class MarginalScores(NamedTuple):
    """Two scores; higher is more outlying."""

    density: Floats
    """How empty the bins are that the record falls into, column by column [HBOS]."""

    tail: Floats
    """How few records lie farther out, column by column [ECOD]."""


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """Noisy histograms of single columns, one row of counts for each.

    Guarantee
    ---------
    What `guarantee` says holds for all histograms together, and for whatever is computed of them.

    Parameters
    ----------
    columns : tuple of Numeric
        The columns with their ranges.
    counts : array of int, shape (columns, bins)
        The noisy counts.
    noise : MergedNoise
        The noise of each count, public: counts below its scale say nothing.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such histograms protect nobody.
    records : NoisyTotal, optional
        How many records there are, where that was bought.
    scored : ScoreCounts, optional
        How many records have which score, with noise; None where several parties counted
        together.
    score_by : str
        Which score these are counted by: density or tail.
    """

    columns: tuple[Numeric, ...]
    counts: Ints
    noise: MergedNoise
    guarantee: Guarantee
    seeded: bool
    records: NoisyTotal | None = None
    scored: ScoreCounts | None = None
    score_by: ScoreName = "density"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyMarginals) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        """About how many records there are: by the counts of all columns, which add up to it."""
        return round(float(self.counts.sum()) / len(self.counts))

    def scores(self, points: ArrayLike) -> MarginalScores:
        """Score new records, with the columns in order; what lies outside a range is clipped."""
        asked = scored_points(points, len(self.columns))
        density, *tails = Grid(self.columns, self.counts.shape[1]).sums(self._tables, asked)
        return MarginalScores(density, np.maximum.reduce(tails))

    def own_scores(self, rows: Floats) -> Floats:
        """The score that records were counted by, of rows that were read and checked before."""
        tables = self._tables[TABLES[self.score_by]]
        sums = Grid(self.columns, self.counts.shape[1]).sums(tables, rows)
        return np.asarray(sums.max(axis=0))

    def ready(self) -> NoisyMarginals:
        """The same, with what all scores need computed once, before copies of it go elsewhere."""
        self._tables, self._law  # noqa: B018 - kept from here on
        return self

    @property
    def score_edges(self) -> Floats:
        """Where the bins of scores begin: where ever smaller shares of independent values lie."""
        return self._law.scores_of(FAR_EDGES)

    def threshold(self, target_fraction: float) -> MarginalScores:
        """The scores beyond which about this share of the reference lies, by the release alone.

        For the score that records were counted by, from these counts, where they show anything. The
        other one, and both where they do not, take the columns as independent: of columns that go
        together several times as many may lie beyond. Free.
        """
        check_fraction(target_fraction)
        limits: dict[str, Floats] = {}
        for name in TABLES:
            if name == self.score_by and self.scored is not None and self.shows_scores:
                surprise = self.scored.limit(target_fraction, self._about)
                limits[name] = self._law.scores_of(np.array([surprise]))
            else:
                drawn = self._put_together(name)
                limits[name] = limit(drawn, np.ones(len(drawn)), target_fraction)
        return MarginalScores(**limits)

    @property
    def shows_scores(self) -> bool:
        """Whether the counts of the records' own scores show anything."""
        return self.scored is not None and self.scored.show(self._about)

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess."""
        return 1.0 if self.scored is None else self.scored.hidden_share(self._about)

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares of the reference score higher, noise considered; None if unknown.

        By the score that records were counted by. Unknown for merged histograms, whose parts
        scored by themselves.
        """
        if self.scored is None:
            return None
        return self.scored.shares_beyond(score, self.score_edges, confidence)

    @property
    def _about(self) -> float:
        return max(float(self.total), 1.0)

    def _put_together(self, name: str) -> Floats:
        """Scores of records put together of values drawn column by column, and independent so."""
        size = int(np.clip(MOST_DRAWN // len(self.columns), FEWEST_RECORDS, MOST_RECORDS))
        places = (np.arange(size) + 0.5) / size
        tables = self._tables[TABLES[name]]
        sums = np.zeros((len(tables), size))
        weights = expected_counts(self.counts, self.noise) + math.ulp(1.0)  # never nothing
        for column, table in enumerate(tables.swapaxes(0, 1)):
            upto = weights[column].cumsum()
            drawn = np.searchsorted(upto, places * upto[-1])
            sums += table[:, drawn[_shuffled(size, column)]]
        return np.asarray(sums.max(axis=0))

    @cached_property
    def _law(self) -> Law:
        """How the score is distributed that records were counted by, if columns are independent."""
        return law_of(self._put_together(self.score_by))

    def merge(self, *others: NoisyMarginals) -> NoisyMarginals:
        """Add up the histograms of disjoint records, of other holders or other batches; free."""
        parts = (self, *others)
        for part in others:
            if not isinstance(part, NoisyMarginals) or part._shape != self._shape:
                raise InvalidData(
                    "Histograms add up only with the same columns, ranges, bins, adjacency and"
                    " score. Ask for them alike."
                )
        promise = merged_promise([part.guarantee for part in parts])
        counts = np.stack([part.counts for part in parts]).sum(axis=0, dtype=np.int64)
        marked = any(part.seeded for part in parts)
        noise, records, scored = self.noise, self.records, self.scored
        for part in others:
            noise = noise + part.noise
            if records is not None:
                records = None if part.records is None else records + part.records
            if scored is not None:
                scored = None if part.scored is None else scored + part.scored
        return replace(
            self,
            counts=counts,
            guarantee=promise,
            noise=noise,
            seeded=marked,
            records=records,
            scored=scored,
        )

    @property
    def _shape(self) -> tuple[object, ...]:
        """What histograms must have in common to add up."""
        return self.columns, self.counts.shape, self.guarantee.adjacency, self.score_by

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {**signed(KIND), **self._header(), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisyMarginals:
        """Read back what `to_json` wrote."""
        return build_from_json(data, KIND, cls._built)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and a plain array, no pickle."""
        write_file(path, KIND, self._header(), {"counts": self.counts})

    @classmethod
    def load(cls, path: str | Path) -> NoisyMarginals:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, KIND, cls._built)

    def _header(self) -> dict[str, Any]:
        return {
            "columns": [column.to_json() for column in self.columns],
            "guarantee": self.guarantee.to_json(),
            "noise": self.noise.to_json(),
            "seeded": self.seeded,
            **({} if self.records is None else {"records": self.records.to_json()}),
            **({} if self.scored is None else {"scored": self.scored.to_json()}),
            "score_by": self.score_by,
        }

    @classmethod
    def _built(cls, header: dict[str, Any], array: ArrayOf) -> NoisyMarginals:
        """Build histograms of parts that came from outside."""
        columns = checked_columns(header["columns"])
        given = header.get("records")
        records = None if given is None else NoisyTotal.from_json(given)
        of_total = None if records is None else records.noise
        given = header.get("scored")
        scored = None if given is None else ScoreCounts.from_json(given)
        of_scores = None if scored is None else scored.noise
        promise, noise = checked_promise(header, len(columns), of_total, of_scores)
        counts = array("counts", "<i8", (len(columns), None))
        if counts.shape[1] < 2:
            raise InvalidData("A histogram must have at least two bins.")
        check_counts(counts)
        marked = checked_truth(header["seeded"])
        score_by = header["score_by"]
        if score_by not in TABLES:
            raise InvalidData("Records are counted by density or by tail.")
        return cls(columns, counts, noise, promise, marked, records, scored, score_by)

    @cached_property
    def _tables(self) -> Floats:
        """What each bin of each column adds to the four sums."""
        return np.stack([self._surprises, self._lefts, self._rights, self._skewed])

    @property
    def _floored(self) -> Floats:
        """The counts, none below the noise's scale: what is smaller cannot be told from nothing."""
        return np.maximum(self.counts.astype(np.float64), max(self.noise.scale, 0.5))

    @property
    def _surprises(self) -> Floats:
        floored = self._floored
        return np.asarray(np.log(floored.sum(axis=1, keepdims=True) / floored), dtype=np.float64)

    @property
    def _below(self) -> Floats:
        """The share of records up to the middle of each bin, never falling along a column."""
        floored = self._floored
        upto = floored.cumsum(axis=1)
        return np.asarray((upto - floored / 2) / upto[:, -1:], dtype=np.float64)

    @property
    def _lefts(self) -> Floats:
        return -np.log(self._below)

    @property
    def _rights(self) -> Floats:
        return -np.log1p(-self._below)

    @property
    def _skewed(self) -> Floats:
        """The tail on the side that the column leans to."""
        shares = self._floored / self._floored.sum(axis=1, keepdims=True)
        places = np.arange(self.counts.shape[1], dtype=np.float64)
        offsets = places - (shares * places).sum(axis=1, keepdims=True)
        leans_right = (shares * offsets**3).sum(axis=1, keepdims=True) > 0
        return np.where(leans_right, self._rights, self._lefts)


@lru_cache(maxsize=128)
def _shuffled(size: int, column: int) -> Ints:
    """An order that looks random, another one for every column; no promise rests on it."""
    return np.argsort(seeded(column).words(size))
