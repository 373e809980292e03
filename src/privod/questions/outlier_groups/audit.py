"""The outlier groups' hardest pairs: a record that is counted in every choice and every size."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from privod.audit.game import Game, Reading
from privod.data import Categorical, Domain, Numeric, Table
from privod.questions.outlier_context.groups import OutlierGroups, PersonGroups

__all__ = ["games", "table_with"]

DOMAIN = Domain(
    (Categorical("group", ("a", "b")), Numeric("age", 0, 100), Numeric("salary", 0, 100))
)


def table_with(others: int) -> Table:
    """Eight alike of group a, so many others of group b, and one far out; all young.

    By Grubbs' test a person as far out stands out wherever looked at, however many others there
    are. The second person asked about is seen as the same one: groups cut ages at 50.
    """
    salaries = [40 + place for place in range(8)] + [44] * others + [100]
    groups = ["a"] * 8 + ["b"] * others + ["a"]
    return Table(DOMAIN, {"group": groups, "age": [20] * len(groups), "salary": salaries})


def _places(value: tuple[PersonGroups, ...]) -> float:
    """The chosen groups of all persons as one number."""
    bits = "".join(group.bits for one in value for group in one.groups)
    return float(int(bits or "0", 2))


def _sizes(value: tuple[PersonGroups, ...]) -> float:
    return float(sum(size for one in value for size in one.sizes))


READINGS = (Reading("the groups as a number", _places), Reading("the sum of the sizes", _sizes))


def games(kind: type[OutlierGroups] = OutlierGroups) -> tuple[Game, ...]:
    """One more or one less in group b: for two groups, and for two persons with sizes."""
    alone = kind(
        group_columns=("group", "age"),
        persons=(("a", 20.0, 100.0),),
        column="salary",
        epsilon=1,
        cuts=(("age", 50.0),),
        detector="grubbs",
    )
    two = replace(
        alone, persons=(("a", 20.0, 100.0), ("a", 21.0, 100.0)), size_share=Fraction(4, 5)
    )
    return (
        Game(replace(alone, n_groups=2), table_with(0), table_with(1), READINGS),
        Game(two, table_with(0), table_with(1), READINGS),
    )
