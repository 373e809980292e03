"""Queries in databases: a snapshot in a stated order, each record read for itself."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, Domain, Numeric, SqlQuery, Table, read
from privod.errors import InvalidData, InvalidParameter, Unavailable
from tests.postgres_cluster import find_server, running_server

DOMAIN = Domain((Numeric("age", 0, 120), Categorical("sex", ("f", "m"), fill="f")), "who", 2)
VISITS = [
    (number, 20.0 + number, "fm"[number % 2] if number % 7 else None, f"p{number % 9}")
    for number in range(200)
]
MAKE = "CREATE TABLE visits (id INTEGER, age DOUBLE PRECISION, sex TEXT, who TEXT)"
Database = Callable[[list[tuple[Any, ...]]], str]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if find_server() is None:
        pytest.skip("PostgreSQL is not installed here")
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Fills a table of visits and says where it is."""
    if request.param == "sqlite":

        def fill_sqlite(rows: list[tuple[Any, ...]]) -> str:
            path = str(tmp_path / "visits.sqlite")
            with sqlite3.connect(path) as connection:
                connection.execute("DROP TABLE IF EXISTS visits")
                connection.execute(MAKE)
                connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
            connection.close()
            return path

        return fill_sqlite
    if request.param == "duckdb":

        def fill_duckdb(rows: list[tuple[Any, ...]]) -> str:
            path = str(tmp_path / "visits.duckdb")
            with duckdb.connect(path) as connection:
                connection.execute("DROP TABLE IF EXISTS visits")
                connection.execute(MAKE)
                connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
            return path

        return fill_duckdb
    url = request.getfixturevalue("server")

    def fill_postgresql(rows: list[tuple[Any, ...]]) -> str:
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE IF EXISTS visits")
            connection.execute(MAKE)
            cursor = connection.cursor()
            cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s)", rows)
        return str(url)

    return fill_postgresql


def same(left: Table, right: Table) -> bool:
    numbers = np.array_equal(left.numbers(), right.numbers())
    return numbers and np.array_equal(left.codes(), right.codes())


def expected(rows: list[tuple[Any, ...]]) -> Table:
    ordered = sorted(rows)
    columns = zip(("id", "age", "sex", "who"), zip(*ordered, strict=True), strict=True)
    return Table(DOMAIN, {name: list(values) for name, values in columns if name != "id"})


def test_rows_are_those_of_the_table_in_the_stated_order(database: Database) -> None:
    for rows in (VISITS, VISITS[::-1], VISITS[100:] + VISITS[:100]):
        found = read(SqlQuery("select * from visits;", database(rows), ("id",)), DOMAIN)
        assert same(found, expected(VISITS))


def test_somebody_elses_row_changes_nobody_elses(database: Database) -> None:
    other = [(1000, 99.0, "m", "somebody else"), *VISITS]
    found = read(SqlQuery("select * from visits", database(other), ("id",)), DOMAIN)
    ages = found.numbers()[:, 0].tolist()
    assert ages.pop() == 99.0
    assert ages == expected(VISITS).numbers()[:, 0].tolist()


def test_an_order_that_leaves_rows_tied_is_refused(database: Database) -> None:
    query = SqlQuery("select * from visits", database([*VISITS, VISITS[3]]), ("id",))
    with pytest.raises(InvalidData, match="do not tell all rows of the query apart"):
        read(query, DOMAIN)


def test_what_a_database_says_of_a_failed_query_is_not_repeated(database: Database) -> None:
    where = database([*VISITS, (500, 1.0, "CANARY", "p")])
    for select in (
        "select nonsense",
        "select * from visits where cast(sex as",
        "drop table visits",
    ):
        with pytest.raises(InvalidData, match="The query cannot be run") as told:
            read(SqlQuery(select, where, ("id",)), DOMAIN)
        assert "CANARY" not in str(told.value)
        assert told.value.__cause__ is None
    assert len(read(SqlQuery("select * from visits", where, ("id",)), DOMAIN)) == 19


def test_columns_are_checked_by_name(database: Database) -> None:
    where = database(VISITS)
    with pytest.raises(InvalidData, match="has no column 'who'"):
        read(SqlQuery("select id, age, sex from visits", where, ("id",)), DOMAIN)
    with pytest.raises(InvalidParameter, match="order_by must be in the query"):
        read(SqlQuery("select age, sex, who from visits", where, ("id",)), DOMAIN)


def test_a_cell_of_another_type_in_sqlite_spoils_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (id, age, sex, who)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", VISITS)
        connection.execute("UPDATE visits SET age = x'ff00', sex = 7 WHERE id = 3")
        connection.execute("UPDATE visits SET who = CAST(x'ff80' AS TEXT) WHERE id = 5")
    connection.close()
    found = read(SqlQuery("select * from visits", str(path), ("id",)), DOMAIN)
    rows: list[tuple[Any, ...]] = [row for row in VISITS if row[0] != 3]
    rows[4] = (5, *rows[4][1:3], b"\xff\x80")
    columns = zip(("id", "age", "sex", "who"), zip(*rows, strict=True), strict=True)
    assert same(found, Table(DOMAIN, dict(columns)))


def test_a_query_over_files_needs_no_database(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("id,age,sex,who\n1,30,f,a\n2,40,m,b\n")
    select = f"from read_csv('{tmp_path / 'visits.csv'}')"
    found = read(SqlQuery(select, "duckdb:", ("id",)), DOMAIN)
    assert found.numbers().tolist() == [[30.0], [40.0]]


def test_passwords_are_refused_where_others_see_them_and_never_shown() -> None:
    with pytest.raises(InvalidParameter, match="must not hold a password") as told:
        SqlQuery("select 1", "postgresql://me:hunter2@db/clinic", ("id",))
    assert "hunter2" not in str(told.value)
    with pytest.raises(InvalidParameter, match="order_by must name columns"):
        SqlQuery("select 1", "a.db", ())
    with pytest.raises(InvalidParameter, match="database must be"):
        SqlQuery("select 1", "mysql://db/clinic", ("id",))


def test_a_database_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    for name in ("a.db", "a.duckdb"):
        with pytest.raises(InvalidData, match="There is no file"):
            read(SqlQuery("select 1", str(tmp_path / name), ("id",)), DOMAIN)
    url = f"postgresql://privod@/postgres?host={tmp_path}"
    with pytest.raises(Unavailable, match="cannot be reached"):
        read(SqlQuery("select 1", url, ("id",)), DOMAIN)


def test_the_command_line_registers_a_query(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with sqlite3.connect(path) as connection:
        connection.execute(MAKE)
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", VISITS)
    connection.close()
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN.to_json()))
    command = ["register", "visits", "--domain", str(tmp_path / "domain.json"), "--json"]
    command += ["--at", str(tmp_path / "curator"), "--sql", "select * from visits"]
    done = CliRunner().invoke(app, [*command, "--from", str(path), "--order-by", "id"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["report"]["kept"] == 18
    refused = CliRunner().invoke(app, [*command, "file.csv", "--from", str(path)])
    assert refused.exit_code != 0
