"""Private rows on disk: Parquet files that only the curator reads, sealed against change."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from privod.data import Domain, Table
from privod.data.intake import IntakeReport
from privod.data.sources import read, write_parquet
from privod.errors import InvalidData, Unavailable
from privod.ledger.private_files import close_to_others, private_directory

__all__ = ["RowStore", "StoredRows"]

REPORT = "report.json"
SALT_BYTES = 32  # as many as the seal has: whoever lacks the salt cannot test a guess of the rows


@dataclass(frozen=True)
class StoredRows:
    """Where the rows of a data set lie, for whoever looks at them: this process or a worker."""

    directory: Path
    folder: str
    seal: str
    domain: Domain

    def load(self) -> Table:
        """The rows as a table, if they are those that were registered."""
        return RowStore(self.directory).load(self.folder, self.seal, self.domain)


class RowStore:
    """Private rows as Parquet files; each lies in a folder of its own with a random salt.

    The ledger holds a seal, SHA-256 over the salt and the file. It tells nothing about the rows to
    whoever lacks the salt, which never leaves the folder, and yet a changed file breaks it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def keep(self, table: Table, report: IntakeReport) -> tuple[str, str]:
        """Write rows and what became of them durably; return their folder's name and their seal."""
        name = secrets.token_hex(16)
        folder = self.directory / name
        try:
            private_directory(self.directory)
            folder.mkdir(mode=0o700)
            (folder / "salt").write_bytes(secrets.token_bytes(SALT_BYTES))
            write_parquet(table, folder / "rows.parquet")
            seal = self.seal(name)
            (folder / REPORT).write_text(json.dumps(report.to_json()), encoding="utf-8")
            files = (folder / "salt", folder / "rows.parquet", folder / REPORT)
            for path in files:
                close_to_others(path)
            for path in (*files, folder, self.directory):
                _sync(path)
        except OSError as problem:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unavailable(
                f"The rows could not be written to {str(self.directory)!r} ({problem.strerror})."
                " Nothing was registered. Check its permissions and the space on its disk."
            ) from None
        return name, seal

    def forget(self, name: str) -> None:
        """Remove rows whose registration did not come about."""
        shutil.rmtree(self.directory / name, ignore_errors=True)

    def has(self, name: str) -> bool:
        """Whether the rows are here at all."""
        return (self.directory / name / "rows.parquet").is_file()

    def report(self, name: str) -> IntakeReport | None:
        """What became of the records when they were taken in, if it was noted then."""
        try:
            written = (self.directory / name / REPORT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return IntakeReport.from_json(json.loads(written))

    def seal(self, name: str) -> str:
        """Recompute the seal of the rows on disk."""
        folder = self.directory / name
        seal = hashlib.sha256((folder / "salt").read_bytes())
        with (folder / "rows.parquet").open("rb") as rows:
            while block := rows.read(1 << 20):
                seal.update(block)
        return seal.hexdigest()

    def load(self, name: str, seal: str, domain: Domain) -> Table:
        """The rows as a table, if they are those that were registered."""
        if self.seal(name) != seal:
            raise InvalidData("The rows on disk are not those that were registered.")
        return read(self.directory / name / "rows.parquet", domain)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
