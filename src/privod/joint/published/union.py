"""Unite sets so that nobody sees another party's, by commutative encryption [Raval 2011]."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import rbcl

from privod.errors import ProtocolAborted
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting
from privod.progress import track

POINT_BYTES = 32
LARGEST_UNION = 1 << 33  # bytes of one relayed batch


class Union:
    """A party's end of a union: names of bins as points of ristretto255, times secrets."""

    def __init__(self, channel: Channel, session: Session) -> None:
        self._channel = channel
        self._names = session.roster.names
        self._scalar = rbcl.crypto_core_ristretto255_scalar_random()

    def tags(self, names: Sequence[bytes]) -> list[bytes]:
        """Return the tag of each of one's own names; nobody learns a name."""
        batch = self._times([point_of(name) for name in names], self._scalar)
        for turn in range(len(self._names)):
            sent = b"".join(batch)
            batch = _points(self._channel.trade(f"union, lap {turn + 1}", sent, LARGEST_UNION))
            if turn < len(self._names) - 1:
                batch = self._times(batch, self._scalar)
        if len(batch) != len(names):
            raise ProtocolAborted("A union came back with another length. Run again.")
        return batch

    def united(self, tags: Sequence[bytes]) -> list[bytes]:
        """Return everybody's tags, each once, in one order for all."""
        shuffled = sorted(set(tags))
        return _points(self._channel.trade("union", b"".join(shuffled), LARGEST_UNION))

    def opened(self, tags: list[bytes]) -> list[bytes]:
        """Take everybody's scalar off again: the points of the names, in the order of the tags."""
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
            for start in track(blocks, "encrypting names of bins")
            for point in points[start : start + 1024]
        ]


def host_union(meeting: Meeting) -> None:
    """Pass batches around the ring, merge the tags, and pass them around to be opened."""
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
    for name in names:
        meeting.reply_all(meeting.collect("opening the union", LARGEST_UNION)[name])


def point_of(name: bytes) -> bytes:
    """Hash a bin's name to a point; everybody can, so a point hides only what cannot be guessed."""
    digest = hashlib.sha512(b"privod bin name 1|" + name).digest()
    return bytes(rbcl.crypto_core_ristretto255_from_hash(digest))


def _points(message: bytes) -> list[bytes]:
    if len(message) % POINT_BYTES:
        raise ProtocolAborted("A batch of the union has a wrong length. Run again.")
    return [message[at : at + POINT_BYTES] for at in range(0, len(message), POINT_BYTES)]
