"""What a curator keeps is closed to others, wherever it is told to keep it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privod.curator import Curator
from privod.curator.backups import backup
from privod.data import Domain, Numeric
from privod.ledger.private_files import private_directory, private_file


@pytest.fixture(autouse=True)
def _open_handed() -> Iterator[None]:
    """A umask under which others may read what is made carelessly."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def others(path: Path) -> int:
    """What others may do with a file or directory."""
    return path.stat().st_mode & 0o077


def made(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_a_curator_and_its_backup_are_closed_in_directories_that_were_open(tmp_path: Path) -> None:
    homes = [made(tmp_path / name, 0o755) for name in ("curator", "backup")]
    with Curator.open(homes[0]) as curator:
        curator.register("d", {"x": [1.0, 2.0]}, Domain((Numeric("x", 0, 9),)))
        backup(curator, homes[1])
        for home in homes:
            assert others(home) == 0o055  # it is not ours to change
            inside = list(home.rglob("*"))
            assert {path.name for path in inside} >= {"ledger.sqlite3", "rows", "rows-0000.columns"}
            assert [path for path in inside if others(path)] == []
        assert (homes[0] / "ledger.sqlite3-wal").exists()


def test_a_directory_that_is_made_is_closed(tmp_path: Path) -> None:
    with Curator.open(tmp_path / "new"):
        assert others(tmp_path / "new") == 0


def test_a_budget_that_was_open_to_others_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    with Curator.open(tmp_path):
        pass
    budget = tmp_path / "ledger.sqlite3"
    budget.chmod(0o644)
    with Curator.open(tmp_path):
        assert others(budget) == 0


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_may_write_to_is_warned_of(tmp_path: Path, mode: int) -> None:
    with pytest.warns(UserWarning, match="chmod go-w"):
        private_directory(made(tmp_path / "shared", mode))


def test_what_a_file_holds_and_its_owners_rights_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    file.chmod(0o444)
    private_file(file)
    assert file.stat().st_mode & 0o777 == 0o400
    assert file.read_text() == "text"


def test_a_file_that_cannot_be_made_is_left_for_others_to_tell(tmp_path: Path) -> None:
    private_file(tmp_path / "nowhere" / "file")
    assert not (tmp_path / "nowhere").exists()


def test_closing_a_budget_to_others_frees_no_lock_that_is_held_on_it(tmp_path: Path) -> None:
    budget = tmp_path / "book"
    begin = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    other = [sys.executable, "-c", begin, str(budget)]
    holder = sqlite3.connect(budget, isolation_level=None)
    holder.execute("CREATE TABLE t (x)")
    assert subprocess.run(other, capture_output=True, check=False).returncode == 0
    holder.execute("BEGIN IMMEDIATE")
    private_file(budget)
    assert subprocess.run(other, capture_output=True, check=False).returncode != 0
    holder.close()
