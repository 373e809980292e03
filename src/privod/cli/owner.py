"""What an owner does: register data, open books, read and verify them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from privod.cli.app import DEFAULT_LOCATION, AsJson, At, app, curator_at
from privod.cli.output import emit, progress_bars, table, words
from privod.errors import InvalidParameter, NeedsConfirmation

__all__ = ["budget", "datasets", "history", "open_book", "register", "verify"]


@app.command()
def register(
    name: Annotated[str, typer.Argument(help="A name for the data set.")],
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    domain: Annotated[Path, typer.Option(help="A JSON file that declares the public domain.")],
    continues: Annotated[
        str | None,
        typer.Option(help="An earlier data set about the same people: shares its books."),
    ] = None,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Bring a data set into the curator, within its declared domain."""
    from privod.data import Domain

    declared = Domain.from_json(_read_json(domain))
    with progress_bars(as_json):
        registered = curator_at(at).register(name, file, declared, continues=continues)
    text = (
        f"Registered {name!r} with {len(declared.columns)} columns. Open a book to allow answers."
    )
    emit({"name": registered.name, "domain": declared.to_json()}, as_json, words(text))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        way_out = "Write {'columns': [{'name': 'age', 'low': 0, 'high': 120}, ...]} in JSON."
        raise InvalidParameter("domain", "must be a JSON file", str(path), way_out) from None


@app.command()
def datasets(at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List the data sets and what is public about them."""
    found = curator_at(at).datasets()
    rows = [[each.name, ", ".join(each.domain.names), each.continues or ""] for each in found]
    data = [{"name": each.name, "domain": each.domain.to_json()} for each in found]
    emit(data, as_json, table("Data sets", ["name", "columns", "continues"], rows))


@app.command(name="open")
def open_book(
    name: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: Annotated[str, typer.Option(help="The budget, such as 1 or 1/3.")],
    delta: Annotated[str, typer.Option(help="The budget's delta.")] = "0",
    adjacency: Annotated[
        str, typer.Option(help="add-remove, replace, or JSON with a name and parameters.")
    ] = "add-remove",
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm what a narrow book gives up.")
    ] = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Open a book: allow answers about a data set up to a budget."""
    from privod.privacy import Loss, adjacency_from_json

    relation = adjacency_from_json(_adjacency(adjacency))
    limit = Loss(epsilon, delta)
    curator = curator_at(at)
    try:
        book = curator.open_book(name, relation, limit, confirmed=yes)
    except NeedsConfirmation as needed:
        if as_json or not typer.confirm(f"{needed}\nOpen this book?"):
            raise
        book = curator.open_book(name, relation, limit, confirmed=True)
    text = f"Opened a book on {name!r} under {relation.name} with a budget of {limit}."
    emit(_state(book), as_json, words(text))


def _adjacency(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return {"name": text}
    try:
        return json.loads(text)
    except ValueError:
        way_out = """Write '{"name": "in-crowd", "radius": 1, "columns": ["x"], "crowd": 5}'."""
        raise InvalidParameter("adjacency", "must be a name or JSON", text, way_out) from None


@app.command()
def budget(
    name: Annotated[str, typer.Argument(help="The data set.")],
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Show every book of a data set: its budget, what is spent and what is left."""
    books = curator_at(at).budget(name)
    rows = [
        [book.adjacency.name, str(book.budget), str(book.spent), str(book.left)] for book in books
    ]
    headings = ["book", "budget", "spent", "left"]
    emit([_state(book) for book in books], as_json, table(f"Books of {name}", headings, rows))


def _state(book: Any) -> dict[str, Any]:
    return {
        "adjacency": book.adjacency.to_json(),
        "budget": book.budget.to_json(),
        "spent": book.spent.to_json(),
        "left": book.left.to_json(),
    }


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(help="The data set; all if none is named.")] = None,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Show the book's entries, oldest first."""
    entries = [entry.to_json() for entry in curator_at(at).history(name)]
    headings = ["number", "time", "kind", "dataset", "adjacency", "loss", "asked_by"]
    rows = [[_cell(entry.get(heading)) for heading in headings] for entry in entries]
    emit(entries, as_json, table("Entries", headings, rows))


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name") or " ".join(f"{key} {part}" for key, part in value.items()))
    return "" if value is None else str(value)


@app.command()
def verify(at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """Recompute the whole book and name the first entry that was tampered with."""
    with progress_bars(as_json):
        found = curator_at(at).verify()
    text = f"The book holds: {found.entries} entries, head {found.head}."
    emit({"entries": found.entries, "head": found.head}, as_json, words(text, "green"))
