"""What keeps a ledger safe: copies of it, a move to PostgreSQL, charges for what it missed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privod import wire
from privod.cli.app import DEFAULT_LOCATION, AsJson, DatabaseUrl, Directory, app
from privod.cli.output import emit, progress_bars, words
from privod.cli.owner import read_adjacency
from privod.errors import NeedsConfirmation

if TYPE_CHECKING:
    from privod.curator import Price

__all__ = ["backup", "charge", "migrate", "restore"]


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
    text = f"Copied {found.entries} entries. Note the head of the copy elsewhere: {found.head}"
    emit(wire.Verification.of(found), as_json, words(text, "green"))


@app.command()
def restore(
    kept: Annotated[Path, typer.Argument(help="The directory of the backup.")],
    at: Annotated[str, typer.Option("--at", help="A new directory for the curator.")],
    head: Annotated[str | None, typer.Option(help="The head noted with the backup.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup in a new place and verify it there; it sells nothing before you accept it."""
    from privod.curator import restore as put

    with progress_bars(as_json):
        found = put(kept, at, head)
    text = (
        f"Put back {found.entries} entries. What was asked after the backup is not among them, so"
        " it answers nothing new yet: see that nobody asks the original any more, charge what is"
        " missing with `privod charge`, then accept it with `privod accept-restored`. Revoke again"
        f" the tokens revoked since. Head: {found.head}"
    )
    emit(wire.Verification.of(found), as_json, words(text, "green"))


@app.command()
def migrate(
    database: Annotated[str, typer.Argument(help="The postgresql:// URL of an empty database.")],
    at: Directory = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Move the ledger from the directory into PostgreSQL; the rows stay where they are."""
    from privod.curator import Curator
    from privod.curator import migrate as move

    with progress_bars(as_json):
        found = move(Curator.open(at, create=False), Curator.open(at, database=database))
    text = (
        f"Moved {found.entries} entries and verified both sides. From now on give the URL as"
        f" PRIVOD_DATABASE; the old ledger takes no more entries. Head: {found.head}"
    )
    emit(wire.Verification.of(found), as_json, words(text, "green"))


@app.command()
def charge(
    name: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: Annotated[str, typer.Option(help="The loss, such as 0.1 or 1/3.")],
    reason: Annotated[str, typer.Option(help="Why; stands in the ledger.")],
    delta: Annotated[str, typer.Option(help="The loss's delta.")] = "0",
    adjacency: Annotated[
        str, typer.Option(help="add-remove, replace, or JSON with a name and parameters.")
    ] = "add-remove",
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that this is for good.")] = False,
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Charge what was revealed without the ledger: before a restore, or outside the curator."""
    from privod.curator import Curator
    from privod.privacy import Guarantee, Loss

    lost = Guarantee(Loss(epsilon, delta), read_adjacency(adjacency))
    # A ledger behind its witness takes charges too: they come before it is accepted as restored.
    curator = Curator.open(at, database=database, restoring=True, create=False)
    if not yes:
        warning = _for_good(name, curator.price_elsewhere(name, lost))
        if as_json or not typer.confirm(f"{warning}\nCharge it?"):
            raise NeedsConfirmation(f"{warning} Confirm it to charge.")
    charges = curator.charge_elsewhere(name, lost, reason)
    text = "; ".join(f"{each.loss} to {each.adjacency.name}" for each in charges)
    emit([wire.Charge.of(each) for each in charges], as_json, words(f"Charged: {text}."))


def _for_good(name: str, price: Price) -> str:
    """What a charge takes from each budget, and what it leaves there."""
    lines = []
    for charge in price.charges:
        left = "nothing, and it would answer nothing new" if charge.left is None else charge.left
        lines.append(f"{charge.loss} to {charge.adjacency.name}, which leaves {left}")
    return f"This would charge {name!r}, for good: {'; '.join(lines)}."
