"""What the folder of a data set holds, under one seal that the ledger keeps."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from privod.engines.sealed_file import CHANGED
from privod.engines.size import SizeClass
from privod.errors import InvalidData

MANIFEST, SALT = "manifest.json", "salt"


@dataclass(frozen=True)
class Manifest:
    """What lies in a folder of rows: private, all but the size class.

    How many rows each partition has (in place, how many there are), of which so many are complete;
    the seals of the files, in place of the bits too, and of the owner's report; which columns were
    copied, as what; and as plain values where the rows lie if they were not copied.
    """

    size: SizeClass
    rows: tuple[int, ...]
    seals: tuple[str, ...]
    report: str = ""
    complete: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    place: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Manifest({self.size}, rows private)"

    def text(self) -> str:
        """What is written to disk."""
        content = {**vars(self), "version": 1, "most_records": self.size.most_records}
        del content["size"]
        return json.dumps({**content, "columns": list(self.columns.items())}, sort_keys=True)

    @classmethod
    def read(cls, folder: Path, salt: bytes, seal: str) -> Self:
        """The manifest in a folder, if it is the one that was sealed."""
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        if manifest_seal(text, salt) != seal:
            raise InvalidData(CHANGED)
        content = json.loads(text)
        rows, seals = tuple(content["rows"]), tuple(content["seals"])
        size, columns = SizeClass(content["most_records"]), dict(content["columns"])
        report, complete, place = content["report"], content["complete"], content["place"]
        return cls(size, rows, seals, str(report), complete, columns, place)

    def seal(self, salt: bytes) -> str:
        """One seal for everything in the folder, for the ledger."""
        return manifest_seal(self.text(), salt)


def manifest_seal(text: str, salt: bytes) -> str:
    """What the ledger holds of a manifest."""
    return hashlib.sha256(salt + b"manifest" + text.encode()).hexdigest()
