"""Noisy counts of all parties' records, drawn as a curator's release of the same question is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privod.query.query import Release
from privod.questions.density_sketch import picture as density_sketch
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.histogram import picture as histogram
from privod.questions.histogram.query import Histogram
from privod.questions.marginals import picture as marginals

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
