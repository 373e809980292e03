"""Try things out: the demo, and the audit that tries to catch a broken promise."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import AsJson, app
from privod.cli.output import emit, progress_bars, words

__all__ = ["audit", "demo"]

BROKEN = 1  # exit code when a promise did not survive


@app.command()
def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report, one HTML page.")] = Path(
        "out/privod-demo.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Ask every question about sample data and write a report with pictures."""
    from privod.demo import DIFFER, run

    with tempfile.TemporaryDirectory() as directory, progress_bars(as_json):
        shown = run(Path(directory))
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(shown.html(), encoding="utf-8")
    asked = f"20,000 made-up hospital stays; each of {len(shown.steps)} answers was charged first."
    lines = [words(f"{asked} {DIFFER}"), words("")]
    for step in shown.first_screen():
        lines += [words(f"{step.name}: {step.question}", "bold"), words(step.sentence)]
        lines += [words(f"Price: {step.price}."), words("")]
    lines += [words(f"Asked as well: {', '.join(shown.others())}."), words(shown.total())]
    lines += [words(f"All answers with pictures, guarantees and budgets: {report}", "green")]
    emit({**shown.to_json(), "report": str(report)}, as_json, *lines)


@app.command()
def audit(
    question: Annotated[str | None, typer.Argument(help="One question; all if none.")] = None,
    runs: Annotated[int, typer.Option(help="How often each table is asked.")] = 20_000,
    domain: Annotated[
        Path | None,
        typer.Option(help="Look for bad pairs of tables in this declared domain instead (JSON)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play the distinguishing game: claimed and caught epsilon of every question."""
    from privod.audit import games_of, play
    from privod.query.catalog import QUERIES, kind_of

    names = list(QUERIES) if question is None else [kind_of(question).name]
    if domain is not None:
        _search(names, domain, runs, as_json)
        return
    with progress_bars(as_json):
        verdicts = [play(game, runs) for name in names for game in games_of(name)]
    data = [
        {
            "question": verdict.question,
            "adjacency": verdict.adjacency,
            "claimed": verdict.claimed.to_json(),
            "caught": verdict.caught,
            "event": verdict.event,
            "runs": verdict.runs,
            "holds": verdict.holds,
            "least_breach": _or_none(verdict.least_breach),
        }
        for verdict in verdicts
    ]
    shown = [
        words(verdict.sentence(), "green" if verdict.holds else "bold red") for verdict in verdicts
    ]
    emit(data, as_json, *shown)
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(BROKEN)


def _search(names: list[str], file: Path, runs: int, as_json: bool) -> None:
    """Look for pairs on which the sample questions for a domain break their promise."""
    from privod.audit import search_question
    from privod.cli.owner import _read_json
    from privod.data import Domain
    from privod.privacy import AddRemove, InAlikeCrowd, InCrowd, Replace
    from privod.query.catalog import QUERIES

    declared = Domain.from_json(_read_json(file))
    samples = [query for name in names for query in QUERIES[name].examples(declared)]
    asked = [
        query
        for query in samples
        if isinstance(query.guarantee().adjacency, AddRemove | Replace | InCrowd | InAlikeCrowd)
    ]
    with progress_bars(as_json):
        found = [search_question(query, declared, runs=runs) for query in asked]
    data = [
        {
            "query": query.to_json(),
            "claimed": one.claimed.to_json(),
            "caught": one.caught,
            "event": one.event,
            "pairs": one.pairs,
            "runs": one.power.runs,
            "holds": one.holds,
            "least_breach": _or_none(one.power.least_breach(float(one.claimed.epsilon))),
        }
        for query, one in zip(asked, found, strict=True)
    ]
    shown = [
        words(f"{query.name}: {one.sentence()}", "green" if one.holds else "bold red")
        for query, one in zip(asked, found, strict=True)
    ]
    emit(data, as_json, *shown)
    if not all(one.holds for one in found):
        raise typer.Exit(BROKEN)


def _or_none(number: float) -> float | None:
    return None if math.isinf(number) else number
