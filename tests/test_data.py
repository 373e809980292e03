"""Domains are declared, tables stay inside them, and readers complain about form, never rows."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from benchmarks._folder import data_folder, data_frame
from hypothesis import given
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.examples import HOSPITAL, hospital
from privod.data.fineness import FINEST, rounded
from privod.data.sources import read, write_parquet
from privod.errors import InvalidData, InvalidParameter, NotFound, PrivodError, Unavailable

DOMAIN = Domain(
    (Numeric("age", 0, 100), Categorical("sex", ("f", "m")), Categorical("ward", (1, 2)))
)
PERSONS = Domain((Numeric("age", 0, 100),), person="patient", max_rows_per_person=2)

ROWS = {"age": [30.0, 150.0, math.nan, 40.0], "sex": ["f", "m", "f", "x"], "ward": [1, 2, 1, 2]}
PRIVATE = "Mrs. Private"


def same(left: Table, right: Table) -> bool:
    return (
        left.domain == right.domain
        and np.array_equal(left.numbers(), right.numbers())
        and np.array_equal(left.codes(), right.codes())
    )


def test_rows_are_clipped_and_incomplete_ones_dropped() -> None:
    table = Table(DOMAIN, ROWS)
    assert table.numbers().tolist() == [[30.0], [100.0]]
    assert table.codes().tolist() == [[0, 0], [1, 1]]
    assert len(table) == 2


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e-130, 1e-130))
def test_numbers_are_read_as_multiples_of_the_finest(one: float, other: float) -> None:
    for value in (one, other):
        read_as = float(rounded(value))
        assert Fraction(read_as) / Fraction(FINEST) == round(Fraction(value) / Fraction(FINEST))
        assert read_as == value or abs(value) < 2.0**-448
        assert math.copysign(1, read_as) == 1 or read_as < 0
    low, high = sorted((one, other))
    assert rounded(low) <= rounded(high)
    gap = float(rounded(high)) - float(rounded(low))
    assert gap == 0 or min(gap, 1.0) ** 2 >= 2.0**-1000


def test_a_table_and_its_domain_are_read_alike() -> None:
    column = Numeric("x", 1e-200, 1, fill=1e-180)
    assert column.low == column.fill == 0
    values = Table(Domain((column,)), {"x": [math.nan, 0.0, 1e-160, 1e-140, 1.0]}).numbers()
    assert values[:3].tolist() == [[0.0], [0.0], [0.0]]
    assert values[3, 0] > 0
    with pytest.raises(InvalidParameter, match="low < high"):
        Numeric("x", 0, 1e-160)


def test_a_public_fill_keeps_incomplete_rows() -> None:
    domain = Domain((Numeric("age", 0, 100, fill=50), Categorical("sex", ("f", "m"), fill="m")))
    table = Table(domain, {"age": [math.nan, 1.0], "sex": ["f", None]})
    assert table.numbers().tolist() == [[50.0], [1.0]]
    assert table.codes().tolist() == [[0], [1]]


def test_infinities_are_clipped_like_any_number_outside() -> None:
    table = Table(Domain((Numeric("x", -1, 1),)), {"x": [math.inf, -math.inf]})
    assert table.numbers()[:, 0].tolist() == [1.0, -1.0]


def test_integers_beyond_all_floats_are_clipped_too() -> None:
    table = Table(Domain((Numeric("x", -1, 1),)), {"x": [10**400, -(10**400), 0, None, 0.5]})
    assert table.numbers()[:, 0].tolist() == [1.0, -1.0, 0.0, 0.5]


def test_of_each_person_only_the_first_rows_are_kept() -> None:
    rows = {"age": [1, 2, 3, 4, 5, math.nan, 6], "patient": ["a", "b", "a", "a", "b", "c", None]}
    table = Table(PERSONS, rows)
    assert table.numbers()[:, 0].tolist() == [1.0, 2.0, 3.0, 5.0]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=20),
    st.sampled_from("abc"),
)
def test_removing_a_person_moves_nobody_elses_rows(rows: list[tuple[str, int]], gone: str) -> None:
    def kept(some: list[tuple[str, int]]) -> list[float]:
        columns = {"age": [age for _, age in some], "patient": [person for person, _ in some]}
        return sorted(Table(PERSONS, columns).numbers()[:, 0].tolist())

    others = kept([row for row in rows if row[0] != gone])
    own = kept([row for row in rows if row[0] == gone])
    assert len(own) <= 2
    assert sorted(others + own) == kept(rows)


def test_a_repr_shows_no_row_and_no_number_of_rows() -> None:
    assert repr(Table(DOMAIN, ROWS)) == "Table(of 3 columns, rows private)"


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype({"sex": "category"}),
        pl.DataFrame(ROWS),
        pa.table(ROWS),
        ROWS,
    ],
    ids=["pandas", "pandas categories", "polars", "arrow", "mapping"],
)
def test_frames_of_every_kind_make_the_same_table(frame: Any) -> None:
    assert same(read(frame, DOMAIN), Table(DOMAIN, ROWS))


def test_columns_that_pandas_names_by_numbers_are_read_by_their_texts() -> None:
    declared = Domain((Numeric("0", 0, 10), Numeric("1", 0, 10)))
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]])
    assert read(frame, declared).numbers().tolist() == [[1, 2], [3, 4]]
    both = pd.DataFrame([[1.0, 2.0, 5.0]], columns=[0, 1, "1"])
    with pytest.raises(InvalidData, match="several columns named 1"):
        read(both, declared)


def test_csv_and_parquet_make_the_same_table(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    assert same(read(tmp_path / "rows.csv", DOMAIN), Table(DOMAIN, ROWS))
    assert same(read(str(tmp_path / "rows.parquet"), DOMAIN), Table(DOMAIN, ROWS))


def test_a_table_survives_parquet(tmp_path: Path) -> None:
    table = Table(PERSONS, {"age": [1, 2, 3, 4], "patient": ["a", "a", "a", "b"]})
    write_parquet(table, tmp_path / "rows.parquet")
    assert same(read(tmp_path / "rows.parquet", PERSONS), table)
    assert b"patient" in (tmp_path / "rows.parquet").read_bytes()
    assert pa_parquet.read_table(tmp_path / "rows.parquet")["patient"].to_pylist() == [0, 0, 1]


def test_an_empty_table_survives_parquet(tmp_path: Path) -> None:
    empty = Table(DOMAIN, {"age": [], "sex": [], "ward": []})
    write_parquet(empty, tmp_path / "rows.parquet")
    assert len(read(tmp_path / "rows.parquet", DOMAIN)) == 0


def test_a_cell_that_is_no_number_is_missing_and_not_reported(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"age,sex,ward\n30,f,1\n{PRIVATE},m,2\n40,m,{PRIVATE}\n")
    assert read(tmp_path / "rows.csv", DOMAIN).numbers().tolist() == [[30.0]]


def test_categories_may_be_called_like_a_gap(tmp_path: Path) -> None:
    domain = Domain((Categorical("zone", ("NA", "EU", "null")),))
    (tmp_path / "rows.csv").write_text('zone\nNA\nEU\nnull\n""\nN/A\n')
    assert read(tmp_path / "rows.csv", domain).codes()[:, 0].tolist() == [0, 1, 2]
    assert len(read({"zone": ["NA", math.nan, "nan"]}, domain)) == 1


LONG = Domain((Categorical("code", (2**60, 2**60 + 1, 7)),))


@pytest.mark.parametrize("gap", [[], [None]], ids=["whole", "with a gap"])
def test_long_whole_numbers_are_looked_up_as_they_are(tmp_path: Path, gap: list[None]) -> None:
    codes = [2**60 + 1, 7, 2**60, 2**60 + 2, *gap]
    frame = pa.table({"code": pa.array(codes, pa.int64())})
    pa_parquet.write_table(frame, tmp_path / "rows.parquet")
    lines = ["" if code is None else str(code) for code in codes]
    (tmp_path / "rows.csv").write_text("\n".join(["code", *lines, "7.0", f"{2**60}.0"]) + "\n")
    texts = pa.table({"code": lines})
    decimals = pa.table({"code": frame["code"].cast(pa.decimal128(20, 0))})
    mapping = {"code": [math.nan if code is None else np.int64(code) for code in codes]}
    for source in (frame, texts, decimals, mapping, {"code": codes}, tmp_path / "rows.parquet"):
        assert read(source, LONG).codes()[:, 0].tolist() == [1, 2, 0]
    assert read(tmp_path / "rows.csv", LONG).codes()[:, 0].tolist() == [1, 2, 0, 2, 0]


def test_floats_that_do_not_tell_categories_apart_are_refused_by_type() -> None:
    for source in (pd.DataFrame({"code": [7, None]}), {"code": np.array([7.0])}):
        with pytest.raises(InvalidData, match=r"'code' .* float64, the type of its data, does not"):
            read(source, LONG)


def test_ragged_lines_are_skipped_and_not_reported(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"age,sex,ward\n30,f,1\n{PRIVATE}\n1,2,3,4,5\n40,m,2\n")
    assert read(tmp_path / "rows.csv", DOMAIN).numbers().tolist() == [[30.0], [40.0]]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\xff\xfe\x00bad", "rows.csv"),
        (PRIVATE.encode(), "rows.parquet"),
        (b"", "rows.csv"),
        (f"{PRIVATE}\n1\n".encode(), "rows.csv"),
        (b"age,age,sex,ward\n1,2,f,1\n", "rows.csv"),
        (b"x", "rows.xlsx"),
    ],
)
def test_unreadable_files_are_refused_without_quoting_them(
    tmp_path: Path, content: bytes, name: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PrivodError) as caught:
        read(tmp_path / name, DOMAIN)
    assert PRIVATE not in str(caught.value)


def test_a_missing_file_is_told_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="There is no file"):
        read(tmp_path / "nowhere.csv", DOMAIN)


@pytest.mark.parametrize(
    "rows",
    [
        {"age": ["x"], "sex": [1.5], "ward": [1]},
        {"age": [1.0], "sex": [2.5], "ward": [1]},
        {"age": [{"a": 1}], "sex": ["f"], "ward": [1]},
    ],
)
def test_a_column_of_another_type_is_told_by_name_and_type(rows: dict[str, Any]) -> None:
    with pytest.raises(InvalidData, match=r"The column '(age|sex)' is declared to hold"):
        read(pa.table(rows), Domain((Numeric("age", 0, 1), Categorical("sex", ("f", "m")))))


def test_an_absent_column_is_told_by_name() -> None:
    with pytest.raises(InvalidData, match="no column 'sex', 'ward', which its domain declares"):
        read({"age": [1.0]}, DOMAIN)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidData, match="different lengths"):
        Table(DOMAIN, {"age": [1.0], "sex": ["f", "m"], "ward": [1, 2]})


def test_a_source_of_no_known_kind_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="source must be a file, a frame or a mapping"):
        read(42, DOMAIN)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numeric("x", 1, 1), "must have low < high"),
        (lambda: Numeric("x", math.nan, 1), "low of 'x' must be a finite number"),
        (lambda: Numeric("x", -1e308, 1e308), "is too wide"),
        (lambda: Numeric("x", 0, 10**400), "high of 'x' must be a finite number"),
        (lambda: Numeric("x", -(10**5000), 0), "low of 'x' must be a finite number"),
        (lambda: Numeric("x", 0, 1, fill=10**400), "fill of 'x' must be a finite number"),
        (lambda: Categorical("x", (1, 2**63)), "values of 'x' must have at most 64 bits"),
        (lambda: Numeric("x", 0, 1, fill=2), "fill of 'x' must lie in"),
        (lambda: Numeric("", 0, 1), "name must be a text"),
        (lambda: Categorical("x", ()), "values of 'x' must be"),
        (lambda: Categorical("x", "abc"), "values of 'x' must be a list"),  # type: ignore[arg-type]
        (lambda: Categorical("x", ("a", 1)), "values of 'x' must be"),
        (lambda: Categorical("x", ("a", "a")), "values of 'x' must differ"),
        (lambda: Categorical("x", ("a",), fill="b"), "fill of 'x' must be a declared value"),
        (lambda: Domain(()), "columns must number between"),
        (lambda: Domain((Numeric("x", 0, 1), Numeric("x", 0, 1))), "must have different names"),
        (lambda: Domain((Numeric("x", 0, 1),), person="x"), "person must not be a column"),
        (lambda: Domain((Numeric("x", 0, 1),), max_rows_per_person=2), "needs a person column"),
        (lambda: Domain((Numeric("x", 0, 1),), "p", 0), "max_rows_per_person must be at least 1"),
        (lambda: Domain.from_json({"columns": [{"name": "x"}]}), "the column 'x' must have a name"),
        (lambda: Domain.from_json({"columns": 3}), "domain must have a list of columns"),
        (lambda: Domain.from_json({"colums": []}), r"domain must .*got \['colums'\]"),
        (lambda: Domain.from_json({"columns": [], "x": 1}), "domain has unknown entries"),
        (
            lambda: Domain.from_json({"columns": [{"name": "a"}], "max_rows_per_person": 1}),
            "max_rows_per_person needs a person column",
        ),
        (lambda: DOMAIN.numeric(("sex",)), "columns must be numeric columns, got 'sex'"),
        (lambda: DOMAIN.categorical(("sex", "sex")), "columns must differ"),
    ],
)
def test_impossible_declarations_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_an_unknown_column_is_told_with_the_known_ones() -> None:
    with pytest.raises(
        NotFound, match=r"There is no column 'x'\. The columns are 'age', 'sex', 'ward'"
    ):
        DOMAIN["x"]


@pytest.mark.parametrize("domain", [DOMAIN, PERSONS, HOSPITAL])
def test_domains_survive_json(domain: Domain) -> None:
    assert Domain.from_json(domain.to_json()) == domain


def test_sample_data_has_its_size_and_lies_within_its_domain() -> None:
    table = hospital(569)
    assert len(table) == 569
    for place, column in enumerate(table.domain.numeric()):
        values = table.numbers()[:, place]
        assert column.low <= values.min()
        assert values.max() <= column.high


def test_without_a_folder_there_are_no_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVOD_DATA", raising=False)
    assert data_folder() is None
    with pytest.raises(Unavailable, match="PRIVOD_DATA is not set"):
        data_frame("adult")


def test_the_data_folder_is_read_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVOD_DATA", str(tmp_path))
    pa_parquet.write_table(pa.table({"x": [1, 2]}), tmp_path / "tiny.parquet")
    assert data_frame("tiny").num_rows == 2
    with pytest.raises(NotFound, match="There are: tiny"):
        data_frame("huge")
    monkeypatch.setenv("PRIVOD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidParameter, match="PRIVOD_DATA must name a folder"):
        data_folder()
