"""Write a privacy sheet of a data set."""

from __future__ import annotations

from typing import Annotated

import typer

from privod.cli.app import DEFAULT_LOCATION, AsJson, At, app, curator_at
from privod.cli.output import emit


@app.command()
def sheet(
    name: Annotated[str, typer.Argument(help="The data set.")],
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
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
