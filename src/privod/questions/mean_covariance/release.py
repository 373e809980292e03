"""Means and covariances that may be carried away: score new records against them, free and offline.

A record's distance is that of Mahalanobis, by the noisy covariance with its eigenvalues cut at 0
and raised by the edge of the noise's own spectrum. Its residual is what the leading components
leave out [Shyu 2003]. How far the release's own records are was counted with noise, and the
threshold of the distance follows these counts. Whatever is computed here looks at the released
numbers only, so none of it costs budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri

from privod.data import Numeric
from privod.errors import InvalidData
from privod.mechanisms import seeded
from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, exact
from privod.privacy.zcdp import rho_of_loss
from privod.query.checks import checked_truth, one_of
from privod.query.moments import UNIT, standardized, symmetric
from privod.query.release_file import ArrayOf, check_counts
from privod.query.score_counts import FAR_EDGES, ScoreCounts
from privod.query.scorer import Explanation, Scorable, Scorer
from privod.query.scores import check_fraction, scored_points
from privod.questions.mean_covariance.frame import FEWEST_RECORDS, Frame, change_of, half_ranges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ScoreName = Literal["distance", "residual"]
LEAST_VARIANCE = 0.25  # of records in radii, along all columns: most lie near the radius
STEPS = UNIT  # to a radius: places, as fine as products are taken
FARTHEST = 256.0  # radii from the center, along a column, beyond which all is alike
NORMAL = (0.5, 24.0)  # minus logs of shares: outside, no law is taken for the records' ...
STRETCH = 3.0  # ... and distances change by so many powers of these
BLOCK = 1 << 12  # rows at a time
EXACT_BITS = 52  # of a float, that sums of whole numbers may fill
DRAWN = 20_000_000  # values drawn for a threshold, at most
MOST_DRAWN, FEWEST_DRAWN = 20_001, 2001  # records


@dataclass(frozen=True, eq=False)
class NoisyMoments(Scorable):
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

    question = "mean-covariance"
    added = (
        "total",
        "sums",
        "products",
        "noise_of_total",
        "noise_of_sums",
        "noise_of_products",
        "scored",
    )

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

    @property
    def columns(self) -> tuple[Numeric, ...]:
        return self.frame.columns

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

    def scorer(self, **settings: Any) -> MomentScorer:
        """Score records by one of the two scores: score_by, "distance" or "residual"."""
        return MomentScorer.chosen(self, settings)

    def scores(self, records: ArrayLike) -> Floats:
        """The scores of records with the usual settings."""
        return self.scorer().scores(records)

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies, with these."""
        return self.scorer().threshold(share)

    def scores_by(self, name: ScoreName, rows: Floats) -> Floats:
        """One of the two scores, of rows that were read and checked before."""
        form = self._inverse if name == "distance" else self._rest
        found = np.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            part = rows[start : start + BLOCK]
            found[start : start + BLOCK] = _squared(form, self._away(part))
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

    def explain(self, records: ArrayLike) -> Explanation:
        """What each column adds to the distance of each record."""
        rows = scored_points(records, len(self.columns))
        away = self._away(rows)
        shares = away * (away @ self._inverse)
        return Explanation(self.columns, shares, rows, np.zeros(away.shape, np.int64))

    def limit(self, name: ScoreName, share: float) -> float:
        """The score beyond which about this share of the reference lies, by the release alone.

        For the distance by the counts of the records' own distances, where these show anything. The
        residual, and the distance where they do not, take the records to be normal: with skewed
        columns several times as many may lie beyond.
        """
        check_fraction(share)
        if name == "residual":
            return self._residual_limit(share)
        if self.scored is not None and self.shows_scores:
            surprise = self.scored.limit(share, self.records)
            return float(self._distance_of(np.array([surprise]))[0])
        return float(chdtri(len(self.columns), share))

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

    def _residual_limit(self, target_fraction: float) -> float:
        """By records drawn from the normal law of this covariance."""
        n_axes = len(self.frame.columns)
        size = int(np.clip(DRAWN // n_axes, FEWEST_DRAWN, MOST_DRAWN))
        words = seeded(0).words(size * n_axes) >> np.uint64(11)  # always the same draws
        normal = ndtri((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(size, n_axes)
        directions, variances = self._components
        drawn = normal @ (directions * np.sqrt(variances)).T
        residuals = np.einsum("ij,ij->i", drawn @ self._rest, drawn)
        return float(np.quantile(residuals, 1 - target_fraction))

    @property
    def shows_scores(self) -> bool:
        """Whether the counts of the records' own distances show anything."""
        return self.scored is not None and self.scored.show(self.records)

    @property
    def hidden_share(self) -> float:
        """Which share of the reference noise may hide: a threshold for fewer is a guess."""
        return 1.0 if self.scored is None else self.scored.hidden_share(self.records)

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares of the reference lie farther, noise considered; None if unknown.

        Unknown for merged moments, whose parts measured by themselves.
        """
        if self.scored is None:
            return None
        return self.scored.shares_beyond(score, self.distance_edges, confidence)

    def alike(self) -> tuple[Any, ...]:
        """The frame, the adjacency and the kind of noise."""
        return self.frame, self.guarantee.adjacency, bool(self.noise_of_total.gaussian)

    def plus(self, other: Self) -> dict[str, Any]:
        """The sums; of what the radius cost, the most."""
        return {**super().plus(other), "frame_loss": max(self.frame_loss, other.frame_loss)}

    def header(self) -> dict[str, Any]:
        """The frame, the number of records, and the noise of everything."""
        return {
            "frame": self.frame.to_json(),
            "total": self.total,
            "noise_of_total": self.noise_of_total.to_json(),
            "noise_of_sums": self.noise_of_sums.to_json(),
            "noise_of_products": self.noise_of_products.to_json(),
            "frame_loss": str(self.frame_loss),
            **({} if self.scored is None else {"scored": self.scored.to_json()}),
        }

    def arrays(self) -> dict[str, Ints]:
        """The sums and the products."""
        return {"sums": self.sums, "products": self.products}

    @classmethod
    def build(cls, header: dict[str, Any], array: ArrayOf) -> Self:
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


@dataclass(frozen=True, eq=False)
class MomentScorer(Scorer[NoisyMoments]):
    """Scores records by the covariance; beyond five half ranges all is alike.

    Parameters
    ----------
    score_by : {"distance", "residual"}
        How far the record is from the mean, squared, in deviations of where it lies; or how far it
        is from what the leading components say of it, squared.
    """

    score_by: ScoreName = "distance"

    def __post_init__(self) -> None:
        one_of(self.score_by, "score_by", get_args(ScoreName))

    def scores(self, records: ArrayLike) -> Floats:
        """The score of each record."""
        return self.value.scores_by(self.score_by, scored_points(records, len(self.columns)))

    def threshold(self, share: float) -> float:
        """The score beyond which about this share of the reference lies."""
        return self.value.limit(self.score_by, share)

    @property
    def hidden_share(self) -> float:
        """Which share noise may hide; all of it for residuals, which are not counted."""
        return self.value.hidden_share if self.score_by == "distance" else 1.0

    def share_beyond(self, score: float, confidence: float = 0.95) -> tuple[float, float] | None:
        """Between which shares score higher; unknown for residuals, which are not counted."""
        return self.value.share_beyond(score, confidence) if self.score_by == "distance" else None

    def explain(self, records: ArrayLike) -> Explanation | None:
        """What each column adds to the distance; unknown for residuals."""
        return self.value.explain(records) if self.score_by == "distance" else None


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
