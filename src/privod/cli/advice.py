"""What to ask next, read off a release that was carried away; needs no curator, costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import AsJson, app
from privod.cli.output import emit, table, words
from privod.errors import InvalidParameter

MUCH_HIDDEN = 0.5  # of the records, from which on the curve is mostly a guess


@app.command()
def advise(
    grid: Annotated[Path, typer.Argument(help="A release of grid-knn: its .privod or .json file.")],
    share: Annotated[
        float, typer.Option(help="Which share of the records should stand apart.")
    ] = 0.01,
    max_crowd: Annotated[
        int, typer.Option(help="Records that one that stands apart has near at most, with itself.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Advise a radius for questions about outliers: free, offline, from a released grid."""
    from privod.query.saved import read_scorable
    from privod.questions.grid_knn.advice import advise_radius
    from privod.questions.grid_knn.release import NoisyGrid

    released = read_scorable(grid)
    if not isinstance(released, NoisyGrid):
        way_out = "Ask for grid-knn about two or three columns."
        raise InvalidParameter("grid", "must be a release of grid-knn", str(grid), way_out)
    found = advise_radius(released, share, max_crowd)
    asked = f"columns={','.join(found.columns)} radius={found.radius:g} scale=range"
    doubt = (
        f"About {found.hidden_share:.0%} of the records cannot be told from noise in this grid: the"
        " curve is a guess."
    )
    emit(
        found.to_json(),
        as_json,
        words(
            f"At a radius of {found.radius:g} of the ranges about"
            f" {dict(found.curve)[found.radius]:.2%} of the records stand apart.",
            "bold",
        ),
        table(
            "Share that stands apart",
            ["radius", "share"],
            [[f"{radius:g}", f"{part:.2%}"] for radius, part in found.curve],
        ),
        words(f"Next: privod ask NAME graded-count {asked} max_crowd={max_crowd} epsilon=1"),
        words("Read off the release: it cost nothing more."),
        words(doubt if found.hidden_share > MUCH_HIDDEN else "", "red"),
    )
