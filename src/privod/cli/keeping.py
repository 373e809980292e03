"""What owners look up and keep in order: who is protected, sheets, requests, backups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import app
from privod.cli.options import DEFAULT_LOCATION, AsJson, At, DatabaseUrl, Directory, curator_at
from privod.cli.output import emit, progress_bars, table, words

DataSet = Annotated[str, typer.Argument(help="The data set.")]
Reason = Annotated[str, typer.Option(help="Why; stands in the ledger.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm what this gives up.")]


@app.command()
def admitted(name: DataSet, at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List the persons about whom contexts may be asked, which is public."""
    with curator_at(at) as curator:
        found = curator.admitted(name)
    rows = [[person.record, person.column, person.detector] for person in found]
    shown = table("Admitted", ["record", "column", "detector"], rows)
    emit([person.to_json() for person in found], as_json, shown)


@app.command()
def requests(name: DataSet, at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List what analysts asked for, and what became of it."""
    with curator_at(at) as curator:
        found = curator.requests(name)
    rows = [[str(one.number), one.asked_by, one.wish, one.reason, one.decision] for one in found]
    headings = ["number", "asked by", "for", "reason", "decision"]
    emit(found, as_json, table("Requests", headings, rows))


@app.command(name="clean-up")
def clean_up(
    at: Directory = DEFAULT_LOCATION, database: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Delete rows that an interrupted upload or retirement left behind."""
    from privod.curator import Curator

    with Curator.open(at, database=database, create=False) as curator:
        deleted = curator.clean_up()
    emit({"deleted": deleted}, as_json, words(f"Deleted {deleted} folders that nothing names."))


@app.command(name="accept-restored")
def accept_restored(
    reason: Reason,
    yes: Yes = False,
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a ledger that lost entries, after charging what is missing."""
    from privod.curator import Curator
    from privod.errors import NeedsConfirmation

    if not yes:
        warning = (
            "What was asked since then has been seen by somebody. Charge it first (privod charge):"
            " afterwards the ledger spends what it says is left."
        )
        if as_json or not typer.confirm(f"{warning}\nAccept the ledger as it is?"):
            raise NeedsConfirmation(f"{warning} Confirm it to accept the ledger.")
    with Curator.open(at, database=database, restoring=True, create=False) as curator:
        head = curator.accept_restored(reason)
    emit({"head": head}, as_json, words(f"Accepted. Note the new head elsewhere: {head}"))


@app.command()
def protected(
    name: DataSet,
    adjacency: Annotated[
        str | None,
        typer.Option(help="A promise you think of, as JSON, beside those that are open already."),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=1, help="Records to take out one by one, for contexts.")
    ] = 100,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """NOT PRIVATE, for the owner alone: how many records do narrow promises protect?"""
    from privod.curator.protection import FOR_OWNER
    from privod.privacy import adjacency_from_text

    asked = None if adjacency is None else adjacency_from_text(adjacency)
    with progress_bars(as_json), curator_at(at) as curator:
        found = curator.who_is_protected(name, asked, sample=sample)
    told = [sentence for one in found for sentence in one.sentences()]
    none = "No narrow promise is open, so every record is protected as the main budget says."
    emit(
        {"warning": FOR_OWNER, "protected": [one.to_json() for one in found]},
        as_json,
        words(FOR_OWNER, "bold"),
        *map(words, told or [none]),
    )


@app.command()
def sheet(name: DataSet, at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """Write what a data protection officer needs, from the ledger: guarantees, risks, forms."""
    from privod.curator.sheet import written

    with curator_at(at) as curator:
        dataset, budgets = curator.dataset(name), curator.budget(name)
        versions = [one for one in curator.datasets() if one.root == dataset.root]
        entries = [entry for one in versions for entry in curator.history(one.name)]
        text = written(dataset, budgets, entries, curator.head())
    if as_json:
        emit({"dataset": name, "markdown": text}, as_json)
    else:
        typer.echo(text)  # Markdown, so no line is wrapped


@app.command()
def backup(
    destination: Annotated[Path, typer.Argument(help="A new directory for the copy.")],
    at: Directory = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Copy a running curator, its ledger and its rows, and verify the copy."""
    from privod.curator import Curator
    from privod.curator import backup as copy

    with progress_bars(as_json):
        found = copy(Curator.open(at, create=False), destination)
    text = f"Copied {found.entries:,} entries. Note the head of the copy elsewhere: {found.head}"
    emit(found, as_json, words(text, "green"))


@app.command()
def restore(
    kept: Annotated[Path, typer.Argument(help="The directory of the backup.")],
    at: Annotated[str, typer.Option("--at", help="A new directory for the curator.")],
    head: Annotated[str | None, typer.Option(help="The head noted with the backup.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup in a new place and verify it; it answers nothing new until you accept it."""
    from privod.curator import restore as put

    with progress_bars(as_json):
        found = put(kept, at, head)
    text = (
        f"Put back {found.entries:,} entries. What was asked after the backup is not among them, so"
        " it answers nothing new yet: see that nobody asks the original any more, charge what is"
        " missing with `privod charge`, then accept it with `privod accept-restored`. Revoke again"
        f" the tokens revoked since. Head: {found.head}"
    )
    emit(found, as_json, words(text, "green"))
