"""What was changed in a ledger is found, wherever it was changed."""

# ruff: noqa: S608 - statements are built from the names of the columns

from __future__ import annotations

# slow: left out by `make quick`
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.curator import Curator
from privod.errors import InvalidParameter, LedgerDamaged
from privod.ledger import store
from privod.ledger.chain import COLUMNS, FIELDS, LATER_FIELDS, digest, entry_hash
from privod.ledger.sqlite import LEDGER_FILE
from privod.ledger.witness import Head
from privod.privacy import Loss, Replace
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from tests.test_ledger import DOMAIN, question, start


@dataclass
class Kept:
    """A ledger with something in it, and a way to reach past the curator."""

    directory: Path
    curator: Curator

    def change(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Run statements as an attacker with the file would."""
        connection = sqlite3.connect(self.directory / LEDGER_FILE)
        for table in ("entries", "releases"):
            for what in ("update", "delete"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}_never_{what}")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.commit()
        connection.close()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    curator = start(tmp_path, Loss(3))
    for bins in (1, 2):
        curator.ask(question(bins), "people", request_id=f"r{bins}")
    curator.open_budget("people", Replace(), Loss(5), confirmed=True)
    curator.ask(question(3), "people")
    curator.register("people-2", {"age": np.arange(50.0)}, DOMAIN, continues="people")
    curator.ask(question(3), "people-2")
    return Kept(tmp_path, curator)


def question_key(dataset: str, query: Histogram) -> str:
    return store.question_key(dataset, canonical_json(query.to_json()))


def flipped(value: Any) -> Any:
    """The value with its lowest bit flipped somewhere."""
    if value is None:
        return "x"
    if isinstance(value, int):
        return value ^ 1
    middle = len(value) // 2
    return value[:middle] + chr(ord(value[middle]) ^ 1) + value[middle + 1 :] if value else "x"


def test_a_flipped_byte_in_any_field_of_any_entry_is_found(kept: Kept) -> None:
    kept.curator.verify()
    connection = sqlite3.connect(kept.directory / LEDGER_FILE)
    rows = connection.execute(f"SELECT {COLUMNS} FROM entries ORDER BY number").fetchall()
    connection.close()
    assert {row[2] for row in rows} == {"register", "open", "carry", "charge", "release"}
    for row in rows:
        for place, column in enumerate((*FIELDS, "hash", *LATER_FIELDS)):
            if column == "number":
                continue  # see the next tests
            set_column = f"UPDATE entries SET {column} = ? WHERE number = ?"
            kept.change((set_column, (flipped(row[place]), row[0])))
            with pytest.raises(LedgerDamaged, match=rf"Entry {row[0]} was changed"):
                kept.curator.verify()
            kept.change((set_column, (row[place], row[0])))
    kept.curator.verify()


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_in_the_file_itself_is_found(kept: Kept, bit: int) -> None:
    entries = kept.curator.history()[1:]
    kept.curator.close()
    path = kept.directory / LEDGER_FILE
    whole = path.read_bytes()
    for entry in entries:
        # The last two fields of an entry; what is 140 bytes before the end is another field.
        end = whole.index((entry.previous + entry.hash).encode()) + 128
        for distance in (1, 70, 140):
            content = bytearray(whole)
            content[end - distance] ^= 1 << bit
            path.write_bytes(content)
            with (
                Curator.open(kept.directory, restoring=True) as changed,
                pytest.raises(LedgerDamaged) as found,
            ):
                changed.verify()
            assert f"ntry {entry.number} " in str(found.value)
    path.write_bytes(whole)
    Curator.open(kept.directory).verify()


def test_a_removed_entry_is_named(kept: Kept) -> None:
    kept.change(("DELETE FROM entries WHERE number = 4", ()))
    with pytest.raises(LedgerDamaged, match="Entry 4 was removed"):
        kept.curator.verify()


def test_a_removed_entry_is_named_even_if_the_others_close_up(kept: Kept) -> None:
    kept.change(
        ("DELETE FROM entries WHERE number = 4", ()),
        ("UPDATE entries SET number = -number WHERE number > 4", ()),
        ("UPDATE entries SET number = -number - 1 WHERE number < 0", ()),
    )
    with pytest.raises(LedgerDamaged, match="Entry 4 was changed"):
        kept.curator.verify()


def test_an_inserted_entry_is_named(kept: Kept) -> None:
    copy = (
        f"SELECT 0, {', '.join((*FIELDS[1:], 'hash', *LATER_FIELDS))} FROM entries WHERE number = 1"
    )
    kept.change((f"INSERT INTO entries {copy}", ()))
    with pytest.raises(LedgerDamaged, match="Entry 0 was inserted"):
        kept.curator.verify()


def test_an_inserted_entry_with_a_good_hash_is_named(kept: Kept) -> None:
    connection = sqlite3.connect(kept.directory / LEDGER_FILE)
    row = list(connection.execute(f"SELECT {COLUMNS} FROM entries WHERE number = 4").fetchone())
    connection.close()
    row[9] = "mallory"
    place = len(FIELDS)
    row[place] = entry_hash(row[:place], row[place + 1 :])
    kept.change(
        ("UPDATE entries SET asked_by = ?, hash = ? WHERE number = 4", (row[9], row[place])),
    )
    with pytest.raises(LedgerDamaged, match="Entry 5 does not follow entry 4"):
        kept.curator.verify()


def test_a_tail_that_was_cut_off_is_found(kept: Kept) -> None:
    last = int(kept.curator.head().partition(":")[0])
    kept.change(("DELETE FROM entries WHERE number = ?", (last,)))
    with pytest.raises(LedgerDamaged, match=f"Entry {last} and what followed it were removed"):
        kept.curator.verify()


def test_a_tail_with_its_head_cut_off_is_found_by_the_sums_and_the_releases(kept: Kept) -> None:
    last = int(kept.curator.head().partition(":")[0])
    kept.change(
        ("DELETE FROM entries WHERE number = ?", (last,)),
        (
            "UPDATE head SET length = ?, hash = (SELECT hash FROM entries WHERE number = ?)",
            (last - 1, last - 1),
        ),
    )
    with pytest.raises(LedgerDamaged):
        kept.curator.verify()


def test_a_budget_rewritten_as_a_whole_is_found_by_a_head_noted_elsewhere(
    kept: Kept, tmp_path_factory: pytest.TempPathFactory
) -> None:
    noted = kept.curator.head()
    kept.curator.ask(question(7), "people")
    kept.curator.verify(expected_head=noted)  # the ledger has grown, and still contains it
    rewritten = start(tmp_path_factory.mktemp("other"), Loss(3))
    for bins in range(1, 10):
        rewritten.ask(question(bins), "people")
    rewritten.verify()
    with pytest.raises(LedgerDamaged, match="the ledger was rewritten"):
        rewritten.verify(expected_head=noted)
    with pytest.raises(LedgerDamaged, match="restored from an old backup"):
        rewritten.verify(expected_head=f"999:{noted.partition(':')[2]}")
    with pytest.raises(InvalidParameter, match="expected_head"):
        rewritten.verify(expected_head="nonsense")


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE budgets SET spent_epsilon = '0' WHERE number = 2", "running sum of entry"),
        ("UPDATE budgets SET budget_epsilon = '9' WHERE number = 2", "running sum of entry"),
        ("DELETE FROM budgets WHERE number = 2", "running sum of entry"),
        ("UPDATE datasets SET domain = replace(domain, '120', '130')", "record of"),
        ("UPDATE datasets SET root = 'people-2' WHERE name = 'people-2'", "record of"),
        ("DELETE FROM datasets WHERE name = 'people-2'", "data set of entry .* was removed"),
        ("DELETE FROM releases WHERE entry = 4", "stored release of entry 4 was removed"),
        (
            "UPDATE releases SET release = (SELECT release FROM releases WHERE entry = 6)"
            " WHERE entry = 4",
            "stored release of entry 4 was changed",
        ),
        ("INSERT INTO releases VALUES (99, 'q', 'people', '{}')", "no entry of the ledger knows"),
    ],
)
def test_what_stands_beside_the_chain_is_checked_against_it(
    kept: Kept, statement: str, finding: str
) -> None:
    kept.change((statement, ()))
    with pytest.raises(LedgerDamaged, match=finding):
        kept.curator.verify()


def test_a_swapped_release_is_not_served(kept: Kept) -> None:
    kept.change(("UPDATE releases SET release = replace(release, '1', '2') WHERE entry = 4", ()))
    with pytest.raises(LedgerDamaged, match="entry 4"):
        kept.curator.ask(question(1), "people")


def test_the_release_of_another_question_is_not_served(kept: Kept) -> None:
    first, second = (question_key("people", question(bins)) for bins in (1, 2))
    renamed = "UPDATE releases SET question = ? WHERE question = ?"
    kept.change((renamed, ("", first)), (renamed, (first, second)), (renamed, (second, "")))
    for bins in (1, 2):
        with pytest.raises(LedgerDamaged, match="answers another question"):
            kept.curator.ask(question(bins), "people")


def rebuild(kept: Kept, alter: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the whole chain with every hash right, as only someone with the file can."""
    connection = sqlite3.connect(kept.directory / LEDGER_FILE)
    rows = connection.execute(f"SELECT {COLUMNS} FROM entries ORDER BY number").fetchall()
    connection.close()
    statements: list[tuple[str, tuple[Any, ...]]] = []
    previous = ""
    for row in rows:
        values = dict(zip(FIELDS, row, strict=False))
        alter(values)
        values["previous"] = previous
        previous = entry_hash(list(values.values()), row[len(FIELDS) + 1 :])
        columns = ", ".join(f"{field} = ?" for field in FIELDS)
        change = f"UPDATE entries SET {columns}, hash = ? WHERE number = ?"
        statements.append((change, (*values.values(), previous, values["number"])))
    statements.append(("UPDATE head SET hash = ?", (previous,)))
    kept.change(*statements)


def altering(number: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def alter(values: dict[str, Any]) -> None:
        if values["number"] == number:
            values.update(fields)

    return alter


@pytest.mark.parametrize(
    ("own", "forged"),
    [
        ('"epsilon":"1/10"}},', '"epsilon":"1/90"}},'),
        ('"seeded":false', '"seeded":true'),
        ('"epsilon":"1/10"}},', '"epsilon":"1/10"},"rows_per_person":9},'),
        ('"counts":[', '"counts":["",'),
    ],
    ids=["loss", "seed", "persons", "value"],
)
def test_a_stored_release_of_another_promise_is_found_though_all_digests_are_right(
    kept: Kept, own: str, forged: str
) -> None:
    connection = sqlite3.connect(kept.directory / LEDGER_FILE)
    ((text,),) = connection.execute("SELECT release FROM releases WHERE entry = 4")
    connection.close()
    assert own in text, text
    changed = text.replace(own, forged)
    kept.change(("UPDATE releases SET release = ? WHERE entry = 4", (changed,)))
    kept.curator.witnesses.start_anew(Head(0, ""))
    rebuild(kept, altering(4, digest=digest(changed)))
    with pytest.raises(LedgerDamaged, match="Entry 4 was changed"):
        kept.curator.verify()


@pytest.mark.parametrize(
    ("alter", "finding"),
    [
        (altering(3, epsilon="1/100"), "Entry 3 does not charge what its question costs"),
        (altering(3, epsilon="4"), "Entry 3 overspends"),
        (altering(3, adjacency='{"name":"replace"}'), "Entry 3 was changed"),
        (altering(3, query="[]"), "Entry 3 was changed"),
        (altering(3, adjacency="nonsense"), "Entry 3 was changed"),
        (altering(4, ask=5), "release of entry 4 was not charged"),
        (altering(8, epsilon="1/10"), "does not begin with what was spent"),
        (altering(5, kind="refund"), "Entry 5 was changed"),
    ],
)
def test_a_chain_that_is_whole_but_says_what_was_never_allowed_is_found(
    kept: Kept, alter: Callable[[dict[str, Any]], None], finding: str
) -> None:
    rebuild(kept, lambda _: None)
    kept.curator.verify()
    kept.curator.witnesses.start_anew(Head(0, ""))  # who can rewrite the chain can do this too
    rebuild(kept, alter)
    with pytest.raises(LedgerDamaged, match=finding):
        kept.curator.verify()


@pytest.mark.parametrize("statement", ["UPDATE entries SET time = ''", "DELETE FROM releases"])
def test_a_slip_of_the_hand_is_stopped_by_the_database(kept: Kept, statement: str) -> None:
    connection = sqlite3.connect(kept.directory / LEDGER_FILE)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_changed_rows_are_found(kept: Kept) -> None:
    path = next((kept.directory / "rows").glob("*/rows-0000.columns"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(LedgerDamaged, match="are not those registered in entry"):
        kept.curator.verify()


def test_rows_without_their_salt_are_found(kept: Kept) -> None:
    next((kept.directory / "rows").glob("*/salt")).unlink()
    with pytest.raises(LedgerDamaged, match="are not those registered in entry"):
        kept.curator.verify()
