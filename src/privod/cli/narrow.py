"""Whom do narrow promises protect?"""

from __future__ import annotations

from typing import Annotated

import typer

from privod.cli.app import DEFAULT_LOCATION, AsJson, At, app, curator_at
from privod.cli.output import emit, progress_bars, words


@app.command()
def protected(
    name: Annotated[str, typer.Argument(help="The data set.")],
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
