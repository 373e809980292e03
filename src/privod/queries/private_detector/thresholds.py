"""Beyond which score do so many of the records lie? By noisy counts of their own scores.

A profile that drowns in noise misjudges how its own records score, often by far. So once it is
released, and scores are a public function of a record, the records are counted in public bins
of scores, each in one cell, and the counts get noise. What is made of them here is post-processing.

Counts are first explained by laws of scores with two parameters [Weibull 1951] and a share of
strays, averaged by how well each explains all of them. How many score in a cell or higher is then
drawn toward what these expect, the farther the more noise there is to it; what noise does not
explain is taken at its word. `shares_beyond` says what is proved: it adds up plain noisy counts.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.merged import MergedNoise

__all__ = ["EDGES", "believed_tails", "counts_of_scores", "limit", "scoring_pays"]
__all__ += ["shares_beyond"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EDGES: Floats = np.array(
    [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32], dtype=np.float64
)
"""Where the bins of scores begin; the last one has no end."""

LEAST_SCORED = 10.0  # records to a noise scale of the counts below which they show nothing
MISFIT = 0.5  # of what a law expects, by which it may well be wrong
BELIEVED = 4.0  # deviations of noise beyond which what was counted is taken at its word
SCALES = np.geomspace(0.25, 32.0, 48)  # of the laws that are tried ...
SHAPES = np.geomspace(0.5, 12.0, 24)  # ... 1 and 1 where a profile judges its own records rightly
STRAYS = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2])  # shares of records that may score anything
DOUBT = (1.5, 0.7, 0.05)  # deviations of the logarithms, and a share, before any count is seen
DRAWN_ON = 1e-6  # of the records, at least, in every cell: a limit is never between two zeros


def scoring_pays(records: float, scale: float) -> bool:
    """Whether counts of scores with noise of this scale can show anything."""
    return records >= LEAST_SCORED * scale


def counts_of_scores(scores: Floats) -> Ints:
    """How many scores lie in each bin; each lies in one."""
    cells = np.searchsorted(EDGES[1:], scores, side="right")
    return np.bincount(cells, minlength=len(EDGES)).astype(np.int64)


def believed_tails(noisy: Ints, noise: MergedNoise, records: float) -> Floats:
    """About how many records score in each cell or higher, never more than in the one before."""
    laws, doubt = _laws()
    likely = doubt - np.abs(noisy - records * laws).sum(axis=1) / noise.scale
    weights = np.exp(likely - likely.max())
    expected = _tails(records * (weights @ laws) / weights.sum())
    found = _tails(noisy.astype(np.float64))
    deviations = noise.deviation * np.sqrt(np.arange(len(noisy), 0, -1))
    trust = expected**2 / (expected**2 + (deviations / MISFIT) ** 2)
    trust[np.abs(found - expected) > BELIEVED * deviations] = 1.0
    believed = np.minimum.accumulate(expected + trust * (found - expected))
    return np.asarray(np.maximum(believed, DRAWN_ON * records * np.arange(len(noisy), 0, -1)))


def limit(tails: Floats, target_fraction: float) -> float:
    """The score beyond which this share lies, the log of shares being straight within a cell."""
    return float(np.interp(-np.log(target_fraction), -np.log(tails / tails[0]), EDGES))


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
    return np.asarray(cells[::-1].cumsum()[::-1])


@lru_cache(maxsize=1)
def _laws() -> tuple[Floats, Floats]:
    """Shares of the cells under every law that is tried, and how much each is doubted before."""
    scales, shapes, strays = (side.ravel() for side in np.meshgrid(SCALES, SHAPES, STRAYS))
    beyond = np.exp(-((EDGES / scales[:, None]) ** shapes[:, None]))
    shares = beyond - np.append(beyond[:, 1:], np.zeros((len(beyond), 1)), axis=1)
    shares = (1 - strays[:, None]) * shares + strays[:, None] / len(EDGES)
    doubt = -((np.log(scales) / DOUBT[0]) ** 2 + (np.log(shapes) / DOUBT[1]) ** 2) / 2
    return shares, doubt - strays / DOUBT[2]
