"""Which records does a party hold? The marks by which its ledger of runs knows them again.

A question names some of a party's columns, and another question about the same records may name
others. So records are known by each column that the party holds of them, in whatever order the
rows come, and by the file they were read from. Sharing one mark is enough. Records that are really
others may share one (a constant column of as many rows); they are then taken for the same, which
refuses or counts too much, never too little. One record more or less, or one value changed in every
column, makes other marks: whoever does that is not stopped by them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privod.data import Table


@dataclass(frozen=True, eq=False)
class HeldRecords:
    """The records that a party brings to a run.

    Parameters
    ----------
    table : Table
        All columns it declares.
    columns : tuple of str
        Those that the question uses.
    file : bytes, optional
        The mark of the file that the table was read from. It stays the same whatever is declared of
        the file; without it a domain that drops or clips other rows makes other records.
    """

    table: Table
    columns: tuple[str, ...]
    file: bytes | None = None

    def marks(self) -> tuple[bytes, ...]:
        """One of each column, and that of the file."""
        columns = [self._column(name) for name in self.table.domain.names]
        return (*columns, *([] if self.file is None else [self.file]))

    def _column(self, name: str) -> bytes:
        """A column's values, however often each occurs, without the order of rows."""
        digest = hashlib.sha256(json.dumps(["column", name]).encode())
        if name in self.table.domain.numeric_names:
            values = np.sort(self.table.numbers([name])[:, 0])
            values += 0.0  # the two zeros are one number
            digest.update(values.data)
            return digest.digest()
        (declared,) = self.table.domain.categorical([name])
        counts = np.bincount(self.table.codes([name])[:, 0], minlength=len(declared.values))
        found = zip(declared.values, counts.tolist(), strict=True)
        digest.update(json.dumps(sorted([str(value), n] for value, n in found if n)).encode())
        return digest.digest()


def mark_of_file(path: Path) -> bytes:
    """What stands for all bytes of a file, or of a folder's Parquet files by their names' order."""
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    digest = hashlib.sha256(json.dumps(["file", len(files)]).encode())
    for one in files:
        with one.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()
