"""The distribution of the scores of a release's own records, by sampling from the release."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from privod.arrays import Floats
from privod.mechanisms import seeded

TAIL_FROM = 0.9  # of the drawn scores, from where on the law is carried on past the last
PLACES = 4096  # of a law at equal steps
LEAST_LENGTH = 1e-9


class Law(NamedTuple):
    """Minus the log of the share that scores higher, at the multiples of a step from 0 on."""

    surprises: Floats
    step: float
    slope: float

    def surprise(self, scores: Floats) -> Floats:
        """The same of any scores, carried on past the last."""
        last = self.step * (len(self.surprises) - 1)
        places = self.step * np.arange(len(self.surprises))
        past = np.maximum(scores - last, 0.0)
        return np.asarray(np.interp(scores, places, self.surprises) + self.slope * past)


def law_of(scores: Floats) -> Law:
    """The law that these scores follow, at equal steps, to be looked up without a search."""
    ordered = np.sort(scores)
    size = len(ordered)
    surprises = -np.log1p(-(np.arange(size) + 0.5) / size)
    known, first = np.unique(ordered, return_index=True)
    upto = np.append(first[1:], size) - 1
    values = (surprises[first] + surprises[upto]) / 2  # of equal scores, the middle
    if known[0] > 0.0:
        known, values = np.append(0.0, known), np.append(0.0, values)
    else:  # the commonest of all are no surprise, however many they are
        values = np.where(known <= 0.0, 0.0, values)
    start = int(np.searchsorted(known, ordered[int(TAIL_FROM * size)]))
    run = known[-1] - known[start]
    slope = (values[-1] - values[start]) / run if run > 0 else 1.0
    step = max(float(known[-1]), LEAST_LENGTH) / PLACES
    return Law(np.interp(step * np.arange(PLACES + 1), known, values), step, float(slope))


@lru_cache(maxsize=1)
def uniform_draws(size: int, n_columns: int) -> Floats:
    """Numbers between 0 and 1 that look random: always the same; no promise rests on them."""
    draws = (seeded(0).words(size * n_columns) >> np.uint64(11)).astype(np.float64)
    return ((draws + 0.5) * 2.0**-53).reshape(size, n_columns)
