"""Crowds the slow, obvious way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def crowds(
    points: NDArray[np.float64], radius: float, at: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """All pairs; squared differences summed column by column in float64, against radius^2."""
    asked = points if at is None else at
    counts = [_near(some, points, radius) for some in np.array_split(asked, len(asked) // 50 + 1)]
    return np.concatenate(counts)


def _near(
    asked: NDArray[np.float64], points: NDArray[np.float64], radius: float
) -> NDArray[np.int64]:
    total = np.zeros((len(asked), len(points)))
    for j in range(points.shape[1]):
        gap = asked[:, j, None] - points[None, :, j]
        total += gap * gap
    return np.asarray((total <= radius * radius).sum(axis=1), np.int64)
