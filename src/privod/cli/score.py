"""Score new records against a release that was carried away; needs no curator and costs nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterator
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
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from privod.questions.scoring import NewRecords, Scored

__all__ = ["released_from", "score"]

MOST_SHOWN = 10
MOST_VALUES = 6  # of a record that are shown


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
    ids: Annotated[
        str | None, typer.Option(help="A column of the file that names your records.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write every score here, as CSV, and with --why why.")
    ] = None,
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
    from privod.questions import scoring

    released = released_from(grid)
    if why and not scoring.explains(released):
        way_out = "Ask for private-detector."
        raise InvalidParameter("why", "needs a release of private-detector", str(grid), way_out)
    dialect = dialect_of(separator, encoding=encoding, decimal=decimal, thousands=thousands)
    taken = scoring.read_records(records, released, dialect, ids)
    points, rows = taken.points, taken.rows.tolist()
    scored = scoring.score(released, points, target, n_neighbors)
    scores, limit = scored.scores, scored.limit
    flagged = scored.stands_out
    reasons = scoring.reasons(released, points, scored) if why else [""] * len(rows)
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(_lines(taken, scored, reasons, with_ids=bool(ids), why=why))
    if picture is not None:
        from privod import pictures

        drawn = _drawn(released, taken, target, n_neighbors)
        picture.write_bytes(
            pictures.svg(drawn) if picture.suffix == ".svg" else pictures.png(drawn)
        )
    order = (-scores).argsort(kind="stable")[:MOST_SHOWN].tolist()
    headings = ["row", *(["id"] if ids else []), "score", *([] if flagged is None else [""])]
    shown = [
        [
            str(rows[place]),
            *([taken.ids[rows[place]]] if ids else []),
            f"{scores[place]:.4g}",
            *([] if flagged is None else ["stands out" if flagged[place] else "ordinary"]),
            reasons[place] if why else _written(points[place], released),
        ]
        for place in order
    ]
    short = [heading for heading in headings if heading != "id"]
    headings.append("why" if why else "record")
    said = table("The most outlying", headings, shown, whole=short)
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
    if ids:
        data["ids"] = [taken.ids[row] for row in rows]
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
        said,
        words(f"About the reference: {released.guarantee.sentence()} Scoring cost nothing more."),
        words(scored.doubt(target)),
        *map(words, taken.sentences()),
        words(warning, "red"),
    )


def _lines(
    taken: NewRecords, scored: Scored, reasons: list[str], *, with_ids: bool, why: bool
) -> Iterator[list[Any]]:
    """The header and a line for every record that was read, also where it could not be scored."""
    from privod.query.frames import safe_cell

    limit = scored.limit
    last = [*([] if limit is None else ["stands_out"]), *(["why"] if why else [])]
    yield ["row", *(["id"] if with_ids else []), "score", *last]
    lines: dict[int, list[Any]] = {row: ["", *[""] * len(last)] for row in taken.left_out.tolist()}
    told = zip(taken.rows.tolist(), scored.scores.tolist(), reasons, strict=True)
    for row, value, reason in told:
        flag = [] if limit is None else [int(value > limit)]
        lines[row] = [f"{value:.9g}", *flag, *([safe_cell(reason)] if why else [])]
    for row in sorted(lines):
        yield [row, *([safe_cell(taken.ids[row])] if with_ids else []), *lines[row]]


def _written(point: NDArray[np.float64], released: Any) -> str:
    """The first values of a record, each with its column."""
    from privod.questions import scoring

    some = zip(scoring.columns_of(released)[:MOST_VALUES], point.tolist(), strict=False)
    return ", ".join(f"{column.name} {scoring.shown(value, column)}" for column, value in some)


def released_from(path: Path) -> Any:
    """The release in a file, of one of the questions that score."""
    from privod.questions.saved import read_saved
    from privod.questions.scoring import SCORING

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
    from privod.questions import scoring
    from privod.questions.grid_knn.picture import draw_score_histogram, draw_scored
    from privod.questions.grid_knn.release import NoisyGrid

    if scoring.explains(released):
        from privod.questions.private_detector.picture import draw_explained

        return draw_explained(released, taken.points, taken.rows)
    if isinstance(released, NoisyGrid) and released.grid.n_axes == 2:
        return draw_scored(released, taken.points, n_neighbors, target)
    scored = scoring.score(released, taken.points, target, n_neighbors)
    return draw_score_histogram(scored.scores, scored.limit)
