"""The result of a joint run that names outliers: a party's rows, beside those it finds alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privod.joint.alone import compared
from privod.joint.files import write_outliers
from privod.joint.question import JointQuestion, JointResult, Seat
from privod.joint.session import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LISTED = 20  # rows in a sentence; files and JSON have all


@dataclass(frozen=True, eq=False, kw_only=True)
class OutlierResult(JointResult):
    """Which of a party's records are outliers, together and alone.

    Attributes
    ----------
    rows : int64 array
        The rows of its table that are outlying in the joint data, ascending, counted from 0 as
        arrays are. What people read counts from 1.
    alone : int64 array
        Those that are outlying among its own records.
    n_records : int
        How many records all parties have.
    own_records : int
        How many this party has.
    """

    rows: NDArray[np.int64]
    alone: NDArray[np.int64]
    n_records: int
    own_records: int

    def sentences(self) -> list[str]:
        return [compared(self.alone, self.rows, self.own_records), self.listing()]

    def listing(self) -> str:
        """The first rows in words, counted from 1."""
        if not len(self.rows):
            return "No row is an outlier of the joint data."
        shown = ", ".join(str(row + 1) for row in self.rows[:MOST_LISTED].tolist())
        more = len(self.rows) - MOST_LISTED
        rest = f" and {more} more, which --json and --results list" if more > 0 else ""
        return f"Outliers of the joint data, rows counted from 1: {shown}{rest}."

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question.to_json(),
            "party": self.party,
            "run": self.run.hex(),
            "alone": self.alone.tolist(),
            "positions": self.rows.tolist(),
            "n_records": self.n_records,
            "secrecy": self.question.secrecy().to_json(),
            "traffic": self.traffic.to_json(),
        }

    def stated(self) -> dict[str, Any]:
        rows = self.rows.astype("<i8").tobytes()
        digest = hashlib.sha256(self.run + rows).hexdigest()
        return {"n_records": self.n_records, "outliers": len(self.rows), "rows": digest}

    def write(self, folder: Path, stem: str, ids: Sequence[str] | None) -> None:
        write_outliers(folder / f"{stem}.csv", self.rows, self.alone, ids, self.own_records)

    def draw(self) -> Figure:
        from privod.joint.pictures.run import draw_run

        return draw_run({self.party: self})


def outlier_result(
    question: JointQuestion,
    seat: Seat,
    session: Session,
    claimed: int,
    rows: NDArray[np.int64],
    *,
    alone: NDArray[np.int64],
    n_records: int,
) -> OutlierResult:
    """Note in the ledger of runs how a run ended, and return its result."""
    return OutlierResult(
        question=question,
        party=seat.identity.name,
        run=session.id,
        traffic=seat.channel.traffic,
        sent=seat.contributions.finish(claimed, f"{len(rows)} of {n_records} records"),
        rows=rows,
        alone=alone,
        n_records=n_records,
        own_records=0 if seat.table is None else len(seat.table),
    )
