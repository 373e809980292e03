"""What an owner does: register data, open budgets, read and verify them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod import wire
from privod.cli.app import app
from privod.cli.options import (
    DEFAULT_LOCATION,
    AsJson,
    At,
    DecimalMark,
    Encoding,
    Quoting,
    Separator,
    Thousands,
    check_written,
    curator_at,
    dialect_of,
    read_domain,
)
from privod.cli.output import emit, moment, progress_bars, table, words
from privod.errors import InvalidParameter

if TYPE_CHECKING:
    from privod.curator import BudgetState, Entry, Registered

SIZE_ASKED = (
    "At most how many records may there be? Analysts see this number, and prices and limits follow"
    " from it. Say it without counting the rows, and round up generously"
)
FOR_OWNER = "For the owner alone, exact and not private:"


@app.command()
def draft(
    file: Annotated[
        Path | None, typer.Argument(help="A .csv or .parquet file, or a folder of these.")
    ] = None,
    to: Annotated[Path, typer.Option(help="The file to write.")] = Path("domain.json"),
    sql: Annotated[str | None, typer.Option(help="Instead of a file: a query.")] = None,
    database: Annotated[
        str | None,
        typer.Option("--from", help="Its database: postgresql://..., or a DuckDB or SQLite file."),
    ] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = ",",
    yes: Annotated[
        bool, typer.Option("--yes", help="The first line is a header, whatever it looks like.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a domain to fill in, from names and types of columns alone. No row is read."""
    from privod.data.drafting import draft_domain

    check_written(to)
    source = _source(file, sql, database, "1")
    found = draft_domain(source, dialect_of(separator, encoding=encoding), confirmed=yes)
    if to.exists():
        way_out = "Name another file with --to."
        raise InvalidParameter("the file to write", "must not be there yet", str(to), way_out)
    to.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = "--sql QUERY --from DATABASE" if file is None else shlex.quote(str(file))
    emit(
        found,
        as_json,
        words(f"Wrote {len(found['columns'])} columns to {str(to)!r}. No row was read."),
        words(
            "Replace every 'unknown' by what is known without looking at the data, and leave out"
            f" columns that nobody asks about. Then: privod register NAME {rows} --domain {to}"
        ),
    )


@app.command()
def register(
    name: Annotated[str, typer.Argument(help="A name for the data set.")],
    domain: Annotated[Path, typer.Option(help="A JSON file that declares the public domain.")],
    file: Annotated[
        Path | None, typer.Argument(help="A .csv or .parquet file, or a folder of these.")
    ] = None,
    sql: Annotated[str | None, typer.Option(help="Instead of a file: a query, unordered.")] = None,
    database: Annotated[
        str | None,
        typer.Option("--from", help="Its database: postgresql://..., or a DuckDB or SQLite file."),
    ] = None,
    order_by: Annotated[
        str | None, typer.Option(help="Its columns that tell all rows apart, with commas.")
    ] = None,
    in_place: Annotated[
        str | None,
        typer.Option(
            help="Instead of a file: read the rows where they lie, without a copy. A Parquet file"
            " or folder, delta:FOLDER, iceberg:FILE.metadata.json, duckdb:FILE#TABLE, spark:TABLE."
        ),
    ] = None,
    continues: Annotated[
        str | None,
        typer.Option(help="An earlier data set about the same people: shares its budgets."),
    ] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = ",",
    decimal: DecimalMark = ".",
    thousands: Thousands = None,
    quoting: Quoting = "line",
    most_records: Annotated[
        int | None,
        typer.Option(
            help="The most records there may be. Analysts see this number, so round up"
            " generously. A file with more is refused. Beyond ten million they stay on disk."
            " Without it you are asked; where nobody can answer, 100,000."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Register even if most are lost.")] = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Bring a data set into the curator, within its declared domain."""
    from privod.data.intake import LossyIntake
    from privod.engines.size import UNLESS_DECLARED

    declared = read_domain(domain)
    size = UNLESS_DECLARED if most_records is None else most_records
    if most_records is None and not as_json and sys.stdin.isatty():
        size = typer.prompt(SIZE_ASKED, default=UNLESS_DECLARED)
    dialect = dialect_of(
        separator, encoding=encoding, decimal=decimal, thousands=thousands, quoting=quoting
    )
    source = _source(file, sql, database, order_by, in_place)

    def take(confirmed: bool) -> tuple[Registered, Sequence[BudgetState]]:
        with progress_bars(as_json), curator_at(at, create=True) as curator:
            registered = curator.register(
                name,
                source,
                declared,
                continues=continues,
                dialect=dialect,
                confirmed=confirmed,
                most_records=size,
            )
            return registered, curator.budget(name)

    try:
        registered, budgets = take(yes)
    except LossyIntake as lossy:
        said = "\n".join((str(lossy), *lossy.report.sentences()))
        if as_json or not typer.confirm(f"{said}\nRegister what is left?"):
            raise
        registered, budgets = take(True)
    n = len(declared.columns)
    text = f"Registered {name!r} with {n} column{'s' * (n != 1)}. {_next(registered, budgets)}"
    told = f"Analysts see that it has at most {size:,} records (--most-records), and not how many."
    shown = (text, told, FOR_OWNER, *registered.sentences())
    emit(wire.Registered.of(registered), as_json, *map(words, shown))


def _next(registered: Registered, budgets: Sequence[BudgetState]) -> str:
    """What answers need now: a budget, or those of the version that this one continues."""
    dataset = registered.dataset
    name = shlex.quote(dataset.name)
    states = [state for state in budgets if state.closed is None]
    told = f"Open a budget to allow answers: privod open {name} --epsilon LIMIT."
    if states:
        left = "; ".join(f"{state.adjacency.name}, {state.left} left" for state in states)
        told = f"It shares the budgets of {dataset.root!r}, which are open ({left})."
    if dataset.continues is not None:
        told += (
            " A token for the data set it continues does not reach this one: hand out new ones with"
            f" privod token add ROLE --name WHO --of {name}."
        )
    return told


def _source(
    file: Path | None,
    sql: str | None,
    database: str | None,
    order_by: str | None,
    in_place: str | None = None,
) -> Any:
    from privod.data import SqlQuery
    from privod.engines import InPlace

    if [file, sql, in_place].count(None) != 2:
        way_out = "Name a file, a query (--sql, --from, --order-by) or a table (--in-place)."
        raise InvalidParameter("the source", "must be a file, a query or a table", file, way_out)
    if in_place is not None:
        return InPlace(in_place)
    if sql is None:
        return file
    keys = tuple(name.strip() for name in (order_by or "").split(",") if name.strip())
    return SqlQuery(sql, database or "", keys)


@app.command()
def report(
    name: Annotated[str, typer.Argument(help="The data set.")],
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """NOT PRIVATE, for the owner alone: what became of the rows when they were registered."""
    with curator_at(at) as curator:
        found = curator.report(name)
    emit(found.to_json(), as_json, *map(words, (FOR_OWNER, *found.sentences())))


@app.command()
def datasets(at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List the data sets and what is public about them."""
    with curator_at(at) as curator:
        found = curator.datasets()
    rows = [
        [
            each.name,
            each.domain.title or "",
            ", ".join(each.domain.called(each.domain.names)),
            each.domain.unit,
            each.continues or "",
            "retired" if each.retired else "",
        ]
        for each in found
    ]
    headings = ["name", "title", "columns", "protected", "continues"]
    headings += ["state"] if any(each.retired for each in found) else []
    emit(
        [wire.DataSet.of(each) for each in found],
        as_json,
        table("Data sets", headings, [row[: len(headings)] for row in rows]),
    )


@app.command()
def budget(
    name: Annotated[str, typer.Argument(help="The data set.")],
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Show every budget of a data set: its limit, what is spent and what is left."""
    with curator_at(at, restoring=True) as curator:
        budgets = curator.budget(name)
    limited = any(state.left_to_you is not None for state in budgets)
    rows = [
        [
            state.adjacency.name,
            state.role if state.closed is None else f"{state.role}, closed",
            state.accounting,
            str(state.budget),
            str(state.spent),
            str(state.left),
            *([str(state.left_to_you or "no limit")] if limited else []),
        ]
        for state in budgets
    ]
    headings = ["adjacency", "role", "counted by", "budget", "spent", "left"]
    headings += ["left to you"] if limited else []
    data = [wire.Budget.of(state) for state in budgets]
    emit(data, as_json, table(f"Budgets of {name}", headings, rows, whole=headings[:1]))


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(help="The data set; all if none is named.")] = None,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Show the ledger's entries, oldest first: what was asked, at what price, by whom."""
    with curator_at(at, restoring=True) as curator:
        entries = curator.history(name)
    several = len({entry.dataset for entry in entries}) > 1
    rows = [[str(entry.number), moment(entry.time), _what(entry, several)] for entry in entries]
    shown = table("Entries", ["no.", "time (UTC)", "what"], rows, whole=["no.", "time (UTC)"])
    emit([wire.Entry.of(entry) for entry in entries], as_json, shown)


def _what(entry: Entry, several: bool) -> str:
    """What an entry says, in a line; the question that was charged in another."""
    from privod.query.as_code import typed

    said = [
        entry.kind + (f" of no. {entry.ask}" if entry.ask not in (None, entry.number) else ""),
        entry.dataset if several else "",
        str(entry.loss or ""),
        entry.adjacency.name if entry.adjacency else "",
        f"by {entry.asked_by}" if entry.asked_by else "",
    ]
    asked = f"\n{typed(entry.query)}" if entry.kind == "charge" and entry.query else ""
    return ", ".join(filter(None, said)) + asked


@app.command()
def verify(
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier and elsewhere, to compare with.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Change nothing: of a copy, or as an auditor.")
    ] = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Recompute the whole ledger and name the first entry that was tampered with."""
    with progress_bars(as_json), curator_at(at, read_only=read_only, restoring=True) as curator:
        found = curator.verify(head)
    emit(found, as_json, words(found.sentence(), "yellow" if found.is_copy else "green"))
