"""Noisy counts of all parties' records, drawn as a curator's release of the same question is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.pictures import density_sketch, histogram, marginals
from privod.queries.density_sketch.query import DensitySketch
from privod.queries.histogram import Histogram
from privod.queries.query import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privod.joint.counts import JointRelease

__all__ = ["draw_counts"]


def draw_counts(release: JointRelease) -> Figure:
    """Draw what is counted; the error bars are of the noise of all shares."""
    of, value = release.question.of, release.value
    if isinstance(of, Histogram):
        return histogram.draw_counts(value, release.noise.quantile(0.95))
    inner = Release(of, value, release.question.table_guarantee(), value.seeded)
    return density_sketch.draw(inner) if isinstance(of, DensitySketch) else marginals.draw(inner)
