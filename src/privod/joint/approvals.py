"""The runs that the operator of a site agreed to; a party that waits takes part in no others."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from privod.data import Domain
from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.files import LockedFile
from privod.joint.question import JointQuestion
from privod.joint.roster import Roster


def subject_of(question: JointQuestion, domain: Domain, roster: Roster) -> str:
    """Return what an approval is about: these parameters and ranges with exactly these parties."""
    return hashlib.sha256(question.terms(domain) + roster.digest()).hexdigest()


class Approvals:
    """The approvals of a site, in a file of its own, which the first approval makes."""

    def __init__(self, path: str | Path) -> None:
        lost = "It is the list of approvals: approve again what was approved."
        self._file = LockedFile(Path(path), {"approvals": []}, _checked, lost)

    def approve(self, subject: str, runs: int, begins: datetime, until: datetime) -> None:
        """Allow so many runs between two moments."""
        if runs < 1:
            raise InvalidParameter("runs", "must be at least 1", runs, "Try 1.")
        if until <= begins:
            way_out = "Name a later end."
            raise InvalidParameter("until", "must come after the beginning", str(until), way_out)
        with self._file.changing() as kept:
            kept["approvals"].append(
                {
                    "subject": subject,
                    "runs": runs,
                    "begins": begins.isoformat(timespec="seconds"),
                    "until": until.isoformat(timespec="seconds"),
                }
            )

    def left(self, subject: str, now: datetime | None = None) -> int:
        """How many runs may still be made, counting those whose time has not come yet."""
        moment = now or datetime.now(UTC)
        with self._file.changing() as kept:
            return sum(
                one["runs"]
                for one in kept["approvals"]
                if one["subject"] == subject and moment < datetime.fromisoformat(one["until"])
            )

    def good_now(self, subject: str) -> bool:
        """Whether a run may be made at this moment."""
        with self._file.changing() as kept:
            return bool(_good(kept, subject, datetime.now(UTC)))

    def use(self, subject: str, now: datetime | None = None) -> None:
        """Use one run up, of the approval that ends first; raise if there is none for now."""
        with self._file.changing() as kept:
            good = _good(kept, subject, now or datetime.now(UTC))
            if not good:
                raise ProtocolAborted(
                    "The operator of this site has not approved this run for now."
                    " `privod approve-run` does, with the same question, domain and roster."
                )
            min(good, key=lambda one: str(one["until"]))["runs"] -= 1


def _good(kept: dict[str, Any], subject: str, moment: datetime) -> list[dict[str, Any]]:
    return [
        one
        for one in kept["approvals"]
        if one["subject"] == subject
        and one["runs"] > 0
        and datetime.fromisoformat(one["begins"]) <= moment
        and moment < datetime.fromisoformat(one["until"])
    ]


def _checked(kept: Any) -> None:
    for one in kept["approvals"]:
        str(one["subject"]), int(one["runs"])
        datetime.fromisoformat(one["begins"])
        datetime.fromisoformat(one["until"])
