"""Rows that were copied: partitions of columns that are read block by block, each piece sealed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from privod.data.folding import Block, side_by_side
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED, Marks, SealedReader, sealed_again, seals_beside
from privod.engines.source import AT_ONCE
from privod.errors import InvalidData

STRETCH = 1 << 16  # rows that lie column by column: of so many, a column fills whole pieces


def partition_path(folder: Path, number: int) -> Path:
    """Where a partition lies: stretches of rows, in each one column after the other."""
    return folder / f"rows-{number:04d}.columns"


class StoredSource:
    """Partitions in the folder of the data set."""

    def __init__(self, folder: Path, salt: bytes, manifest: Manifest) -> None:
        self._paths = [partition_path(folder, number) for number in range(len(manifest.seals))]
        self._salt, self._manifest, self._marks = salt, manifest, Marks()

    @property
    def pieces(self) -> int:
        return len(self._paths)

    def read(self, piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The rows of a partition; every byte that is read is checked."""
        seal, rows = self._manifest.seals[piece], self._manifest.rows[piece]
        kinds = {name: np.dtype(kind) for name, kind in self._manifest.columns.items()}
        with SealedReader(self._paths[piece], self._salt, piece, seal, self._marks) as sealed:
            for first in range(0, rows, STRETCH):
                n, begins, coded = min(STRETCH, rows - first), {}, {}
                at = first * sum(kind.itemsize for kind in kinds.values())
                for name, kind in kinds.items():
                    begins[name], at = at, at + n * kind.itemsize
                for name in (*codes, *(name for name in numbers if kinds[name] != np.float64)):
                    sealed.seek(begins[name])
                    coded[name] = np.frombuffer(sealed.read(n * kinds[name].itemsize), kinds[name])
                for start in range(0, n, AT_ONCE):
                    some = slice(start, min(start + AT_ONCE, n))
                    block = np.empty((len(numbers), some.stop - start))
                    for own, name in zip(block, numbers, strict=True):
                        if name in coded:
                            own[:] = coded[name][some]
                        else:
                            sealed.seek(begins[name] + start * own.itemsize)
                            sealed.readinto(own)
                    cells = [coded[name][some] for name in codes]
                    yield Block(block.T, side_by_side(cells, some.stop - start, np.int64))

    def identity(self) -> None:
        """All partitions and their seals are there."""
        if not all(each.is_file() for path in self._paths for each in (path, seals_beside(path))):
            raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        found = [sealed_again(path, self._salt, at) for at, path in enumerate(self._paths)]
        return found == list(self._manifest.seals)
