"""Rows, tokens, versions of the tables, and what is said when the disk does not play along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator, backup, backups, restore
from privod.curator.rows import RowStore
from privod.curator.work import JobRecord
from privod.data import Categorical, Domain, Numeric
from privod.data.sources import read_with_report
from privod.errors import (
    AlreadyExists,
    InvalidData,
    InvalidParameter,
    LedgerDamaged,
    NotFound,
    Unavailable,
)
from privod.ledger import schema as tables
from privod.ledger.acts import ChargeAhead, ChargeElsewhere
from privod.ledger.chain import now
from privod.ledger.private_files import sync_file
from privod.ledger.schema import STEPS, bring_up_to_date
from privod.ledger.sqlite import LEDGER_FILE, SQLite
from privod.privacy import AddRemove, Guarantee, Loss
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("age", 0, 120), Categorical("sex", ("f", "m"))), "who", 2)
ROWS = {
    "age": np.arange(60.0),
    "sex": np.array(["f", "m", "x"] * 20, dtype=object),
    "who": [n // 3 for n in range(60)],
}
QUESTION = Histogram(columns=("age",), bins=4, epsilon="0.1")


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    curator = Curator.open(tmp_path / "curator")
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", AddRemove(), Loss(1))
    return curator


# ---- rows --------------------------------------------------------------------------------------


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = RowStore(tmp_path)
    table, expected = read_with_report(ROWS, DOMAIN)
    folder, seal, report = rows.keep(ROWS, DOMAIN)
    assert rows.report(folder, seal) == report == expected
    again = rows.load(folder, seal, DOMAIN)
    assert np.array_equal(again.numbers(), table.numbers())
    assert np.array_equal(again.codes(), table.codes())


def test_equal_rows_have_different_seals(tmp_path: Path) -> None:
    rows = RowStore(tmp_path)
    seals = {rows.keep(ROWS, DOMAIN)[1] for _ in range(3)}
    assert len(seals) == 3


def test_changed_rows_are_not_loaded(tmp_path: Path) -> None:
    rows = RowStore(tmp_path)
    folder, seal, _ = rows.keep(ROWS, DOMAIN)
    path = tmp_path / folder / "rows-0000.columns"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InvalidData, match="not those that were registered"):
        rows.load(folder, seal, DOMAIN)


def test_a_changed_report_is_not_told_and_breaks_the_seal_and_one_that_is_gone_does_not(
    tmp_path: Path,
) -> None:
    rows = RowStore(tmp_path)
    folder, seal, _ = rows.keep(ROWS, DOMAIN)
    assert rows.seal(folder) == seal
    path = tmp_path / folder / "report.json"
    path.write_text(path.read_text().replace(":", ": ", 1))
    with pytest.raises(InvalidData, match="not the one that was kept"):
        rows.report(folder, seal)
    assert rows.seal(folder) == ""
    path.unlink()
    assert rows.report(folder, seal) is None
    assert rows.seal(folder) == seal


def test_only_the_owner_of_the_files_may_look_at_them(curator: Curator) -> None:
    assert curator.directory.stat().st_mode & 0o077 == 0
    for folder in (curator.directory / "rows").iterdir():
        assert folder.stat().st_mode & 0o077 == 0


def test_rows_that_cannot_be_written_register_nothing(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    (tmp_path / "rows").write_text("in the way")
    with pytest.raises(Unavailable, match="Nothing was registered"):
        curator.register("people", ROWS, DOMAIN)
    assert curator.datasets() == ()
    curator.verify()


def test_rows_of_a_refused_registration_are_removed(curator: Curator) -> None:
    before = sorted((curator.directory / "rows").iterdir())
    with pytest.raises(AlreadyExists):
        curator.register("people", ROWS, DOMAIN)
    assert sorted((curator.directory / "rows").iterdir()) == before


# ---- tokens ------------------------------------------------------------------------------------


def test_a_token_is_found_until_it_is_revoked(curator: Curator) -> None:
    added = curator.store.add_token("a1" * 32, "analyst", "people", "ward 3")
    assert curator.store.find_token("a1" * 32) == added
    assert (added.role, added.of, added.name) == ("analyst", "people", "ward 3")
    revoked = curator.store.revoke_token("a1" * 32)
    assert revoked.revoked is not None
    assert curator.store.find_token("a1" * 32) is None
    assert curator.store.tokens() == (revoked,)
    assert curator.store.revoke_token("a1" * 32) == revoked


def test_a_token_needs_a_role_a_name_and_a_data_set_that_exists(curator: Curator) -> None:
    with pytest.raises(InvalidParameter, match="role must be one of owner, analyst, auditor"):
        curator.store.add_token("h", "root", None, "Ada")
    with pytest.raises(InvalidParameter, match="name"):
        curator.store.add_token("h", "owner", None, "")
    with pytest.raises(NotFound, match="no data set"):
        curator.store.add_token("h", "owner", "animals", "Ada")
    curator.store.add_token("h", "owner", None, "Ada")
    with pytest.raises(AlreadyExists):
        curator.store.add_token("h", "owner", None, "Ada")
    with pytest.raises(NotFound):
        curator.store.revoke_token("another")


# ---- versions of the tables --------------------------------------------------------------------


def test_a_newer_step_is_applied_once_and_keeps_what_is_there(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator.ask(QUESTION, "people")
    second: tables.Step = (
        ("ALTER TABLE tokens ADD COLUMN used TEXT",),
        {"sqlite": ("CREATE INDEX tokens_by_name ON tokens (name)",)},
    )
    monkeypatch.setattr(tables, "STEPS", (*STEPS, second))
    for _ in range(2):
        with Curator.open(curator.directory) as newer:
            assert newer.verify().releases == 1
            with newer.database.reading() as connection:
                connection.execute("SELECT used FROM tokens")
                assert connection.execute("SELECT version FROM schema_version") == [
                    (len(STEPS) + 1,)
                ]


def test_a_step_that_fails_leaves_the_old_version_whole(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: tables.Step = (("CREATE TABLE extra (a TEXT)", "SELECT nonsense"), {})
    monkeypatch.setattr(tables, "STEPS", (*STEPS, broken))
    with pytest.raises(LedgerDamaged):
        bring_up_to_date(curator.database)
    monkeypatch.undo()
    with curator.database.reading() as connection:
        assert connection.execute("SELECT version FROM schema_version") == [(len(STEPS),)]
        names = connection.execute("SELECT name FROM sqlite_master WHERE name = 'extra'")
        assert names == []
    curator.verify()


def test_a_budget_of_a_newer_privod_is_refused(curator: Curator) -> None:
    with curator.database.writing() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(Unavailable, match="Install a newer privod"):
        Curator.open(curator.directory)


# ---- a disk that does not play along -----------------------------------------------------------


def every_connection(monkeypatch: pytest.MonkeyPatch, curator: Curator, pragma: str) -> None:
    """Have SQLite behave as on such a disk, from the next connection on."""
    connect = SQLite._connect

    def limited(database: SQLite) -> Any:
        connection = connect(database)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(SQLite, "_connect", limited)
    curator.close()


def test_a_full_disk_charges_nothing_and_says_so(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_connection(monkeypatch, curator, "PRAGMA max_page_count = 1")
    heads = [curator.head()]

    def charge_until_the_pages_have_no_room() -> None:
        lost = Guarantee(Loss("0.001"), AddRemove())
        for number in range(100):
            curator.do(
                ChargeElsewhere("people", lost, f"reason {number} " + "x" * 150), confirmed=True
            )
            heads.append(curator.head())

    with pytest.raises(Unavailable, match=r"disk is full\. Nothing was changed"):
        charge_until_the_pages_have_no_room()
    assert curator.head() == heads[-1]
    monkeypatch.undo()
    curator.close()
    curator.verify()
    curator.ask(QUESTION, "people")


def test_a_read_only_budget_still_shows_what_is_there(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = curator.ask(QUESTION, "people")
    every_connection(monkeypatch, curator, "PRAGMA query_only = ON")
    assert curator.ask(QUESTION, "people").release == answer.release
    with pytest.raises(Unavailable, match="cannot be opened for writing"):
        curator.ask(Histogram(columns=("age",), bins=5, epsilon="0.1"), "people")
    curator.verify()


def test_a_file_that_is_no_budget_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).write_bytes(b"this was a budget once" * 1000)
    with pytest.raises(LedgerDamaged, match="Restore it from a backup"):
        Curator.open(tmp_path)


def test_any_damaged_page_is_found(curator: Curator) -> None:
    for bins in range(1, 10):
        curator.ask(Histogram(columns=("age",), bins=bins, epsilon="0.01"), "people")
    curator.close()
    path = curator.directory / LEDGER_FILE
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")  # as SQLite's file header says
    for start in range(0, len(whole), page):
        path.write_bytes(whole[:start] + bytes(page) + whole[start + page :])
        with pytest.raises(LedgerDamaged):
            Curator.open(curator.directory).verify()
    path.write_bytes(whole)
    Curator.open(curator.directory).verify()


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="Name a directory"):
        Curator.open(tmp_path / "file")


def test_a_url_of_another_kind_is_refused_without_showing_its_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="postgresql://") as refused:
        Curator.open(tmp_path, database="mysql://me:secret@host/budget")
    assert "secret" not in str(refused.value)


# ---- copies ------------------------------------------------------------------------------------


def test_a_backup_is_read_as_it_is_and_sells_nothing(curator: Curator, tmp_path: Path) -> None:
    answer = curator.ask(QUESTION, "people")
    curator.store.add_token("h", "owner", None, "Ada")
    found = backup(curator, tmp_path / "copy")
    assert found.head == curator.head()
    assert found.without_rows == ()
    with Curator.open(tmp_path / "copy", read_only=True) as copy:
        assert copy.ask(QUESTION, "people").release == answer.release
        assert copy.store.find_token("h") is not None
        copy.verify(found.head)
    with pytest.raises(Unavailable, match=r"is a backup.*Put a backup back .`privod restore`"):
        Curator.open(tmp_path / "copy")
    another = Histogram(columns=("age",), bins=5, epsilon="0.1")
    with Curator.open(tmp_path / "copy", restoring=True) as copy:
        assert copy.ask(QUESTION, "people").stored
        with pytest.raises(Unavailable, match="is a backup"):
            copy.ask(another, "people")
        with pytest.raises(Unavailable, match="is a backup"):
            copy.do(ChargeAhead("people", QUESTION.guarantee(), "a fit"))
        assert copy.head() == found.head
        copy.accept_restored("the original burned")
        assert not copy.ask(another, "people").stored
    with Curator.open(tmp_path / "copy") as copy:
        copy.verify()
    with pytest.raises(AlreadyExists, match="not empty"):
        backup(curator, tmp_path / "copy")


def test_a_backup_that_was_cut_short_sells_nothing_either(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "_copy_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        backup(curator, tmp_path / "copy")
    with pytest.raises(Unavailable, match="is a backup"):
        Curator.open(tmp_path / "copy")


def test_the_command_line_copies_and_charges(curator: Curator, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(app, [*arguments, "--at", str(curator.directory), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    assert run("backup", str(tmp_path / "copy"))["head"] == curator.head()
    again = ["restore", str(tmp_path / "copy"), "--at", str(tmp_path / "again"), "--json"]
    done = CliRunner().invoke(app, [*again, "--head", curator.head()])
    assert json.loads(done.output)["head"] == curator.head()
    there = ["--at", str(tmp_path / "again")]
    found = run("verify")
    assert (found["is_copy"], found["restored"]) == (False, [])
    told = " ".join(CliRunner().invoke(app, ["verify", *there]).output.split())
    assert "The ledger is intact" in told
    assert "answers no new questions" in told
    assert "`privod accept-restored`" in told
    left = CliRunner().invoke(app, ["budget", "people", *there, "--json"])
    assert json.loads(left.output)[0]["left"]["epsilon"] == "1"  # what an owner may have to charge
    refused = CliRunner().invoke(app, ["datasets", *there])
    assert refused.exit_code != 0
    assert "accept-restored" in str(refused.exception)
    accepted = ["accept-restored", "--reason", "the original burned", "--yes", *there]
    assert CliRunner().invoke(app, accepted).exit_code == 0
    assert CliRunner().invoke(app, ["datasets", *there]).exit_code == 0
    told = " ".join(CliRunner().invoke(app, ["verify", *there]).output.split())
    entry = int(json.loads(done.output)["head"].partition(":")[0]) + 1
    assert f"It was accepted as restored in entry {entry}" in told
    assert "no new questions" not in told
    (charged,) = run("charge", "people", "--epsilon", "0.1", "--reason", "a talk in May", "--yes")
    assert charged["loss"] == {"epsilon": "1/5", "delta": "0"}  # two rows a person
    assert curator.budget("people")[0].spent == Loss("0.2")


def test_an_old_backup_is_recognized_and_what_it_forgot_can_be_charged(
    curator: Curator, tmp_path: Path
) -> None:
    backup(curator, tmp_path / "old")
    curator.ask(QUESTION, "people")
    noted = curator.head()
    with Curator.open(tmp_path / "old", restoring=True) as restored:
        with pytest.raises(LedgerDamaged, match="restored from an old backup"):
            restored.verify(expected_head=noted)
        lost = QUESTION.guarantee()
        restored.do(
            ChargeElsewhere("people", lost, "asked after the backup of Sunday"), confirmed=True
        )
        assert restored.budget("people") == curator.budget("people")
        restored.verify()


def test_a_backup_is_restored_to_a_new_place_and_verified_there(
    curator: Curator, tmp_path: Path
) -> None:
    answer = curator.ask(QUESTION, "people")
    moment = now()
    waiting = JobRecord("j", "server", "h", "Ada", "people", QUESTION.to_json(), "r", moment)
    curator.job_records.add(waiting)
    noted = backup(curator, tmp_path / "kept").head
    found = restore(tmp_path / "kept", tmp_path / "restored", noted)
    assert (found.head, found.without_rows) == (noted, ())
    fresh = Histogram(columns=("age",), bins=5, epsilon="0.1")
    with pytest.raises(Unavailable, match=r"privod charge.* accept"):
        Curator.open(tmp_path / "restored")
    with Curator.open(tmp_path / "restored", restoring=True) as restored:
        with pytest.raises(Unavailable, match=r"privod charge.* accept"):  # the original may sell
            restored.ask(fresh, "people")
        assert restored.ask(QUESTION, "people").release == answer.release
        restored.accept_restored("the original's disk broke")
    with Curator.open(tmp_path / "restored") as restored:
        restored.verify(noted)
        assert restored.ask(QUESTION, "people").release == answer.release
        assert not restored.ask(fresh, "people").stored
        assert restored.job_records.find("j") is None  # whoever waits, waits elsewhere
    curator.ask(Histogram(columns=("age",), bins=7, epsilon="0.1"), "people")
    with pytest.raises(LedgerDamaged):
        restore(tmp_path / "kept", tmp_path / "other", curator.head())
    with pytest.raises(AlreadyExists, match="not empty"):
        restore(tmp_path / "kept", tmp_path / "restored")


def test_restored_rows_are_on_disk_when_they_are_said_to_be_put_back(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(curator, tmp_path / "kept")
    synced: list[Path] = []

    def watch(path: Path) -> None:
        sync_file(path)
        synced.append(path)

    monkeypatch.setattr(backups, "sync_file", watch)
    restore(tmp_path / "kept", tmp_path / "restored")
    rows = tmp_path / "restored" / "rows"
    assert any(path.is_file() for path in rows.rglob("*"))
    assert {rows, *rows.rglob("*")} <= set(synced)
