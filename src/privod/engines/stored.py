"""Rows that were copied: partitions of Parquet that are read block by block, each piece sealed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pa_parquet

from privod.data.folding import Block, side_by_side
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED, Marks, SealedReader, sealed_again, seals_beside
from privod.engines.source import AT_ONCE
from privod.errors import InvalidData


def partition_path(folder: Path, number: int) -> Path:
    """Where a partition lies."""
    return folder / f"rows-{number:04d}.parquet"


class StoredSource:
    """Partitions in the folder of the data set."""

    def __init__(self, folder: Path, salt: bytes, manifest: Manifest) -> None:
        self._paths = [partition_path(folder, number) for number in range(len(manifest.seals))]
        self._salt, self._seals, self._marks = salt, manifest.seals, Marks()

    @property
    def pieces(self) -> int:
        return len(self._paths)

    def read(self, piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The rows of a partition; every byte that is read is checked."""
        with (
            SealedReader(
                self._paths[piece], self._salt, piece, self._seals[piece], self._marks
            ) as sealed,
            # Arrow would otherwise read the whole file ahead.
            pa_parquet.ParquetFile(sealed, pre_buffer=False) as file,
        ):
            wanted = list(dict.fromkeys((*numbers, *codes)))
            for batch in file.iter_batches(AT_ONCE, columns=wanted, use_threads=False):
                if not wanted:
                    yield Block(np.empty((len(batch), 0)), np.empty((len(batch), 0), np.int64))
                    continue
                cells = {name: np.from_dlpack(batch.column(name)) for name in wanted}
                yield Block(
                    side_by_side([cells[name] for name in numbers], len(batch), np.float64),
                    side_by_side([cells[name] for name in codes], len(batch), np.int64),
                )

    def identity(self) -> None:
        """All partitions and their seals are there."""
        if not all(each.is_file() for path in self._paths for each in (path, seals_beside(path))):
            raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        return all(
            sealed_again(path, self._salt, number) == seal
            for number, (path, seal) in enumerate(zip(self._paths, self._seals, strict=True))
        )
