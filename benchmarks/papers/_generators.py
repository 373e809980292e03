"""Made-up data of the papers; seeds are no secret here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table


def okada_synthetic_1(seed: int = 0) -> Table:
    """Synthetic 1 of [Okada 2015, Section 6.1]: 45 standard normal records and 5 far ones, 2-d."""
    return _table(_okada(45, 5, 2, seed), -30, 70)


def okada_synthetic_2(seed: int = 0) -> Table:
    """Synthetic 2 of [Okada 2015]: 490 records and 10 that are far in columns x1 and x2, 10-d."""
    return _table(_okada(490, 10, 10, seed), -30, 70)


def _okada(inliers: int, outliers: int, dimension: int, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    far = generator.normal(0, 1, (outliers, dimension))
    far[:, :2] = generator.normal(20, 10, (outliers, 2))
    return np.concatenate([generator.normal(0, 1, (inliers, dimension)), far])


def gaussian_mixture(n_records: int = 20_000, dimension: int = 200, seed: int = 0) -> Table:
    """A mixture of ten Gaussians, one record in a hundred drawn five times as wide [Asif 2020]."""
    generator = np.random.default_rng(seed)
    centers = generator.normal(0, 3, (10, dimension))
    spread = np.where(np.arange(n_records) < n_records // 100, 5.0, 1.0)
    noise = generator.normal(0, 1, (n_records, dimension)) * spread[:, None]
    return _table(centers[generator.integers(0, 10, n_records)] + noise, -50, 50)


def _table(points: NDArray[np.float64], low: float, high: float) -> Table:
    names = [f"x{place + 1}" for place in range(points.shape[1])]
    domain = Domain(tuple(Numeric(name, low, high) for name in names))
    return Table(domain, dict(zip(names, points.T, strict=True)))
