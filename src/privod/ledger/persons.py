"""Refuse several rows per person where a guarantee speaks of single records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.privacy import AddRemove, Adjacency, Statement


def is_beyond_add_remove(statements: Sequence[Statement]) -> bool:
    """Whether nothing is proved under add-remove: another budget must pay, if one can be opened."""
    return all(AddRemove().steps_of(statement.adjacency) is None for statement in statements)


def check_unit(adjacency: Adjacency, versions: Mapping[str, Domain]) -> None:
    """Refuse a promise that does not stretch to the persons of a version with several rows each."""
    if adjacency.stretches_to_persons:
        return
    for name, domain in versions.items():
        if domain.max_rows_per_person > 1:
            rule = f"of {name!r} must be 1 for budgets and questions under {adjacency.name}"
            way_out = (
                f"A promise under {adjacency.name} does not stretch to a person with several"
                " records, and all versions of a data set share its budgets. A cap that is"
                " registered never changes: ask what is promised under add-remove, or register a"
                " data set with a cap of 1 that continues none. What both tell about a person"
                " adds up."
            )
            given = domain.max_rows_per_person
            raise InvalidParameter("max_rows_per_person", rule, given, way_out)
