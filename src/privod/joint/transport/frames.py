"""A message as numbered pieces of at most 1 MiB, and the checks that put it together again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from privod.errors import ProtocolAborted

CHUNK = 1 << 20
MAGIC = b"pvd1"
HEADER = struct.Struct(">4s16sIIIQ")  # magic, session, step, index, number of pieces, total bytes


def split(payload: bytes | memoryview, session: bytes, step: int) -> Iterator[bytes]:
    """Cut a message into frames that say where they belong."""
    view = memoryview(payload)
    pieces = max(1, -(-len(view) // CHUNK))
    for index in range(pieces):
        header = HEADER.pack(MAGIC, session, step, index, pieces, len(view))
        yield header + view[index * CHUNK : (index + 1) * CHUNK]


@dataclass
class Assembly:
    """A message under way; anything but the next frame of it ends the run."""

    sender: str
    session: bytes
    step: int
    most: int
    _pieces: list[bytes] = field(default_factory=list)
    _expected: tuple[int, int] | None = None

    def add(self, frame: bytes) -> None:
        """Take the next frame."""
        if len(frame) < HEADER.size or frame[:4] != MAGIC:
            self._abort("sent something that is not a message of this protocol and version")
        _, session, step, index, pieces, total = HEADER.unpack_from(frame)
        piece = memoryview(frame)[HEADER.size :]
        if session != self.session:
            self._abort("sent a message of another run, replayed or misdirected")
        if step != self.step:
            self._abort(f"sent a message for step {step} in step {self.step}")
        if total > self.most:
            self._abort(f"sent a message of {total} bytes where at most {self.most} are expected")
        if self._expected is None:
            if pieces != max(1, -(-total // CHUNK)):
                self._abort("sent a message whose pieces do not add up")
            self._expected = pieces, total
        if (pieces, total) != self._expected or index != len(self._pieces):
            self._abort("sent the pieces of a message twice or out of order")
        last = index == pieces - 1
        if len(piece) != (total - CHUNK * (pieces - 1) if last else CHUNK):
            self._abort("sent a piece of the wrong length")
        self._pieces.append(bytes(piece))

    @property
    def is_whole(self) -> bool:
        """Whether the last frame is there."""
        return self._expected is not None and len(self._pieces) == self._expected[0]

    def message(self) -> bytes:
        """Return the whole message."""
        if not self.is_whole:
            self._abort("sent a message that ends too early")
        return b"".join(self._pieces)

    def _abort(self, what: str) -> None:
        raise ProtocolAborted(f"{self.sender!r} {what}. What was published before stays known.")
