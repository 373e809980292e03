"""A profile that may be carried away: score new records against it and explain their scores, free.

Two scores: how rare the record's cells are (`rarity`) and, where products were released, how far it
is along the components of the correlations (`components`). Each is minus the log of the
share of records drawn from the release that score as high; their mean is the score. Counts that
drown in noise are drawn toward what is usual (`shares`). Only released numbers are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from privod.arrays import Floats, Ints
from privod.data import Categorical, Column
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.merged import MergedNoise
from privod.outliers.grid.kernels.profile import score_rows
from privod.privacy import Guarantee, exact
from privod.query.checks import checked_truth
from privod.query.laws import Law, law_of, uniform_draws
from privod.query.moments import FARTHEST as FARTHEST_SCALES
from privod.query.release_file import ArrayOf, check_counts
from privod.query.score_counts import (
    EDGES,
    TOLD_SHARE,
    Tails,
    believed_tails,
    hidden_records,
    limit,
    shares_beyond,
)
from privod.query.scorer import Explanation, Scorable
from privod.query.scores import check_fraction, filled
from privod.questions.detector_profile.components import STEPS, Components
from privod.questions.detector_profile.health import Health, health_of
from privod.questions.detector_profile.layout import Layout
from privod.questions.detector_profile.promise import Noises
from privod.questions.detector_profile.ranges import Spread, spread_of
from privod.questions.detector_profile.rarity import FARTHEST, OUTSIDE, Rarity
from privod.questions.detector_profile.rarity import STEPS as OUTSIDE_STEPS
from privod.questions.detector_profile.shares import LEAST_SHAPE, Shares, believed_shares

NONE: Ints = np.zeros(0, dtype=np.int64)
NOISES = ("noise_of_total", "noise_of_counts", "noise_of_products", "noise_of_scores")
FEWEST_RECORDS = 10.0  # taken to be there, however low noise makes their number
DRAWN = 4001  # records drawn from the release to learn the laws of its scores
MOST_DRAWN = 1 << 22  # values
OUTER = 0.25  # of the records: values among the lowest are called low, among the highest high


@dataclass(frozen=True, eq=False)
class NoisyProfile(Scorable):
    """Noisy histograms of all columns and noisy sums of products of the numeric ones.

    Guarantee
    ---------
    What `guarantee` says holds for all of it together, and for whatever is computed of it.

    Parameters
    ----------
    layout : Layout
        The cells, public.
    total : int
        The noisy number of records.
    counts : array of int
        The noisy counts of all cells, column after column.
    products : array of int
        The noisy sums of products, upper triangle; empty where they were not worth their noise.
    scored : array of int
        The noisy counts of the records by their scores (`EDGES`); empty where they would
        have shown nothing. In a merge each part's records have the scores of that part.
    noise_of_total, noise_of_counts, noise_of_products, noise_of_scores : MergedNoise
        The noise of each, public; None for products or scores that were not bought.
    search_loss : Fraction
        What finding the ranges and the unit of scores cost, epsilon or rho of Gaussian noise: part
        of the guarantee.
    shown : tuple of bool
        Of each numeric column, whether its range was declared or shown by its own counts; empty for
        a release over cells that were given.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a profile protects nobody.
    """

    question = "detector-profile"
    added = ("total", "counts", "products", "scored", *NOISES)

    layout: Layout
    total: int
    counts: Ints
    products: Ints
    scored: Ints
    noise_of_total: MergedNoise
    noise_of_counts: MergedNoise
    noise_of_products: MergedNoise | None
    noise_of_scores: MergedNoise | None
    search_loss: Fraction
    shown: tuple[bool, ...]
    guarantee: Guarantee
    seeded: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.layout.columns

    @property
    def takes_gaps(self) -> bool:
        """Whether records of the reference might miss a value."""
        return self.layout.gaps

    @property
    def noise(self) -> MergedNoise:
        """The noise of the counts: a draw for every batch."""
        return self.noise_of_counts

    @cached_property
    def records(self) -> float:
        """About how many records there are, by all that was released; at least a few.

        Every column's counts add up to the number of records, too: the mean of these sums and of
        the bought number, each weighed by how little it varies.
        """
        per_column = self.counts.sum() / len(self.columns)
        varies = len(self.counts) / len(self.columns) ** 2 * self.noise_of_counts.deviation**2
        weight = varies / (varies + self.noise_of_total.deviation**2) if varies > 0 else 0.0
        return float(max(weight * self.total + (1 - weight) * per_column, FEWEST_RECORDS))

    def scores(self, records: ArrayLike) -> Floats:
        """Score records: columns in order, categories as places in their lists, NaN missing.

        What a column declares as its fill stands in for what is missing there.
        Minus the log of about the share of records that are as far from ordinary.
        """
        return self.scores_of(self._asked(records))

    def scores_of(self, rows: Floats) -> Floats:
        """The same of rows that were checked before; each by itself."""
        return self._scores(self.layout.reading(rows))

    def ready(self) -> NoisyProfile:
        """The same, with what all scores need computed once, before copies of it go elsewhere."""
        self._compiled  # noqa: B018 - kept from here on
        return self

    def explain(self, records: ArrayLike) -> Explanation:
        """What each column adds to the score of each record."""
        asked = self._asked(records)
        rarity, distance = self._laws
        read = self.layout.reading(asked)
        own = self._rarity.by_column(read)
        shares = own * _ratio(rarity.surprise(own.sum(axis=1)), own.sum(axis=1))
        if distance is not None and self._components is not None:
            apart = self._components.by_column(read)
            sums = apart.sum(axis=1)
            shares /= 2
            shares[:, self.layout.numeric] += apart * _ratio(distance.surprise(sums), sums) / 2
        return Explanation(self.layout.columns, shares, asked, self._sides(read))

    def health(self, share: float = TOLD_SHARE) -> Health:
        """What the release says about itself; `share` of the records a threshold is to flag."""
        check_fraction(share)
        return health_of(self, share)

    def _scores(self, read: Floats) -> Floats:
        found = np.empty(len(read))
        arrays: tuple[Any, ...] = (read, *self._compiled, found)
        score_rows(*arrays)
        return found

    def _sides(self, read: Floats) -> Ints:
        """Where values lie among the counts of their column: 1 high, -1 low, 0 neither.

        In the upper or the lower quarter; categories and missing values are neither.
        """
        found = np.zeros(read.shape, dtype=np.int64)
        numeric = self.layout.numeric
        if not numeric:
            return found
        cells = self.layout.axes.cells_of(read)
        for place in numeric:
            shares = self._shares[place].drawn[:-1]
            below = (shares.cumsum() - shares / 2) / max(float(shares.sum()), LEAST_SHAPE)
            side = (below > 1 - OUTER).astype(np.int64) - (below < OUTER)
            found[:, place] = np.append(side, 0)[cells[:, place]]
        return found

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies, by the release alone.

        A guess for shares below `hidden_share`, from records that are drawn from the release where
        how its own records score was not bought.
        """
        check_fraction(share)
        if self.noise_of_scores is None:
            return float(np.quantile(self.reference_scores, 1 - share))
        return limit(self.believed_tails, share) * self.layout.score_unit

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess.

        Two deviations of the noise in half of the counts of scores; 1 if there are none.
        """
        if self.noise_of_scores is None:
            return 1.0
        return min(1.0, hidden_records(self.noise_of_scores.deviation, len(EDGES)) / self.records)

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares of the reference score higher, noise considered; None if unknown.

        Unknown where it was not bought, and for merged profiles, whose parts scored by themselves.
        """
        if self.noise_of_scores is None or self.noise_of_scores.n_draws > 1:
            return None
        score /= self.layout.score_unit
        return shares_beyond(
            score, self.scored, self.noise_of_scores, self.total, self.noise_of_total, confidence
        )

    @cached_property
    def believed_tails(self) -> Tails:
        """About which share of the records lies in each bin of scores, or higher."""
        assert self.noise_of_scores is not None  # noqa: S101 - asked for with counts only
        return believed_tails(self.scored, self.noise_of_scores, self.records)

    @cached_property
    def reference_scores(self) -> Floats:
        """The scores of records drawn from the release."""
        return self._scores(self.drawn)

    @cached_property
    def drawn(self) -> Floats:
        """Records drawn from the release, as read: columns as released, numeric ones correlated."""
        size = max(min(DRAWN, MOST_DRAWN // len(self.columns)), 1000)
        uniform = uniform_draws(size, len(self.columns)).copy()
        numeric = self.layout.numeric
        if self._components is not None:
            normal = ndtri(uniform[:, numeric])
            uniform[:, numeric] = ndtr(normal @ self._components.root.T)
        rows = np.empty_like(uniform)
        axis = 0
        for place, column in enumerate(self.layout.columns):
            shares = self._shares[place].drawn
            upto = shares.cumsum()
            cells = np.searchsorted(upto, uniform[:, place] * upto[-1])
            cells = np.minimum(cells, len(shares) - 1)
            if isinstance(column, Categorical):
                values = cells.astype(np.float64)
            else:
                low, high = self.layout.ranges[axis]
                within = np.full(size, 0.5)
                if (shares[:-1] > 0).sum() == 1:  # their own values lie anywhere in it
                    within = uniform_draws(size, 2 * len(self.columns))[:, -1 - place]
                values = low + (cells - 1 + within) * (high - low) / self.layout.bins
                axis += 1
            rows[:, place] = np.where(cells == len(shares) - 1, np.nan, values)
        return rows

    @property
    def spread(self) -> Spread:
        """About the means and deviations of the numeric columns as read, from their histograms."""
        found = []
        for place, (low, high) in zip(self.layout.numeric, self.layout.ranges, strict=True):
            shares = self._shares[place].drawn[:-1]
            width = (high - low) / self.layout.bins
            shares = shares / max(float(shares.sum()), LEAST_SHAPE)
            found.append(spread_of(shares, low - width, width))
        centers, scales = zip(*found, strict=True)
        return Spread(centers, scales)

    def alike(self) -> tuple[Any, ...]:
        """The cells, the products, the adjacency and the kind of noise."""
        cells = replace(self.layout, gaps=False)
        gaussian = bool(self.noise_of_total.gaussian)
        return cells, len(self.products), self.guarantee.adjacency, gaussian

    def plus(self, other: Self) -> dict[str, Any]:
        """The sums; of what the ranges cost, the most."""
        return {
            **super().plus(other),
            "layout": replace(self.layout, gaps=self.layout.gaps or other.layout.gaps),
            "search_loss": max(self.search_loss, other.search_loss),
        }

    def arrays(self) -> dict[str, Ints]:
        """The counts, the products and the counts of scores."""
        scored = {"scored": self.scored} if self.layout.score_unit else {}
        return {"counts": self.counts, "products": self.products, **scored}

    def header(self) -> dict[str, Any]:
        """The cells, the number of records, and the noise of everything."""
        products, scores = self.noise_of_products, self.noise_of_scores
        return {
            "layout": self.layout.to_json(),
            "total": self.total,
            "noise_of_total": self.noise_of_total.to_json(),
            "noise_of_counts": self.noise_of_counts.to_json(),
            "noise_of_products": None if products is None else products.to_json(),
            **({} if scores is None else {"noise_of_scores": scores.to_json()}),
            "search_loss": str(self.search_loss),
            "shown": list(self.shown),
        }

    @classmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
        """Build a profile of parts that came from outside; its promise must follow from them."""
        layout = Layout.from_json(header["layout"])
        counts = array("counts", "<i8", (layout.starts[-1],))
        n_numeric = len(layout.numeric)
        n_products = n_numeric * (n_numeric + 1) // 2 if layout.centers else 0
        products = array("products", "<i8", (n_products,))
        scored = array("scored", "<i8", (len(EDGES),)) if layout.score_unit else NONE
        for each in (counts, products, scored):
            check_counts(each)
        total = header["total"]
        if type(total) is not int or abs(total) >= 2**62:
            raise InvalidData("The number of records must be a whole number.")
        of_total, of_counts, of_products, of_scores = (
            None if header.get(name) is None else MergedNoise.from_json(header[name])
            for name in NOISES
        )
        misfit = (of_products is None) == bool(n_products)
        misfit |= (of_scores is None) == bool(layout.score_unit)
        if of_total is None or of_counts is None or misfit:
            raise InvalidData("The noise does not fit what was released.")
        promise = Guarantee.from_json(header["guarantee"])
        spent = exact(header["search_loss"], "search_loss")
        shown = tuple(checked_truth(one) for one in header["shown"])
        if len(shown) not in (0, n_numeric):
            raise InvalidData("Ranges are shown or not, for each numeric column.")
        four = (of_total, of_counts, of_products, of_scores)
        if not Noises(*four).keep(promise, spent, layout):
            raise InvalidData("The promise is not the one that the noise keeps.")
        seeded = checked_truth(header["seeded"])
        return cls(layout, total, counts, products, scored, *four, spent, shown, promise, seeded)

    def _asked(self, rows: ArrayLike) -> Floats:
        asked = np.array(rows, dtype=np.float64, ndmin=2)
        if asked.ndim != 2 or asked.shape[1] != len(self.columns):
            rule = f"must have {len(self.columns)} columns"
            raise InvalidParameter("records", rule, asked.shape, "Give one row per record.")
        if np.isinf(asked).any():
            rule = "must be finite, or NaN where missing"
            raise InvalidParameter("records", rule, math.inf, "Leave out infinite values.")
        return filled(asked, self.layout.columns)

    @cached_property
    def _shares(self) -> list[Shares]:
        """About which share of the records lies in each cell of each column, never none."""
        return believed_shares(self.layout, self.counts, self.noise_of_counts, self.records)

    @cached_property
    def _rarity(self) -> Rarity:
        return Rarity.of(self.layout, self._shares)

    @cached_property
    def _components(self) -> Components | None:
        """None where products were not worth their noise."""
        noise = self.noise_of_products
        if noise is None:
            return None
        return Components(self.layout, self.products, noise.deviation, self.records)

    @cached_property
    def _laws(self) -> tuple[Law, Law | None]:
        """How the two scores of the release's own records are distributed."""
        drawn, components = self.drawn, self._components
        rare = law_of(self._rarity.by_column(drawn).sum(axis=1))
        if components is None:
            return rare, None
        return rare, law_of(components.distances(drawn))

    @cached_property
    def _compiled(self) -> tuple[Any, ...]:
        """What the compiled loop over records takes between these and their scores."""
        rarity, distance = self._laws
        rare, axes, layout = self._rarity, self.layout.axes, self.layout
        outside = np.array([OUTSIDE, OUTSIDE_STEPS, FARTHEST])
        cells = (*axes, rare.table, rare.ends, outside, *rarity)
        components = self._components
        if distance is None or components is None:
            nothing = np.zeros(0)
            none = (np.zeros(0, dtype=np.int64), nothing, nothing, np.ones(2))
            return (*cells, *none, np.zeros((0, 0)), np.zeros(2), 1.0, 1.0)
        steps = np.array([FARTHEST_SCALES, STEPS])
        inverse = 1 / np.array(layout.scales)
        apart = (layout.places, np.array(layout.centers), inverse, steps)
        return (*cells, *apart, components.metric, *distance)


def _ratio(whole: Floats, parts: Floats) -> Floats:
    return np.asarray(np.where(parts > 0, whole / np.where(parts > 0, parts, 1.0), 0.0))[:, None]
