"""Add vectors up, or unite sets, so that nobody sees another party's [Raval 2011; Clifton 2002]."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import rbcl
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.parties.channel import Channel, Meeting
from privod.parties.session import Session
from privod.parties.sharing import ONES, masked, with_ones, without_ones
from privod.progress import track

__all__ = ["Union", "add_up", "contribute", "host_union", "secure_union"]

Word = TypeVar("Word", np.uint32, np.uint64)

POINT_BYTES = 32
LARGEST_UNION = 1 << 33  # bytes of one relayed batch


def contribute(
    channel: Channel, session: Session, label: str, words: NDArray[Word], most: int
) -> bytes:
    """Send one's words, hidden, and return what the aggregator publishes about the sum."""
    hidden = masked(with_ones(words), session.name, session.pair_keys, session.next_mask())
    return channel.trade(label, hidden.astype(hidden.dtype.newbyteorder("<")).tobytes(), most)


def add_up(meeting: Meeting, label: str, length: int, kind: type[Word]) -> NDArray[Word]:
    """Collect everybody's hidden words and open their sum; the caller replies."""
    size = np.dtype(kind).itemsize * (length + ONES)
    total = np.zeros(length + ONES, kind)
    for name, message in meeting.collect(label, size).items():
        if len(message) != size:
            raise ProtocolAborted(
                f"{name!r} sent {len(message)} bytes for {label!r} where {size} were due."
                " What was published before stays known."
            )
        total += np.frombuffer(message, np.dtype(kind).newbyteorder("<"))
    return without_ones(total, len(meeting.names))


class Union:
    """A party's end of a union: labels as points of ristretto255, times everybody's secret.

    Multiplication by secret scalars commutes, so equal labels end as equal tags whoever began, and
    a tag tells nothing about its label to whoever lacks one of the scalars.
    """

    def __init__(self, channel: Channel, session: Session) -> None:
        self._channel = channel
        self._names = session.roster.names
        self._scalar = rbcl.crypto_core_ristretto255_scalar_random()

    def tags(self, labels: Sequence[bytes]) -> list[bytes]:
        """Return the tag of each of one's own labels; nobody learns a label."""
        batch = self._times([point_of(label) for label in labels], self._scalar)
        for turn in range(len(self._names)):
            batch = self._relay(f"union, lap {turn + 1}", batch)
            if turn < len(self._names) - 1:
                batch = self._times(batch, self._scalar)
        if len(batch) != len(labels):
            raise ProtocolAborted("A union came back with another length. Run again.")
        return batch

    def united(self, tags: Sequence[bytes]) -> list[bytes]:
        """Return everybody's tags, each once, in one order for all."""
        shuffled = sorted(set(tags))
        return _points(self._channel.trade("union", b"".join(shuffled), LARGEST_UNION))

    def opened(self, tags: list[bytes]) -> list[bytes]:
        """Take everybody's scalar off again: the points of the labels, in the order of the tags.

        Whoever can guess a label can then look it up, as in the paper's protocol.
        """
        inverse = rbcl.crypto_core_ristretto255_scalar_invert(self._scalar)
        batch = tags
        for name in self._names:
            mine = name == self._channel.name
            sent = b"".join(self._times(batch, inverse)) if mine else b""
            batch = _points(self._channel.trade("opening the union", sent, LARGEST_UNION))
        if len(batch) != len(tags):
            raise ProtocolAborted("A union was opened to another length. Run again.")
        return batch

    def _times(self, points: Sequence[bytes], scalar: bytes) -> list[bytes]:
        blocks = range(0, len(points), 1024)
        return [
            rbcl.crypto_scalarmult_ristretto255(scalar, point)
            for start in track(blocks, "encrypting labels")
            for point in points[start : start + 1024]
        ]

    def _relay(self, label: str, batch: list[bytes]) -> list[bytes]:
        return _points(self._channel.trade(label, b"".join(batch), LARGEST_UNION))


def secure_union(
    channel: Channel, session: Session, labels: Sequence[bytes]
) -> tuple[list[bytes], list[int]]:
    """Unite everybody's labels as tags that are never opened; return them and one's own places."""
    union = Union(channel, session)
    own = union.tags(labels)
    united = union.united(own)
    places = {tag: place for place, tag in enumerate(united)}
    return united, [places[tag] for tag in own]


def host_union(meeting: Meeting, *, opening: bool) -> int:
    """Pass batches around the ring, merge the tags, and return how many there are."""
    names = meeting.names
    for turn in range(len(names)):
        batches = meeting.collect(f"union, lap {turn + 1}", LARGEST_UNION)
        meeting.reply({name: batches[names[place - 1]] for place, name in enumerate(names)})
    tags = {
        tag
        for message in meeting.collect("union", LARGEST_UNION).values()
        for tag in _points(message)
    }
    meeting.reply_all(b"".join(sorted(tags)))
    if opening:
        for name in names:
            sent = meeting.collect("opening the union", LARGEST_UNION)
            meeting.reply_all(sent[name])
    return len(tags)


def point_of(label: bytes) -> bytes:
    """Hash a label to a point; everybody can, so a point hides only what cannot be guessed."""
    digest = hashlib.sha512(b"privod label 1|" + label).digest()
    return bytes(rbcl.crypto_core_ristretto255_from_hash(digest))


def _points(message: bytes) -> list[bytes]:
    if len(message) % POINT_BYTES:
        raise ProtocolAborted("A batch of the union has a wrong length. Run again.")
    return [message[at : at + POINT_BYTES] for at in range(0, len(message), POINT_BYTES)]
