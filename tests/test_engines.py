"""Stored rows: the same releases as in memory, bounded, sealed, capped exactly, cleaned up."""

from __future__ import annotations

# slow: left out by `make quick`
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.curator import Curator
from privod.curator.rows import RowStore
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.folding import Block, folded
from privod.data.kernels.keyed import keyed_hashes
from privod.data.mock import mock_rows
from privod.data.views import SeenRows
from privod.engines import SizeClass, writing
from privod.engines import size as sizes
from privod.engines.kernels import universal_hash, universal_hashes
from privod.engines.sealed_file import PIECE, Marks, SealedReader, SealedWriter
from privod.engines.stored import STRETCH
from privod.errors import InvalidData, InvalidParameter, Unavailable
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import Query, canonical_json
from privod.questions.grid_knn import query as grid_query
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_count.query import OutlierCount

COLUMNS = (
    Numeric("height", 0, 10),
    Numeric("weight", -5, 5, fill=0.0),
    Categorical("group", ("x", "y", "z")),
    Categorical("grade", (1, 2)),
)
PLAIN = Domain(COLUMNS)
PERSONS = Domain(COLUMNS, "who", 2)
LARGE = SizeClass(sizes.IN_MEMORY + 1)  # the smallest class that is not held in memory
EXAMPLES = [query for kind in QUERIES.values() for query in kind.examples(PLAIN)]


def rows_of(n: int, seed: int = 0) -> dict[str, Any]:
    """Rows with gaps, foreign values, and persons of whom some own many."""
    rows = mock_rows(PERSONS, n, seed)
    rng = np.random.default_rng(seed)
    rows["height"][rng.random(n) < 0.05] = np.nan
    rows["weight"][rng.random(n) < 0.05] = np.nan
    owners = np.minimum(rng.geometric(0.02, n), 90)
    owners[rng.random(n) < 0.3] = 0  # one person owns much
    rows["who"] = [f"person {owner}" for owner in owners]
    return rows


def ordered(rows: dict[str, Any], order: Any) -> dict[str, Any]:
    return {name: [values[place] for place in order] for name, values in rows.items()}


def stored(tmp_path: Path, rows: Any, domain: Domain, size: SizeClass = LARGE) -> Table:
    store = RowStore(tmp_path / "rows")
    folder, seal, _ = store.keep(rows, domain, size=size, confirmed=True)
    return store.load(folder, seal, domain)


def sorted_rows(table: Table) -> list[list[float]]:
    return sorted(np.hstack([table.numbers(), table.codes()]).tolist())


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions, batches and stretches so small that a few hundred rows fill several."""
    monkeypatch.setattr(writing, "BATCH", 100)
    monkeypatch.setattr(writing, "STRETCH", 40)
    monkeypatch.setattr("privod.engines.stored.STRETCH", 40)
    monkeypatch.setattr(writing, "ROWS_IN_PARTITION", 150)


# ---- the same releases --------------------------------------------------------------------------


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("domain", [PLAIN, PERSONS], ids=["no persons", "persons"])
def test_every_question_releases_the_same_from_memory_and_from_partitions(
    tmp_path: Path, domain: Domain
) -> None:
    rows = rows_of(400)
    memory = Table(domain, rows)
    table = stored(tmp_path, rows, domain)
    again = stored(tmp_path, rows, domain, SizeClass())
    assert isinstance(table._rows, SeenRows)
    assert not isinstance(again._rows, SeenRows)
    assert sorted_rows(table) == sorted_rows(again) == sorted_rows(memory)
    for query in EXAMPLES:
        tables = (memory, table, again)
        releases = {canonical_json(query.answer(each, seeded(5)).to_json()) for each in tables}
        assert len(releases) == 1, query.name


@pytest.mark.usefixtures("small_partitions")
def test_releases_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = rows_of(300, seed=1)
    orders = [np.random.default_rng(seed).permutation(300) for seed in range(3)]
    tables = [stored(tmp_path, ordered(rows, order), PLAIN) for order in orders]
    for query in EXAMPLES:
        releases = {canonical_json(query.answer(each, seeded(5)).to_json()) for each in tables}
        assert len(releases) == 1, query.name


@pytest.mark.usefixtures("small_partitions")
def test_questions_that_read_block_by_block_never_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(tmp_path, rows_of(300), PLAIN)

    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(SeenRows, "gathered", refused)
    block_wise = [query for query in EXAMPLES if query.held_per_record(PLAIN) == 0]
    assert len({query.name for query in block_wise}) >= 5
    for query in block_wise:
        query.answer(table, seeded(1))


# ---- persons ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_partitions")
@given(
    st.lists(st.sampled_from(["a", "b", "c", " a", "7", "07", "7.0", ""]), max_size=80),
    st.integers(1, 3),
    st.integers(1, 9),
)
@settings(max_examples=15, deadline=None)
def test_of_each_person_the_first_rows_are_kept_in_batches_and_partitions_too(
    tmp_path_factory: pytest.TempPathFactory, persons: list[str], most: int, at_once: int
) -> None:
    domain = Domain((Numeric("x", 0, 1000),), "who", most)
    places = np.arange(len(persons), dtype=float)
    rows = {"x": places, "who": persons}
    batches = [
        pa.table({"x": places[start : start + at_once], "who": persons[start : start + at_once]})
        for start in range(0, len(persons), at_once)
    ]
    writing.BATCH = at_once  # restored by the fixture
    source = pa.concat_tables(batches) if batches else rows
    table = stored(tmp_path_factory.mktemp("t"), source, domain)
    assert sorted(table.numbers()[:, 0]) == sorted(Table(domain, rows).numbers()[:, 0])


def test_the_keyed_hash_is_the_one_that_python_has_for_bytes() -> None:
    assert sys.hash_info.algorithm == "siphash13"
    names = [bytes(range(n)) for n in range(1, 40)]
    lines = f"print(*[hash(one) % 2**64 for one in {names!r}])"
    found = subprocess.run(
        [sys.executable, "-c", lines],
        env={**os.environ, "PYTHONHASHSEED": "0"},  # the key is then 0
        capture_output=True,
        check=True,
        text=True,
    )
    offsets = np.cumsum([0, *map(len, names)])
    hashes = np.empty(len(names), np.uint64)
    data = np.frombuffer(b"".join(names), np.uint8)
    keyed_hashes(data, offsets, np.zeros(2, np.uint64), hashes)
    assert hashes.tolist() == list(map(int, found.stdout.split()))
    other = np.empty(len(names), np.uint64)
    keyed_hashes(data, offsets, np.array([1, 2], np.uint64), other)
    assert not set(other.tolist()) & set(hashes.tolist())


@pytest.mark.usefixtures("small_partitions")
def test_persons_are_not_stored(tmp_path: Path) -> None:
    rows = rows_of(300)
    rows["who"] = ["CANARY-" + one for one in rows["who"]]
    stored(tmp_path, rows, PERSONS)
    for path in (tmp_path / "rows").rglob("*"):
        assert path.is_dir() or b"CANARY" not in path.read_bytes()
        assert path.name != writing.SPILLED


@pytest.mark.usefixtures("small_partitions")
def test_the_same_persons_under_two_names_are_found_however_they_were_spread(
    tmp_path: Path,
) -> None:
    with Curator.open(tmp_path) as curator:
        rows = rows_of(400)
        curator.register("small", rows, PERSONS)
        curator.register("other", rows_of(400, seed=1), PERSONS)
        changed = {**rows, "height": np.where(np.arange(400) == 7, 3.25, rows["height"])}
        assert curator.register("changed", changed, PERSONS).same_rows_as == ()
        again = curator.register("large", rows, PERSONS, most_records=LARGE.most_records)
        assert again.same_rows_as == ("small",)
        assert curator.same_rows_as("other") == ()


# ---- the size class -----------------------------------------------------------------------------


def test_the_number_of_partitions_follows_from_the_declaration_alone(tmp_path: Path) -> None:
    for n in (0, 1, 200):
        for domain in (PLAIN, PERSONS):
            table = stored(tmp_path, rows_of(n), domain)
            assert isinstance(table._rows, SeenRows)
            rows: Any = table._rows.as_stored
            assert rows.source.pieces == LARGE.partitions(len(COLUMNS)) == 20
            assert len(table) == len(Table(domain, rows_of(n)))


@pytest.mark.parametrize("domain", [PLAIN, PERSONS], ids=["no persons", "persons"])
def test_more_records_than_declared_are_refused_whole(tmp_path: Path, domain: Domain) -> None:
    curator = Curator.open(tmp_path)
    rows = rows_of(300)
    n = len(Table(domain, rows).as_stored())  # what is incomplete is stored, too
    with pytest.raises(InvalidData, match=r"more than the .* that were declared.*`most_records`"):
        curator.register("d", rows, domain, most_records=n - 1)
    assert list((tmp_path / "rows").iterdir()) == []
    assert curator.datasets() == ()
    curator.register("d", rows, domain, most_records=n)


@pytest.mark.usefixtures("small_partitions")
def test_a_source_of_too_many_persons_is_refused_before_it_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    domain = Domain((Numeric("x", 0, 1),), "who", 2)
    n_read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal n_read
        for start in range(0, 100_000, 50):
            n_read += 50
            who = [f"p{place % 2000}" for place in range(start, start + 50)]
            yield pa.record_batch({"x": [0.5] * 50, "who": who})

    schema = pa.schema([("x", pa.float64()), ("who", pa.string())])
    source = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(InvalidData, match="more than the 699 records"):
        stored(tmp_path, source, domain, SizeClass(699))
    assert n_read < 20_000


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("person", [None, "who"])
def test_incomplete_records_are_stored_and_seen_by_no_question(
    tmp_path: Path, person: str | None
) -> None:
    domain = Domain((Numeric("x", 0, 1),), person, 1)
    wrong, right = [math.nan] * 250, [0.5] * 200
    values = [*wrong, *right, *wrong]
    rows = pa.table({"x": values, "who": [f"p{place}" for place in range(len(values))]})
    source = pa.Table.from_batches(rows.to_batches(50))  # a batch takes two of them
    assert len(stored(tmp_path, source, domain, SizeClass(700))) == 200
    with pytest.raises(InvalidData, match="more than the 699 records"):
        stored(tmp_path / "few", source, domain, SizeClass(699))


def test_a_question_that_does_not_fit_is_refused_before_the_charge(tmp_path: Path) -> None:
    domain = Domain(tuple(Numeric(f"c{place}", 0, 1) for place in range(60)))
    rows = {name: np.zeros(3) for name in domain.names}
    curator = Curator.open(tmp_path)
    curator.register("d", rows, domain, most_records=LARGE.most_records)
    curator.open_budget("d", AddRemove(), Loss(10))
    whole: Query[Any] = OutlierCount(radius=1, max_crowd=2, epsilon="0.1", noise="heavy")
    before = curator.head()
    refused = r"query must hold at most .*60 of each"
    for attempt in (curator.price, curator.ask):
        with pytest.raises(InvalidParameter, match=refused):
            attempt(whole, "d")
    with pytest.raises(InvalidParameter, match=refused):
        curator.asking.check_budget(whole, curator.dataset("d"), None, None)
    assert curator.head() == before
    assert curator.ask(Histogram(columns=("c1",), bins=3, epsilon="0.1"), "d").charges
    sparse = GridKnn(columns=("c1",), cells_per_axis=50, epsilon=1, drop_below="auto")
    assert curator.ask(sparse, "d").charges  # a few values of each record fit
    curator.verify()


def test_every_question_that_gathers_is_refused_by_its_public_size_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("d", rows_of(300), PLAIN, most_records=LARGE.most_records)
    curator.open_budget("d", AddRemove(), Loss(10**6))
    gathering = [query for query in EXAMPLES if query.held_per_record(PLAIN)]
    assert len({query.name for query in gathering}) >= 4
    before = curator.head()
    for query in gathering:
        held = query.held_per_record(PLAIN)
        monkeypatch.setattr(sizes, "MOST_VALUES", LARGE.most_records * held)
        LARGE.refuse_larger(held)
        monkeypatch.setattr(sizes, "MOST_VALUES", LARGE.most_records * held - 1)
        paid = query.guarantee().adjacency == AddRemove()  # others have no budget here
        attempts: list[Any] = [curator.price, curator.ask] if paid else [curator.price]
        for attempt in attempts:
            with pytest.raises(InvalidParameter, match=rf"query must hold .*\({held} of each"):
                attempt(query, "d")
    assert curator.head() == before


@pytest.mark.usefixtures("small_partitions")
def test_no_question_gathers_more_columns_at_once_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(tmp_path, rows_of(200), PLAIN)
    widest: list[int] = []
    gathered = SeenRows.gathered

    def noted(self: SeenRows, numbers: Any, codes: Any) -> Block:
        widest.append(len(numbers) + len(codes))
        return gathered(self, numbers, codes)

    monkeypatch.setattr(SeenRows, "gathered", noted)
    for query in EXAMPLES:
        widest[:] = [0]
        query.answer(table, seeded(1))
        assert max(widest) <= query.held_per_record(PLAIN), query.name


def test_a_size_class_is_a_number_of_records() -> None:
    for wrong in (0, -1, 1.5, True, "many", sizes.MOST_RECORDS + 1):
        with pytest.raises(InvalidParameter, match="most_records must be a whole number"):
            SizeClass(wrong)  # type: ignore[arg-type]
    assert SizeClass(10**9).partitions(6) == sizes.MOST_PARTITIONS
    assert SizeClass(10**7).partitions(100_000) == sizes.MOST_PARTITIONS


# ---- seals --------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=3 * PIECE // 2), max_size=6), st.data())
@settings(max_examples=20, deadline=None)
def test_sealed_files_read_as_written_and_no_changed_byte_is_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("t") / "file.parquet"
    with SealedWriter(path, b"salt", 3) as writer:
        for part in parts:
            writer.write(part)
    whole = b"".join(parts)
    marks = Marks()
    with SealedReader(path, b"salt", 3, writer.seal, marks) as reader:
        assert reader.read() == whole
        start = data.draw(st.integers(0, len(whole)))
        reader.seek(start)
        assert reader.read(1000) == whole[start : start + 1000]
    for other in ((b"salz", 3), (b"salt", 4)):
        with pytest.raises(InvalidData):
            SealedReader(path, *other, writer.seal, Marks())
    if not whole:
        return
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= 1
    path.write_bytes(changed)
    for known in (marks, Marks()):  # read before it was changed, or not
        with SealedReader(path, b"salt", 3, writer.seal, known) as reader:
            reader.seek(place)
            with pytest.raises(InvalidData, match="not those that were registered"):
                reader.read(1)


@given(st.binary(min_size=8, max_size=400), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_marks_are_sums_of_products_of_keyed_halves(content: bytes, random: Any) -> None:
    content = content[: len(content) // 8 * 8]
    key = random.randbytes(len(content) + 8)
    words, keys = (np.frombuffer(one, dtype="<u4").tolist() for one in (content, key))
    slow = []
    for shift in (0, 2):
        sums = [(word + keys[at + shift]) % 2**32 for at, word in enumerate(words)]
        slow.append(sum(map(math.prod, zip(sums[::2], sums[1::2], strict=True))) % 2**64)
    fast = universal_hash(np.frombuffer(content, np.uint64), np.frombuffer(key, np.uint64))
    assert list(fast) == slow
    twice = universal_hashes(np.frombuffer(2 * content, np.uint64), np.frombuffer(key, np.uint64))
    assert twice.tolist() == 2 * [[slow[0], slow[1] | 1]]


@pytest.mark.usefixtures("small_partitions")
def test_no_file_of_a_folder_can_be_changed_exchanged_or_cut_unnoticed(tmp_path: Path) -> None:
    store = RowStore(tmp_path)
    folder, seal, _ = store.keep(rows_of(300), PERSONS, size=LARGE)
    files = [path for path in (tmp_path / folder).iterdir() if path.name != "report.json"]
    assert len(files) == 42  # a salt, a manifest, twenty partitions and their seals
    for path in files:
        content = path.read_bytes()
        cut, another = content[:-1], bytes(byte ^ 1 for byte in content[:1]) + content[1:]
        for changed in (content + b"x", *((cut, another) if content else ())):
            path.write_bytes(changed)
            assert store.seal(folder) != seal, path.name
        path.write_bytes(content)
    first, second = [path for path in files if ".columns" in path.name and path.stat().st_size][:2]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert store.seal(folder) != seal
    first.write_bytes(one)
    second.write_bytes(other)
    assert store.seal(folder) == seal


def test_columns_that_fill_pieces_are_read_as_they_were_and_a_changed_byte_is_noticed(
    tmp_path: Path,
) -> None:
    rows = rows_of(STRETCH + 70)
    del rows["who"]
    memory, table = Table(PLAIN, rows), stored(tmp_path, rows, PLAIN)
    for _ in range(2):  # seals first, then marks
        assert np.array_equal(table.numbers(), memory.numbers())
        assert np.array_equal(table.numbers(["weight"]), memory.numbers(["weight"]))
        assert np.array_equal(table.codes(), memory.codes())
    path = next(tmp_path.rglob("rows-0000.columns"))
    content = path.read_bytes()
    for place in (0, 8 * STRETCH - 1, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(InvalidData, match="not those that were registered"):
            table.numbers() if place < STRETCH * 8 else table.codes()
    path.write_bytes(content)
    assert np.array_equal(table.numbers(), memory.numbers())


def test_a_manifest_that_was_changed_is_noticed_before_the_charge(tmp_path: Path) -> None:
    with Curator.open(tmp_path) as curator:
        curator.register("d", rows_of(50), PLAIN)
        curator.open_budget("d", AddRemove(), Loss(1))
    path = next((tmp_path / "rows").glob("*/manifest.json"))
    path.write_text(path.read_text().replace(str(sizes.UNLESS_DECLARED), "2000000"))
    with Curator.open(tmp_path) as curator:
        with pytest.raises(Unavailable, match="Nothing was charged"):
            curator.ask(Histogram(columns=("height",), bins=3, epsilon="0.1"), "d")
        assert curator.budget("d")[0].spent == Loss(0)


# ---- crashes ------------------------------------------------------------------------------------

WRITER = """
import sys, time
from pathlib import Path
import pyarrow as pa
from privod.curator.rows import RowStore
from privod.data import Domain, Numeric
from privod.engines import SizeClass

def batches():
    for number in range(8):
        yield pa.record_batch({"x": [0.5] * 2**16, "who": [f"p{number}"] * 2**16})
    print("spilled", flush=True)
    time.sleep(600)

domain = Domain((Numeric("x", 0, 1),), "who", 5)
schema = pa.schema({"x": pa.float64(), "who": pa.string()})
stream = pa.RecordBatchReader.from_batches(schema, batches())
RowStore(Path(sys.argv[1])).keep(stream, domain, size=SizeClass(20_000_000))
"""


def test_what_a_killed_registration_spilled_is_private_and_removed(tmp_path: Path) -> None:
    with Curator.open(tmp_path):
        pass
    command = [sys.executable, "-c", WRITER, str(tmp_path / "rows")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spilled\n"
        (folder,) = (tmp_path / "rows").iterdir()
        assert list(folder.rglob(f"{writing.SPILLED}/*"))
        assert folder.stat().st_mode & 0o077 == 0
        with Curator.open(tmp_path) as curator:
            os.utime(folder, (0, 0))  # as if it had been at it for long
            assert curator.clean_up() == 0
            assert folder.exists()  # its writer lives
        process.send_signal(signal.SIGKILL)
    with Curator.open(tmp_path):
        assert list((tmp_path / "rows").iterdir()) == []


def test_running_out_of_memory_or_disk_registers_nothing_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = Curator.open(tmp_path)

    def failing(problem: BaseException) -> Any:
        def fail(*_: object) -> None:
            raise problem

        return fail

    for problem, said in (
        (pa.lib.ArrowMemoryError("malloc of size 10 failed"), "not enough memory"),
        (OSError(28, os.strerror(28)), "No space left on device"),
    ):
        monkeypatch.setattr(writing._Writer, "_write", failing(problem))
        with pytest.raises(Unavailable, match=said) as told:
            curator.register("d", rows_of(20), PLAIN)
        assert "Nothing was registered" in str(told.value)
        assert list((tmp_path / "rows").iterdir()) == []
    monkeypatch.undo()
    curator.register("d", rows_of(20), PLAIN)


def test_a_curator_keeps_large_classes_on_disk_and_small_ones_in_memory(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    question = Histogram(columns=("group",), epsilon=10**6)
    answers = []
    for name, most in (("small", sizes.IN_MEMORY), ("large", LARGE.most_records)):
        curator.register(name, rows_of(500), PERSONS, most_records=most)
        curator.open_budget(name, AddRemove(), Loss(10**9))
        answers.append(curator.ask(question, name).release.value.counts.tolist())
        rows = next(reversed(curator._tables._held.values()))._rows  # the one used last
        assert isinstance(rows, SeenRows) is (name == "large")
    assert answers[0] == answers[1]
    assert curator.verify().without_rows == ()


def test_a_sparse_grid_is_the_same_whatever_size_was_declared(tmp_path: Path) -> None:
    """How often noise is drawn for nobody differs: as often as there may be occupied cells."""
    rows = rows_of(400)
    query = GridKnn(columns=("height", "weight"), cells_per_axis=400, epsilon=3, drop_below=3)
    assert query.grid(PLAIN).n_cells > grid_query.CELLS_AT_ONCE
    memory, table = Table(PLAIN, rows), stored(tmp_path, rows, PLAIN)
    in_memory, on_disk = (query.answer(one, seeded(4)).to_json() for one in (memory, table))
    assert canonical_json(in_memory) == canonical_json(on_disk)


def test_sparse_grids_by_ranges_of_keys_are_those_of_all_keys_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(400)
    memory, table = Table(PLAIN, rows), stored(tmp_path, rows, PLAIN)
    queries = [
        GridKnn(columns=("height", "weight"), cells_per_axis=cells, epsilon=3, drop_below=3)
        for cells in (50, 200)
    ]
    monkeypatch.setattr(grid_query, "CELLS_AT_ONCE", 30)  # noise is drawn across ranges
    releases = [canonical_json(query.answer(memory, seeded(4)).to_json()) for query in queries]
    for values in (1 << 26, 1 << 22):  # one range, and fifteen
        monkeypatch.setattr(grid_query, "VALUES_AT_ONCE", values)
        for query, release in zip(queries, releases, strict=True):
            assert canonical_json(query.answer(table, seeded(4)).to_json()) == release
    grid = queries[0].grid(PLAIN)
    points = memory.numbers()
    whole = grid.listing()
    every = whole.cells(folded(whole, [Block(points, np.empty((len(points), 0), np.int64))]))
    for n_ranges in (1, 2, 7):
        parts = [
            part.cells(folded(part, [Block(points, np.empty((len(points), 0), np.int64))]))
            for part in whole.ranges(points[::9], n_ranges)
        ]
        assert len(parts) == n_ranges
        assert np.concatenate([part.cells for part in parts]).tolist() == every.cells.tolist()
        assert max(len(part.counts) for part in parts) <= 3 * len(every.counts) / n_ranges
