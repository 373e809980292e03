"""Add vectors up so that nobody sees another party's [Clifton 2002]."""

from __future__ import annotations

from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.joint.published.masks import masked, n_ones, with_ones, without_ones
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting

Word = TypeVar("Word", np.uint8, np.uint16, np.uint32, np.uint64)


def contribute(
    channel: Channel, session: Session, phase: str, words: NDArray[Word], most: int
) -> bytes:
    """Send one's words, hidden, and return what the aggregator publishes about the sum.

    Masks cancel only if everybody is at the same point: same phase, kind and number of words, and
    the same things heard before.
    """
    keys = session.mask_keys(phase, words.dtype.name, len(words))
    hidden = masked(with_ones(words), session.name, keys, session.next_mask())
    sent = hidden.astype(hidden.dtype.newbyteorder("<"), copy=False)
    return channel.trade(phase, sent.data.cast("B"), most)


def add_up(meeting: Meeting, phase: str, length: int, kind: type[Word]) -> NDArray[Word]:
    """Add everybody's hidden words up as they come and open the sum; the caller replies.

    Nothing but the sum is kept, however many parties there are. Until everybody's words are in it
    the sum is hidden by the masks that are still missing.
    """
    word = np.dtype(kind).newbyteorder("<")
    total = np.zeros(length + n_ones(word.itemsize), kind)
    one_at_a_time = Lock()

    def add(start: int, piece: memoryview) -> None:
        at = start // word.itemsize  # pieces are whole words, whatever their size
        words = np.frombuffer(piece, word)
        with one_at_a_time:
            total[at : at + len(words)] += words

    meeting.collect(phase, total.nbytes, add)
    return without_ones(total, len(meeting.names))
