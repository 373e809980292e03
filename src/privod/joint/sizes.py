"""Who holds how many rows of which columns: what holders tell each other first."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privod.errors import ProtocolAborted
from privod.joint.letters import exchange
from privod.joint.outliers import OutlierQuestion
from privod.joint.question import Seat
from privod.joint.session import Session
from privod.joint.sharing import derive

PHASE = "sizes"
SHORT = 1 << 16  # bytes of a letter
NOTHING_SHARED = "Nothing was shared."


@dataclass(frozen=True)
class Sizes:
    """Every holder's number of rows, and its columns."""

    rows: dict[str, int]
    columns: dict[str, list[str]]
    aligned: bool

    @property
    def total(self) -> int:
        """How many records all holders have."""
        return next(iter(self.rows.values())) if self.aligned else sum(self.rows.values())

    @property
    def slices(self) -> dict[str, slice]:
        """The rows that each holder gets verdicts about."""
        found, start = {}, 0
        for name, rows in self.rows.items():
            found[name] = slice(start, start + rows)
            start += 0 if self.aligned else rows
        return found


def agree_on_sizes(
    question: OutlierQuestion, seat: Seat, session: Session, ids: Sequence[str] | None = None
) -> Sizes:
    """Tell rows and columns; compare digests of ids; raise unless a run can be made of them."""
    table, name = seat.table, session.name
    own = None
    if table is not None:
        own = [len(table), list(question.own_columns(table.domain))]
    listed = json.dumps(ids).encode()
    digests = {
        peer: hmac.digest(derive(key, session.id, b"ids"), listed, "sha256").hex() if ids else None
        for peer, key in session.pair_keys.items()
    }
    letters = {peer: json.dumps([own, told]).encode() for peer, told in digests.items()}
    heard = exchange(seat.channel, session, PHASE, letters, SHORT)
    said = {peer: _read(peer, letter) for peer, letter in heard.items()}
    said[name] = own, None
    holders = [one for one in session.roster.names if said.get(one, (None,))[0]]
    sizes = Sizes(
        {one: said[one][0][0] for one in holders},
        {one: said[one][0][1] for one in holders},
        question.over_columns,
    )
    if sizes.aligned and len(set(sizes.rows.values())) > 1:
        raise ProtocolAborted(f"The holders have different numbers of rows. {NOTHING_SHARED}")
    for peer in holders:
        if own is not None and peer != name and said[peer][1] != digests[peer]:
            raise ProtocolAborted(
                f"The ids of {name!r} and {peer!r} differ, or are in another order. Over columns"
                f" all holders need the same records in the same order. {NOTHING_SHARED}"
            )
    every = list(sizes.columns.values())
    found = [sorted(one) for one in every]
    if sizes.aligned:
        found = [sorted(column for one in every for column in one)]
    if not every or any(one != sorted(question.columns) for one in found):
        raise ProtocolAborted(f"The holders' columns are not the question's. {NOTHING_SHARED}")
    return sizes


def _read(name: str, letter: bytes) -> tuple[Any, Any]:
    """Read what a party says of its data: rows and columns, or nothing, and a digest of ids."""
    try:
        said, digest = json.loads(letter)
        if said is not None:
            rows, columns = said
            said = [int(rows), [str(one) for one in columns]]
            if said[0] < 0:
                raise ValueError
    except (ValueError, TypeError):
        raise ProtocolAborted(f"{name!r} sent sizes nobody can read. {NOTHING_SHARED}") from None
    return said, digest
