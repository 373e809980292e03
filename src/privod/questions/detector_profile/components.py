"""How far is a record from where correlated columns lie? By the released sums of products.

Along each component of the correlations the distance squared is divided by the variance there to
the power of 3/2. So what dependent columns leave out counts more than in Mahalanobis' distance, and
outliers in one of independent columns, of which each is a component, still count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privod.arrays import Floats, Ints
from privod.query.moments import UNIT, standardized, symmetric
from privod.questions.detector_profile.layout import Layout

STEPS = 16  # to a scale: places
POWER = 1.5  # of a component's variance


@dataclass(frozen=True, eq=False)
class Components:
    """Of sums of products whose noise has this deviation, over about so many records."""

    layout: Layout
    products: Ints
    deviation: float
    records: float

    @cached_property
    def root(self) -> Floats:
        """Correlates independent normal numbers as the columns are, each of variance 1."""
        directions, _ = self._eigen
        spread = directions * np.sqrt(self._spectrum)
        return np.asarray(spread / np.sqrt((spread**2).sum(axis=1, keepdims=True)))

    def distances(self, rows: Floats) -> Floats:
        """How far each record is as read, squared."""
        return np.asarray(self.by_column(rows).sum(axis=1))

    def by_column(self, rows: Floats) -> Floats:
        """What every numeric column adds to that for every record."""
        away = self._away(rows)
        return np.asarray(away * (away @ self.metric))

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        """Directions, as columns, and the noisy variances along them, ascending."""
        matrix = symmetric(self.products / self.records, len(self.layout.numeric))
        variances, directions = np.linalg.eigh(matrix)
        return np.asarray(directions), np.asarray(variances)

    @property
    def _edge(self) -> float:
        """How large noise alone makes a variance: the edge of its own spectrum."""
        deviation = self.deviation / UNIT**2 / self.records
        return float(2 * math.sqrt(len(self.layout.numeric)) * deviation)

    @property
    def _spectrum(self) -> Floats:
        """Variances raised by the edge of the noise, none negative."""
        _, variances = self._eigen
        top = max(float(variances.max()), 0.0)
        return np.maximum(variances, 0.0) + self._edge + 1e-3 * top + 1e-9

    @cached_property
    def metric(self) -> Floats:
        """How much every two columns' distances count together."""
        directions, _ = self._eigen
        return np.asarray(directions @ (directions * self._spectrum**-POWER).T)

    def _away(self, rows: Floats) -> Floats:
        """Distances from the centers, by the step that they lie on."""
        points = rows[:, self.layout.numeric]
        away = standardized(points, np.array(self.layout.centers), np.array(self.layout.scales))
        return np.asarray(np.rint(away * STEPS) / STEPS)
