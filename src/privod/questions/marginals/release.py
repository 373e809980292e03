"""Noisy histograms that may be carried away: score new records against them, free and offline.

How the release's own records score was counted with noise, and the threshold follows these
counts. Whatever is computed here looks at the released counts only, so none of it costs
budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privod.data import Numeric
from privod.errors import InvalidData
from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.grid import Grid
from privod.privacy import Guarantee
from privod.query.checks import checked_truth, one_of
from privod.query.count_query import NoisyTotal
from privod.query.denoising import expected_counts
from privod.query.laws import Law, law_of
from privod.query.release_file import ArrayOf, check_counts, checked_columns, checked_promise
from privod.query.score_counts import FAR_EDGES, ScoreCounts
from privod.query.scorer import Scorable, Scorer
from privod.query.scores import check_fraction, limit, scored_points

__all__ = ["TABLES", "MarginalScorer", "NoisyMarginals", "ScoreName"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ScoreName = Literal["density", "tail"]
TABLES = {"density": slice(0, 1), "tail": slice(1, 4)}  # of which a score is the largest sum
MOST_RECORDS = 5000  # put together for a threshold: a share of a hundredth is met to a seventh
FEWEST_RECORDS = 2000
MOST_DRAWN = 20_000_000  # values of them


@dataclass(frozen=True, eq=False)
class NoisyMarginals(Scorable):
    """Noisy histograms of single columns, one row of counts for each.

    Guarantee
    ---------
    What `guarantee` says holds for all histograms together, and for whatever is computed of them.

    Parameters
    ----------
    numeric : tuple of Numeric
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

    question = "marginals"
    added = ("counts", "noise", "records", "scored")

    numeric: tuple[Numeric, ...]
    counts: Ints
    noise: MergedNoise
    guarantee: Guarantee
    seeded: bool
    records: NoisyTotal | None = None
    scored: ScoreCounts | None = None
    score_by: ScoreName = "density"

    @property
    def columns(self) -> tuple[Numeric, ...]:
        return self.numeric

    @property
    def grid(self) -> Grid:
        """The bins of all columns."""
        return Grid(self.numeric, self.counts.shape[1])

    @property
    def total(self) -> int:
        """About how many records there are: by the counts of all columns, which add up to it."""
        return round(float(self.counts.sum()) / len(self.counts))

    def scorer(self, **settings: Any) -> MarginalScorer:
        """Score records by one of the two scores: score_by, "density" or "tail"."""
        return MarginalScorer.chosen(self, {"score_by": self.score_by, **settings})

    def scores(self, records: ArrayLike) -> Floats:
        """The scores of records with the usual settings."""
        return self.scorer().scores(records)

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies, with these."""
        return self.scorer().threshold(share)

    def scores_by(self, name: ScoreName, rows: Floats) -> Floats:
        """One of the two scores of rows that were checked before; clipped to the ranges."""
        return np.asarray(self.grid.sums(self._tables[TABLES[name]], rows).max(axis=0))

    def ready(self) -> NoisyMarginals:
        """The same, with what all scores need computed once, before copies of it go elsewhere."""
        self._tables, self._law  # noqa: B018 - kept from here on
        return self

    @property
    def score_edges(self) -> Floats:
        """Where the bins of scores begin: where ever smaller shares of independent values lie."""
        return self._law.scores_of(FAR_EDGES)

    def limit(self, name: ScoreName, share: float) -> float:
        """The score beyond which about this share of the reference lies, by the release alone.

        For the score that records were counted by, from these counts, where they show anything. The
        other one, and both where they do not, take the columns as independent: of columns that go
        together several times as many may lie beyond. Free.
        """
        check_fraction(share)
        if name == self.score_by and self.scored is not None and self.shows_scores:
            surprise = self.scored.limit(share, self._about)
            return float(self._law.scores_of(np.array([surprise]))[0])
        drawn = self._put_together(name)
        return float(limit(drawn, np.ones(len(drawn)), share)[0])

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

    def header(self) -> dict[str, Any]:
        """The columns, and the noise of everything."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "noise": self.noise.to_json(),
            **({} if self.records is None else {"records": self.records.to_json()}),
            **({} if self.scored is None else {"scored": self.scored.to_json()}),
            "score_by": self.score_by,
        }

    def arrays(self) -> dict[str, Ints]:
        """The counts of all columns."""
        return {"counts": self.counts}

    @classmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
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


@dataclass(frozen=True, eq=False)
class MarginalScorer(Scorer[NoisyMarginals]):
    """Scores records by how rare their values are, column by column.

    Outside the ranges a record is scored at their border, plus how far outside it lies, in whole
    bins.

    Parameters
    ----------
    score_by : {"density", "tail"}
        How empty the bins are that the record falls into [HBOS], or how few records lie farther
        out [ECOD].
    """

    score_by: ScoreName

    def __post_init__(self) -> None:
        one_of(self.score_by, "score_by", TABLES)

    def scores(self, records: ArrayLike) -> Floats:
        """The score of each record."""
        asked = scored_points(records, len(self.columns))
        return self.value.scores_by(self.score_by, asked) + self.value.grid.cells_outside(asked)

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies."""
        return self.value.limit(self.score_by, share)

    @property
    def hidden_share(self) -> float:
        """Which share noise may hide; all of it for the score that was not counted."""
        return self.value.hidden_share if self.score_by == self.value.score_by else 1.0

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares score higher; unknown for the score that was not counted."""
        counted = self.score_by == self.value.score_by
        return self.value.share_beyond(score, confidence) if counted else None


@lru_cache(maxsize=128)
def _shuffled(size: int, column: int) -> Ints:
    """An order that looks random, another one for every column; no promise rests on it."""
    return np.argsort(seeded(column).words(size))
