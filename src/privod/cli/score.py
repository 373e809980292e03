"""Score new records against a release that was carried away; needs no curator and costs nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod.cli.app import app
from privod.cli.options import (
    AsJson,
    DecimalMark,
    Encoding,
    Separator,
    Thousands,
    check_written,
    dialect_of,
)
from privod.cli.output import emit, table, words
from privod.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privod.data import Column
    from privod.query.scoring import NewRecords, Scored

MOST_SHOWN = 10
LONGEST = 20  # digits of a setting
MOST_VALUES = 6  # of a record that are shown


@app.command()
def score(
    records: Annotated[Path, typer.Argument(help="The new records: a .csv or .parquet file.")],
    release: Annotated[Path, typer.Option(help="A release that can score: .privod or .json.")],
    target: Annotated[float, typer.Option(help="About what share of the reference to flag.")] = 0.1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the score, such as n_neighbors=10. May repeat."),
    ] = None,
    why: Annotated[
        bool,
        typer.Option(help="Say why records stand out: by which columns. Not every release can."),
    ] = False,
    ids: Annotated[str | None, typer.Option(help="The column that names your records.")] = None,
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
    """Score new records against a release: free, offline, higher is more outlying.

    Records are read as registered ones are: what is missing is filled as the owner declared, and a
    record that would have been dropped is not scored. Rows are lines below the header, from 1. A
    record outside the ranges is scored at their border, plus how far outside it lies.
    """
    if records.suffix.lower() not in (".csv", ".parquet"):
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter("records", "must end in .csv or .parquet", records.name, way_out)
    check_written(out, picture=picture)
    from privod.query import scoring
    from privod.query.saved import read_scorable

    released = read_scorable(release)
    scorer = released.scorer(**_chosen(settings or []))
    if why and not scoring.explains(scorer):
        way_out = "detector-profile can, for instance."
        rule = "needs a release that explains its scores"
        raise InvalidParameter("why", rule, released.question, way_out)
    dialect = dialect_of(separator, encoding=encoding, decimal=decimal, thousands=thousands)
    taken = scoring.read_records(records, scorer, dialect, ids)
    points, rows = taken.points, taken.rows.tolist()
    scored = scoring.score(scorer, points, target)
    scores, limit = scored.scores, scored.limit
    flagged = scored.stands_out
    reasons = scoring.reasons(scorer, points, scored) if why else [""] * len(rows)
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(_lines(taken, scored, reasons, with_ids=bool(ids), why=why))
    if picture is not None:
        from privod import pictures
        from privod.pictures.scored import draw_scored

        drawn = draw_scored(scorer, points, taken.rows, target)
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
            reasons[place] if why else _written(points[place], scorer.columns),
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
    explained = scorer.explain(points) if why else None
    if explained is not None:
        data["why"] = {"columns": list(explained.columns), "shares": explained.shares.tolist()}
    found = (
        f"{len(scores):,} records in order. This release knows no score from which one stands out."
        if flagged is None
        else f"{int(flagged.sum()):,} of {len(scores):,} records flagged (score above {limit:.4g})."
    )
    emit(
        data,
        as_json,
        words(found, "bold"),
        said,
        words(f"About the reference: {released.guarantee.sentence()} Scoring cost nothing more."),
        words(scored.doubt(target)),
        *map(words, taken.sentences()),
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


def _written(point: NDArray[np.float64], columns: tuple[Column, ...]) -> str:
    """The first values of a record, each with its column."""
    from privod.query.scoring import shown

    some = zip(columns[:MOST_VALUES], point.tolist(), strict=False)
    return ", ".join(f"{column.name} {shown(value, column)}" for column, value in some)


def _chosen(settings: list[str]) -> dict[str, Any]:
    """Settings as typed, name=value; numbers as numbers."""
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidParameter("set", "must be name=value", setting, "Try n_neighbors=10.")
        chosen[name] = int(value) if value.isdecimal() and len(value) < LONGEST else value
    return chosen
