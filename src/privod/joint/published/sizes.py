"""How many records are there, and who has which columns? What parties tell before a run begins."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.published.question import PublishedOutliers
from privod.joint.published.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting

LARGEST_SIZE = 2**31  # counts and totals fit their words with a sign
LARGEST_ANNOUNCEMENT = 1 << 20


class Shape:
    """What parties of a vertical run announce: the number of records, and who has which columns."""

    def __init__(self, question: PublishedOutliers, announced: dict[str, bytes]) -> None:
        try:
            said = {name: json.loads(message) for name, message in sorted(announced.items())}
            sizes = {int(entry["records"]) for entry in said.values()}
            self.columns = {name: tuple(entry["columns"]) for name, entry in said.items()}
        except (ValueError, KeyError, TypeError):
            raise ProtocolAborted("A party's announcement cannot be read. Run again.") from None
        if len(sizes) != 1:
            raise ProtocolAborted(
                "The parties have different numbers of records. Align them: same records, same"
                " order."
            )
        (self.n_records,) = sizes
        held = [column for columns in self.columns.values() for column in columns]
        if sorted(held) != sorted(question.columns):
            raise ProtocolAborted(
                "The parties' columns are not the question's, each at one party."
                f" They announced {', '.join(held)}."
            )


def joint_shape(
    question: PublishedOutliers, points: NDArray[np.float64], domain: Domain, channel: Channel
) -> Shape:
    """Tell everybody how many records and which columns one has."""
    own = {"records": len(points), "columns": list(question.own_columns(domain))}
    answer = channel.trade("announcement", json.dumps(own).encode(), 64 * LARGEST_ANNOUNCEMENT)
    return Shape(question, _read(answer))


def host_shape(question: PublishedOutliers, meeting: Meeting) -> Shape:
    """Pass the announcements on."""
    announced = meeting.collect("announcement", LARGEST_ANNOUNCEMENT)
    shape = Shape(question, announced)
    texts = {name: message.decode() for name, message in announced.items()}
    meeting.reply_all(json.dumps(texts).encode())
    return shape


def joint_size(channel: Channel, session: Session, own: int) -> int:
    """Return how many records all parties have together; nobody sees another's number."""
    answer = contribute(channel, session, "number of records", np.array([own], np.uint64), 8)
    return _checked_size(int.from_bytes(answer, "little"))


def host_size(meeting: Meeting) -> int:
    """Add up the parties' numbers of records and publish the sum."""
    n_records = _checked_size(int(add_up(meeting, "number of records", 1, np.uint64)[0]))
    meeting.reply_all(n_records.to_bytes(8, "little"))
    return n_records


def _checked_size(n_records: int) -> int:
    if n_records > LARGEST_SIZE:
        raise ProtocolAborted("The number of records is impossibly large. Run again.")
    return n_records


def _read(answer: bytes) -> dict[str, bytes]:
    try:
        return {str(name): text.encode() for name, text in json.loads(answer).items()}
    except (ValueError, AttributeError):
        raise ProtocolAborted("The announcements cannot be read. Run again.") from None
