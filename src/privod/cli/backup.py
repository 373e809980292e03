"""What keeps a ledger safe: copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import DEFAULT_LOCATION, AsJson, Directory, app
from privod.cli.output import emit, progress_bars, words


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
        f"Put back {found.entries} entries. What was asked after the backup is not among them, so"
        " it answers nothing new yet: see that nobody asks the original any more, charge what is"
        " missing with `privod charge`, then accept it with `privod accept-restored`. Revoke again"
        f" the tokens revoked since. Head: {found.head}"
    )
    emit(found, as_json, words(text, "green"))
