"""Rows that stay where they lie: the releases of a copy, checked, refused before the charge."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.client import connect
from privod.curator import Curator
from privod.curator.rows import RowStore
from privod.data import Domain, Table
from privod.engines import InPlace, SizeClass, in_place, open_rows, sealed_file
from privod.engines import size as sizes
from privod.engines.duckdb_table import DuckdbTable
from privod.errors import (
    AlreadyExists,
    AnswerFailed,
    InvalidData,
    InvalidParameter,
    LedgerDamaged,
    NotFound,
    Unavailable,
)
from privod.ledger.acts import Retire
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from tests.running_server import running
from tests.test_engines import PERSONS, PLAIN, rows_of

LARGE = SizeClass(sizes.IN_MEMORY + 1)
ASK = Histogram(columns=("height",), bins=5, epsilon="0.1")
EXAMPLES = [
    query
    for kind in QUERIES.values()
    for query in kind.examples(PLAIN)
    if query.held_per_record(PLAIN) == 0
]


def arrow_of(rows: dict[str, Any]) -> pa.Table:
    """Rows as somebody else would write them: texts, numbers, gaps as nulls."""
    columns = {
        name: pa.array([None if one != one else one for one in list(values)])
        for name, values in rows.items()
    }
    return pa.table(columns)


def lake(folder: Path, rows: dict[str, Any], files: int = 3) -> Path:
    """A folder of Parquet files with small row groups."""
    folder.mkdir(parents=True)
    table = arrow_of(rows)
    each = -(-len(table) // files)
    for number in range(files):
        some = table.slice(number * each, each)
        pa_parquet.write_table(some, folder / f"part-{number}.parquet", row_group_size=50)
    return folder


def referred(at: Path, where: str, domain: Domain, size: SizeClass = LARGE) -> Table:
    store = RowStore(at)
    place = InPlace(where).look_up(domain)
    folder, seal, _ = store.keep(place, domain, size=size, confirmed=True)
    return store.load(folder, seal, domain)


def same_releases(tables: list[Table], asked: list[Any] = EXAMPLES) -> None:
    for query in asked:
        releases = {canonical_json(query.answer(each, seeded(5)).to_json()) for each in tables}
        assert len(releases) == 1, query.name


@pytest.mark.parametrize("domain", [PLAIN, PERSONS], ids=["no persons", "persons"])
def test_every_question_releases_the_same_from_memory_and_from_parquet_in_place(
    tmp_path: Path, domain: Domain
) -> None:
    rows = rows_of(400)
    where = str(lake(tmp_path / "lake", rows))
    large = referred(tmp_path / "rows", where, domain)
    small = referred(tmp_path / "rows", where, domain, SizeClass())
    memory = Table(domain, rows)
    assert large.numbers().tolist() == small.numbers().tolist() == memory.numbers().tolist()
    assert large.codes().tolist() == memory.codes().tolist()
    same_releases([memory, large, small])


def test_the_report_is_that_of_a_copy(tmp_path: Path) -> None:
    rows = rows_of(300, seed=2)
    rows["who"][7] = ""
    where = lake(tmp_path / "lake", rows)
    store = RowStore(tmp_path / "rows")
    copied = store.keep(where, PERSONS, size=LARGE, confirmed=True)[2]
    referred = store.keep(InPlace(str(where)).look_up(PERSONS), PERSONS, size=LARGE, confirmed=True)
    assert referred[2] == copied
    assert store.report(*referred[:2]) == copied


def test_nothing_of_the_rows_is_copied(tmp_path: Path) -> None:
    rows = rows_of(300)
    rows["who"] = ["CANARY-" + one for one in rows["who"]]
    referred(tmp_path / "rows", str(lake(tmp_path / "lake", rows)), PERSONS)
    found = [path for path in (tmp_path / "rows").rglob("*") if path.is_file()]
    assert not [path for path in found if path.suffix == ".parquet"]
    assert not any(b"CANARY" in path.read_bytes() for path in found)
    assert {path.stat().st_mode & 0o077 for path in found} == {0}


# ---- identity -----------------------------------------------------------------------------------


def opened(tmp_path: Path, where: str, name: str = "stays") -> Curator:
    curator = Curator.open(tmp_path / "curator")
    curator.register(name, InPlace(where), PLAIN, most_records=LARGE.most_records, confirmed=True)
    curator.open_budget(name, AddRemove(), Loss(1))
    return curator


def spent(curator: Curator) -> Any:
    return curator.budget("stays")[0].spent


@pytest.mark.parametrize("harm", ["gone", "longer", "other bytes"])
def test_a_file_that_changed_is_refused_before_the_charge(tmp_path: Path, harm: str) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    file = folder / "part-1.parquet"
    with opened(tmp_path, str(folder)) as curator:
        assert curator.ask(ASK, of="stays").release is not None
        before = spent(curator)
        content = bytearray(file.read_bytes())
        content[100] ^= 1
        if harm == "gone":
            file.unlink()
        else:
            file.write_bytes(bytes(content) + (b" " if harm == "longer" else b""))
        later = Histogram(columns=("weight",), bins=5, epsilon="0.1")
        with pytest.raises(Unavailable, match=r"were changed\. Nothing was charged"):
            curator.ask(later, of="stays")
        assert spent(curator) == before
        with pytest.raises(LedgerDamaged):
            curator.verify()


def test_bytes_that_change_unseen_are_found_on_reading(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    file = folder / "part-1.parquet"
    store = RowStore(tmp_path / "rows")
    place = InPlace(str(folder)).look_up(PLAIN)
    name, seal, _ = store.keep(place, PLAIN, size=LARGE, confirmed=True)
    table = store.load(name, seal, PLAIN)
    times, content = file.stat(), bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    open_rows(store.directory / name, seal).source.identity()  # which looks at sizes and times
    with pytest.raises(InvalidData, match="not those that were registered"):
        ASK.answer(table, seeded(1))
    (store.directory / name / in_place.KEPT).write_bytes(b"\xff" * 80)
    with pytest.raises(InvalidData, match="not those that were registered"):
        ASK.answer(table, seeded(1))


def test_an_answer_compares_the_marks_of_registration_and_verifying_compares_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, place = RowStore(tmp_path / "rows"), str(lake(tmp_path / "lake", rows_of(300)))
    where = InPlace(place).look_up(PLAIN)
    name, seal, _ = store.keep(where, PLAIN, size=LARGE, confirmed=True)
    piece_seal, numbers = sealed_file._piece_seal, set()

    def noted(salt: bytes, number: int, at: int, piece: Any) -> bytes:
        numbers.add(number)
        return piece_seal(salt, number, at, piece)

    monkeypatch.setattr(sealed_file, "_piece_seal", noted)
    ASK.answer(store.load(name, seal, PLAIN), seeded(1))
    assert numbers == {0}  # the bits in our own folder
    assert open_rows(store.directory / name, seal).source.sealed_again()
    assert numbers == {0, 1, 2, 3}
    marks = store.directory / name / "file-00003.seals"
    content = bytearray(marks.read_bytes())
    content[-1] ^= 1
    marks.write_bytes(content)  # the manifest's seal covers them
    assert not open_rows(store.directory / name, seal).source.sealed_again()
    with pytest.raises(InvalidData, match="not those that were registered"):
        ASK.answer(store.load(name, seal, PLAIN), seeded(1))


@pytest.mark.parametrize("harm", ["longer", "other bytes"])
def test_a_file_that_changes_between_two_passes_gives_no_second_answer(
    tmp_path: Path, harm: str
) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    table = referred(tmp_path / "rows", str(folder), PLAIN)
    ASK.answer(table, seeded(1))
    content = bytearray((folder / "part-2.parquet").read_bytes())
    content[100] ^= 1
    longer = b" " if harm == "longer" else b""
    (folder / "part-2.parquet").write_bytes(bytes(content) + longer)
    with pytest.raises(InvalidData, match="not those that were registered"):
        ASK.answer(table, seeded(1))


@pytest.mark.parametrize(
    ("limit", "most"), [("READ_WHOLE", 0), ("DECODED", 60), ("MOST_FOOTERS", 1)]
)
def test_however_much_is_read_at_a_time_the_releases_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(in_place, limit, most)
    rows = rows_of(400)
    where = str(lake(tmp_path / "lake", rows))
    same_releases([Table(PERSONS, rows), referred(tmp_path / "rows", where, PERSONS)], EXAMPLES[:6])


def test_a_file_that_was_only_touched_is_read_whole_and_stands(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    with opened(tmp_path, str(folder)) as curator:
        os.utime(folder / "part-0.parquet")
        assert curator.ask(ASK, of="stays").release is not None
        curator.verify()


def test_names_and_versions_of_one_table_share_one_ledger(tmp_path: Path) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    with opened(tmp_path, str(folder)) as curator:
        with pytest.raises(AlreadyExists, match=r"continue 'stays' \(--continues\)"):
            curator.register("again", InPlace(f"{folder}/"), PLAIN, confirmed=True)
        curator.register("v2", InPlace(str(folder)), PLAIN, continues="stays", confirmed=True)
        assert curator.budget("v2") == curator.budget("stays")
        copied = curator.register("copy", folder, PLAIN, confirmed=True)
        assert "stays" in copied.same_rows_as


def test_a_part_of_a_table_and_another_spelling_share_its_ledger(tmp_path: Path) -> None:
    """Else the same rows would have two budgets, in which each answer counts once."""
    folder = lake(tmp_path / "lake", rows_of(300))
    duck = duckdb_of(tmp_path / "stays.duckdb", rows_of(60))
    with opened(tmp_path, str(folder)) as curator:
        with pytest.raises(AlreadyExists, match=r"continue 'stays' \(--continues\)"):
            curator.register("part", InPlace(str(folder / "part-1.parquet")), PLAIN, confirmed=True)
        with pytest.raises(AlreadyExists, match=r"continue 'stays' \(--continues\)"):
            curator.register("whole", InPlace(str(tmp_path)), PLAIN, confirmed=True)
        curator.register("duck", InPlace(duck), PLAIN, confirmed=True)
        with pytest.raises(AlreadyExists, match=r"continue 'duck' \(--continues\)"):
            curator.register("more", InPlace(duck.replace("#s", "#S")), PLAIN, confirmed=True)


def test_a_table_that_two_register_at_once_gets_one_ledger(tmp_path: Path) -> None:
    """Whoever looked before the other entered it would open a second budget for the same rows."""
    where = InPlace(str(lake(tmp_path / "other", rows_of(60))))
    with Curator.open(tmp_path / "curator") as one, Curator.open(tmp_path / "curator") as other:

        def meanwhile(*given: Any, **how: Any) -> Any:
            other.register("other", where, PLAIN, confirmed=True)
            return RowStore(one.rows_folder).keep(*given, **how)

        with pytest.raises(AlreadyExists, match=r"continue 'other' \(--continues\)"):
            one.register("mine", where, PLAIN, confirmed=True, keep=meanwhile)
        assert [dataset.name for dataset in one.datasets()][-1] == "other"
        assert len(list(one.rows_folder.iterdir())) == len(one.datasets())


def test_a_table_that_was_retired_keeps_its_ledger(tmp_path: Path) -> None:
    """Else whoever retires it and registers it anew has a fresh budget for the same rows."""
    folder = lake(tmp_path / "lake", rows_of(300))
    with opened(tmp_path, str(folder)) as curator:
        curator.ask(ASK, of="stays")
        spent_before = spent(curator)
        curator.do(Retire("stays", "the study ended"), confirmed=True)
        assert [path.name for path in curator.rows_folder.glob("*/*")] == ["manifest.json"]
        assert curator.clean_up() == 0
        with pytest.raises(AlreadyExists, match=r"continue 'stays' \(--continues\)"):
            curator.register("anew", InPlace(str(folder)), PLAIN, confirmed=True)
        with pytest.raises(NotFound, match="was retired"):
            curator.ask(Histogram(columns=("height",), bins=6, epsilon="0.1"), of="stays")
        curator.register("anew", InPlace(str(folder)), PLAIN, continues="stays", confirmed=True)
        assert curator.budget("anew")[0].spent == spent_before
        curator.verify()


# ---- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("postgresql://host/name", "does not change under its readers"),
        ("postgres://me:CANARY@host/name", "does not change under its readers"),
        ("stays.csv", "must be Parquet"),
        ("stays.sqlite", "must be Parquet"),
    ],
)
def test_what_cannot_stay_is_refused_with_a_way_out(where: str, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why) as refused:
        InPlace(where)
    assert "opy" in str(refused.value)
    assert "CANARY" not in str(refused.value)


@pytest.mark.parametrize("sign", ["_delta_log/0.json", "t/metadata/1.metadata.json"])
def test_a_folder_of_another_format_is_not_read_as_parquet(tmp_path: Path, sign: str) -> None:
    folder = lake(tmp_path / "lake", rows_of(30))
    (folder / sign).parent.mkdir(parents=True)
    (folder / sign).write_text("{}")
    with pytest.raises(InvalidData, match=r"deleted or replaced\. Write (delta|iceberg):"):
        InPlace(str(folder)).look_up(PLAIN)


def test_columns_that_folders_name_must_be_declared(tmp_path: Path) -> None:
    rows = rows_of(60)
    group = np.array(rows.pop("group"))
    for value in ("x", "y", "z"):
        some = {name: np.array(cells)[group == value] for name, cells in rows.items()}
        lake(tmp_path / "lake" / f"group={value}", some, files=1)
    where = str(tmp_path / "lake")
    table = referred(tmp_path / "rows", where, PLAIN)
    order = np.argsort(group, kind="stable")
    whole = {name: np.array(cells)[order] for name, cells in {**rows, "group": group}.items()}
    assert table.codes().tolist() == Table(PLAIN, whole).codes().tolist()
    without = Domain(tuple(column for column in PLAIN.columns if column.name != "group"))
    with pytest.raises(InvalidData, match="name columns that its domain does not declare: group"):
        InPlace(where).look_up(without)


def test_more_rows_than_declared_are_refused_whole(tmp_path: Path) -> None:
    place = InPlace(str(lake(tmp_path / "lake", rows_of(300)))).look_up(PLAIN)
    with pytest.raises(InvalidData, match="more than the 299 records"):
        RowStore(tmp_path / "rows").keep(place, PLAIN, size=SizeClass(299), confirmed=True)
    assert not list((tmp_path / "rows").iterdir())


# ---- Delta and Iceberg --------------------------------------------------------------------------


def delta_of(folder: Path, rows: dict[str, Any], **options: Any) -> str:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(folder), arrow_of(rows), **options)
    return f"delta:{folder}"


def without(rows: dict[str, Any], gone: Any) -> dict[str, Any]:
    return {name: np.array(cells, dtype=object)[~gone] for name, cells in rows.items()}


@pytest.mark.parametrize("partitioned", [None, ["group"]], ids=["files", "folders"])
def test_a_version_of_delta_is_counted_without_what_was_deleted(
    tmp_path: Path, partitioned: list[str] | None
) -> None:
    deltalake = pytest.importorskip("deltalake")
    domain = PLAIN if partitioned else PERSONS  # folders change the order, and so who is capped
    rows = rows_of(400)
    where = delta_of(tmp_path / "delta", rows, partition_by=partitioned)
    deltalake.DeltaTable(tmp_path / "delta").delete("who = 'person 0'")
    living = Table(domain, without(rows, np.array(rows["who"]) == "person 0"))
    assert len(living) < len(Table(domain, rows))
    same_releases([living, referred(tmp_path / "rows", where, domain)])
    before = referred(tmp_path / "rows", f"{where}@0", domain)
    same_releases([Table(domain, rows), before], EXAMPLES[:4])
    with pytest.raises(InvalidData, match="in this version"):
        InPlace(f"{where}@7").look_up(domain)
    with pytest.raises(InvalidData, match="no table of Delta"):
        InPlace(f"delta:{tmp_path / 'nowhere'}").look_up(domain)


def test_versions_of_delta_share_one_ledger_and_a_vacuumed_one_is_refused(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    where = delta_of(tmp_path / "delta", rows_of(300))
    with opened(tmp_path, where) as curator:
        table = deltalake.DeltaTable(tmp_path / "delta")
        table.delete("height > 5")
        with pytest.raises(AlreadyExists, match=r"continue 'stays' \(--continues\)"):
            curator.register("later", InPlace(where), PLAIN, confirmed=True)
        curator.register("later", InPlace(where), PLAIN, continues="stays", confirmed=True)
        assert curator.ask(ASK, of="stays").release is not None  # files of a version stay
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        before = spent(curator)
        with pytest.raises(Unavailable, match="Nothing was charged"):
            curator.ask(Histogram(columns=("weight",), bins=5, epsilon="0.1"), of="stays")
        assert spent(curator) == before


@pytest.mark.parametrize("hidden", ["deletionVectors", "columnMapping"])
def test_what_the_files_of_delta_do_not_tell_is_refused(tmp_path: Path, hidden: str) -> None:
    where = delta_of(tmp_path / "delta", rows_of(60))
    log = tmp_path / "delta" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = {"readerFeatures": [hidden], "writerFeatures": [hidden]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "add" in line and hidden == "deletionVectors":
            vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
            line["add"]["deletionVector"] = {**vector, "offset": 4, "sizeInBytes": 40}
            line["add"]["deletionVector"]["cardinality"] = 6
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidData, match=r"Delta.*register a copy"):
        InPlace(where).look_up(PLAIN)


def iceberg_of(folder: Path, rows: dict[str, Any]) -> Any:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    folder.mkdir()
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("clinic")
    table = catalog.create_table("clinic.stays", schema=arrow_of(rows).schema)
    table.append(arrow_of(rows))
    return table


def metadata_of(table: Any) -> str:
    return f"iceberg:{table.metadata_location.removeprefix('file://')}"


def test_a_snapshot_of_iceberg_is_counted_without_what_was_deleted(tmp_path: Path) -> None:
    rows = rows_of(400)
    table = iceberg_of(tmp_path / "ice", rows)
    first = table.current_snapshot().snapshot_id
    table.delete("who = 'person 0'")
    living = Table(PERSONS, without(rows, np.array(rows["who"]) == "person 0"))
    now = referred(tmp_path / "rows", metadata_of(table), PERSONS)
    same_releases([living, now])
    before = referred(tmp_path / "rows", f"{metadata_of(table)}@{first}", PERSONS)
    same_releases([Table(PERSONS, rows), before], EXAMPLES[:4])
    with pytest.raises(InvalidData, match="in this version"):
        InPlace(f"{metadata_of(table)}@7").look_up(PERSONS)
    with pytest.raises(InvalidData, match=r"Write iceberg:"):
        InPlace(str(tmp_path / "ice")).look_up(PERSONS)


def test_renamed_columns_and_delete_files_of_iceberg_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_of(tmp_path / "ice", rows_of(60))
    from pyiceberg.table import DataScan

    planned = DataScan.plan_files

    def merged_on_read(scan: Any) -> Any:  # which the package reads and does not write
        for task in planned(scan):
            task.delete_files = {task.file}
            yield task

    with monkeypatch.context() as patched:
        patched.setattr(DataScan, "plan_files", merged_on_read)
        with pytest.raises(InvalidData, match=r"has delete files.*Compact it"):
            InPlace(metadata_of(table)).look_up(PLAIN)
    with table.update_schema() as update:
        update.rename_column("height", "size")
    with pytest.raises(InvalidData, match="renamed or added again"):
        InPlace(metadata_of(table)).look_up(PLAIN)


# ---- DuckDB -------------------------------------------------------------------------------------


def duckdb_of(path: Path, rows: dict[str, Any]) -> str:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("given", arrow_of(rows))
        connection.execute("CREATE TABLE stays AS SELECT * FROM given")
        connection.execute("INSERT INTO stays SELECT * FROM given LIMIT 5")
        connection.execute("DELETE FROM stays WHERE rowid >= 400")  # leaves no gap
    return f"duckdb:{path}#stays"


@pytest.mark.parametrize("domain", [PLAIN, PERSONS], ids=["no persons", "persons"])
def test_every_question_releases_the_same_from_memory_and_from_duckdb(
    tmp_path: Path, domain: Domain
) -> None:
    rows = rows_of(400)
    where = duckdb_of(tmp_path / "stays.duckdb", rows)
    table = referred(tmp_path / "rows", where, domain)
    memory = Table(domain, rows)
    assert table.numbers().tolist() == memory.numbers().tolist()
    same_releases([memory, table])


CHANGES = {
    "a value": "UPDATE stays SET height = 3.25 WHERE rowid = 7",
    "two values exchanged": "UPDATE stays SET height = CASE rowid WHEN 2 THEN"
    " (SELECT height FROM stays WHERE rowid = 3) ELSE (SELECT height FROM stays WHERE rowid = 2)"
    " END WHERE rowid IN (2, 3)",
    "a row": "DELETE FROM stays WHERE rowid = 7",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_duckdb_table_is_refused_before_the_charge_and_found_on_reading(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    rows = rows_of(400)
    rows["height"][2:4] = [1.0, 2.0]
    where = duckdb_of(tmp_path / "stays.duckdb", rows)
    with opened(tmp_path, where) as curator:
        assert curator.ask(ASK, of="stays").release is not None
        with duckdb.connect(str(tmp_path / "stays.duckdb")) as connection:
            connection.execute(change)
        before = spent(curator)
        later = Histogram(columns=("height",), bins=4, epsilon="0.1")
        with pytest.raises(Unavailable, match="Nothing was charged"):
            curator.ask(later, of="stays")
        assert spent(curator) == before
        monkeypatch.setattr(DuckdbTable, "identity", lambda _: None)  # the pass finds it, too
        with pytest.raises(AnswerFailed):
            curator.ask(later, of="stays")
        with pytest.raises(LedgerDamaged):
            curator.verify()


@pytest.mark.parametrize("name", ["rowid", "ROWID"])
def test_a_duckdb_table_whose_own_rowid_hides_the_row_numbers_is_refused(
    tmp_path: Path, name: str
) -> None:
    """Records with one number would count as one, and those with none would be left out."""
    rows = {**rows_of(60), name: [0] * 30 + [7] * 30}
    with pytest.raises(InvalidData, match="column called rowid"):
        InPlace(duckdb_of(tmp_path / "stays.duckdb", rows)).look_up(PLAIN)


def test_a_duckdb_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    where = duckdb_of(tmp_path / "stays.duckdb", rows_of(60))
    for wrong, why in (
        (f"{where}s", "Check its name"),
        (where.replace("stays.", "others."), "There is no file"),
        (where.partition("#")[0], "must name a file and a table"),
    ):
        with pytest.raises((InvalidData, InvalidParameter), match=why):
            InPlace(wrong).look_up(PLAIN)


# ---- shell and server ---------------------------------------------------------------------------


def test_a_server_answers_about_a_table_that_was_registered_in_place_by_the_shell(
    tmp_path: Path,
) -> None:
    folder = lake(tmp_path / "lake", rows_of(300))
    declared = tmp_path / "domain.json"
    declared.write_text(json.dumps(PLAIN.to_json()))
    with running(tmp_path / "curator") as server:
        at = ["--at", str(server.curator.directory), "--json", "--yes"]
        names = ["register", "stays", "--domain", str(declared), "--in-place", str(folder)]
        done = CliRunner().invoke(app, [*names, *at, "--most-records", str(LARGE.most_records)])
        assert done.exit_code == 0, done.output
        server.curator.open_budget("stays", AddRemove(), Loss(1))
        with connect(server.url, server.token("analyst", "stays")) as client:
            answer = client.ask(ASK, of="stays")
        assert sum(answer.release.value.counts) > 0
        (folder / "part-1.parquet").unlink()
        later = Histogram(columns=("weight",), bins=5, epsilon="0.1")
        with (
            connect(server.url, server.token("analyst", "stays")) as client,
            pytest.raises(Unavailable, match="Nothing was charged"),
        ):
            client.ask(later, of="stays")
        both = CliRunner().invoke(app, [*names, str(folder), *at])
        assert both.exit_code != 0
        elsewhere = ["--at", server.url, "--json"]
        away = CliRunner().invoke(app, [*names, *elsewhere], env={"PRIVOD_TOKEN": "t"})
        assert away.exit_code != 0
