"""For the owner alone: a question drawn beside the rows of a file, before any budget is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.analyst import Question, Settings, _query
from privod.cli.app import AsJson, app
from privod.cli.output import emit, progress_bars, words
from privod.cli.owner import _read_json
from privod.errors import InvalidParameter


@app.command()
def owner_picture(
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    question: Question,
    domain: Annotated[Path, typer.Option(help="A JSON file that declares the domain.")],
    picture: Annotated[Path, typer.Option(help="Where to draw it: .svg or .png.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """NOT PRIVATE, for the owner alone: what a question would do to the rows of a file.

    Of outlier-subspaces, the chance of each set; of anomaly-labels, who gets how much privacy; of
    outlier-context, who is in the groups. Charges nothing, releases nothing.
    """
    from privod.data import Domain
    from privod.data.sources import read
    from privod.mechanisms import secure
    from privod.pictures import draw_for_owner, png, svg

    if picture.suffix not in (".svg", ".png"):
        raise InvalidParameter("picture", "must end in .svg or .png", str(picture), "Rename it.")
    declared = Domain.from_json(_read_json(domain))
    query = _query(question, settings)
    query.check(declared)
    with progress_bars(as_json):
        table = read(file, declared)
        figure = draw_for_owner(query.answer(table, secure()), table)
    picture.write_bytes(svg(figure) if picture.suffix == ".svg" else png(figure))
    said = f"Drew {picture}. It shows rows: not private, keep it."
    emit({"picture": str(picture), "private": False}, as_json, words(said))
