"""About which share of the records lies in each cell of a column, where noise may hide it?

Noisy counts are drawn toward two priors as far as noise explains that they differ [James 1961], and
averaged as logarithms. By one small values are more usual than large ones. The other is what all
columns show together: shapes that fall away from zero, a middle or an end are weighed by how well
they explain all counts [empirical Bayes, Robbins 1956]. It looks at released counts only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from privod.arrays import Floats, Ints
from privod.data import Categorical, Numeric
from privod.mechanisms.merged import MergedNoise
from privod.questions.detector_profile.layout import Layout

Range = tuple[float, float]

PRIOR_FALL = 8.0  # how fast the prior falls: by 9^2 from zero to the end of a range
PRIOR_MISSING = 0.02  # of the records, before any are seen
LEAST_SHAPE = 1e-6
FLOOR = 0.25  # of a noise scale, below which no count is believed
LEAST_SHARE = 1e-4  # of the records in a cell, over the number of cells
BELIEVED = 2.0  # deviations of noise that a count must exceed for records to be drawn from it
KEPT = 0.5  # weight of the prior by which small values are usual; the rest is what columns show
PLACES = np.linspace(0.0, 1.0, 9)  # in a range, from which shapes fall ...
FALLS = np.array([4.0, 8.0, 16.0, 32.0])  # ... so fast to a range's length
DOUBT = 4.0  # columns that the weights of shapes stand for before any is seen: half for zero
ROUNDS = 30  # of weighing


class _Priors(NamedTuple):
    """Shares of one column's cells: as columns show together, and as small values are usual."""

    shown: Floats
    small: Floats | None


class Shares(NamedTuple):
    """Of the cells of one column: to be surprised by, and to draw records from.

    In the second noise is no records: counts that noise alone may reach are none.
    """

    likely: Floats
    drawn: Floats


def believed_shares(
    layout: Layout, counts: Ints, noise: MergedNoise, records: float
) -> list[Shares]:
    """About which share of the records lies in each cell of each column, never none."""
    starts = layout.starts
    split = [counts[start:end] for start, end in pairwise(starts)]
    priors = _priors(layout, split, noise, records)
    found = []
    for own, prior in zip(split, priors, strict=True):
        likely = _drawn_toward(prior.shown, own, noise.scale, records)
        if prior.small is not None:
            kept = _drawn_toward(prior.small, own, noise.scale, records)
            likely = kept**KEPT * likely ** (1 - KEPT)
            likely /= likely.sum()
        believed = np.where(own > BELIEVED * noise.deviation, own, 0).astype(np.float64)
        enough = believed.sum() > records / 2  # else most drown in noise, and none are told
        found.append(Shares(likely, believed / believed.sum() if enough else likely))
    return found


def _drawn_toward(prior: Floats, counts: Ints, scale: float, records: float) -> Floats:
    """The counts, drawn toward the prior as far as noise explains that they differ from it."""
    apart = float(((counts - records * prior) ** 2).sum())
    noise = 2 * scale**2 * (len(counts) - 2)
    weight = max(0.0, 1 - noise / apart) if apart > 0 else 0.0  # [James 1961], positive part
    shares = prior + weight * (counts / records - prior)
    least = max(FLOOR * weight * scale / records, LEAST_SHARE / len(counts), 0.5 / records)
    shares = np.maximum(shares, least)
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def _priors(
    layout: Layout, counts: list[Ints], noise: MergedNoise, records: float
) -> list[_Priors]:
    """Shares before a column's own counts are taken at their word; of categories all alike."""
    shapes, misfits = [], []
    ranges = zip(layout.declared, layout.ranges, strict=True)
    for column, own in zip(layout.columns, counts, strict=True):
        if isinstance(column, Numeric):
            shapes.append(_shapes(*next(ranges), layout.bins))
            misfits.append(np.abs(own - records * shapes[-1]).sum(axis=1) / noise.scale)
    weighed = zip(shapes, _weights(np.array(misfits)) if shapes else (), strict=True)
    numeric = iter([_Priors(weights @ found, found[0]) for found, weights in weighed])
    return [
        _Priors(np.full(len(own), 1 / len(own)), None)
        if isinstance(column, Categorical)
        else next(numeric)
        for column, own in zip(layout.columns, counts, strict=True)
    ]


def _shapes(declared: Range, span: Range, bins: int) -> Floats:
    """Shares of the cells under every shape; the first falls away from zero."""
    low, high = span
    inner = low + (high - low) * np.arange(bins + 1) / bins
    edges = np.concatenate([[min(declared[0], low)], inner, [max(declared[1], high)]])
    places, falls = (side.ravel() for side in np.meshgrid(low + (high - low) * PLACES, FALLS))
    away = (edges - places[:, None]) / (high - low) * falls[:, None]
    away = np.vstack([PRIOR_FALL * edges / max(abs(low), abs(high)), away])
    within = np.sign(away) * (1 - 1 / (1 + np.abs(away)))
    shares = np.maximum(np.diff(within, axis=1), LEAST_SHAPE)
    shares /= (1 + PRIOR_MISSING) * shares.sum(axis=1, keepdims=True)
    missing = np.full((len(shares), 1), PRIOR_MISSING / (1 + PRIOR_MISSING))
    return np.hstack([shares, missing])


def _weights(misfits: Floats) -> Floats:
    """How much each column trusts each shape: by all columns, and by its own counts."""
    fits = np.exp(misfits.min(axis=1, keepdims=True) - misfits)
    before = np.full(fits.shape[1], 0.5 / (fits.shape[1] - 1))
    before[0] = 0.5
    shared = before
    for _ in range(ROUNDS):
        own = shared * fits
        own /= own.sum(axis=1, keepdims=True)
        shared = (DOUBT * before + own.sum(axis=0)) / (DOUBT + len(own))
    return np.asarray(own)
