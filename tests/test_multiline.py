"""Quoted line ends are read where the whole file is well-formed; a draft reads no row."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, CsvDialect, Domain, Numeric, SqlQuery, draft_domain, read
from privod.data import csv_file as reading
from privod.data.csv_file import CsvBytes
from privod.data.sources import read_with_report
from privod.errors import InvalidData, InvalidParameter, NeedsConfirmation

MULTILINE = CsvDialect(quoting="multiline")
DOMAIN = Domain((Numeric("x", 0, 1000), Categorical("c", ("a", "b"), fill="a")))
CELLS = st.text(alphabet='ab",\n\r x', max_size=6)


def written(rows: list[tuple[str, str, str]], end: str = "\n") -> CsvBytes:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        [("x", "remark", "c"), *rows]
    )
    return CsvBytes(file.getvalue().encode(), "rows.csv")


@given(
    st.lists(st.tuples(st.integers(0, 999), CELLS, st.sampled_from("ab"))),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_what_a_writer_quotes_is_read_as_python_reads_it(
    rows: list[tuple[int, str, str]], end: str, at_once: int
) -> None:
    file = written([(str(x), remark, c) for x, remark, c in rows], end)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "READ_AT_ONCE", at_once)
        table = read(file, DOMAIN, MULTILINE)
    assert table.numbers()[:, 0].tolist() == [x for x, _, _ in rows]
    assert table.codes()[:, 0].tolist() == ["ab".index(c) for _, _, c in rows]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('x,remark,c\n1,a"b,a\n', "quote stands inside a cell and is not doubled, at line 2"),
        ('x,remark,c\n1,"a"b,a\n', "quote stands inside a cell"),
        ('x,remark,c\n1,z,a\n2,"open,a\n3,z,b\n', "a quote is never closed"),
        ('x,remark,c\n1,"a\nb",a\n2,z\n', "another number of cells than the header, at line 4"),
        ("x,remark,c\n1,z\rz,a\n", "a carriage return stands outside quotes"),
    ],
)
def test_a_file_that_is_not_well_formed_is_refused_whole(text: str, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        read(CsvBytes(text.encode(), "rows.csv"), DOMAIN, MULTILINE)
    assert len(read(CsvBytes(text.encode(), "rows.csv"), DOMAIN)) >= 0  # line by line it is read


def test_the_owner_is_told_what_each_reading_would_keep() -> None:
    file = written([("1", "two\nlines", "a"), ("2", "one", "b")])
    said = 'With every line a record the file gives 1 records; with quoting "multiline" it gives 2'
    for dialect, kept in ((CsvDialect(), 1), (MULTILINE, 2)):
        table, report = read_with_report(file, DOMAIN, dialect)
        assert len(table) == kept
        assert said in " ".join(report.sentences())


def test_lines_that_are_no_records_are_named() -> None:
    text = "x,c\n1,a\n2,b,\n3\nx,c\n4,a\n"
    table, report = read_with_report(CsvBytes(text.encode(), "rows.csv"), DOMAIN)
    assert len(table) == 2
    said = " ".join(report.sentences())
    assert "first line with another number of cells than the header is line 3" in said
    assert "1 lines end in a separator" in said
    assert "Line 5 repeats the header" in said
    assert type(report).from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_stray_quote_changes_no_other_record_where_lines_are_records() -> None:
    rows = [f"{x},z,a" for x in range(9)]
    clean = read(CsvBytes("\n".join(["x,remark,c", *rows]).encode(), "f"), DOMAIN)
    stray = ["x,remark,c", *rows[:4], '4,"z,a', *rows[5:]]
    dirty = read(CsvBytes("\n".join(stray).encode(), "f"), DOMAIN)
    others = [x for x in clean.numbers()[:, 0] if x != 4]
    assert [x for x in dirty.numbers()[:, 0] if x != 4] == others


def test_quoting_needs_a_quote() -> None:
    with pytest.raises(InvalidParameter, match="quoting needs a quote"):
        CsvDialect(quote=None, quoting="multiline")
    with pytest.raises(InvalidParameter, match="quoting is not known"):
        CsvDialect(quoting="lines")


# ---- drafts --------------------------------------------------------------------------------------


def test_a_draft_holds_names_and_types_and_nothing_of_the_rows(tmp_path: Path) -> None:
    canary = "canary-7"
    frame = pd.DataFrame(
        {"n": [987654.25], "day": pd.to_datetime(["2024-03-31"]), "b": [True],
         "c": pd.Categorical([canary]), "t": pd.array([canary], dtype="string")}
    )  # fmt: skip
    arrow = pa.Table.from_pandas(frame)
    pa_parquet.write_table(arrow, tmp_path / "rows.parquet")
    pa_parquet.write_table(arrow.slice(0, 0), tmp_path / "none.parquet")
    files = [tmp_path / "rows.parquet", tmp_path / "none.parquet"]
    drafts = [draft_domain(each) for each in (frame, arrow, arrow.schema, *files)]
    for draft in drafts:
        kinds = {entry["name"]: entry["type"] for entry in draft["columns"]}
        assert kinds == {"n": "number", "day": "date", "b": "boolean", "c": "category",
                         "t": "category"}  # fmt: skip
        written_out = json.dumps(draft)
        assert canary not in written_out
        assert "987654" not in written_out
    assert drafts[3] == drafts[4]


def test_a_draft_of_a_database_names_its_columns(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("create table t as select 1 as k, date '2024-01-01' as day, 'x' as s")
    draft = draft_domain(SqlQuery("select * from t", path, ("k",)))
    assert [entry["type"] for entry in draft["columns"]] == ["number", "date", "category"]


def test_a_first_line_that_looks_like_a_record_is_asked_about(tmp_path: Path) -> None:
    for line in ("1,2,x", "a,a,b", "a,,b", "2024-01-01,b,c"):
        (tmp_path / "rows.csv").write_text(f"{line}\n1,2,3\n")
        with pytest.raises(NeedsConfirmation, match="looks like a record"):
            draft_domain(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_text("age,age,ward\n1,2,3\n")
    with pytest.raises(InvalidData, match="several columns named age"):
        draft_domain(tmp_path / "rows.csv", confirmed=True)


def test_a_file_whose_first_line_is_empty_has_no_columns_and_no_other_separator(
    tmp_path: Path,
) -> None:
    path, domain = tmp_path / "rows.csv", Domain((Numeric("age", 0, 100),))
    for empty in ("", "\n", "\n1,2\n"):
        path.write_text(empty)
        for refused in (lambda: draft_domain(path), lambda: read(path, domain)):
            with pytest.raises(InvalidData, match=r"first line of .* is empty"):
                refused()
    path.write_text("age,age\n1,2\n")
    with pytest.raises(InvalidData, match=r"several columns named age\. Rename them\.$"):
        read(path, domain)


def test_a_draft_is_refused_by_register_until_it_is_filled_in(tmp_path: Path) -> None:
    rows, domain = tmp_path / "rows.csv", tmp_path / "domain.json"
    rows.write_text("x,c\n1,a\n2,b\n")
    run = CliRunner()
    made = run.invoke(app, ["draft", str(rows), "--to", str(domain)])
    assert made.exit_code == 0
    told = " ".join(made.stdout.split())
    assert "No row was read" in told
    assert f"privod register NAME {rows} --domain {domain}" in told
    again = run.invoke(app, ["draft", str(rows), "--to", str(domain)])
    assert isinstance(again.exception, InvalidParameter)
    register = ["register", "d", str(rows), "--domain", str(domain), "--at", str(tmp_path / "c")]
    refused = run.invoke(app, register)
    assert isinstance(refused.exception, InvalidParameter)
    draft = json.loads(domain.read_text())
    draft["columns"][0] |= {"type": "number", "low": 0, "high": 9}
    draft["columns"][1] |= {"type": "category", "values": ["a", "b"]}
    domain.write_text(json.dumps(draft))
    assert run.invoke(app, register).exit_code == 0


@pytest.mark.parametrize("source", [7, {}, np.zeros(3)])
def test_what_has_no_named_columns_is_refused(source: Any) -> None:
    with pytest.raises((InvalidParameter, InvalidData)):
        draft_domain(source)
