"""The detector's hardest pairs: one record more, in one cell of everything at once."""

from __future__ import annotations

from dataclasses import replace

from privod.audit.game import Game, Reading, fineness
from privod.data import Domain, Numeric, Table
from privod.privacy import AddRemove, Replace
from privod.questions.detector_profile.layout import Layout
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.detector_profile.ranges import UNIVERSE
from privod.questions.detector_profile.release import NoisyProfile

DOMAIN = Domain((Numeric("x", -2, 2), Numeric("y", -2, 2)))
LAYOUT = Layout(DOMAIN.columns, ((-2.0, 2.0), (-2.0, 2.0)), 4, (0.0, 0.0), (1.0, 1.0))
"""With products, which a few records alone would not be worth."""

SCORED = replace(LAYOUT, centers=(), scales=(), score_unit=1.0)
"""With counts of scores, for which the same holds."""

LOW, HIGH = (-1.5, -1.5), (1.5, 1.5)  # both on the ball's border: the largest products


def _low_cells(value: NoisyProfile) -> float:
    starts = value.layout.starts
    return float(value.counts[starts[0] + 1] + value.counts[starts[1] + 1])


def _high_cells(value: NoisyProfile) -> float:
    starts = value.layout.starts
    return float(value.counts[starts[1] - 3] + value.counts[starts[2] - 3])


READINGS = (
    Reading("number of records", lambda value: float(value.total)),
    Reading("low cells of both columns", _low_cells),
    Reading("low cells less high cells", lambda value: _low_cells(value) - _high_cells(value)),
    Reading("all counts", lambda value: float(value.counts.sum() + value.total)),
    Reading("products", lambda value: float(value.products.sum())),
    Reading("records by their scores", lambda value: float(value.scored.sum())),
    Reading("ordinary scores", lambda value: float(value.scored[:4].sum())),
    Reading("lower ends", lambda value: sum(low for low, _ in value.layout.ranges)),
    Reading("upper ends", lambda value: sum(high for _, high in value.layout.ranges)),
    Reading("binary places", lambda value: fineness(value.counts.sum())),
)


def games(kind: type[DetectorProfile] = DetectorProfile) -> tuple[Game, ...]:
    """Under each adjacency: ranges open, or cells given with products; scores and Gaussian once."""
    open_ended = Domain(tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in ("x", "y")))

    def table(domain: Domain, *rows: tuple[float, float]) -> Table:
        return Table(domain, {"x": [row[0] for row in rows], "y": [row[1] for row in rows]})

    laplace = tuple(
        Game(
            kind(columns=("x", "y"), epsilon=1, layout=layout, adjacency=adjacency),
            table(domain, *left),
            table(domain, *right),
            READINGS,
        )
        for adjacency, left, right in ((AddRemove(), (), (LOW,)), (Replace(), (LOW,), (HIGH,)))
        for domain, layout in ((open_ended, None), (DOMAIN, LAYOUT.text))
    )
    gaussian = kind(columns=("x", "y"), epsilon=1, layout=LAYOUT.text, delta="0.01")
    scored = kind(columns=("x", "y"), epsilon=1, layout=SCORED.text)
    nobody, low = table(DOMAIN), table(DOMAIN, LOW)
    return (*laplace, *(Game(asked, nobody, low, READINGS) for asked in (gaussian, scored)))
