"""Means and covariances that may be carried away: score new records against them, free and offline.

A record's distance is that of Mahalanobis, by the noisy covariance with its eigenvalues cut at 0
and raised by the edge of the noise's own spectrum. Its residual is what the leading components
leave out [Shyu 2003]. Whatever is computed here looks at the released numbers only, so none of it
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
from scipy.special import ndtri

from privod.errors import InvalidData
from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, exact
from privod.privacy.guarantee import merged_promise
from privod.privacy.zcdp import rho_of_loss
from privod.queries.checks import checked_truth
from privod.queries.mean_covariance.frame import FEWEST_RECORDS, Frame, change_of, half_ranges
from privod.queries.moments import UNIT, standardized, symmetric
from privod.queries.release_file import (
    ArrayOf,
    build_from_file,
    build_from_json,
    check_counts,
    signed,
    write_file,
)
from privod.queries.scores import check_fraction, scored_points

__all__ = ["MomentScores", "NoisyMoments"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KIND = "moments"
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
        away = self._away(points)
        return MomentScores(
            np.einsum("ij,ij->i", away @ self._inverse, away),
            np.einsum("ij,ij->i", away @ self._rest, away),
        )

    def explain(self, points: ArrayLike) -> Floats:
        """What each column adds to the distance of each record; the rows add up to it."""
        away = self._away(points)
        return np.asarray(away * (away @ self._inverse))

    def threshold(self, target_fraction: float) -> MomentScores:
        """The scores beyond which about this share of the reference lies, as if it were normal.

        From the release alone: records are drawn from the normal law of this covariance.
        """
        check_fraction(target_fraction)
        n_axes = len(self.frame.columns)
        size = int(np.clip(DRAWN // n_axes, FEWEST_DRAWN, MOST_DRAWN))
        words = seeded(0).words(size * n_axes) >> np.uint64(11)  # always the same draws
        normal = ndtri((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(size, n_axes)
        directions, variances = self._components
        drawn = normal @ (directions * np.sqrt(variances)).T
        share = 1 - target_fraction
        return MomentScores(
            *(np.quantile(np.einsum("ij,ij->i", drawn @ form, drawn), [share]) for form in
              (self._inverse, self._rest))
        )  # fmt: skip

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
        return replace(
            merged,
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
        if spent < 0 or not _kept(promise, spent, [of_total, of_sums, of_products], n_axes):
            raise InvalidData("The promise is not the one that the noise keeps.")
        seeded_so = checked_truth(header["seeded"])
        return cls(
            frame, total, sums, products, of_total, of_sums, of_products, spent, promise, seeded_so
        )

    def _away(self, points: ArrayLike) -> Floats:
        """Distances from the center, in radii."""
        asked = scored_points(points, len(self.frame.columns))
        _, halves = half_ranges(self.frame.columns)
        return standardized(asked, self.frame.centers, halves) / self.frame.radius

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
        return np.asarray((directions / variances) @ directions.T)

    @cached_property
    def _rest(self) -> Floats:
        """Projects onto what the leading components leave out."""
        directions, variances = self._components
        leading = variances > max(2 * self._edge, float(variances.mean()))
        rest = directions[:, ~leading]
        return np.asarray(rest @ rest.T)


def _kept(promise: Guarantee, spent: Fraction, noises: list[MergedNoise], n_axes: int) -> bool:
    """Whether the least noisy draws, and what the radius cost, keep the promise.

    In a merge a later batch, with a frame given, does not pay for the radius.
    """
    loss = promise.loss
    if any(noise.skellam for noise in noises):
        return False
    changes = [change_of(part, n_axes, promise.adjacency) for part in ("total", "sums", "products")]
    each = list(zip(changes, noises, strict=True))
    lost = spent if noises[0].n_draws == 1 else Fraction(0)
    if all(noise.gaussian and not noise.parts for noise in noises) and loss.delta:
        lost += sum(change.squared / (2 * noise.gaussian[0][0]) for change, noise in each)
        return lost <= rho_of_loss(loss.epsilon, loss.delta)
    if any(noise.gaussian for noise in noises) or loss.delta:
        return False
    lost += sum(change.absolute / noise.least_scale for change, noise in each)
    return lost == loss.epsilon if noises[0].n_draws == 1 else lost <= loss.epsilon
