"""Whom does a joint run protect where rows belong to persons? One record each, at every party.

Parties do not know whom they share, so no cap holds over all of them; and under replacement a loss
does not stretch to persons with several records (docs/guarantees.md, "Persons").
"""

from __future__ import annotations

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.privacy import Guarantee


def check_one_record_each(domain: Domain) -> None:
    """Raise where a person may have several records: the promise of a run is for one."""
    if domain.max_rows_per_person > 1:
        rule = "must be 1 in a joint run: its promise is for one record"
        way_out = (
            "Keep one row of each person; or leave the person column out of the domain, and read"
            " the promise as one about records, which does not protect a person with several."
        )
        raise InvalidParameter("max_rows_per_person", rule, domain.max_rows_per_person, way_out)


def promise_at_party(promise: Guarantee, person: str | None) -> str:
    """The promise in words, towards records, and towards persons if a column tells them apart."""
    if person is None:
        return promise.sentence()
    return (
        f"{promise.sentence()} One record was kept of each person, told apart by {person!r}: the"
        " same holds for a person who is at one party only. A person at several parties is not"
        " protected as one."
    )
