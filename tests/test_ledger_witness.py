"""Nothing rolls back unnoticed: the witness of a ledger, on both engines."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.soak_ledger import empty

from privod.curator import Curator, backup
from privod.data import Domain, Numeric
from privod.errors import AnswerFailed, LedgerDamaged, Unavailable
from privod.ledger import verification
from privod.ledger.acts import ChargeElsewhere, RaiseBudget
from privod.ledger.database import Connection
from privod.ledger.private_files import sync_file
from privod.ledger.sqlite import LEDGER_FILE, SQLite
from privod.ledger.witness import SLOT, SLOTS, Head, Witness, Witnesses
from privod.privacy import AddRemove, Guarantee, Loss
from privod.questions.histogram.query import Histogram
from tests.postgres_cluster import find_server, running_server

DOMAIN = Domain((Numeric("age", 0, 120),))
ROWS = {"age": np.arange(100.0)}
WAL = f"{LEDGER_FILE}-wal"
CHARGES = 42


def question(bins: int) -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon="0.01")


def filled(directory: Path, url: str | None = None, charges: int = CHARGES) -> Curator:
    curator = Curator.open(directory, database=url)
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", AddRemove(), Loss(1))
    for bins in range(1, charges + 1):
        curator.ask(question(bins), "people")
    return curator


def copy_as_after_a_crash(curator: Curator, to: Path) -> Path:
    """The files as a power failure would leave them, with the log not yet written back."""
    shutil.copytree(curator.directory, to, ignore=shutil.ignore_patterns("*-shm", "locks"))
    return to


def frames(log: bytes) -> list[int]:
    """Where each frame of a write-ahead log begins."""
    page = struct.unpack(">I", log[8:12])[0]
    return list(range(32, len(log), page + 24))


def assert_found(directory: Path) -> None:
    """Start-up, the next charge and `verify` each refuse by themselves."""
    with pytest.raises(LedgerDamaged, match="witness"):
        Curator.open(directory)
    with Curator.open(directory, restoring=True) as opened:
        before = opened.head()
        with pytest.raises(LedgerDamaged, match=r"witness .* saw"):
            opened.ask(question(100), "people")
        assert opened.head() == before
        with pytest.raises(LedgerDamaged, match=r"witness .* saw"):
            opened.verify()
    with pytest.raises(LedgerDamaged, match="witness"):
        Curator.open(directory, read_only=True)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("witness")
    with filled(home / "live") as curator:
        copy = copy_as_after_a_crash(curator, home / "copy")
        assert len(frames((copy / WAL).read_bytes())) > CHARGES
        yield copy


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What each witness held when the disk was waited for."""
    found: list[bytes] = []
    sync = os.fdatasync

    def watched(handle: int) -> None:
        sync(handle)
        found.append(os.pread(handle, SLOT * SLOTS, 0))

    monkeypatch.setattr(os, "fdatasync", watched)
    return found


def test_an_answer_leaves_when_its_witness_is_on_disk(tmp_path: Path, synced: list[bytes]) -> None:
    with filled(tmp_path, charges=0) as curator:
        answer = curator.ask(question(1), "people")
        assert any(answer.head.encode() in content for content in synced)


def test_a_stored_answer_leaves_when_the_witness_has_seen_it(
    tmp_path: Path, synced: list[bytes]
) -> None:
    with filled(tmp_path, charges=1) as curator:
        before = (tmp_path / "witness").read_bytes()
        answer = curator.ask(question(2), "people")
    (tmp_path / "witness").write_bytes(before)  # as a crash leaves it that came in between
    synced.clear()
    with Curator.open(tmp_path) as curator:
        again = curator.ask(question(2), "people")
        assert (again.stored, again.head) == (True, answer.head)
        assert any(again.head.encode() in content for content in synced)


def test_a_write_ahead_log_cut_anywhere_is_found(crashed: Path, tmp_path: Path) -> None:
    log = (crashed / WAL).read_bytes()
    starts = frames(log)
    lost = set()
    for share in (0.5, 0.8, 0.95):
        place = tmp_path / str(share)
        shutil.copytree(crashed, place)
        (place / WAL).write_bytes(log[: starts[int(share * len(starts))]])
        with Curator.open(place, restoring=True) as opened:
            lost.add(CHARGES - len(opened.releases("people")))
        assert_found(place)
    assert max(lost) > CHARGES // 3  # the attack does roll back many charges
    shutil.copytree(crashed, tmp_path / "whole")
    with Curator.open(tmp_path / "whole") as whole:
        whole.verify()


def test_a_bit_flipped_in_the_log_is_found(crashed: Path, tmp_path: Path) -> None:
    log = bytearray((crashed / WAL).read_bytes())
    starts = frames(bytes(log))
    for share in (0.4, 0.9):
        place = tmp_path / str(share)
        shutil.copytree(crashed, place)
        changed = bytearray(log)
        changed[starts[int(share * len(starts))] + 100] ^= 1
        (place / WAL).write_bytes(changed)
        assert_found(place)


def test_the_last_answer_alone_cannot_be_cut_off(crashed: Path, tmp_path: Path) -> None:
    place = tmp_path / "last"
    shutil.copytree(crashed, place)
    log = (place / WAL).read_bytes()
    commits = [at for at in frames(log) if struct.unpack(">I", log[at + 4 : at + 8])[0]]
    (place / WAL).write_bytes(log[: commits[-1]])
    assert_found(place)


def test_an_old_copy_of_the_database_is_found(tmp_path: Path) -> None:
    with filled(tmp_path / "live", charges=3) as curator:
        old = tmp_path / "old"
        backup(curator, old)
        curator.ask(question(50), "people")
    shutil.copyfile(old / LEDGER_FILE, tmp_path / "live" / LEDGER_FILE)
    assert_found(tmp_path / "live")


def test_a_directory_restored_with_its_witness_is_found_by_the_second_one(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "witness"
    elsewhere.parent.mkdir()
    filled(tmp_path / "live", charges=2).close()
    shutil.copytree(tmp_path / "live", tmp_path / "old")
    with Curator.open(tmp_path / "live", witness=elsewhere) as curator:
        curator.ask(question(50), "people")
    Curator.open(tmp_path / "old").close()  # its own witness is as old as it is
    with pytest.raises(LedgerDamaged, match="elsewhere/witness' saw entry"):
        Curator.open(tmp_path / "old", witness=elsewhere)
    Curator.open(tmp_path / "live", witness=elsewhere).verify()


def test_another_ledger_in_its_place_is_found(tmp_path: Path) -> None:
    filled(tmp_path / "one", charges=2).close()
    filled(tmp_path / "two", charges=9).close()
    shutil.copyfile(tmp_path / "two" / LEDGER_FILE, tmp_path / "one" / LEDGER_FILE)
    shutil.copytree(tmp_path / "two" / "rows", tmp_path / "one" / "rows", dirs_exist_ok=True)
    assert_found(tmp_path / "one")
    (tmp_path / "two" / LEDGER_FILE).unlink()
    with pytest.raises(LedgerDamaged, match="ends with entry 0"):
        Curator.open(tmp_path / "two")


def test_a_witness_that_is_gone_is_missed(tmp_path: Path) -> None:
    filled(tmp_path, charges=1).close()
    (tmp_path / "witness").unlink()
    with pytest.raises(LedgerDamaged, match=r"witness .* is gone"):
        Curator.open(tmp_path)
    with Curator.open(tmp_path, restoring=True) as curator:
        with pytest.raises(LedgerDamaged, match=r"witness .* is gone"):
            curator.verify()
        with pytest.raises(Unavailable, match="answers nothing new before its owner accepts it"):
            curator.ask(question(9), "people")
        curator.accept_restored("the witness was lost")
        curator.ask(question(9), "people")


def rolled_back_without_witness(tmp_path: Path) -> Path:
    """A ledger replaced by an older one, whose witness is gone: nobody can tell."""
    with filled(tmp_path / "live", charges=1) as curator:
        old = copy_as_after_a_crash(curator, tmp_path / "old")
        curator.ask(question(2), "people")
        (tmp_path / "live" / "witness").replace(tmp_path / "witness")
    for file in (tmp_path / "live").glob(f"{LEDGER_FILE}*"):
        file.unlink()
    for file in old.glob(f"{LEDGER_FILE}*"):
        shutil.copy(file, tmp_path / "live")
    return tmp_path / "live"


def charge(curator: Curator) -> None:
    curator.do(
        ChargeElsewhere("people", Guarantee(Loss("0.01"), AddRemove()), "a slide"), confirmed=True
    )


@pytest.mark.parametrize(
    "step",
    [
        charge,
        lambda curator: curator.ask(question(1), "people"),
        lambda curator: curator.release("people", question(1)),
        lambda curator: curator.releases("people"),
        lambda curator: curator.do(
            RaiseBudget("people", AddRemove(), Loss(2), "more"), confirmed=True
        ),
    ],
    ids=["charge", "stored answer", "release", "releases", "budget"],
)
def test_nothing_but_accepting_it_lets_a_ledger_without_witness_sell(
    tmp_path: Path, step: Callable[[Curator], object]
) -> None:
    """A witness begun anew by any step would hide that entries are missing."""
    directory = rolled_back_without_witness(tmp_path)
    with Curator.open(directory, restoring=True) as opened:
        step(opened)
        with pytest.raises(Unavailable, match="accept"):
            opened.ask(question(3), "people")
    with pytest.raises(LedgerDamaged, match="is gone"):
        Curator.open(directory)
    with Curator.open(directory, restoring=True) as opened:
        opened.accept_restored("compared with the head that the auditor has")
    with Curator.open(directory) as opened:
        assert not opened.ask(question(3), "people").stored


def test_a_whole_ledger_opened_to_be_restored_is_witnessed_and_sells_nothing(
    tmp_path: Path,
) -> None:
    """As `privod charge` opens any ledger."""
    filled(tmp_path, charges=1).close()
    with Curator.open(tmp_path, restoring=True) as curator:
        charge(curator)
        noted = Witness(tmp_path / "witness").read()
        assert noted is not None
        assert str(noted) == curator.head()
        with pytest.raises(Unavailable, match="accept"):
            curator.ask(question(2), "people")


def test_a_witness_that_goes_under_a_running_curator_is_missed(tmp_path: Path) -> None:
    with filled(tmp_path / "live", charges=2) as curator:
        witness = tmp_path / "live" / "witness"
        witness.unlink()
        before = curator.head()
        for ask in (question(3), question(1)):
            with pytest.raises(LedgerDamaged, match="is gone"):
                curator.ask(ask, "people")
        assert curator.head() == before
        charge(curator)
        assert not witness.exists()


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, act: Callable[[], None]
) -> None:
    """Let something happen once, just after a step."""
    step, waiting = getattr(of, name), [act]

    def stepped(*given: Any) -> Any:
        found = step(*given)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(of, name, stepped)


def test_a_ledger_that_grows_while_it_is_read_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that another process gives in between is in its witness, not in what was read."""
    with filled(tmp_path / "live", charges=2) as curator, Curator.open(tmp_path / "live") as other:
        bins = iter(range(3, 100))

        def answer() -> None:
            other.ask(question(next(bins)), "people")

        with monkeypatch.context() as patched:
            meanwhile(patched, Connection, "execute", answer)  # a transaction sees one moment
            curator.check_ledger()
        with monkeypatch.context() as patched:
            patched.setattr(verification, "_check_tokens", lambda *_: answer())
            assert curator.verify().releases == 3
        with monkeypatch.context() as patched:
            meanwhile(patched, SQLite, "check_file", answer)
            assert curator.verify().releases == 5
        copied = SQLite.copied_from

        def copied_from(directory: Path) -> SQLite:
            copy = copied(directory)
            answer()
            return copy

        monkeypatch.setattr(SQLite, "copied_from", copied_from)
        with Curator.open(tmp_path / "live", read_only=True) as auditor:
            answer()
            assert auditor.verify().releases == 5
            auditor.check_ledger()
        assert next(bins) == 8


class PowerFailure(BaseException):
    """Ends everything at once."""


def fail(*_: object, **__: object) -> None:
    raise PowerFailure


def test_a_stored_answer_waits_for_a_witness_that_others_have_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[bytes]
) -> None:
    """Its release was entered, a crash came, and an owner's step has noted a later head."""
    with filled(tmp_path / "live", charges=1) as curator:
        with monkeypatch.context() as patched:
            patched.setattr(Witnesses, "note", fail)
            with pytest.raises(PowerFailure):
                curator.ask(question(2), "people")
        charge(curator)  # noted, and not waited for
        with Curator.open(tmp_path / "live") as other:
            before = len(synced)
            answer = other.ask(question(2), "people")
            assert answer.stored
            assert len(synced) > before
            before = len(synced)
            other.ask(question(2), "people")
            assert len(synced) == before


def test_a_witness_that_was_damaged_is_not_taken_for_none(tmp_path: Path) -> None:
    filled(tmp_path, charges=1).close()
    (tmp_path / "witness").write_bytes(b"x" * 4096)
    with pytest.raises(LedgerDamaged, match="cannot be read"):
        Curator.open(tmp_path)


def test_rolled_back_files_under_a_running_curator_are_found_at_the_next_charge(
    tmp_path: Path,
) -> None:
    with filled(tmp_path, charges=2) as curator:
        head = curator.head()
        Witness(tmp_path / "witness").note(Head(99, "f" * 64))  # as if the ledger had come so far
        with pytest.raises(LedgerDamaged, match="saw entry 99"):
            curator.ask(question(9), "people")
        assert curator.head() == head


def test_an_owner_accepts_a_restored_ledger_after_charging_what_is_missing(tmp_path: Path) -> None:
    with filled(tmp_path / "live", charges=3) as curator:
        backup(curator, tmp_path / "old")
        for bins in (50, 51):
            curator.ask(question(bins), "people")
    shutil.copyfile(tmp_path / "old" / LEDGER_FILE, tmp_path / "live" / LEDGER_FILE)
    with Curator.open(tmp_path / "live", restoring=True) as curator:
        lost = Guarantee(Loss("0.02"), AddRemove())
        curator.do(ChargeElsewhere("people", lost, "lost with the disk"), confirmed=True)
        with pytest.raises(LedgerDamaged):
            curator.ask(question(60), "people")
        head = curator.accept_restored("the disk broke on 15 November")
        assert head == curator.head()
        curator.ask(question(60), "people")
        assert curator.budget("people")[0].spent == Loss("0.06")
    with Curator.open(tmp_path / "live") as curator:
        curator.verify(expected_head=head)
        (entry,) = (entry for entry in curator.history() if entry.kind == "restored")
        assert entry.query is not None
        assert entry.query["reason"].startswith("the disk broke")


def test_every_answer_carries_the_head_and_the_witness_saw_it(tmp_path: Path) -> None:
    with filled(tmp_path, charges=0) as curator:
        for bins in (1, 2, 1):
            answer = curator.ask(question(bins), "people")
            assert answer.head == curator.head()
            assert str(Witness(tmp_path / "witness").read()) == answer.head
            curator.verify(expected_head=answer.head)


def test_an_answer_that_no_witness_can_note_does_not_leave(tmp_path: Path) -> None:
    with filled(tmp_path / "live", charges=0) as curator:
        pass
    elsewhere = tmp_path / "elsewhere"
    with Curator.open(tmp_path / "live", witness=elsewhere / "witness") as curator:
        with pytest.raises(AnswerFailed):  # the folder is not there
            curator.ask(question(1), "people")
        elsewhere.mkdir()
        assert curator.ask(question(1), "people").stored  # it was stored, and leaves once noted
        assert str(Witness(elsewhere / "witness").read()) == curator.head()


def test_a_torn_write_loses_no_earlier_head(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "witness")
    for number in range(1, 30):
        witness.note(Head(number, f"{number:064d}"))
        content = bytearray(witness.path.read_bytes())
        newest = content.index(f" {number}:".encode())
        content[newest + 30] ^= 1
        (tmp_path / "torn").write_bytes(content)
        if number > 1:
            assert Witness(tmp_path / "torn").read() == Head(number - 1, f"{number - 1:064d}")
    witness.note(Head(3, "0" * 64))
    assert witness.read() == Head(29, f"{29:064d}")
    assert witness.path.stat().st_size == 8 * SLOT
    assert witness.path.stat().st_mode & 0o077 == 0


def test_a_copy_is_verified_without_being_changed(crashed: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(crashed, place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with Curator.open(place, read_only=True) as curator:
        assert curator.verify().releases == CHARGES
        assert curator.budget("people")[0].spent == Loss("0.42")
        with pytest.raises(Unavailable, match="read only"):
            curator.ask(question(99), "people")
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_charge_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    with filled(tmp_path, charges=0) as curator:

        def watch(path: Path) -> None:
            synced.append(path.name)
            sync_file(path)

        monkeypatch.setattr("privod.ledger.sqlite.sync_file", watch)
        curator.ask(question(1), "people")
    assert synced == [WAL, WAL]  # the charge before the look, the release before the answer


# ---- PostgreSQL --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if find_server() is None:
        pytest.skip("PostgreSQL: no server program (apt-get install postgresql)")
    with running_server() as url:
        yield url


def test_a_postgresql_database_rolled_back_is_found(tmp_path: Path, server: str) -> None:
    import psycopg

    empty(server)
    with filled(tmp_path, server, charges=4) as curator:
        head = curator.head()
    with psycopg.connect(server, autocommit=True) as connection:
        for table in ("entries", "releases"):
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        # As a dump of an hour ago would have it: whole in itself.
        connection.execute("DELETE FROM releases WHERE entry > 6")
        connection.execute("DELETE FROM entries WHERE number > 6")
        connection.execute(
            "UPDATE head SET length = 6, hash = (SELECT hash FROM entries WHERE number = 6)"
        )
        connection.execute("UPDATE budgets SET spent_epsilon = '1/50'")
    with pytest.raises(LedgerDamaged, match=r"ends with entry 6, .* saw entry 10"):
        Curator.open(tmp_path, database=server)
    with Curator.open(tmp_path, database=server, restoring=True) as curator:
        with pytest.raises(LedgerDamaged, match="saw entry 10"):
            curator.ask(question(9), "people")
        with pytest.raises(LedgerDamaged, match="saw entry 10"):
            curator.verify()
    with Curator.open(tmp_path / "another-host", database=server) as fresh:
        fresh.verify()  # a host that saw nothing yet has nothing to say against it
        with pytest.raises(LedgerDamaged):
            fresh.verify(expected_head=head)


def test_a_postgresql_ledger_is_read_without_being_changed(tmp_path: Path, server: str) -> None:
    empty(server)
    filled(tmp_path, server, charges=2).close()
    with Curator.open(tmp_path, database=server, read_only=True) as curator:
        assert curator.verify().releases == 2
        with pytest.raises(Unavailable, match="read only"):
            curator.ask(question(9), "people")


def test_sqlite_itself_does_not_notice(crashed: Path, tmp_path: Path) -> None:
    """The attack is real: cut by its tail, the log is whole to SQLite."""
    shutil.copyfile(crashed / LEDGER_FILE, tmp_path / LEDGER_FILE)
    log = (crashed / WAL).read_bytes()
    (tmp_path / WAL).write_bytes(log[: frames(log)[len(frames(log)) // 2]])
    connection = sqlite3.connect(tmp_path / LEDGER_FILE)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    length = connection.execute("SELECT length FROM head").fetchone()[0]
    assert 0 < connection.execute("SELECT MAX(number) FROM entries").fetchone()[0] == length
    connection.close()
