"""A profile that may be carried away: score new records against it and explain their scores, free.

Two scores. One adds up, column by column, how rare the record's cell is: half by its density
[HBOS, Goldstein 2012], half by how few records lie farther out [ECOD, Li 2022]. The other, where
products were released, is how far the record is from the leading components of the correlations
[Shyu 2003]. Each is put on one scale, minus the log of the share of records that score as high, by
scoring records drawn from the release itself; their mean is the score.

Counts that drown in noise are drawn toward what is usual, in general and in all columns together
(`shares`). How the release's own records really score is counted
with noise where that shows anything, and thresholds follow these counts. Whatever is computed here
looks at the released numbers only, and at records through the cells they lie in, so none of it
costs budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from privod.data import Categorical, Numeric
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, Loss, exact
from privod.privacy.zcdp import rho_of_loss
from privod.queries.count_query import COUNTS_CHANGED
from privod.queries.moments import (
    FARTHEST as STANDARDIZED,
)
from privod.queries.moments import (
    UNIT,
    products_change,
    squared_products_change,
    standardized,
    symmetric,
)
from privod.queries.private_detector.laws import Law, law_of, uniform_draws
from privod.queries.private_detector.layout import Layout
from privod.queries.private_detector.shares import LEAST_SHAPE, Shares, believed_shares
from privod.queries.private_detector.thresholds import (
    EDGES,
    believed_tails,
    limit,
    shares_beyond,
)
from privod.queries.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    checked_truth,
    signed,
    write_file,
)
from privod.queries.scores import check_fraction

__all__ = ["FEWEST_RECORDS", "Explanation", "NoisyProfile"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NONE: Ints = np.zeros(0, dtype=np.int64)
KIND = "profile"
FEWEST_RECORDS = 10.0  # taken to be there, however low noise makes their number
HALF_TAIL = 0.5  # of a column's surprise; the rest is density
OUTSIDE = 2.0  # how fast surprise grows with the log of the distance outside a range
STEPS = 8  # to a range's length outside it, and twice as many to a scale in products: places
FARTHEST = 1e6  # range lengths outside past which farther makes no difference
DRAWN = 4001  # records drawn from the release to learn the laws of its scores
EXACT_BITS = 52  # of a float, that sums of products of whole numbers may fill
BLOCK = 1 << 14
MOST_DRAWN = 1 << 24  # values


class Explanation(NamedTuple):
    """What every column adds to the score of every record; the rows add up to the scores."""

    columns: tuple[str, ...]
    shares: Floats


@dataclass(frozen=True, eq=False)
class NoisyProfile:
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
        The noisy counts of the records by their scores (`thresholds.EDGES`); empty where they would
        have shown nothing. In a merge each part's records have the scores of that part.
    noise_of_total, noise_of_counts, noise_of_products, noise_of_scores : MergedNoise
        The noise of each, public; None for products or scores that were not bought.
    range_loss : Fraction
        What the ranges cost, epsilon or rho of Gaussian noise: part of the guarantee.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a profile protects nobody.
    """

    layout: Layout
    total: int
    counts: Ints
    products: Ints
    scored: Ints
    noise_of_total: MergedNoise
    noise_of_counts: MergedNoise
    noise_of_products: MergedNoise | None
    noise_of_scores: MergedNoise | None
    range_loss: Fraction
    guarantee: Guarantee
    seeded: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyProfile) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.layout.columns)

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

    def scores(self, rows: ArrayLike) -> Floats:
        """Score records: columns in order, categories as places in their lists, NaN missing.

        Minus the log of about the share of records that are as far from ordinary.
        """
        return self.scores_of(self._asked(rows))

    def scores_of(self, rows: Floats) -> Floats:
        """The same of rows that were read and checked before, a block at a time."""
        rarity, distance = self._laws
        found = np.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            part = rows[start : start + BLOCK]
            score = rarity.surprise(self._rarity(part))
            if distance is not None:
                score = (score + distance.surprise(self._distance(part))) / 2
            found[start : start + BLOCK] = score
        return found

    def ready(self) -> NoisyProfile:
        """The same, with what all scores need computed once, before copies of it go elsewhere."""
        self._laws  # noqa: B018 - kept from here on
        return self

    def explain(self, rows: ArrayLike) -> Explanation:
        """What each column adds to the score of each record."""
        asked = self._asked(rows)
        rarity, distance = self._laws
        own = self._column_rarity(asked)
        shares = own * _ratio(rarity.surprise(own.sum(axis=1)), own.sum(axis=1))
        if distance is not None:
            away = self._away(asked)
            apart = away * (away @ self._residual)
            sums = apart.sum(axis=1)
            shares /= 2
            shares[:, self.layout.numeric] += apart * _ratio(distance.surprise(sums), sums) / 2
        return Explanation(self.columns, shares)

    def threshold(self, target_fraction: float) -> float:
        """The score beyond which about this share of the reference lies, by the release alone.

        A guess for shares below `hidden_share`, from records that are drawn from the release where
        how its own records score was not bought.
        """
        check_fraction(target_fraction)
        if self.noise_of_scores is None:
            return float(np.quantile(self.reference_scores, 1 - target_fraction))
        return limit(self._believed, target_fraction)

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess.

        Two deviations of the noise in half of the counts of scores; 1 if there are none.
        """
        if self.noise_of_scores is None:
            return 1.0
        hidden = 2 * math.sqrt(len(EDGES) / 2) * self.noise_of_scores.deviation
        return min(1.0, hidden / self.records)

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares of the reference score higher, noise considered; None if unknown.

        Unknown where it was not bought, and for merged profiles, whose parts scored by themselves.
        """
        if self.noise_of_scores is None or self.noise_of_scores.n_draws > 1:
            return None
        return shares_beyond(
            score, self.scored, self.noise_of_scores, self.total, self.noise_of_total, confidence
        )

    @cached_property
    def _believed(self) -> Floats:
        """About how many of the records lie in each cell of the ladder of scores, or higher."""
        assert self.noise_of_scores is not None  # noqa: S101 - asked for with counts only
        return believed_tails(self.scored, self.noise_of_scores, self.records)

    @cached_property
    def reference_scores(self) -> Floats:
        """The scores of records drawn from the release."""
        return self.scores(self.drawn)

    @cached_property
    def drawn(self) -> Floats:
        """Records drawn from the release: columns as released, numeric ones correlated so."""
        size = max(min(DRAWN, MOST_DRAWN // len(self.columns)), 1000)
        uniform = uniform_draws(size, len(self.columns)).copy()
        numeric = self.layout.numeric
        if len(self.products):
            root, _ = self._components
            spread = root * np.sqrt(self._spectrum)
            spread = spread / np.sqrt((spread**2).sum(axis=1, keepdims=True))
            uniform[:, numeric] = ndtr(ndtri(uniform[:, numeric]) @ spread.T)
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
                values = low + (cells - 0.5) * (high - low) / self.layout.bins
                axis += 1
            rows[:, place] = np.where(cells == len(shares) - 1, np.nan, values)
        return rows

    @property
    def spread(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """About the means and deviations of the numeric columns, from their histograms."""
        centers, scales = [], []
        for place, (low, high) in zip(self.layout.numeric, self.layout.ranges, strict=True):
            shares = self._shares[place].drawn[:-1]
            shares = shares / max(float(shares.sum()), LEAST_SHAPE)
            width = (high - low) / self.layout.bins
            middles = low + (np.arange(len(shares)) - 0.5) * width
            center = float((shares * middles).sum())
            variance = float((shares * (middles - center) ** 2).sum()) + width**2 / 12
            centers.append(center)
            scales.append(math.sqrt(variance))
        return tuple(centers), tuple(scales)

    def merge(self, *others: NoisyProfile) -> NoisyProfile:
        """Add up the profiles of disjoint records, of other holders or other batches; free."""
        parts = (self, *others)
        for part in others:
            if not isinstance(part, NoisyProfile) or part._shape != self._shape:
                raise InvalidData(
                    "Profiles add up only with the same cells, adjacency and kind of noise."
                    " Ask for them with the layout of the first."
                )
        merged = parts[0]
        for part in others:
            merged = replace(
                merged,
                total=merged.total + part.total,
                counts=merged.counts + part.counts,
                products=merged.products + part.products,
                scored=merged.scored + part.scored,
                noise_of_total=merged.noise_of_total + part.noise_of_total,
                noise_of_counts=merged.noise_of_counts + part.noise_of_counts,
                noise_of_products=_added(merged.noise_of_products, part.noise_of_products),
                noise_of_scores=_added(merged.noise_of_scores, part.noise_of_scores),
            )
        losses = [part.guarantee.loss for part in parts]  # a record lies in one part
        loss = Loss(max(lost.epsilon for lost in losses), max(lost.delta for lost in losses))
        return replace(
            merged,
            range_loss=max(part.range_loss for part in parts),
            guarantee=Guarantee(loss, self.guarantee.adjacency),
            seeded=any(part.seeded for part in parts),
        )

    @property
    def _shape(self) -> tuple[object, ...]:
        gaussian = bool(self.noise_of_total.gaussian)
        return self.layout, len(self.products), self.guarantee.adjacency, gaussian

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        arrays = {name: array.tolist() for name, array in self._arrays.items()}
        return {**signed(KIND), **self._header(), **arrays}

    @classmethod
    def from_json(cls, data: Any) -> NoisyProfile:
        """Read back what `to_json` wrote."""
        return build_from_json(data, KIND, cls._built)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and plain arrays, no pickle."""
        write_file(path, KIND, self._header(), self._arrays)

    @classmethod
    def load(cls, path: str | Path) -> NoisyProfile:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, KIND, cls._built)

    @property
    def _arrays(self) -> dict[str, Ints]:
        scored = {"scored": self.scored} if self.layout.scored else {}
        return {"counts": self.counts, "products": self.products, **scored}

    def _header(self) -> dict[str, Any]:
        products, scores = self.noise_of_products, self.noise_of_scores
        return {
            "layout": self.layout.to_json(),
            "total": self.total,
            "noise_of_total": self.noise_of_total.to_json(),
            "noise_of_counts": self.noise_of_counts.to_json(),
            "noise_of_products": None if products is None else products.to_json(),
            **({} if scores is None else {"noise_of_scores": scores.to_json()}),
            "range_loss": str(self.range_loss),
            "guarantee": self.guarantee.to_json(),
            "seeded": self.seeded,
        }

    @classmethod
    def _built(cls, header: dict[str, Any], array: ArrayOf) -> NoisyProfile:
        """Build a profile of parts that came from outside; its promise must follow from them."""
        layout = Layout.from_json(header["layout"])
        counts = array("counts", "<i8", (layout.starts[-1],))
        n_numeric = len(layout.numeric)
        n_products = n_numeric * (n_numeric + 1) // 2 if layout.centers else 0
        products = array("products", "<i8", (n_products,))
        scored = array("scored", "<i8", (len(EDGES),)) if layout.scored else NONE
        for each in (counts, products, scored):
            check_counts(each)
        total = header["total"]
        if type(total) is not int or abs(total) >= 2**62:
            raise InvalidData("The number of records must be a whole number.")
        of_total, of_counts, of_products, of_scores = (
            None if header.get(name) is None else MergedNoise.from_json(header[name])
            for name in (
                "noise_of_total",
                "noise_of_counts",
                "noise_of_products",
                "noise_of_scores",
            )
        )
        misfit = (of_products is None) == bool(n_products) or (of_scores is None) == layout.scored
        if of_total is None or of_counts is None or misfit:
            raise InvalidData("The noise does not fit what was released.")
        promise = Guarantee.from_json(header["guarantee"])
        spent = exact(header["range_loss"], "range_loss")
        changed = COUNTS_CHANGED[promise.adjacency]
        cells = changed * len(layout.columns)
        parts = [(of_total, 1, 1), (of_counts, cells, cells)]
        if of_products is not None:
            squared = changed * squared_products_change()
            parts.append((of_products, changed * products_change(n_numeric), squared))
        if of_scores is not None:
            parts.append((of_scores, changed, changed))
        if spent < 0 or not _kept(promise.loss, spent, parts):
            raise InvalidData("The promise is not the one that the noise keeps.")
        return cls(
            layout=layout,
            total=total,
            counts=counts,
            products=products,
            scored=scored,
            noise_of_total=of_total,
            noise_of_counts=of_counts,
            noise_of_products=of_products,
            noise_of_scores=of_scores,
            range_loss=spent,
            guarantee=promise,
            seeded=checked_truth(header["seeded"]),
        )

    def _asked(self, rows: ArrayLike) -> Floats:
        asked = np.array(rows, dtype=np.float64, ndmin=2)
        if asked.ndim != 2 or asked.shape[1] != len(self.columns):
            rule = f"must have {len(self.columns)} columns"
            raise InvalidParameter("records", rule, asked.shape, "Give one row per record.")
        if np.isinf(asked).any():
            rule = "must be finite, or NaN where missing"
            raise InvalidParameter("records", rule, math.inf, "Leave out infinite values.")
        return asked

    @cached_property
    def _shares(self) -> list[Shares]:
        """About which share of the records lies in each cell of each column, never none."""
        return believed_shares(self.layout, self.counts, self.noise_of_counts, self.records)

    @cached_property
    def _tables(self) -> list[Floats]:
        """What each cell of each column adds to a record's rarity, nothing for the commonest."""
        tables = []
        for column, (shares, _) in zip(self.layout.columns, self._shares, strict=True):
            density = -np.log(shares)
            density -= density.min()
            if isinstance(column, Numeric):
                inside = shares[:-1]
                below = inside.cumsum() - inside / 2
                above = inside[::-1].cumsum()[::-1] - inside / 2
                tail = -np.log(np.minimum(below, above))
                tail = np.append(tail, density[-1])
                tail -= tail.min()
                density = (1 - HALF_TAIL) * density + HALF_TAIL * tail
            tables.append(density)
        return tables

    def _rarity(self, rows: Floats) -> Floats:
        """What the cells add up to, then what lies outside: in this order, whatever is missing."""
        if len(self.layout.numeric) < len(self.columns) or np.isnan(rows).any():
            found = _row_sums(self._cell_rarity(rows))
        else:
            tables = np.array([table[:-1] for table in self._tables])
            found = self.layout.grid.sums(tables[None], rows)[0]
        if self.layout.numeric and (overshoot := self._outside(rows)) is not None:
            found += _row_sums(overshoot)
        return np.asarray(found)

    def _column_rarity(self, rows: Floats) -> Floats:
        found = self._cell_rarity(rows)
        if self.layout.numeric and (overshoot := self._outside(rows)) is not None:
            found[:, self.layout.numeric] += overshoot
        return found

    def _cell_rarity(self, rows: Floats) -> Floats:
        numeric = self.layout.numeric
        found = np.empty(rows.shape)
        missing = np.isnan(rows)
        filled = np.where(missing, 0.0, rows)
        if numeric:
            cells = self.layout.grid.cells_of(np.ascontiguousarray(filled[:, numeric]))
        for place, table in enumerate(self._tables):
            if place in numeric:
                own = cells[:, numeric.index(place)].astype(np.int64)
            else:
                own = np.clip(filled[:, place], 0, len(table) - 2).astype(np.int64)
            found[:, place] = table[np.where(missing[:, place], len(table) - 1, own)]
        return found

    def _outside(self, rows: Floats) -> Floats | None:
        """What values outside the ranges add, by the step outside that they lie on."""
        points = rows[:, self.layout.numeric]
        lows, highs = np.array(self.layout.ranges).T
        beyond = np.fmax(np.fmax(points - highs, lows - points), 0.0)
        if not beyond.any():
            return None
        beyond = np.minimum(np.floor(beyond / (highs - lows) * STEPS) / STEPS, FARTHEST)
        return np.asarray(OUTSIDE * np.log1p(beyond))

    @cached_property
    def _components(self) -> tuple[Floats, Floats]:
        """Directions, as columns, and the noisy variances along them, ascending."""
        n_numeric = len(self.layout.numeric)
        matrix = symmetric(self.products / self.records, n_numeric)
        variances, directions = np.linalg.eigh(matrix)
        return np.asarray(directions), np.asarray(variances)

    @property
    def _edge(self) -> float:
        """How large noise alone makes a variance: the edge of its own spectrum."""
        assert self.noise_of_products is not None  # noqa: S101 - asked for with products only
        n_numeric = len(self.layout.numeric)
        deviation = self.noise_of_products.deviation / UNIT**2 / self.records
        return float(2 * math.sqrt(n_numeric) * deviation)

    @property
    def _spectrum(self) -> Floats:
        """Variances raised by the edge of the noise, none negative."""
        _, variances = self._components
        top = max(float(variances.max()), 0.0)
        return np.maximum(variances, 0.0) + self._edge + 1e-3 * top + 1e-9

    @cached_property
    def _residual(self) -> Floats:
        """Projects onto what the leading components leave out.

        On a lattice so coarse that distances are added up exactly: in whichever order, and so
        whichever other records are there, a record's score is the same.
        """
        directions, _ = self._components
        spectrum = self._spectrum
        leading = spectrum > max(2 * self._edge, float(spectrum.mean()))
        if leading.all():
            projector = directions @ (directions / spectrum).T
        else:
            rest = directions[:, ~leading]
            projector = rest @ rest.T
        most = (len(projector) * 2 * STEPS * STANDARDIZED) ** 2 * float(np.abs(projector).max())
        unit = 2.0 ** (math.ceil(math.log2(max(most, 2.0**-900))) - EXACT_BITS)
        return np.asarray(np.rint(projector / unit) * unit)

    def _away(self, rows: Floats) -> Floats:
        """Distances from the centers, by the step that they lie on."""
        points = rows[:, self.layout.numeric]
        away = standardized(points, np.array(self.layout.centers), np.array(self.layout.scales))
        return np.asarray(np.rint(away * (2 * STEPS)) / (2 * STEPS))

    def _distance(self, rows: Floats) -> Floats:
        away = self._away(rows)
        return np.asarray(np.einsum("ij,ij->i", away @ self._residual, away))

    @cached_property
    def _laws(self) -> tuple[Law, Law | None]:
        """How the two scores of the release's own records are distributed."""
        drawn = self.drawn
        distance = law_of(self._distance(drawn)) if len(self.products) else None
        return law_of(self._rarity(drawn)), distance


def _kept(loss: Loss, spent: Fraction, parts: list[tuple[MergedNoise, int, int]]) -> bool:
    """Whether the least noisy draws, and what the ranges cost, keep the promise.

    In a merge a later batch, with cells given, does not pay for the ranges.
    """
    merged = parts[0][0].n_draws > 1
    lost = Fraction(0) if merged else spent
    for noise, absolute, squared in parts:
        mixed = noise.gaussian and noise.parts
        if bool(loss.delta) != bool(noise.gaussian) or mixed or noise.skellam:
            return False
        gaussian = noise.gaussian
        lost += squared / (2 * gaussian[0][0]) if gaussian else absolute / noise.least_scale
    if loss.delta:
        return lost <= rho_of_loss(loss.epsilon, loss.delta)
    return lost <= loss.epsilon if merged else lost == loss.epsilon


def _added(some: MergedNoise | None, other: MergedNoise | None) -> MergedNoise | None:
    return None if some is None or other is None else some + other


def _row_sums(parts: Floats) -> Floats:
    """Sums of rows, column after column: in one order, however many rows there are."""
    sums = np.zeros(len(parts))
    for column in parts.T:
        sums += column
    return sums


def _ratio(whole: Floats, parts: Floats) -> Floats:
    return np.asarray(np.where(parts > 0, whole / np.where(parts > 0, parts, 1.0), 0.0))[:, None]
