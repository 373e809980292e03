"""Thresholds on scores, from noisy counts of the scores of the records themselves.

A release often misjudges how its own records score. So the records are counted in public bins of
scores, with noise. What is made of the counts here is post-processing: they are explained by laws
with two parameters [Weibull 1951] and a share of strays, and drawn toward what these expect, the
farther the more noise there is. `shares_beyond` says what is proved: it adds up plain noisy counts.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, softmax

from privod.arrays import Floats, Ints
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace
from privod.mechanisms.merged import MergedNoise

EDGES: Floats = np.array(
    [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32], dtype=np.float64
)
"""Where the bins of a profile's scores begin; the last one has no end."""

COARSE_EDGES: Floats = np.append(0.0, 2.0 ** np.arange(-2, 21))
"""The same by octaves, to find in which unit the scores are to be counted."""

UNIT_SHARE = 0.1  # of the records: how far these score decides in which unit ...
UNIT_DOUBT = 2.0  # ... where so many deviations of noise do not explain it

SCORE_SHARE = Fraction(1, 10)  # of epsilon or rho, for counting the records by their scores
ASKED_SHARE = 0.01  # of the records: a threshold for so few is often asked for
TOLD_SHARE = 0.1  # of the records, whose threshold a sentence tells the error of

LEAST_SCORED = 10.0  # records to a noise scale of the counts below which they show nothing
DRAWS = 20.0  # a law is as far off, about, as shares among so many records that follow it
LEAST_NOISE = 0.1  # deviations of counts that are as good as exact
FACTOR = 2.0  # by which the share that is flagged may differ from the one asked for
SCALES = np.geomspace(0.25, 32.0, 24)  # of the laws that are tried ...
SHAPES = np.geomspace(0.5, 12.0, 12)  # ... 1 and 1 where a profile judges its own records rightly
STRAYS = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2])  # shares of records that may score anything
DOUBT = (1.5, 0.7, 0.05)  # deviations of the logarithms, and a share, before any count is seen
DRAWN_ON = 1e-6  # of the records, at least, in every cell: a limit is never between two zeros
HAIR = 1e-12  # by which shares and variances are away from their ends


def hidden_records(deviation: float, n_cells: int) -> float:
    """How many records noise may hide: two deviations of that in half of the counts of scores."""
    return 2 * math.sqrt(n_cells / 2) * deviation


def told_before(noise: DiscreteLaplace | DiscreteGaussian, edges: Floats) -> str:
    """Of how many records a threshold is worth asking for, to be said before anything is paid."""
    enough = hidden_records(noise.deviation, len(edges)) / ASKED_SHARE
    return (
        f" A threshold that is to flag {100 * ASKED_SHARE:.0f} % of the records is a guess where"
        f" they are fewer than about {float(f'{enough:.1g}'):,.0f}."
    )


def scoring_pays(records: float, scale: float) -> bool:
    """Whether counts of scores with noise of this scale can show anything."""
    return records >= LEAST_SCORED * scale


def score_unit(noisy: Ints, deviation: float, records: float) -> float:
    """A power of two in which the scores of most records are well told apart by `EDGES`.

    One, unless noise does not explain that more than a tenth of the records score beyond four
    units, or fewer beyond a half. How many score beyond an edge is known from the counts above it,
    and from the counts below and the number of records: both, by how little noise they have.
    """
    above = noisy[::-1].cumsum()[::-1].astype(np.float64)
    below = records - np.append(0, noisy.cumsum()[:-1])
    n_above = np.arange(len(noisy), 0, -1.0)
    weights = (len(noisy) - n_above + 0.5) / (len(noisy) + 0.5)
    tails = weights * above + (1 - weights) * below - UNIT_SHARE * records
    noise = UNIT_DOUBT * deviation * np.sqrt(n_above * weights)
    at = int(np.searchsorted(COARSE_EDGES, 1.0))
    while at + 3 < len(noisy) and tails[at + 2] > noise[at + 2]:
        at += 1
    while at > 1 and tails[at - 1] < -noise[at - 1]:
        at -= 1
    return float(COARSE_EDGES[at])


class Tails(NamedTuple):
    """About which share of the records scores in each bin or higher, and how far off that is."""

    shares: Floats
    variances: Floats


def believed_tails(noisy: Ints, noise: MergedNoise, records: float) -> Tails:
    """What the noisy counts say if shares of cells vary about a law as those of drawn records do.

    Noise is taken for normal. Then every law has a likelihood, and what it expects of the counts
    has a mean and a variance: both are averaged over the laws, by how likely these are.
    """
    laws, doubt = _laws()
    noise2 = max(noise.deviation, LEAST_NOISE) ** 2
    misfit = records**2 / (DRAWS + 1)
    varies, apart = misfit * laws + noise2, noisy - records * laws
    pull = laws / varies
    whole, pulled = pull.sum(axis=1, keepdims=True), (pull * apart).sum(axis=1, keepdims=True)
    unlikely = np.log(varies) + apart**2 / varies
    together = np.log(noise2 * whole) + misfit * pulled**2 / (noise2 * whole)
    weights = softmax(doubt - (unlikely.sum(axis=1) + together[:, 0]) / 2)
    means = _tails(laws + misfit / records * (pull * apart - pull * pulled / whole))
    parts = _tails(pull) / whole
    squares = means**2 + misfit * noise2 / records**2 * whole * parts * (1 - parts)
    mean = weights @ means
    shares = np.maximum(np.minimum.accumulate(mean), DRAWN_ON * np.arange(len(noisy), 0, -1))
    return Tails(shares, np.maximum(weights @ squares - mean**2, 0.0))


def limit(tails: Tails, target_fraction: float) -> float:
    """The score beyond which this share lies, the log of shares being straight within a cell."""
    return float(np.interp(-np.log(target_fraction), -np.log(tails.shares), EDGES))


def chance_of_missing(tails: Tails, score: float, target_fraction: float) -> tuple[float, float]:
    """How likely less than half or more than twice this share scores higher; the score's own cell.

    The records of that cell, whose share comes second, lie on either side as drawn ones would. So
    the share that scores higher is as far off as that of a number of draws: a beta distribution.
    """
    at = int(np.searchsorted(EDGES, score, side="right")) - 1
    high, low = np.append(tails.shares, 0.0)[at : at + 2]
    off, off_low = np.sqrt(np.append(tails.variances, 0.0)[at : at + 2])
    share = min(float(np.exp(np.interp(score, EDGES, np.log(tails.shares)))), 1 - HAIR)
    part = (share - low) / max(high - low, HAIR)
    variance = (part * off + (1 - part) * off_low) ** 2
    variance += part * (1 - part) * (high - low) ** 2 / (DRAWS * (high - low) + 1)
    draws = max(share * (1 - share) / max(variance, HAIR) - 1, HAIR)
    ends = np.minimum([target_fraction / FACTOR, target_fraction * FACTOR], 1.0)
    least, most = betainc(share * draws, (1 - share) * draws, ends)
    return float(least + 1 - most), float(high - low)


def shares_beyond(
    score: float,
    noisy: Ints,
    noise: MergedNoise,
    total: int,
    noise_of_total: MergedNoise,
    confidence: float,
) -> tuple[float, float]:
    """The least and the greatest share of the records that score higher, at this confidence.

    The noise of the number of records and of all tails of the bins, whichever the score asks
    for, stays within these limits at once, by the union bound.
    """
    doubt = (1 - confidence) / 2
    at = int(np.searchsorted(EDGES, max(score, 0.0), side="right")) - 1
    off = noise_of_total.quantile(1 - doubt)
    least, _ = _tail(noisy, noise, at + 1, doubt / len(EDGES))
    _, greatest = _tail(noisy, noise, at, doubt / len(EDGES))
    return max(0.0, least / max(total + off, 1)), min(1.0, max(0.0, greatest / max(total - off, 1)))


def between(shares: tuple[float, float]) -> str:
    """Limits in words, rounded away from what they enclose."""
    low, high = math.floor(1000 * shares[0]) / 10, math.ceil(1000 * shares[1]) / 10
    return f"between {low:.1f} % and {high:.1f} %"


def _tail(noisy: Ints, noise: MergedNoise, start: int, doubt: float) -> tuple[int, int]:
    """Between which numbers the records lie that score in this cell or higher."""
    n_cells = len(noisy) - start
    if n_cells == 0:
        return 0, 0
    parts, gaussian = (
        tuple((scale, times * n_cells) for scale, times in some)
        for some in (noise.parts, noise.gaussian)
    )
    off = MergedNoise(parts, gaussian).quantile(1 - doubt)
    found = int(noisy[start:].sum())
    return found - off, found + off


def _tails(cells: Floats) -> Floats:
    return np.asarray(cells[:, ::-1].cumsum(axis=1)[:, ::-1])


@cache
def _laws() -> tuple[Floats, Floats]:
    """Shares of the cells under every law that is tried, and how much each is doubted before."""
    scales, shapes, strays = (side.ravel() for side in np.meshgrid(SCALES, SHAPES, STRAYS))
    beyond = np.exp(-((EDGES / scales[:, None]) ** shapes[:, None]))
    shares = beyond - np.append(beyond[:, 1:], np.zeros((len(beyond), 1)), axis=1)
    shares = (1 - strays[:, None]) * shares + strays[:, None] / len(EDGES)
    doubt = -((np.log(scales) / DOUBT[0]) ** 2 + (np.log(shapes) / DOUBT[1]) ** 2) / 2
    return shares, doubt - strays / DOUBT[2]
