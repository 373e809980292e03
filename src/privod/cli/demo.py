"""Try things out: the demo, and the audit that tries to catch a broken promise."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from privod.cli.app import AsJson, app, read_domain
from privod.cli.output import emit, progress_bars, words

BROKEN = 1  # exit code when a promise did not survive


@app.command()
def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report, one HTML page.")] = Path(
        "out/privod-demo.html"
    ),
    everything: Annotated[
        bool, typer.Option("--all", help="Ask every question of the catalog instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell a story on 20,000 made-up hospital stays, and write it as a page with pictures."""
    if not everything:
        _tell(report, as_json)
        return
    from privod.demo.catalog import DIFFER, run

    shown = _reported(run, report, as_json)
    asked = f"20,000 made-up hospital stays; each of {len(shown.steps)} answers was charged first."
    lines = [words(f"{asked} {DIFFER}"), *(words(budget.lines[0]) for budget in shown.budgets)]
    lines += [words(f"All answers with pictures, guarantees and prices: {report}", "green")]
    emit({**shown.to_json(), "report": str(report)}, as_json, *lines)


def _reported(made: Callable[[Path], Any], report: Path, as_json: bool) -> Any:
    """What is asked of a curator in a new directory, also as a page."""
    with tempfile.TemporaryDirectory() as directory, progress_bars(as_json):
        shown = made(Path(directory))
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(shown.html(), encoding="utf-8")
    return shown


def _tell(report: Path, as_json: bool) -> None:
    from privod.demo.story import tell

    story = _reported(tell, report, as_json)
    lines = []
    for number, chapter in enumerate(story.chapters, start=1):
        lines += [words(f"{number}. {chapter.title}", "bold")]
        lines += [*(words(line) for line in chapter.lines), words("")]
    lines += [words(f"The same with pictures: {report}", "green")]
    emit({"chapters": story.to_json(), "report": str(report)}, as_json, *lines)


@app.command()
def audit(
    question: Annotated[str | None, typer.Argument(help="One question; all if none.")] = None,
    pairs: Annotated[int, typer.Option(help="How many pairs of tables are replayed.")] = 10_000,
    domain: Annotated[
        Path | None,
        typer.Option(help="Replay pairs of tables of this declared domain instead (JSON)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay every question on hostile pairs of tables: what is claimed and what is lost."""
    from privod.audit import replay_audit
    from privod.query.catalog import QUERIES, kind_of

    names = list(QUERIES) if question is None else [kind_of(question).name]
    declared = () if domain is None else (read_domain(domain),)
    asked = [name for name in names if not declared or QUERIES[name].examples(declared[0])]
    with progress_bars(as_json):
        replayed = [replay_audit(name, pairs, declared) for name in asked]
    data = [
        {
            "question": one.what,
            "claimed": one.claimed.loss.to_json(),
            "pairs": one.pairs,
            "share": one.share,
            "trouble": one.trouble,
            "holds": one.holds,
        }
        for one in replayed
    ]
    shown = [words(one.sentence(), "green" if one.holds else "bold red") for one in replayed]
    emit(data, as_json, *shown)
    if not all(one.holds for one in replayed):
        raise typer.Exit(BROKEN)
