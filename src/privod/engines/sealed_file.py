"""Files whose every piece is sealed: written once, checked on the very bytes that are counted.

A file is cut into pieces of 64 KiB, each with a seal, BLAKE2b over the salt, the file's number, the
piece's place and its bytes; the seals lie beside the file and have a seal themselves. A question
that reads a piece again compares it with a mark made when it first met its seal: a universal hash
under a key that never leaves the process [NH, Black 1999]. Other bytes have the same mark with a
probability of at most 2^-62.

Files that stay where they lie are marked when they are sealed, under a key made of the salt. The
marks lie behind the seals in our folder, and an answer compares them alone. To anyone who cannot
read that folder the key is unknown. Who can, and writes the files, could make other bytes of the
same mark: `sealed_again`, which compares seals, finds them.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.engines.kernels import universal_hashes
from privod.errors import InvalidData

PIECE = 1 << 16
SEAL_BYTES, MARK_BYTES = 32, 16
CHANGED = "The rows on disk are not those that were registered."


def _piece_seal(salt: bytes, number: int, place: int, piece: Any) -> bytes:
    about = salt + b"piece" + number.to_bytes(8, "big") + place.to_bytes(8, "big")
    seal = hashlib.blake2b(about, digest_size=SEAL_BYTES)
    seal.update(piece)
    return seal.digest()


def _file_seal(salt: bytes, number: int, size: int, seals: bytes) -> str:
    about = b"file" + number.to_bytes(8, "big") + size.to_bytes(8, "big")
    return hashlib.blake2b(salt + about + seals, digest_size=SEAL_BYTES).hexdigest()


def seals_beside(path: Path) -> Path:
    """Where the seals of a file lie."""
    return path.with_suffix(".seals")


class Marks:
    """The pieces of some files that were found to be those that were sealed, by their marks."""

    def __init__(self, salt: bytes | None = None) -> None:
        derived = hashlib.shake_256(salt + b"marks").digest(PIECE + 8) if salt else None
        self._key = np.frombuffer(derived or os.urandom(PIECE + 8), np.uint64)
        self._known: dict[tuple[int, int], tuple[bytes, NDArray[np.uint64]]] = {}

    def of_file(
        self, salt: bytes, number: int, size: int, seal: str, beside: Path
    ) -> tuple[bytes, NDArray[np.uint64]]:
        """The seals of a file's pieces, checked once, and the marks, zeros where none is known."""
        if (number, size) not in self._known:
            seals = beside.read_bytes()
            if _file_seal(salt, number, size, seals) != seal:
                raise InvalidData(CHANGED)
            n = -(-size // PIECE)
            kept = bytearray(seals[SEAL_BYTES * n :] or MARK_BYTES * n)  # of zeros, then
            marks = np.frombuffer(kept, np.uint64).reshape(-1, 2)
            self._known.setdefault((number, size), (seals, marks))
        return self._known[number, size]

    def of(self, pieces: memoryview) -> NDArray[np.uint64]:
        """The marks of pieces that follow each other, none of which is zeros."""
        if len(pieces) % PIECE:  # the last piece of a file may be shorter
            pieces = memoryview(bytes(pieces) + bytes(-len(pieces) % PIECE))
        return universal_hashes(np.frombuffer(pieces, np.uint64), self._key)


class SealedWriter(io.RawIOBase):
    """Writes a new file once, from its beginning to its end, and seals it on the way.

    The salt is secret, the same for all files of a folder; by their numbers no two change places.
    """

    def __init__(self, path: Path, salt: bytes, number: int) -> None:
        super().__init__()
        self._path, self._salt, self._number = path, salt, number
        self._file = path.open("xb")
        path.chmod(0o600)
        self._begun = bytearray()
        self._seals = bytearray()
        self._size = 0
        self.seal = ""

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._size += len(view)
        at = 0
        if self._begun:
            at = min(PIECE - len(self._begun), len(view))
            self._begun += view[:at]
            if len(self._begun) == PIECE:
                self._add(self._begun)
                self._begun = bytearray()
        while len(view) - at >= PIECE:
            self._add(view[at : at + PIECE])
            at += PIECE
        self._begun += view[at:]
        return len(view)

    def _add(self, piece: Any) -> None:
        place = len(self._seals) // SEAL_BYTES
        self._seals += _piece_seal(self._salt, self._number, place, piece)

    def close(self) -> None:
        """Write the seals; afterwards `seal` is that of the whole file."""
        if self.closed:
            return
        if self._begun:
            self._add(self._begun)
        self._file.close()
        beside = seals_beside(self._path)
        beside.write_bytes(self._seals)
        beside.chmod(0o600)
        self.seal = _file_seal(self._salt, self._number, self._size, bytes(self._seals))
        super().close()


class SealedReader(io.RawIOBase):
    """Reads what a `SealedWriter` wrote, and raises `InvalidData` where a piece was changed.

    The file's seal comes from a place that is sealed itself, the marks from earlier readings by the
    same question. The seals of its pieces may lie elsewhere than beside it.
    """

    def __init__(
        self,
        path: Path,
        salt: bytes,
        number: int,
        seal: str,
        marks: Marks,
        seals: Path | None = None,
    ) -> None:
        super().__init__()
        self._salt, self._number, self._marks = salt, number, marks
        self._size, self._at = path.stat().st_size, 0
        self._seals, self._known = marks.of_file(
            salt, number, self._size, seal, seals or seals_beside(path)
        )
        self._file = path.open("rb", buffering=0)

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> Any:
        """Read bytes whose pieces are those that were written."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        start, end = self._at, self._at + wanted
        first, last = start // PIECE, (end - 1) // PIECE
        base, beyond = first * PIECE, min((last + 1) * PIECE, self._size)
        found = memoryview(pa.allocate_buffer(beyond - base)).cast("B")  # of a pool
        self._fill(found, first)
        self._at = end
        return found[start - base : end - base]  # as it is: what was checked is what is counted

    def readinto(self, buffer: Any) -> int:
        """The same into memory that is there; whole pieces are read and checked in it."""
        view = memoryview(buffer).cast("B")
        if self._at % PIECE or len(view) % PIECE:
            found = self.read(len(view))
            view[: len(found)] = found
            return len(found)
        self._fill(view, self._at // PIECE)
        self._at += len(view)
        return len(view)

    def _fill(self, view: memoryview, first: int) -> None:
        """Read pieces that follow each other."""
        if os.preadv(self._file.fileno(), [view], first * PIECE) != len(view):
            raise InvalidData(CHANGED)
        marks = self._marks.of(view)
        known = self._known[first : first + len(marks)]
        if (marks == known).all():
            return
        for place in np.flatnonzero((marks != known).any(axis=1)).tolist():
            at = (first + place) * SEAL_BYTES
            seal = self._seals[at : at + SEAL_BYTES]
            piece = view[place * PIECE : (place + 1) * PIECE]
            if _piece_seal(self._salt, self._number, first + place, piece) != seal:
                raise InvalidData(CHANGED)
            known[place] = marks[place]


def sealed_again(path: Path, salt: bytes, number: int, seals: Path | None = None) -> str:
    """The seal that a file has as it is now; its pieces must have the seals that lie there."""
    found, size = _seals_of(path, salt, number)
    there = (seals or seals_beside(path)).read_bytes()
    return _file_seal(salt, number, size, there) if there.startswith(found) else ""


def seal_in_place(path: Path, salt: bytes, number: int, seals: Path, marks: Marks) -> str:
    """Seal a file that somebody else wrote; the pieces' seals and marks are written to `seals`."""
    found, size = _seals_of(path, salt, number, marks)
    seals.write_bytes(found)
    return _file_seal(salt, number, size, found)


def _seals_of(
    path: Path, salt: bytes, number: int, marks: Marks | None = None
) -> tuple[bytes, int]:
    seals, met, size = bytearray(), bytearray(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            if marks is not None:
                met += marks.of(memoryview(piece)).tobytes()
            seals += _piece_seal(salt, number, len(seals) // SEAL_BYTES, piece)
            size += len(piece)
    return bytes(seals + met), size
