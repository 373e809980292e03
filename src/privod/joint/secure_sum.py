"""Add vectors up so that nobody sees another party's [Clifton 2002]."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.joint.session import Session
from privod.joint.sharing import masked, n_ones, with_ones, without_ones
from privod.joint.transport.channel import Channel, Meeting

__all__ = ["add_up", "contribute"]

Word = TypeVar("Word", np.uint8, np.uint16, np.uint32, np.uint64)


def contribute(
    channel: Channel, session: Session, label: str, words: NDArray[Word], most: int
) -> bytes:
    """Send one's words, hidden, and return what the aggregator publishes about the sum."""
    hidden = masked(with_ones(words), session.name, session.pair_keys, session.next_mask())
    return channel.trade(label, hidden.astype(hidden.dtype.newbyteorder("<")).tobytes(), most)


def add_up(meeting: Meeting, label: str, length: int, kind: type[Word]) -> NDArray[Word]:
    """Collect everybody's hidden words and open their sum; the caller replies."""
    itemsize = np.dtype(kind).itemsize
    length += n_ones(itemsize)
    size = itemsize * length
    total = np.zeros(length, kind)
    for name, message in meeting.collect(label, size).items():
        if len(message) != size:
            raise ProtocolAborted(
                f"{name!r} sent {len(message)} bytes for {label!r} where {size} were due."
                " What was published before stays known."
            )
        total += np.frombuffer(message, np.dtype(kind).newbyteorder("<"))
    return without_ones(total, len(meeting.names))
