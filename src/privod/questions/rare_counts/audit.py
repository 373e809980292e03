"""The hardest pair for rare counts: the rarest protected values against one record less."""

from __future__ import annotations

from privod.audit import WorstCase
from privod.data import Categorical, Domain, Table
from privod.questions.rare_counts.query import RareCounts

DOMAIN = Domain((Categorical("letter", ("a", "b")), Categorical("grade", (1, 2))))


def _records(n: int) -> Table:
    """So many of (a, 1), and one record apart, who is not protected."""
    return Table(DOMAIN, {"letter": ["a"] * n + ["b"], "grade": [1] * n + [2]})


def worst_cases(kind: type[RareCounts] = RareCounts) -> tuple[WorstCase, ...]:
    """Two records against three, where a crowd of three is protected; and where all are."""
    narrow = kind(columns=("letter", "grade"), max_crowd=3, epsilon="0.8")
    wide = kind(columns=("letter", "grade"), max_crowd=3, epsilon="0.8", edit_margin=3)
    asked = kind(columns=("grade", "letter"), max_crowd=3, epsilon="0.8", records=((1, "a"),))
    return (
        WorstCase(narrow, _records(2), _records(3)),
        WorstCase(asked, _records(2), _records(3)),
        WorstCase(wide, _records(0), _records(1)),
    )
