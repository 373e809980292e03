"""Score new records against a release that was carried away; needs no curator and costs nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod.cli.app import (
    AsJson,
    DecimalMark,
    Encoding,
    Separator,
    Thousands,
    app,
    dialect_of,
)
from privod.cli.output import emit, table, words
from privod.errors import InvalidParameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privod.queries.scoring import NewRecords

__all__ = ["released_from", "score"]

MOST_SHOWN = 10


@app.command()
def score(
    records: Annotated[Path, typer.Argument(help="The new records: a .csv or .parquet file.")],
    grid: Annotated[
        Path,
        typer.Option(
            help="A release of private-detector, grid-knn, marginals, mean-covariance or"
            " density-sketch: its .privod or .json file."
        ),
    ],
    target: Annotated[
        float,
        typer.Option(
            help="About which share of the reference to flag (density-sketch flags none)."
        ),
    ] = 0.1,
    n_neighbors: Annotated[int, typer.Option(help="Which neighbor gives the score of a grid.")] = 5,
    why: Annotated[
        bool,
        typer.Option(help="Say why records stand out: by which columns (private-detector only)."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write every score here, as CSV.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the records and their scores: .svg or .png.")
    ] = None,
    encoding: Encoding = "utf-8",
    separator: Separator = ",",
    decimal: DecimalMark = ".",
    thousands: Thousands = None,
    as_json: AsJson = False,
) -> None:
    """Score new records against a released grid: free, offline, higher is more outlying.

    Records are read as registered ones are: what is missing is filled as the owner declared, and a
    record that would have been dropped is not scored. Rows are lines below the header, from 1. A
    record outside the ranges is scored at their border, plus how far outside it lies.
    """
    if records.suffix.lower() not in (".csv", ".parquet"):
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter("records", "must end in .csv or .parquet", records.name, way_out)
    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise InvalidParameter("picture", "must end in .svg or .png", str(picture), "Rename it.")
    from privod.queries import scoring

    released = released_from(grid)
    if why and not scoring.explains(released):
        way_out = "Ask for private-detector."
        raise InvalidParameter("why", "needs a release of private-detector", str(grid), way_out)
    columns = scoring.columns_of(released)
    names = [column.name for column in columns]
    dialect = dialect_of(encoding, separator, decimal, thousands)
    taken = scoring.read_records(records, released, dialect)
    points, rows = taken.points, taken.rows.tolist()
    scored = scoring.score(released, points, target, n_neighbors)
    scores, limit = scored.scores, scored.limit
    flagged = scored.stands_out
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            written = csv.writer(file)
            written.writerow(["row", "score", *([] if limit is None else ["stands_out"])])
            flags = [] if limit is None else [""]
            lines: dict[int, list[Any]] = {row: ["", *flags] for row in taken.left_out.tolist()}
            for row, value in zip(rows, scores.tolist(), strict=True):
                lines[row] = [f"{value:.9g}", *([] if limit is None else [int(value > limit)])]
            written.writerows([row, *lines[row]] for row in sorted(lines))
    if picture is not None:
        from privod import pictures

        drawn = _drawn(released, taken, target, n_neighbors)
        picture.write_bytes(
            pictures.svg(drawn) if picture.suffix == ".svg" else pictures.png(drawn)
        )
    order = (-scores).argsort(kind="stable")[:MOST_SHOWN]
    reasons = scoring.reasons(released, points, scored) if why else []
    shown = [
        [
            str(rows[place]),
            f"{scores[place]:.4g}",
            *([] if flagged is None else ["stands out" if flagged[place] else "ordinary"]),
            *([reasons[place]] if why else []),
            *(
                scoring.shown(x, column)
                for x, column in zip(points[place][:6], columns, strict=False)
            ),
        ]
        for place in order.tolist()
    ]
    headings = ["row", "score", *([] if flagged is None else [""]), *(["why"] if why else [])]
    data = {
        "limit": limit,
        "share_beyond": None if scored.beyond is None else list(scored.beyond),
        "rows": rows,
        "scores": scores.tolist(),
        "stands_out": None if flagged is None else flagged.tolist(),
        "guarantee": released.guarantee.to_json(),
        "seeded": released.seeded,
        "hidden_share": scored.hidden_share,
        "rows_not_scored": taken.left_out.tolist(),
        "missing": {column.name: column.missing for column in taken.gaps},
    }
    if why:
        explained = released.explain(points)
        data["why"] = {"columns": list(explained.columns), "shares": explained.shares.tolist()}
    warning = "Made with a test seed: it protects nobody." if released.seeded else ""
    found = (
        f"{len(scores)} records in order: a sketch does not say from which score on one stands out."
        if flagged is None
        else f"{int(flagged.sum())} of {len(scores)} records stand out (score above {limit:.4g})."
    )
    emit(
        data,
        as_json,
        words(found, "bold"),
        table("The most outlying", [*headings, *names[:6]], shown),
        words(f"About the reference: {released.guarantee.sentence()} Scoring cost nothing more."),
        words(scored.doubt(target)),
        *map(words, taken.sentences()),
        words(warning, "red"),
    )


def released_from(path: Path) -> Any:
    """The release in a file, of one of the questions that score."""
    from privod.queries.saved import read_saved
    from privod.queries.scoring import SCORING

    found = read_saved(path)
    value = getattr(found, "value", found)
    if not isinstance(value, SCORING):
        way_out = "Ask for private-detector, grid-knn or marginals, for instance."
        raise InvalidParameter("grid", "must be a release that can score", str(path), way_out)
    return value


def _drawn(
    released: Any,
    taken: NewRecords,
    target: float,
    n_neighbors: int,
) -> Figure:
    """The records upon a grid of two columns; of any other release, how their scores are spread."""
    from privod.pictures.grid_knn import draw_score_histogram, draw_scored
    from privod.queries import scoring
    from privod.queries.grid_knn.release import NoisyGrid

    if scoring.explains(released):
        from privod.pictures.private_detector import draw_explained

        return draw_explained(released, taken.points, taken.rows)
    if isinstance(released, NoisyGrid) and released.grid.n_axes == 2:
        return draw_scored(released, taken.points, n_neighbors, target)
    scored = scoring.score(released, taken.points, target, n_neighbors)
    return draw_score_histogram(scored.scores, scored.limit)
