"""What was admitted and asked for, and what keeps a directory in order."""

from __future__ import annotations

from typing import Annotated

import typer

from privod import wire
from privod.cli.app import DEFAULT_LOCATION, AsJson, At, DatabaseUrl, Directory, app, curator_at
from privod.cli.output import emit, table, words

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
    rows = [
        [
            str(one.number),
            one.asked_by,
            one.wish,
            one.reason,
            one.decision,
        ]
        for one in found
    ]
    headings = ["number", "asked by", "for", "reason", "decision"]
    emit([wire.Request.of(one) for one in found], as_json, table("Requests", headings, rows))


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
