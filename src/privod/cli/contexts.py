"""For the owner alone: the contexts in which a record of a file stands out, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import AsJson, app
from privod.cli.files import read_domain
from privod.cli.output import emit, progress_bars, table, words
from privod.errors import InvalidParameter


@app.command()
def contexts(
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet file.")],
    domain: Annotated[Path, typer.Option(help="A JSON file that declares the domain.")],
    record: Annotated[
        list[str], typer.Option(help="An attribute and the record's value, as job=Lawyer; repeat.")
    ],
    column: Annotated[str, typer.Option(help="The numeric column in which it may stand out.")],
    value: Annotated[float, typer.Option(help="The record's value in that column.")],
    detector: Annotated[
        str, typer.Option(help="lof, grubbs or histogram, with parameters in brackets.")
    ] = "lof",
    cuts: Annotated[
        list[str] | None,
        typer.Option(help="Where intervals of a numeric attribute meet, as age=18,40,65; repeat."),
    ] = None,
    largest: Annotated[int, typer.Option(help="How many of the largest contexts to list.")] = 5,
    as_json: AsJson = False,
) -> None:
    """NOT PRIVATE, for the owner alone: in which contexts does a record of a file stand out?"""
    from privod.data import Categorical
    from privod.data.sources import read
    from privod.outliers.contexts.detectors import detector as detector_of
    from privod.outliers.contexts.for_owner import matching_contexts

    declared = read_domain(domain)
    intervals = dict(_cuts(pair) for pair in cuts or [])
    attributes: dict[str, str | int | float] = {}
    for pair in record:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidParameter("record", "must be pairs", pair, "Write --record job=Lawyer.")
        attribute = declared[name]
        if name in intervals:
            attributes[name] = _number(text, "record")
            continue
        spelled = (
            {str(one): one for one in attribute.values}
            if isinstance(attribute, Categorical)
            else {}
        )
        attributes[name] = spelled.get(text, text)
    with progress_bars(as_json):
        found = matching_contexts(
            read(file, declared),
            attributes,
            column,
            value,
            detector_of(detector),
            largest,
            intervals,
        )
    sizes = [[f"{low} to {high - 1}", str(n)] for low, high, n in found.by_size]
    rows = [[str(size), context.in_words(), context.as_sql()] for context, size in found.largest]
    emit(
        found.to_json(),
        as_json,
        words(found.sentence(), "bold"),
        table("The largest", ["records", "context", "SQL"], rows),
        table("All, by size", ["records", "contexts"], sizes),
    )


def _cuts(pair: str) -> tuple[str, tuple[float, ...]]:
    """A numeric attribute and where its intervals meet, as age=18,40,65."""
    name, _, numbers = pair.partition("=")
    return name, tuple(_number(text, "cuts") for text in numbers.split(","))


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        way_out = "Write --cuts age=18,40,65 and --record age=44."
        raise InvalidParameter(name, "must be numbers", text, way_out) from None
