"""Estimates of true counts from noisy ones: post-processing with the public law of the noise.

A noisy count taken at its word counts half the noise of every empty cell as records. Here the
law of the counts behind many noisy ones is estimated by maximum likelihood [Kiefer 1956], by
expectation-maximization, and each noisy count is replaced by its expectation under that law
(empirical Bayes [Robbins 1956]). Their sum is close to that of the noisy counts, and none of them
is negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.merged import MergedNoise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PLACES_PER_SCALE = 4  # how finely the law of the counts is tabulated
BELIEVED_FROM = 40.0  # scales from which on a count is believed as it is
BEYOND = 10.0  # scales that the table goes past them
ROUNDS = 100  # more change thresholds by less than their noise does
LEAST = 1e-300


def expected_counts(noisy: Ints, noise: MergedNoise) -> Floats:
    """What each noisy count is expected to stand for, given all of them; the same shape."""
    step = max(1.0, noise.scale / PLACES_PER_SCALE)
    top = BELIEVED_FROM * noise.scale
    expected = np.maximum(noisy.astype(np.float64), 0.0)
    doubted = noisy < top
    if not doubted.any():
        return expected
    support = np.arange(0.0, top + BEYOND * noise.scale + step, step)
    seen, place, times = np.unique(
        np.rint(noisy[doubted] / step), return_inverse=True, return_counts=True
    )
    likely = np.maximum(noise.density(seen[:, None] * step - support), LEAST)
    law = np.full(len(support), 1 / len(support))
    shares = times / times.sum()
    for _ in range(ROUNDS):
        law *= likely.T @ (shares / (likely @ law))
    means = likely @ (law * support) / (likely @ law)
    expected[doubted] = means[place]
    return expected
