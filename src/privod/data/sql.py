"""The rows of a query in a database, as they are at one moment and in a stated order.

The order decides which rows of a person the cap keeps. Were it left to the database, somebody
else's row could change it, and so which rows of this person are kept. So it is stated, by columns
that tell all rows apart, and checked to do so. What a database says of a query that fails may quote
a row, so nothing of it is repeated.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from privod.data.cells import Marks
from privod.data.domain import Domain
from privod.data.intake import arrow_columns, wanted_of
from privod.errors import InvalidData, InvalidParameter, PrivodError, Unavailable

DUCKDB_MEMORY = "1GB"  # beyond it DuckDB sorts on disk, in a private folder
QUERY_FAILED = (
    "The query cannot be run. Run it in the database's own shell to see why: what a database says"
    " may quote a row, so it is not repeated here."
)


@dataclass(frozen=True)
class SqlQuery:
    """A query in a database, read as one snapshot.

    Parameters
    ----------
    select : str
        The query, without an order of its own.
    database : str
        A postgresql:// address without a password (that is read from PGPASSWORD or ~/.pgpass), or
        the path of a file that ends in .duckdb, .sqlite, .sqlite3 or .db (SQLite); or "duckdb:" for
        a query over files that DuckDB reads.
    order_by : tuple of str
        Columns of the query that tell all its rows apart; rows are taken in their order.
    """

    select: str
    database: str
    order_by: tuple[str, ...]

    def __post_init__(self) -> None:
        keys = (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)
        object.__setattr__(self, "order_by", keys)
        object.__setattr__(self, "select", self.select.strip().rstrip(";").strip())
        if not self.select:
            raise InvalidParameter("select", "must be a query", "", "Try 'select * from visits'.")
        if not keys:
            way_out = "Name columns that tell all rows apart, such as a primary key."
            raise InvalidParameter("order_by", "must name columns", keys, way_out)
        if urlsplit(self.database).password is not None:
            way_out = "Put it into ~/.pgpass, or set PGPASSWORD."
            raise InvalidParameter("database", "must not hold a password", "***", way_out)
        _opener(self.database)

    def names_sql(self) -> str:
        """A query for the names of the columns alone."""
        return f"SELECT * FROM ({self.select}\n) AS privod_rows LIMIT 0"  # noqa: S608 - the owner's own

    def ties_sql(self) -> str:
        """A query for one set of rows that the order does not tell apart."""
        keys = ", ".join(map(quoted, self.order_by))
        return (
            f"SELECT 1 FROM ({self.select}\n) AS privod_rows GROUP BY {keys}"  # noqa: S608
            " HAVING COUNT(*) > 1 LIMIT 1"
        )

    def rows_sql(self, columns: Sequence[str]) -> str:
        """A query for some columns of all rows, in order."""
        wanted, keys = (", ".join(map(quoted, some)) for some in (columns, self.order_by))
        return f"SELECT {wanted} FROM ({self.select}\n) AS privod_rows ORDER BY {keys}"  # noqa: S608


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class _Snapshot:
    """A database at one moment: its answers whole, or some rows at a time as Arrow columns."""

    fetch: Callable[[str], tuple[dict[str, str], list[Any]]]
    portions: Callable[[str, Domain, Marks, int], Iterator[dict[str, pa.Array]]]


def sql_portions(
    source: SqlQuery,
    domain: Domain,
    marks: Marks,
    rows_at_once: int,
    check_names: Callable[[list[str], Domain], None],
) -> Iterator[dict[str, pa.Array]]:
    """The declared columns of a query's rows, a bounded number at a time."""
    with _told(), _opener(source.database)(source.database) as snapshot:
        names = list(snapshot.fetch(source.names_sql())[0])
        check_names(names, domain)
        absent = [name for name in source.order_by if name not in names]
        if absent:
            way_out = "Name columns of the query."
            raise InvalidParameter("order_by", "must be in the query", absent[0], way_out)
        if snapshot.fetch(source.ties_sql())[1]:
            raise InvalidData(
                "The columns of `order_by` do not tell all rows of the query apart, so their"
                " order is open. Add a column that does, such as a primary key."
            )
        sql = source.rows_sql(wanted_of(domain))
        yield from snapshot.portions(sql, domain, marks, rows_at_once)


def sql_schema(source: SqlQuery) -> dict[str, str]:
    """The names of a query's columns and what the database calls their types; reads no row."""
    with _told(), _opener(source.database)(source.database) as snapshot:
        return snapshot.fetch(source.names_sql())[0]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except PrivodError:
        raise
    except MemoryError:
        raise Unavailable("There is not enough memory to read the query's rows.") from None
    except Exception:  # of whatever driver it is
        raise InvalidData(QUERY_FAILED) from None


def _opener(database: str) -> Callable[[str], AbstractContextManager[_Snapshot]]:
    if database.startswith(("postgresql://", "postgres://")):
        return _postgresql
    if database == "duckdb:" or database.endswith(".duckdb"):
        return _duckdb
    if database.endswith((".sqlite", ".sqlite3", ".db")):
        return _sqlite
    way_out = "Write postgresql://host/name, or the path of a .duckdb, .sqlite or .db file."
    rule = "must be an address or a file of a known kind"
    raise InvalidParameter("database", rule, database, way_out)


def _from_rows(
    rows: Callable[[int], list[Any]], domain: Domain, marks: Marks, at_once: int
) -> Iterator[dict[str, pa.Array]]:
    """Rows of a driver that gives objects of Python, each read for itself."""
    while some := rows(at_once):
        columns = map(list, zip(*some, strict=True))
        yield arrow_columns(dict(zip(wanted_of(domain), columns, strict=True)), domain, marks)


@contextmanager
def _sqlite(database: str) -> Iterator[_Snapshot]:
    path = Path(database)
    if not path.is_file():
        raise InvalidData(f"There is no file {database!r}. Check the path.")
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.text_factory = bytes  # a text that is not in UTF-8 spoils its own cell
        connection.execute("BEGIN")

        def fetch(sql: str) -> tuple[dict[str, str], list[Any]]:
            cursor = connection.execute(sql)  # whose columns have no types
            return {str(column[0]): "" for column in cursor.description}, cursor.fetchall()

        def portions(
            sql: str, domain: Domain, marks: Marks, at_once: int
        ) -> Iterator[dict[str, pa.Array]]:
            yield from _from_rows(connection.execute(sql).fetchmany, domain, marks, at_once)

        yield _Snapshot(fetch, portions)
    finally:
        connection.close()


@contextmanager
def _postgresql(database: str) -> Iterator[_Snapshot]:
    try:
        import psycopg
    except ImportError:
        raise Unavailable("Install privod[postgres] to read from PostgreSQL.") from None
    try:
        connection = psycopg.connect(database)
    except psycopg.OperationalError:
        raise Unavailable(
            "The database cannot be reached, or does not let us in. Check its address, and the"
            " password in PGPASSWORD or ~/.pgpass."
        ) from None
    with connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True

        def fetch(sql: str) -> tuple[dict[str, str], list[Any]]:
            cursor = connection.execute(sql.encode())
            types = connection.adapters.types
            known = {one.name: types.get(one.type_code) for one in cursor.description or ()}
            named = {name: "" if kind is None else kind.name for name, kind in known.items()}
            return named, cursor.fetchall()

        def portions(
            sql: str, domain: Domain, marks: Marks, at_once: int
        ) -> Iterator[dict[str, pa.Array]]:
            with connection.cursor("privod") as cursor:
                cursor.execute(sql.encode())
                yield from _from_rows(cursor.fetchmany, domain, marks, at_once)

        yield _Snapshot(fetch, portions)
        connection.rollback()


def connected(where: str, read_only: bool = False, **config: str) -> Any:
    """A connection of DuckDB that installs and loads nothing."""
    try:
        import duckdb
    except ImportError:
        raise Unavailable("Install privod[duckdb] to read from DuckDB.") from None
    alone = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(where, read_only=read_only, config={**config, **alone})


@contextmanager
def _duckdb(database: str) -> Iterator[_Snapshot]:
    in_file = database != "duckdb:"
    if in_file and not Path(database).is_file():
        raise InvalidData(f"There is no file {database!r}. Check the path.")
    with tempfile.TemporaryDirectory() as spilled:
        config = {"memory_limit": DUCKDB_MEMORY, "temp_directory": spilled}
        with connected(database if in_file else ":memory:", in_file, **config) as connection:
            connection.execute("BEGIN TRANSACTION")

            def fetch(sql: str) -> tuple[dict[str, str], list[Any]]:
                cursor = connection.execute(sql)
                described: Any = cursor.description
                return {str(column[0]): str(column[1]) for column in described}, cursor.fetchall()

            def portions(
                sql: str, domain: Domain, _marks: Marks, at_once: int
            ) -> Iterator[dict[str, pa.Array]]:
                for batch in connection.sql(sql).to_arrow_reader(at_once):
                    yield dict(zip(wanted_of(domain), batch.columns, strict=True))

            yield _Snapshot(fetch, portions)
