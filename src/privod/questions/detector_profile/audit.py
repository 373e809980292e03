"""The detector's hardest pairs: one record more, in one cell of everything at once."""

from __future__ import annotations

from dataclasses import replace

from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table
from privod.data.columns import UNIVERSE
from privod.privacy import AddRemove, Replace
from privod.questions.detector_profile.layout import Layout
from privod.questions.detector_profile.query import DetectorProfile

DOMAIN = Domain((Numeric("x", -2, 2), Numeric("y", -2, 2)))
SPANS = (-2.0, 2.0), (-2.0, 2.0)
LAYOUT = Layout(DOMAIN.columns, SPANS, 4, (0.0, 0.0), (1.0, 1.0), units=(0.5, 0.0))
"""With products, which a few records alone would not be worth, and one column read in octaves."""

SCORED = replace(LAYOUT, centers=(), scales=(), score_unit=1.0, units=())
"""With counts of scores, for which the same holds."""

LOW, HIGH = (-1.5, -1.5), (1.5, 1.5)  # both on the ball's border: the largest products


def worst_cases(kind: type[DetectorProfile] = DetectorProfile) -> tuple[WorstCase, ...]:
    """Under each adjacency: ranges open, or cells given with products; scores and Gaussian once."""
    open_ended = Domain(tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in ("x", "y")))

    def table(domain: Domain, *rows: tuple[float, float]) -> Table:
        return Table(domain, {"x": [row[0] for row in rows], "y": [row[1] for row in rows]})

    laplace = tuple(
        WorstCase(
            kind(columns=("x", "y"), epsilon=1, layout=layout, adjacency=adjacency),
            table(domain, *left),
            table(domain, *right),
        )
        for adjacency, left, right in ((AddRemove(), (), (LOW,)), (Replace(), (LOW,), (HIGH,)))
        for domain, layout in ((open_ended, None), (DOMAIN, LAYOUT.text))
    )
    gaussian = kind(columns=("x", "y"), epsilon=1, layout=LAYOUT.text, delta="0.01")
    scored = kind(columns=("x", "y"), epsilon=1, layout=SCORED.text)
    nobody, low = table(DOMAIN), table(DOMAIN, LOW)
    return (*laplace, *(WorstCase(asked, nobody, low) for asked in (gaussian, scored)))
