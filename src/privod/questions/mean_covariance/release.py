"""Means and covariances that may be carried away: score new records against them, free and offline.

A record's distance is that of Mahalanobis, by the noisy covariance with its eigenvalues cut at 0
and raised by the edge of the noise's own spectrum. Its residual is what the leading components
leave out [Shyu 2003]. How far the release's own records are was counted with noise, and the
threshold of the distance follows these counts. Whatever is computed here looks at the released
numbers only, so none of it costs budget.
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
from scipy.special import chdtri, ndtri

from privod.errors import InvalidData
from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, exact
from privod.privacy.guarantee import merged_promise
from privod.privacy.zcdp import rho_of_loss
from privod.query.checks import checked_truth
from privod.query.moments import UNIT, standardized, symmetric
from privod.query.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    signed,
    write_file,
)
from privod.query.score_counts import FAR_EDGES, ScoreCounts
from privod.query.scores import check_fraction, scored_points
from privod.questions.mean_covariance.frame import FEWEST_RECORDS, Frame, change_of, half_ranges

__all__ = ["MomentScores", "NoisyMoments"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KIND = "moments"
LEAST_VARIANCE = 0.25  # of records in radii, along all columns: most lie near the radius
STEPS = UNIT  # to a radius: places, as fine as products are taken
FARTHEST = 256.0  # radii from the center, along a column, beyond which all is alike
NORMAL = (0.5, 24.0)  # minus logs of shares: outside, no law is taken for the records' ...
STRETCH = 3.0  # ... and distances change by so many powers of these
BLOCK = 1 << 12  # rows at a time
EXACT_BITS = 52  # of a float, that sums of whole numbers may fill
DRAWN = 20_000_000  # values drawn for a threshold, at most
MOST_DRAWN, FEWEST_DRAWN = 20_001, 2001  # records


class MomentScores(NamedTuple):
    """Two scores; higher is more outlying."""

    distance: Floats
    """How far the record is from the mean, squared, in deviations of where it lies."""

    residual: Floats
    """How far it is from what the leading components say of it, squared."""


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy number of records, sums of columns and sums of products.

    Guarantee
    ---------
    What `guarantee` says holds for all of it together, and for whatever is computed of it.

    Parameters
    ----------
    frame : Frame
        The columns with their ranges, the center and the radius; public.
    total : int
        The noisy number of records.
    sums : array of int
        The noisy sums of the columns, scaled to [-1, 1], in steps of 1/4096.
    products : array of int
        The noisy sums of products of records in the ball, upper triangle, in steps of 1/4096^2.
    noise_of_total, noise_of_sums, noise_of_products : MergedNoise
        The noise of each, public.
    frame_loss : Fraction
        What the radius cost, epsilon or rho of Gaussian noise: part of the guarantee.
    guarantee : Guarantee
        The promise of the release.
    seeded : bool
        Whether the noise came from a test seed; such a release protects nobody.
    scored : ScoreCounts, optional
        How many records are how far, with noise; None where several parties counted together.
    """

    frame: Frame
    total: int
    sums: Ints
    products: Ints
    noise_of_total: MergedNoise
    noise_of_sums: MergedNoise
    noise_of_products: MergedNoise
    frame_loss: Fraction
    guarantee: Guarantee
    seeded: bool
    scored: ScoreCounts | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyMoments) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def records(self) -> float:
        """About how many records there are; at least a few."""
        return max(float(self.total), FEWEST_RECORDS)

    @property
    def mean(self) -> Floats:
        """About the mean of every column, in its own units, within its range."""
        middles, halves = half_ranges(self.frame.columns)
        means = np.clip(self.sums / (UNIT * self.records), -1.0, 1.0)
        return np.asarray(middles + means * halves)

    @property
    def covariance(self) -> Floats:
        """About the covariance of records pulled back to the radius, in the columns' units.

        Its eigenvalues are never negative; those of the noise are in it.
        """
        directions, variances = self._components
        _, halves = half_ranges(self.frame.columns)
        sizes = halves * self.frame.radius
        return np.asarray((directions * variances) @ directions.T * np.outer(sizes, sizes))

    def scores(self, points: ArrayLike) -> MomentScores:
        """Score new records, with the columns in order; beyond five half ranges all is alike."""
        away = self._away(scored_points(points, len(self.frame.columns)))
        return MomentScores(_squared(self._inverse, away), _squared(self._rest, away))

    def distances_of(self, rows: Floats) -> Floats:
        """The distances alone, of rows that were read and checked before."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            part = rows[start : start + BLOCK]
            found[start : start + BLOCK] = _squared(self._inverse, self._away(part))
        return found

    def ready(self) -> NoisyMoments:
        """The same, with what all scores need computed once, before copies of it go elsewhere."""
        self._inverse  # noqa: B018 - kept from here on
        return self

    @property
    def distance_edges(self) -> Floats:
        """Where the bins of distances begin: where ever smaller shares of normal records would be.

        Far in and far out each begins several times as far as the one before, for records that are
        not normal.
        """
        return self._distance_of(FAR_EDGES)

    def explain(self, points: ArrayLike) -> Floats:
        """What each column adds to the distance of each record; the rows add up to it."""
        away = self._away(scored_points(points, len(self.frame.columns)))
        return np.asarray(away * (away @ self._inverse))

    def threshold(self, target_fraction: float) -> MomentScores:
        """The scores beyond which about this share of the reference lies, by the release alone.

        For the distance by the counts of the records' own distances, where these show anything. The
        residual, and the distance where they do not, take the records to be normal: with skewed
        columns several times as many may lie beyond.
        """
        check_fraction(target_fraction)
        distance = np.array([chdtri(len(self.frame.columns), target_fraction)])
        if self.scored is not None and self.shows_scores:
            surprise = self.scored.limit(target_fraction, self.records)
            distance = self._distance_of(np.array([surprise]))
        return MomentScores(distance, self._residual_limit(target_fraction))

    def _distance_of(self, surprise: Floats) -> Floats:
        """Beyond which about minus so much is the log of the share of normal records.

        Far in and far out, where no record is normal, distances are stretched.
        """
        inner, outer = NORMAL
        freedom, scale = self._chi_square
        within = scale * chdtri(freedom, np.exp(-np.clip(surprise, inner, outer)))
        beside = np.minimum(surprise / inner, 1.0) * np.maximum(surprise / outer, 1.0)
        return np.asarray(within * beside**STRETCH)

    @property
    def _chi_square(self) -> tuple[float, float]:
        """Degrees of freedom and scale of the law of normal records' squared distances.

        Chi-square with a degree a column without noise. A variance is raised by the noise, and
        along it records look nearer: the two are chosen by the mean and the variance of the sum
        [Satterthwaite 1946]. Where noise hides all variances it says little; bins are then
        where it is, and thresholds where the records are.
        """
        _, raised = self._components
        own = np.maximum(raised - 2 * self._edge, LEAST_VARIANCE / len(raised))
        ratios = np.minimum(own / raised, 1.0)
        freedom = float(ratios.sum() ** 2 / (ratios**2).sum())
        return freedom, float(ratios.sum()) / freedom

    def _residual_limit(self, target_fraction: float) -> Floats:
        """By records drawn from the normal law of this covariance."""
        n_axes = len(self.frame.columns)
        size = int(np.clip(DRAWN // n_axes, FEWEST_DRAWN, MOST_DRAWN))
        words = seeded(0).words(size * n_axes) >> np.uint64(11)  # always the same draws
        normal = ndtri((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(size, n_axes)
        directions, variances = self._components
        drawn = normal @ (directions * np.sqrt(variances)).T
        residuals = np.einsum("ij,ij->i", drawn @ self._rest, drawn)
        return np.asarray(np.quantile(residuals, [1 - target_fraction]))

    @property
    def shows_scores(self) -> bool:
        """Whether the counts of the records' own distances show anything."""
        return self.scored is not None and self.scored.show(self.records)

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess."""
        return 1.0 if self.scored is None else self.scored.hidden_share(self.records)

    def share_beyond(self, distance: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares of the reference lie farther, noise considered; None if unknown.

        Unknown for merged moments, whose parts measured by themselves.
        """
        if self.scored is None:
            return None
        return self.scored.shares_beyond(distance, self.distance_edges, confidence)

    def merge(self, *others: NoisyMoments) -> NoisyMoments:
        """Add up the moments of disjoint records, of other holders or other batches; free."""
        parts = (self, *others)
        for part in others:
            if not isinstance(part, NoisyMoments) or part._shape != self._shape:
                raise InvalidData(
                    "Moments add up only with the same frame, adjacency and kind of noise."
                    " Ask for them with the frame of the first."
                )
        merged = self
        for part in others:
            merged = replace(
                merged,
                total=merged.total + part.total,
                sums=merged.sums + part.sums,
                products=merged.products + part.products,
                noise_of_total=merged.noise_of_total + part.noise_of_total,
                noise_of_sums=merged.noise_of_sums + part.noise_of_sums,
                noise_of_products=merged.noise_of_products + part.noise_of_products,
            )
        scored = self.scored
        for part in others:
            scored = None if scored is None or part.scored is None else scored + part.scored
        return replace(
            merged,
            scored=scored,
            frame_loss=max(part.frame_loss for part in parts),
            guarantee=merged_promise([part.guarantee for part in parts]),
            seeded=any(part.seeded for part in parts),
        )

    @property
    def _shape(self) -> tuple[object, ...]:
        return self.frame, self.guarantee.adjacency, bool(self.noise_of_total.gaussian)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        arrays = {"sums": self.sums.tolist(), "products": self.products.tolist()}
        return {**signed(KIND), **self._header(), **arrays}

    @classmethod
    def from_json(cls, data: Any) -> NoisyMoments:
        """Read back what `to_json` wrote."""
        return build_from_json(data, KIND, cls._built)

    def save(self, path: str | Path) -> None:
        """Write one file: a zip of a JSON header and plain arrays, no pickle."""
        write_file(path, KIND, self._header(), {"sums": self.sums, "products": self.products})

    @classmethod
    def load(cls, path: str | Path) -> NoisyMoments:
        """Read a file that `save` wrote; needs neither the data nor a curator."""
        return build_from_file(path, KIND, cls._built)

    def _header(self) -> dict[str, Any]:
        return {
            "frame": self.frame.to_json(),
            "total": self.total,
            "noise_of_total": self.noise_of_total.to_json(),
            "noise_of_sums": self.noise_of_sums.to_json(),
            "noise_of_products": self.noise_of_products.to_json(),
            "frame_loss": str(self.frame_loss),
            "guarantee": self.guarantee.to_json(),
            "seeded": self.seeded,
            **({} if self.scored is None else {"scored": self.scored.to_json()}),
        }

    @classmethod
    def _built(cls, header: dict[str, Any], array: ArrayOf) -> NoisyMoments:
        """Build moments of parts that came from outside; their promise must follow from them."""
        frame = Frame.from_json(header["frame"])
        n_axes = len(frame.columns)
        sums = array("sums", "<i8", (n_axes,))
        products = array("products", "<i8", (n_axes * (n_axes + 1) // 2,))
        check_counts(sums)
        check_counts(products)
        total = header["total"]
        if type(total) is not int or abs(total) >= 2**62:
            raise InvalidData("The number of records must be a whole number.")
        of_total, of_sums, of_products = (
            MergedNoise.from_json(header[f"noise_of_{part}"])
            for part in ("total", "sums", "products")
        )
        promise = Guarantee.from_json(header["guarantee"])
        spent = exact(header["frame_loss"], "frame_loss")
        given = header.get("scored")
        scored = None if given is None else ScoreCounts.from_json(given)
        noises = {"total": of_total, "sums": of_sums, "products": of_products}
        if scored is not None:
            noises["scores"] = scored.noise
        if spent < 0 or not _kept(promise, spent, noises, n_axes):
            raise InvalidData("The promise is not the one that the noise keeps.")
        seeded_so = checked_truth(header["seeded"])
        return cls(
            frame,
            total,
            sums,
            products,
            of_total,
            of_sums,
            of_products,
            spent,
            promise,
            seeded_so,
            scored,
        )

    def _away(self, rows: Floats) -> Floats:
        """Distances from the center, in radii, by the step that they lie on."""
        _, halves = half_ranges(self.frame.columns)
        away = standardized(rows, self.frame.centers, halves)
        away *= STEPS / self.frame.radius
        np.clip(away, -FARTHEST * STEPS, FARTHEST * STEPS, out=away)
        np.rint(away, out=away)
        away /= STEPS
        return away

    @cached_property
    def _components(self) -> tuple[Floats, Floats]:
        """Directions, as columns, and variances along them in radii, ascending, none negative.

        Raised by the edge of the noise's spectrum: 2 sqrt(d) deviations, to the records.
        """
        n_axes = len(self.frame.columns)
        matrix = symmetric(self.products / self.records, n_axes)
        found, directions = np.linalg.eigh(matrix)
        top = max(float(found.max()), 0.0)
        raised = np.maximum(found, 0.0) + self._edge + 1e-6 * top + 1e-12
        return np.asarray(directions), np.asarray(raised)

    @property
    def _edge(self) -> float:
        deviation = self.noise_of_products.deviation / UNIT**2 / self.records
        return float(2 * math.sqrt(len(self.frame.columns)) * deviation)

    @cached_property
    def _inverse(self) -> Floats:
        directions, variances = self._components
        return _on_lattice((directions / variances) @ directions.T)

    @cached_property
    def _rest(self) -> Floats:
        """Projects onto what the leading components leave out."""
        directions, variances = self._components
        leading = variances > max(2 * self._edge, float(variances.mean()))
        rest = directions[:, ~leading]
        return _on_lattice(rest @ rest.T)


def _on_lattice(form: Floats) -> Floats:
    """A matrix so coarse that its product with a record's steps is exact.

    In whichever order it is added up, and so whichever other records are there, a record's score
    is the same.
    """
    most = len(form) * STEPS * FARTHEST * float(np.abs(form).max())
    unit = 2.0 ** (math.ceil(math.log2(max(most, 2.0**-900))) - EXACT_BITS)
    return np.asarray(np.rint(form / unit) * unit)


def _squared(form: Floats, away: Floats) -> Floats:
    """The quadratic form of every row, added up column after column."""
    products = away @ form
    products *= away
    sums = np.zeros(len(away))
    for column in products.T:
        sums += column
    return sums


def _kept(promise: Guarantee, spent: Fraction, noises: dict[str, MergedNoise], n_axes: int) -> bool:
    """Whether the least noisy draws, and what the radius cost, keep the promise.

    In a merge a later batch, with a frame given, does not pay for the radius.
    """
    loss = promise.loss
    if any(noise.beside for noise in noises.values()):
        return False
    each = [(change_of(part, n_axes, promise.adjacency), noise) for part, noise in noises.items()]
    single = noises["total"].n_draws == 1
    lost = spent if single else Fraction(0)
    if all(noise.gaussian and not noise.parts for noise in noises.values()) and loss.delta:
        lost += sum(change.squared / (2 * noise.gaussian[0][0]) for change, noise in each)
        return lost <= rho_of_loss(loss.epsilon, loss.delta)
    if any(noise.gaussian for noise in noises.values()) or loss.delta:
        return False
    lost += sum(change.absolute / noise.least_scale for change, noise in each)
    return lost == loss.epsilon if single else lost <= loss.epsilon
