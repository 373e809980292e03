"""What an owner decides about narrow promises: whom they protect, what they may tell exactly."""

from __future__ import annotations

from typing import Annotated

import typer

from privod.cli.app import DEFAULT_LOCATION, AsJson, At, app, curator_at
from privod.cli.output import emit, progress_bars, words
from privod.cli.owner import read_adjacency
from privod.errors import NeedsConfirmation

__all__ = ["allow_exact", "protected"]


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

    asked = None if adjacency is None else read_adjacency(adjacency)
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
def allow_exact(
    name: Annotated[str, typer.Argument(help="The data set.")],
    counts: Annotated[
        int, typer.Option(help="How many counts in all may be told exactly; 0 stops it.")
    ],
    adjacency: Annotated[str, typer.Option(help="The allowance, as JSON.")],
    reason: Annotated[str, typer.Option(help="Why; stands in the ledger.")],
    yes: Annotated[bool, typer.Option("--yes", help="Confirm what that gives up.")] = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Allow questions to tell rare counts exactly, up to a number of counts."""
    relation = read_adjacency(adjacency)
    with curator_at(at) as curator:
        try:
            left = curator.allow_exact_counts(name, relation, counts, reason, confirmed=yes)
        except NeedsConfirmation as needed:
            if as_json or not typer.confirm(f"{needed}\nAllow them?"):
                raise
            left = curator.allow_exact_counts(name, relation, counts, reason, confirmed=True)
    told = f"{left} more counts may be told exactly about {name!r} within {relation.name}."
    emit({"left": left}, as_json, words(told))
