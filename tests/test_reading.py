"""Reading is a function of each record's own bytes: nobody's cell changes another's row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric, Table, csv_file, sources
from privod.data.cells import codes_of, names_of, numbers_from_texts, numbers_of
from privod.data.csv_file import CsvDialect, LineTally, csv_batches
from privod.data.fineness import rounded
from privod.data.kernels.ranges import mark, settle
from privod.data.sources import read, read_with_report
from privod.errors import InvalidData, InvalidParameter, Unavailable
from tests.reference.reading import name_of, number_of, split_line

DOMAIN = Domain(
    (Numeric("age", 0, 100), Categorical("sex", ("f", "m")), Categorical("ward", (1, 2)))
)
FILLED = Domain(
    (
        Numeric("age", 0, 100, fill=50),
        Categorical("sex", ("f", "m"), fill="f"),
        Categorical("ward", (1, 2), fill=1),
    )
)
PERSONS = Domain(DOMAIN.columns, person="who", max_rows_per_person=2)
NAMES = ["note", "age", "sex", "who", "ward", "more"]
OFFICE = CsvDialect(encoding="windows-1252", separator=";", decimal=",", thousands=".")
DIALECTS = [
    CsvDialect(),
    OFFICE,
    CsvDialect(separator="\t", encoding="utf-16-le", quote=None),
    CsvDialect(encoding="latin-1", quote="'", separator="|"),
]
SOME = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def record(number: int) -> list[str]:
    """A complete record that no other equals."""
    return [f"n{number}", str(number + 1), "fm"[number % 2], f"p{number}", "12"[number % 2], "x"]


RECORDS = [record(number) for number in range(6)]


def rows_of(table: Table) -> list[tuple[float, ...]]:
    return [
        (*numbers, *codes)
        for numbers, codes in zip(table.numbers().tolist(), table.codes().tolist(), strict=True)
    ]


def written(path: Path, lines: list[bytes], dialect: CsvDialect, end: str = "\n") -> Path:
    """A file of these lines; each is encoded already."""
    head = dialect.separator.join(NAMES).encode(csv_file.ENCODINGS[dialect.encoding])
    path.write_bytes(b"".join(line + end.encode(dialect.encoding) for line in [head, *lines]))
    return path


def encoded(cells: list[str], dialect: CsvDialect) -> bytes:
    return dialect.separator.join(cells).encode(csv_file.ENCODINGS[dialect.encoding])


def only_the_own_row_changed(
    table: Table, before: Table, place: int, at_most: int, others: int = len(RECORDS) - 1
) -> bool:
    """Whether everybody else's rows are there, in order, and nothing else but the own ones."""
    rows, old = rows_of(table), rows_of(before)
    extra = len(rows) - others
    kept = rows[:place] + rows[place + extra :]
    return 0 <= extra <= at_most and kept == old[:place] + old[place + 1 :]


NASTY = st.text(
    st.sampled_from(list("\"',;|\t\r\0 .0179ainfe+-\\\u00e9\u2028\x1a\x85"))
    | st.characters(codec="utf-8", exclude_characters="\n"),
    max_size=8,
)


@SOME
@given(NASTY, st.integers(0, 5), st.integers(0, 5), st.sampled_from(DIALECTS), st.booleans())
def test_no_cell_of_a_line_changes_another_line(
    tmp_path: Path, text: str, line: int, cell: int, dialect: CsvDialect, crlf: bool
) -> None:
    lines = [encoded(cells, dialect) for cells in RECORDS]
    end = "\r\n" if crlf else "\n"
    domain = FILLED if cell % 2 else DOMAIN
    before = read(written(tmp_path / "before.csv", lines, dialect, end), domain, dialect)
    codec = csv_file.ENCODINGS[dialect.encoding]
    cells = [
        text.encode(codec, "replace").decode(codec) if place == cell else own
        for place, own in enumerate(RECORDS[line])
    ]
    lines[line] = encoded(cells, dialect)
    after = read(written(tmp_path / "after.csv", lines, dialect, end), domain, dialect)
    assert only_the_own_row_changed(after, before, line, 1)


@SOME
@given(st.binary(max_size=12), st.integers(0, 5), st.integers(0, 5))
def test_no_bytes_of_a_line_change_another_line(
    tmp_path: Path, content: bytes, line: int, cell: int
) -> None:
    """Invalid UTF-8 and line feeds too: a line feed makes more records of one, of nobody else's."""
    dialect = CsvDialect()
    lines = [encoded(cells, dialect) for cells in RECORDS]
    before = read(written(tmp_path / "before.csv", lines, dialect), FILLED)
    cells = lines[line].split(b",")
    cells[cell] = content
    lines[line] = b",".join(cells)
    after = read(written(tmp_path / "after.csv", lines, dialect), FILLED)
    assert only_the_own_row_changed(after, before, line, 1 + content.count(b"\n"))


@SOME
@given(
    st.lists(st.integers(0, 0xFFFF).filter(lambda unit: unit != 10), max_size=4),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_no_units_of_a_line_of_utf16_change_another_line(
    tmp_path: Path, units: list[int], line: int, cell: int
) -> None:
    """Lone surrogates too."""
    dialect = CsvDialect(encoding="utf-16-be")
    lines = [encoded(cells, dialect) for cells in RECORDS]
    before = read(written(tmp_path / "before.csv", lines, dialect), DOMAIN, dialect)
    cells = [own.encode("utf-16-be") for own in RECORDS[line]]
    cells[cell] = b"".join(unit.to_bytes(2, "big") for unit in units)
    lines[line] = ",".encode("utf-16-be").join(cells)
    after = read(written(tmp_path / "after.csv", lines, dialect), DOMAIN, dialect)
    assert only_the_own_row_changed(after, before, line, 1)


def test_one_byte_too_many_in_utf16_refuses_the_file_whole(tmp_path: Path) -> None:
    dialect = CsvDialect(encoding="utf-16-be")
    lines = [encoded(cells, dialect) for cells in RECORDS]
    lines[2] = lines[2][:5] + b"\0" + lines[2][5:]
    with pytest.raises(InvalidData, match=r"rows\.csv' has an odd number of bytes"):
        read(written(tmp_path / "rows.csv", lines, dialect), DOMAIN, dialect)


@given(st.integers(0, 5), NASTY, st.integers(1, 40))
@SOME
def test_where_blocks_end_does_not_matter(
    tmp_path: Path, line: int, text: str, at_once: int
) -> None:
    lines = [encoded(cells, DIALECTS[0]) for cells in RECORDS]
    lines[line] = text.encode()
    path = written(tmp_path / "rows.csv", lines, DIALECTS[0])
    whole = read_with_report(path, FILLED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "READ_AT_ONCE", at_once)
        pieces = read_with_report(path, FILLED)
    assert rows_of(whole[0]) == rows_of(pieces[0])
    assert whole[1] == pieces[1]


@SOME
@given(NASTY, st.integers(0, 5), st.sampled_from([0, 1, 2, 4, 5]))
def test_no_cell_of_a_person_changes_another_persons_rows(
    tmp_path: Path, text: str, line: int, cell: int
) -> None:
    records = [[*cells[:3], f"p{place // 3}", *cells[4:]] for place, cells in enumerate(RECORDS)]
    lines = [encoded(cells, DIALECTS[0]) for cells in records]
    others = Domain(DOMAIN.columns, person="who", max_rows_per_person=2)

    def kept(who: int) -> list[tuple[float, ...]]:
        table = read(written(tmp_path / "rows.csv", lines, DIALECTS[0]), others)
        ages = {float(number + 1) for number in range(6) if number // 3 == who}
        return [row for row in rows_of(table) if row[0] in ages]

    other = 1 - line // 3
    before = kept(other)
    cells = list(records[line])
    cells[cell] = text if cell != 1 else f"0{line}.5"  # so that its rows are told from others'
    lines[line] = encoded(cells, DIALECTS[0])
    assert kept(other) == before
    assert len(before) == 2


ANYTHING = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.just(10**400),
    st.booleans(),
    st.text(max_size=4),
    st.just("\ud800"),
    st.binary(max_size=3),
    st.decimals(),
    st.just(pd.NA),
    st.just(pd.NaT),
    st.just([1]),
    st.just({"f": 1}),
    st.complex_numbers(),
    st.sampled_from(
        [np.float32(1), np.int8(1), np.bool_(True), np.datetime64("NaT"), "f", 1, "2.0"]
    ),
)


def columns_of(records: list[list[Any]]) -> dict[str, list[Any]]:
    columns = dict(zip(NAMES, map(list, zip(*records, strict=True)), strict=True))
    columns["age"] = [
        float(age) if isinstance(age, str) and age.isdigit() else age for age in columns["age"]
    ]
    return columns


@SOME
@given(ANYTHING, st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans())
def test_no_object_in_a_frame_changes_another_row(
    thing: Any, line: int, cell: int, in_pandas: bool, with_fill: bool
) -> None:
    domain = FILLED if with_fill else DOMAIN

    def made(records: list[list[Any]]) -> Any:
        columns = columns_of(records)
        if not in_pandas:
            return {name: columns[name] for name in domain.names}
        return pd.DataFrame(
            {name: pd.Series(cells, dtype=object) for name, cells in columns.items()}
        )

    before = read(made(RECORDS), domain)
    changed = [list(cells) for cells in RECORDS]
    changed[line][cell] = thing
    assert only_the_own_row_changed(read(made(changed), domain), before, line, 1)


@SOME
@given(
    ANYTHING | st.sampled_from(["7,5", "1.000", 7.5, Decimal("1.5"), 2**70]),
    st.integers(0, 5),
    st.sampled_from(["age", "sex", "ward"]),
    st.sampled_from([object, "category", "string[python]", None]),
    st.booleans(),
)
def test_no_object_among_texts_changes_how_texts_write_numbers(
    thing: Any, line: int, column: str, kind: Any, with_fill: bool
) -> None:
    domain = FILLED if with_fill else DOMAIN
    texts = {
        "age": [f"{number + 1},5" for number in range(6)],
        "sex": ["f", "m"] * 3,
        "ward": ["1", "2,0"] * 3,
    }

    def made(columns: dict[str, list[Any]]) -> pd.DataFrame:
        try:
            return pd.DataFrame(
                {name: pd.Series(cells, dtype=kind) for name, cells in columns.items()}
            )
        except (ArithmeticError, TypeError, ValueError):  # what pandas takes for no such column
            reject()

    before = read(made(texts), domain, OFFICE)
    changed = {**texts, column: [*texts[column][:line], thing, *texts[column][line + 1 :]]}
    assert only_the_own_row_changed(read(made(changed), domain, OFFICE), before, line, 1)


def test_no_category_is_too_large_to_be_read() -> None:
    for column in ("age", "sex", "ward"):
        cells: dict[str, Any] = {"age": [1, 2], "sex": ["f", "m"], "ward": [1, 2]}
        cells[column] = pd.Series([1, 2**70]).astype("category")
        assert len(read(pd.DataFrame(cells), FILLED)) == 2


def test_a_table_has_no_dialect_any_more() -> None:
    table = Table(DOMAIN, {"age": [1], "sex": ["f"], "ward": [1]})
    assert len(read(table, DOMAIN, CsvDialect(separator=";"))) == 1
    with pytest.raises(InvalidParameter, match="dialect is not for a table"):
        read(table, DOMAIN, OFFICE)


TYPES: dict[str, list[pa.DataType]] = {
    "age": [pa.float64(), pa.float32(), pa.int64(), pa.uint8(), pa.string(), pa.decimal128(20, 3)],
    "sex": [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    "ward": [pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.decimal128(5, 1), pa.int64()],
}
CELLS = {
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint8(): st.integers(0, 255),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-3)),
    pa.decimal128(5, 1): st.integers(-9999, 9999).map(lambda n: Decimal(n).scaleb(-1)),
}
TEXTS = NASTY | st.sampled_from(["f", "m", "1", "2.0", ""])


@SOME
@given(st.data(), st.integers(0, 5), st.sampled_from(["age", "sex", "ward", "note"]))
def test_no_value_of_a_typed_column_changes_another_row(
    tmp_path: Path, data: st.DataObject, line: int, column: str
) -> None:
    kinds = {name: data.draw(st.sampled_from(TYPES[name])) for name in DOMAIN.names}
    kinds["note"] = pa.binary()
    plain: dict[str, list[Any]] = {
        "age": [number + 1 for number in range(6)],
        "sex": ["f", "m"] * 3,
        "ward": [1, 2] * 3,
        "note": [b"x"] * 6,
    }
    for name in ("age", "ward"):
        if kinds[name] == pa.string():
            plain[name] = [str(value) for value in plain[name]]
    value: Any = data.draw(st.none() | CELLS.get(kinds[column], TEXTS))
    if column == "note" and value is not None:
        value = value.encode()

    def frames(columns: dict[str, list[Any]]) -> list[Any]:
        arrow = pa.table({name: pa.array(cells, kinds[name]) for name, cells in columns.items()})
        pa_parquet.write_table(arrow, tmp_path / "rows.parquet")
        made: list[Any] = [
            arrow,
            pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches()),
        ]
        made += [tmp_path / "rows.parquet", pl.from_arrow(arrow)]
        if kinds["sex"] != pa.string_view():
            made.append(arrow.to_pandas())
        return made

    changed = {name: list(cells) for name, cells in plain.items()}
    changed[column][line] = value
    before = [read(frame, DOMAIN) for frame in frames(plain)]
    after = [read(frame, DOMAIN) for frame in frames(changed)]
    for old, new in zip(before, after, strict=True):
        assert only_the_own_row_changed(new, old, line, 1)
    assert len({tuple(rows_of(table)) for table in after}) == 1


def test_a_decimal_is_the_float_nearest_to_it_from_every_reader() -> None:
    cells = [Decimal("0.051"), Decimal("5.100"), Decimal("-0.007"), Decimal("99.999"), None]
    column = pa.array(cells, pa.decimal128(20, 3))
    read_as = numbers_of(column, Numeric("age", 0, 100))
    np.testing.assert_array_equal(read_as, [0.051, 5.1, -0.007, 99.999, np.nan])


def test_a_stray_quote_in_a_comment_swallows_nobody(tmp_path: Path) -> None:
    lines = [f"{number % 100},f,1,fine" for number in range(2001)]
    before = ["age,sex,ward,comment", *lines]
    (tmp_path / "before.csv").write_text("\n".join(before) + "\n")
    lines[1000] = '50,f,1,"not fine'
    (tmp_path / "after.csv").write_text("\n".join(["age,sex,ward,comment", *lines]) + "\n")
    table, report = read_with_report(tmp_path / "after.csv", DOMAIN)
    assert len(table) == len(read(tmp_path / "before.csv", DOMAIN)) == 2001
    assert report.open_quotes == 1


def test_a_bare_carriage_return_shifts_no_row(tmp_path: Path) -> None:
    rows = b"age,sex,ward,note\n1,f,1,a\n2,m,\r2,b\n3,f,1,c\rd\n4,\rm,2,e\r\n5,f,1,f\r\n"
    (tmp_path / "rows.csv").write_bytes(rows)
    assert read(tmp_path / "rows.csv", DOMAIN).numbers()[:, 0].tolist() == [1, 2, 3, 5]


def test_a_quoted_cell_may_hold_separators_and_quotes(tmp_path: Path) -> None:
    domain = Domain((Categorical("said", ('a "b", c', "d", '"')),))
    (tmp_path / "rows.csv").write_text('"said","x"\n"a ""b"", c",1\n"d","2"\n"""",3\n"d"e,4\n')
    assert read(tmp_path / "rows.csv", domain).codes()[:, 0].tolist() == [0, 1, 2]


@SOME
@given(st.text(st.sampled_from(list("ab\",'|\r")), max_size=14), st.sampled_from(['"', "'", None]))
def test_lines_are_split_as_the_plain_twin_splits_them(
    tmp_path: Path, line: str, quote: str | None
) -> None:
    cells = split_line(line.removesuffix("\r"), ",", quote)
    names = [f"c{place}" for place in range(len(cells))]
    (tmp_path / "rows.csv").write_bytes(f"{','.join(names)}\n{line}\n".encode())
    batches = csv_batches(tmp_path / "rows.csv", CsvDialect(quote=quote), names, LineTally())
    read_as = [row for batch in batches for row in batch.to_pylist()]
    if not line.removesuffix("\r"):
        assert read_as == []
    else:
        assert [[(cell or b"").decode() for cell in row.values()] for row in read_as] == [cells]


DIGITS = st.text(st.sampled_from(list("0123456789")), max_size=4)
SPACES = [" ", "\u00a0", "\u202f", "\u2003", "\ufeff"]
MARKS = st.sampled_from([".", ",", "'", *SPACES, "e", "E-", "+", "-", "", "inf", "_"])
NUMBER_FORMATS = st.sampled_from(
    [(".", None), (",", None), (",", "."), (".", ","), (".", " "), (",", "'")]
)
NUMBERS = st.lists(DIGITS | MARKS, max_size=6).map("".join) | NASTY | st.floats().map(repr)


@SOME
@given(st.lists(NUMBERS, max_size=5), NUMBER_FORMATS)
def test_numbers_are_read_as_the_plain_twin_reads_them(
    texts: list[str], marks: tuple[str, str | None]
) -> None:
    cells = pa.array([text.encode() for text in texts], pa.large_binary())
    found = numbers_from_texts(cells, CsvDialect(decimal=marks[0], thousands=marks[1]).marks)
    expected = [number_of(text, *marks) for text in texts]
    same = [math.nan if number is None else number for number in expected]
    assert np.array_equal(found, np.array(same, np.float64), equal_nan=True)


@SOME
@given(
    st.lists(st.text(st.sampled_from(list("0179+-., \tax\xa0")), max_size=7) | NUMBERS, max_size=5),
    NUMBER_FORMATS,
)
def test_names_are_read_as_the_plain_twin_reads_them(
    texts: list[str], marks: tuple[str, str | None]
) -> None:
    cells = pa.array([text.encode() for text in texts], pa.binary())
    dialect = CsvDialect(decimal=marks[0], thousands=marks[1])
    found = names_of(cells, "who", dialect.marks).to_pylist()
    assert found == [name_of(text, *marks).encode() or None for text in texts]


def test_ids_of_an_office_are_one_person_where_they_are_one_number() -> None:
    domain = Domain((Categorical("sex", ("f", "m")),), person="who")

    def persons(*ids: Any) -> int:
        return len(read({"who": list(ids), "sex": ["f"] * len(ids)}, domain, OFFICE))

    assert persons("1", "1.000", "1,5", "1.5", "10.00") == 5  # two of these are no numbers
    assert persons("1000", "1.000", "+1.000,0", 1000, 1000.0, Decimal("1000.00")) == 1
    assert persons("1,5", 1.5, Decimal("1.50")) == 1
    for kind in (pa.float64(), pa.decimal128(6, 2)):
        who = pa.array([1.5, 1.5, 1000.0, 1.0]).cast(kind)
        typed = pa.table({"who": who, "sex": ["f"] * 4})
        assert len(read(typed, domain, OFFICE)) == 3
    assert persons("7", "\u00a07", "7\u202f", "\ufeff7", "\u2003 7\x85") == 1


SEVEN = ["7", " 7", "07", "7.0", "+7", "7.", "007.000\t"]


def test_a_person_has_one_form(tmp_path: Path) -> None:
    domain = Domain((Categorical("sex", ("f", "m")),), person="who")
    (tmp_path / "rows.csv").write_text("who,sex\n" + "".join(f"{who},f\n" for who in SEVEN))
    sexes = ["f"] * len(SEVEN)
    sources_of_seven: list[Any] = [
        tmp_path / "rows.csv",
        {"who": SEVEN, "sex": sexes},
        {"who": [7, 7.0, np.int8(7), "7", Decimal("7.00"), b"7", np.float32(7)], "sex": sexes},
        pl.DataFrame({"who": SEVEN, "sex": sexes}),
        pd.DataFrame({"who": [7.0] * 6 + [None], "sex": sexes}),
        pd.DataFrame({"who": pd.Series([*SEVEN[:6], 7], dtype=object), "sex": sexes}),
        pa.table({"who": pa.array([Decimal("7.0")] * 7), "sex": sexes}),
    ]
    for source in sources_of_seven:
        assert len(read(source, domain)) == 1
    different = ["7", "-7", "7.5", "70", "x7", "7x", "VII", "7,0", "1e1", "10"]
    assert len(read({"who": different, "sex": ["f"] * len(different)}, domain)) == len(different)


def test_what_an_office_exports_is_read_as_declared(tmp_path: Path) -> None:
    domain = Domain((Numeric("größe", 0, 9999), Categorical("ort", ("Köln", "Łódź"))), person="id")
    text = "id;größe;ort\r\n1;1.234,5;Köln\r\n1;7;Köln\r\n2;12,25;Łódź\r\n3;1.5;Köln\r\n"
    for encoding, codec in csv_file.ENCODINGS.items():
        content = text.encode(codec, "replace")
        if encoding == "utf-8":
            content = b"\xef\xbb\xbf" + content
        (tmp_path / "rows.csv").write_bytes(content)
        dialect = CsvDialect(encoding=encoding, separator=";", decimal=",", thousands=".")
        table = read(tmp_path / "rows.csv", domain, dialect)
        polish = "Łódź".encode(codec, "replace").decode(codec) == "Łódź"
        assert table.numbers()[:, 0].tolist() == ([1234.5, 12.25] if polish else [1234.5])


@pytest.mark.parametrize(
    ("content", "dialect", "message"),
    [
        (b"age;sex;ward\n1;f;1\n", {}, r"no column 'age'.* separated by ';': declare that"),
        (b"age\tsex\tward\n1\tf\t1\n", {}, r"separated by '\\t': declare that"),
        ("age,sex,ward\n".encode("utf-16"), {}, "mark of UTF-16. Declare its `encoding` as utf-16"),
        (
            b"age,sex,ward\n",
            {"encoding": "utf-16"},
            "Declare its `encoding` as utf-16-le or utf-16-be",
        ),
        (b"age,sex,ward,\xe9\n", {}, "header of .* is not in utf-8. Declare its `encoding`"),
        (b"age,sex,ward\r1,f,1\r", {}, "no column 'ward'"),
        (b"x" * (csv_file.LONGEST_LINE + 2), {}, "first line of .* is longer than"),
        (b"", {}, "first line of .* is empty. It must name the columns"),
        (b"age,age,sex,ward\n", {}, "several columns named age"),
    ],
)
def test_a_file_written_otherwise_is_refused_with_a_way_out(
    tmp_path: Path, content: bytes, dialect: dict[str, Any], message: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(InvalidData, match=message):
        read(tmp_path / "rows.csv", DOMAIN, CsvDialect(**dialect))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"encoding": "ebcdic"}, "encoding is not known, got 'ebcdic'. Known are: 'utf-8'"),
        ({"separator": ";;"}, "separator is not known"),
        ({"decimal": ";"}, "decimal is not known"),
        ({"thousands": "."}, "thousands must differ from decimal"),
        ({"thousands": "x"}, "thousands is not known"),
        ({"quote": "`"}, "quote is not known"),
    ],
)
def test_impossible_dialects_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        CsvDialect(**wrong)


def test_a_line_too_long_is_left_out_whatever_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * (3 * csv_file.LONGEST_LINE)
    (tmp_path / "rows.csv").write_text(f"age,sex,ward,n\n1,f,1,a\n2,f,1,{long}\n3,f,1,c\n")
    for at_once in (1 << 22, 1 << 18):
        monkeypatch.setattr(csv_file, "READ_AT_ONCE", at_once)
        table, report = read_with_report(tmp_path / "rows.csv", DOMAIN)
        assert table.numbers()[:, 0].tolist() == [1, 3]
        assert (report.read, report.too_long, report.kept) == (3, 1, 2)


@pytest.mark.parametrize("out_of_memory", [MemoryError(), pa.ArrowMemoryError("malloc of size 9")])
def test_running_out_of_memory_is_not_an_unreadable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out_of_memory: Exception
) -> None:
    pa_parquet.write_table(pa.table({"age": [1.0]}), tmp_path / "rows.parquet")

    def full(*_: Any) -> Any:
        raise out_of_memory

    monkeypatch.setattr(sources, "_cut", full)
    with pytest.raises(Unavailable, match=r"not enough memory to read '.*rows\.parquet'"):
        read(tmp_path / "rows.parquet", Domain((Numeric("age", 0, 1),)))


def test_columns_that_are_not_declared_are_never_touched(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "odd": pd.Series([object(), 3], dtype=object)})
    domain = Domain((Numeric("age", 0, 9),))
    assert len(read(frame, domain)) == 2
    assert len(read(pl.DataFrame({"age": [1.0], "odd": [object()]}), domain)) == 1
    odd = Domain((Numeric("odd", 0, 9),))
    assert read(pl.DataFrame({"odd": [object(), 3]}), odd).numbers().tolist() == [[3.0]]


def test_a_folder_of_parquet_files_is_read_by_name(tmp_path: Path) -> None:
    domain = Domain(
        (Numeric("age", 0, 100), Categorical("sex", ("f", "m")), Categorical("y", (1, 2)))
    )
    for year, file, ages in (("1", "b", [3.0]), ("1", "a", [1.0, 2.0]), ("02", "a", [4.0])):
        folder = tmp_path / f"y={year}" / "sex=f"
        folder.mkdir(parents=True, exist_ok=True)
        pa_parquet.write_table(pa.table({"age": ages}), folder / f"{file}.parquet")
    table = read(tmp_path, domain)
    assert rows_of(table) == [(4, 0, 1), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    (tmp_path / "y=1" / "sex=f" / "c.parquet").write_text("not one")
    with pytest.raises(InvalidData, match=r"c\.parquet' is not a readable PARQUET file"):
        read(tmp_path, domain)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidData, match=r"There is no \.parquet file in"):
        read(tmp_path / "empty", domain)


def test_lazy_frames_keep_their_order_and_tell_no_row() -> None:
    ages = {"age": [float(age) for age in range(100)], "sex": ["f", "m"] * 50, "ward": [1, 2] * 50}
    lazy = pl.DataFrame(ages).lazy()
    assert rows_of(read(lazy, DOMAIN)) == rows_of(read(ages, DOMAIN))
    texts = pl.DataFrame({**ages, "age": ["Mrs. Private"] * 100}).lazy()
    broken = texts.with_columns(pl.col("age").cast(pl.Float64, strict=True))
    with pytest.raises(InvalidData, match="lazy frame cannot be collected") as caught:
        read(broken, DOMAIN)
    assert "Private" not in str(caught.value)


def test_categories_are_read_alike_however_a_parquet_file_lists_its_values(tmp_path: Path) -> None:
    domain = Domain((Categorical("sex", ("f", "m")),))
    cells = ["m", None, "f", "other", "m", "f", "x" * 99, "f"]
    for place, text in enumerate((pa.string(), pa.large_string(), pa.binary())):
        column = pa.array([None if one is None else one.encode() for one in cells], pa.binary())
        table = pa.table({"sex": column.cast(text)})
        listed = pa.table({"sex": column.cast(text).dictionary_encode()})
        forms: list[tuple[Any, dict[str, Any]]] = [
            (table, {}),
            (table, {"use_dictionary": False}),
            (table, {"row_group_size": 3}),  # a list of values in each
            (listed, {}),
        ]
        for number, (rows, options) in enumerate(forms):
            path = tmp_path / f"rows-{place}-{number}.parquet"
            pa_parquet.write_table(rows, path, **options)
            assert read(path, domain).codes()[:, 0].tolist() == [1, 0, 1, 0, 0]
    shown = pa.DictionaryArray.from_arrays([1, None, 0, 2, 1], ["f", "m", None])
    unused = pa.DictionaryArray.from_arrays([1, 0], ["f", "m", *map(str, range(9))])
    assert codes_of(shown, domain.categorical()[0]).tolist() == [1, -1, 0, -1, 1]
    assert codes_of(unused, domain.categorical()[0]).tolist() == [1, 0]


@given(
    st.lists(st.floats() | st.sampled_from([-0.0, 2.0**-500, 2.0**-501, 5e-324, 2.0**-448])),
    st.sampled_from([(-1.0, 1.0), (0.0, 0.0), (-(2.0**-499), 2.0**-499), (3.0, 1e300)]),
    st.booleans(),
)
def test_numbers_settle_in_their_range_as_one_by_one(
    values: list[float], ends: tuple[float, float], filled: bool
) -> None:
    low, high = ends
    fill = low if filled else math.nan
    array = np.array(values, np.float64)
    missing, clipped = mark(array, low, high)
    outside = [value < low or value > high for value in values]
    assert np.isinf(array).tolist() == outside
    both = np.array([[low], [high]])
    array = settle(array[None], both, np.array([fill]))[0]
    assert missing == sum(map(math.isnan, values))
    assert clipped == sum(outside)
    filling = [fill if math.isnan(one) else one for one in values]
    expected = [one if math.isnan(one) else min(max(one, low), high) for one in filling]
    np.testing.assert_array_equal(array, rounded(expected))
    assert not np.signbit(array[array == 0]).any()


def test_a_stream_that_breaks_off_is_told_in_words_that_quote_nothing() -> None:
    schema = pa.schema([("age", pa.int64()), ("sex", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([30]), pa.array(["f"])], schema=schema)
        raise ValueError("row 7 says canary")

    domain = Domain((Numeric("age", 0, 120),))
    with pytest.raises(InvalidData, match="error of its source") as broken:
        read(pa.RecordBatchReader.from_batches(schema, batches()), domain)
    assert "canary" not in str(broken.value)
    assert broken.value.__cause__ is None
