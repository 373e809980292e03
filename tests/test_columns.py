"""Dates, truth values, ordered and open categories: declared once, read alike from everywhere."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod import Boolean, Categorical, Domain, Numeric, Ordinal
from privod.data import Date, read
from privod.data.cells import as_arrow, codes_of, numbers_of, values_of
from privod.data.columns import OTHER, column_from_json
from privod.data.conditions import Conditions
from privod.data.mock import mock_table
from privod.data.sources import read_with_report
from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.query.catalog import QUERIES

DAY = Date("day", "2015-01-01", "2024-12-31")
COLUMNS = (
    DAY,
    Boolean("smoker"),
    Ordinal("grade", ("low", "mid", "high")),
    Categorical("country", ("DE", "FR"), other=True),
    Numeric("amount", 0, 100, unit="EUR"),
)
DOMAIN = Domain(COLUMNS)
ROWS = {
    "day": ["2024-02-29", "2024-02-31", "2030-01-01", "2015-01-01"],
    "smoker": ["yes", "maybe", "0", "TRUE"],
    "grade": ["high", "low", "mid", "?"],
    "country": ["DE", "XX", "", "FR"],
    "amount": ["1", "-5", "500", ""],
}
NUMBERS = {
    "day": [19782, np.nan, np.inf, 16436],
    "grade": [2, 0, 1, np.nan],
    "amount": [1, -np.inf, np.inf, np.nan],
}
CODES = {"smoker": [1, -1, 0, 1], "country": [0, 2, -1, 1]}


def sources(tmp_path: Path) -> list[Any]:
    lines = [",".join(ROWS), *(",".join(row) for row in zip(*ROWS.values(), strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    days = pd.to_datetime(pd.Series(ROWS["day"]), errors="coerce")
    amounts = pd.to_numeric(pd.Series(ROWS["amount"]))
    frame = pd.DataFrame({**ROWS, "day": days, "amount": amounts})
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    arrow = arrow.set_column(0, "day", arrow["day"].cast(pa.date32()))
    pa_parquet.write_table(arrow, tmp_path / "rows.parquet")
    categories = frame.assign(country=frame["country"].astype("category"))
    paths = [tmp_path / "rows.csv", tmp_path / "rows.parquet"]
    return [*paths, ROWS, frame, categories, pl.from_arrow(arrow), arrow]


def test_every_source_gives_the_same_stored_cells(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        stored = read(source, DOMAIN).as_stored()
        for name, expected in NUMBERS.items():
            found = stored._rows.gathered([name], []).numbers[:, 0]
            np.testing.assert_array_equal(found, expected, err_msg=f"{type(source)} {name}")
        for name, codes in CODES.items():
            assert stored._rows.gathered([], [name]).codes[:, 0].tolist() == codes


def test_questions_see_complete_records_and_the_owner_is_told_of_the_others(tmp_path: Path) -> None:
    table, report = read_with_report(sources(tmp_path)[0], DOMAIN)
    assert (len(table), len(table.as_stored())) == (1, 4)
    assert (report.kept, report.incomplete) == (1, 3)
    told = {column.name: column for column in report.columns}
    assert (told["day"].missing, told["day"].clipped) == (1, 1)
    assert (told["smoker"].missing, told["smoker"].undeclared) == (1, 1)
    assert (told["country"].missing, told["country"].undeclared) == (1, 1)
    filled = Domain((Date("day", "2015-01-01", "2024-12-31", fill="2020-01-01"), Boolean("smoker")))
    seen = read(ROWS, filled)
    assert seen.numbers()[:, 0].tolist() == [19782, 20088, 16436]


def test_a_constant_column_is_told_to_the_owner() -> None:
    domain = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)))
    _, report = read_with_report({"x": [0.5, 0.5, np.nan], "y": [0.1, 0.2, 0.3]}, domain)
    assert [column.constant for column in report.columns] == [True, False]


@given(st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)), st.booleans())
def test_dates_are_read_as_python_reads_them(moment: dt.datetime, day_first: bool) -> None:
    column = Date("d", "0001-01-01", "9999-12-31", day_first=day_first, step="second")
    text = f"{moment:%d.%m.}{moment.year:04d} {moment:%H:%M:%S.%f}" if day_first else str(moment)
    passed = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    for cell in (text, moment, pd.Timestamp(moment) if 1700 < moment.year < 2200 else moment):
        assert numbers_of(as_arrow([cell], column), column).tolist() == [passed]
    assert column.number(column.shown(passed)) == passed


@given(st.text(alphabet="0123456789-/.T: +Z", max_size=20), st.booleans())
def test_what_is_no_date_is_missing_and_changes_no_other_cell(text: str, day_first: bool) -> None:
    column = Date("d", "0001-01-01", "9999-12-31", day_first=day_first)
    found = numbers_of(as_arrow(["2024-03-31", text, "2024-04-01"], column), column)
    assert found[[0, 2]].tolist() == [19813, 19814]
    if not np.isnan(found[1]):
        assert column.number(column.shown(found[1])) == found[1]


def test_moments_with_a_zone_are_put_into_the_declared_one() -> None:
    berlin = Date("d", "2015-01-01", "2024-12-31", zone="Europe/Berlin")
    moment = dt.datetime(2024, 6, 30, 22, 30, tzinfo=dt.UTC)
    aware = pa.array([moment], pa.timestamp("ns", "America/New_York"))
    for cells in ([moment], ["2024-06-30T22:30:00Z"], ["2024-07-01 01:30+03:00"], aware):
        assert numbers_of(as_arrow(cells, berlin), berlin).tolist() == [19905]
    assert numbers_of(as_arrow(["2024-06-30T22:30:00"], berlin), berlin).tolist() == [19904]


def test_numbers_count_steps_since_the_origin() -> None:
    excel = Date("d", "2000-01-01", "2030-12-31", origin="1899-12-30")
    for cells in ([45000, 45000.7], np.array([45000, 45000.5]), pa.array([45000, 45000])):
        found = numbers_of(as_arrow(cells, excel), excel)
        assert [excel.shown(number) for number in found] == ["2023-03-15", "2023-03-15"]


@pytest.mark.parametrize("column", [*COLUMNS, Date("d", "2015-01-01", "2020-01-01 12:30",
    "2016-01-01", step="second", origin="2000-01-01", day_first=True, zone="Europe/Berlin"),
    Ordinal("o", (3, 1, 2), fill=1), Boolean("b", fill=True), Categorical("c", (True, False)),
    Categorical("i", (1, 2), fill=2, other=True)])  # fmt: skip
def test_declarations_survive_json(column: Any) -> None:
    assert column_from_json(column.to_json()) == column
    assert Domain.from_json(Domain((column,)).to_json()) == Domain((column,))


def test_made_up_rows_of_every_type_are_complete() -> None:
    assert len(mock_table(DOMAIN, 50)) == 50


def test_a_table_written_and_read_again_is_equal() -> None:
    other = Domain((*COLUMNS[:3], Categorical("country", (1, 2), other=True)))
    for domain in (DOMAIN, other):
        table = mock_table(domain, 60)
        again = Table(domain, table.columns())
        np.testing.assert_array_equal(again.numbers(), table.numbers())
        np.testing.assert_array_equal(again.codes(), table.codes())


def test_ordered_values_are_numbers_and_may_be_asked_for_as_categories() -> None:
    table = mock_table(DOMAIN, 40)
    assert (
        table.codes(["grade", "country"])[:, 0].tolist() == table.numbers(["grade"])[:, 0].tolist()
    )
    assert DOMAIN.categorical_names == ("smoker", "country")
    assert DOMAIN.categorical(["grade"])[0].values == ("low", "mid", "high")


def test_what_was_not_declared_is_a_category_of_an_open_column() -> None:
    country = Categorical("country", ("DE", "FR"), other=True)
    assert country.values == ("DE", "FR", OTHER)
    assert codes_of(as_arrow(["XX", "FR", None, ""], country), country).tolist() == [2, 1, -1, -1]
    assert country.number("XX") == 2
    number = Categorical("i", (1, 2), other=True)
    assert values_of(as_arrow([2, 9, None], number), number)[:2].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Date("d", "2015-02-31", "2020-01-01"), "low of 'd' must be a date.*that exists"),
        (lambda: Date("d", "2020-01-01", "2015-01-01"), "range of 'd' must have low < high"),
        (lambda: Date("d", "2020-01-01", "2021-01-01", zone="Mars"), "must be a time zone"),
        (lambda: Date("d", 0, 1, step="month"), "must be day or second"),  # type: ignore[arg-type]
        (lambda: Date("d", 0, 1, fill="1990-01-01"), "fill of 'd' must lie in"),
        (lambda: Ordinal("o", ["only"]), "values of 'o' must be at least two"),
        (lambda: Ordinal("o", ["a", "b"], fill="c"), "fill of 'o' must be a declared value"),
        (lambda: Categorical("c", []), "values of 'c' must be texts"),  # type: ignore[arg-type]
        (lambda: Categorical("c", (True, 1)), "values of 'c' must be texts"),
        (lambda: Categorical("c", ("a", OTHER)), "must not hold"),
        (lambda: Categorical("c", (True, False), other=True), "false for booleans"),
        (lambda: Boolean("b", fill=1), "fill of 'b' must be a declared value"),  # type: ignore[arg-type]
        (lambda: column_from_json({"name": "x", "type": "text"}), "type of 'x' must be one of"),
        (lambda: column_from_json({"name": "x", "low": "unknown", "high": 1}), "must be declared"),
        (lambda: Numeric("x", 0, 1, unit="\n"), "unit of 'x' must be valid"),
    ],
)  # fmt: skip
def test_impossible_declarations_name_column_rule_and_way_out(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_a_type_that_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(Exception, match="'day' is declared to hold dates and is of type bool"):
        read(pa.table({"day": pa.array([True])}), Domain((DAY,)))
    with pytest.raises(Exception, match="'b' is declared to hold truth values"):
        read(pa.table({"b": pa.array([dt.date(2024, 1, 1)])}), Domain((Boolean("b"),)))


# ---- conditions ----------------------------------------------------------------------------------


def test_conditions_have_one_form_however_they_are_written() -> None:
    canonical = (("amount", "between", 10, 20), ("country", "among", "DE", "FR"))
    for given_as in (
        {"country": ["FR", "DE", "DE"], "amount": {"from": 10.0, "to": 20}},
        ["amount from 10 to 20", "country in DE, FR"],
        ["amount >= 10", "country = FR, DE", "amount <= 20"],
        [list(entry) for entry in canonical],
    ):
        assert Conditions.read(given_as).entries == canonical
    dates = Conditions.read({"day": {"from": dt.date(2024, 1, 1)}})
    assert dates.words() == "day is at least 2024-01-01"


def test_conditions_see_records_clipped_and_filled() -> None:
    domain = Domain(
        (Numeric("amount", 0, 100), Date("day", "2015-01-01", "2024-12-31", "2020-01-01"))
    )
    rows = {
        "amount": [-5, 50, 500, np.nan],
        "day": ["2016-01-01", None, "2030-01-01", "2020-01-01"],
    }
    table = Table(domain, rows)
    for where, amounts in (
        ({"amount": {"to": 0}}, [0]),
        ({"amount": {"from": 100}}, [100]),
        ({"day": {"from": "2020-01-01", "to": "2020-12-31"}}, [50]),
        ({"day": {"from": "2020-01-01"}, "amount": {"from": 60}}, [100]),
    ):
        met = table.where(Conditions.read(where))
        assert met.numbers(["amount"])[:, 0].tolist() == amounts
        assert len(met) == len(amounts)
    stored = table.where(Conditions.read({"day": {"from": "2020-01-01"}})).as_stored()
    assert len(stored) == 3  # what misses another column is there, with its gap


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"nothing": 1}, "where must be declared, got 'nothing'"),
        ({"amuont": {"from": 1}}, "Did you mean 'amount'"),
        ({"country": []}, "must list values of 'country'"),
        ({"country": {"from": "A"}}, "which has no order"),
        ({"amount": [1, 2]}, "must give 'amount' an end"),
        ({"amount": {"from": 2, "to": 1}}, "ends in their order"),
        ({"amount": {"from": None}}, "an end, from or to"),
        ({"amount": {"above": 1}}, "ends as from and to"),
        ({"day": {"from": "2024-02-31"}}, "must be a date"),
        ({"smoker": "maybe"}, "must be a declared value"),
        ({"amount": {"from": float("nan")}}, "finite numbers"),
        (7, "must be conditions by column"),
        (["amount"], "must be a condition"),
    ],
)  # fmt: skip
def test_impossible_conditions_are_refused_with_a_way_out(where: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Conditions.read(where).check(DOMAIN)


def test_a_range_that_nobody_knows_is_bought_or_refused_with_a_way_out() -> None:
    entry = {"name": "income", "type": "number", "low": "unknown", "high": "unknown"}
    domain = Domain.from_json({"columns": [entry, {"name": "age", "low": 0, "high": 120}]})
    income = domain.numeric(("income",))[0]
    assert income.is_open
    assert Domain.from_json(domain.to_json()) == domain
    table = Table(domain, {"income": [1e3 * n for n in range(900)], "age": [40.0] * 900})
    taken: dict[str, dict[str, Any]] = {
        "private-bounds": {},
        "detector-profile": {},
        "histogram": {"edges": [["income", 0, 1e5, 1e6]]},
    }
    for name, more in taken.items():
        query = QUERIES[name].from_parameters({"columns": ("income",), "epsilon": 10, **more})
        query.check(domain)
        assert query.answer(table, seeded(1)).sentence()
    refused: dict[str, dict[str, Any]] = {
        "histogram": {},
        "quantiles": {},
        "grid-knn": {},
        "outlier-count": {"radius": 0.1, "max_crowd": 2, "scale": "range"},
    }
    for name, more in refused.items():
        query = QUERIES[name].from_parameters({"columns": ("income",), "epsilon": 1, **more})
        with pytest.raises(InvalidParameter, match=r"must have declared ranges, got 'income'.*Ask"):
            query.check(domain)
