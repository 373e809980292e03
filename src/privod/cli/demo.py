"""Try things out: the demo, made-up rows, the bill of an analysis, and the audit."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod.cli.analyst import Expect
from privod.cli.app import app
from privod.cli.options import AsJson, check_folders, check_written, read_domain, read_json
from privod.cli.output import emit, progress_bars, table, words
from privod.errors import InvalidParameter, PrivodError

if TYPE_CHECKING:
    from privod.data import Domain
    from privod.query.query import Query

BROKEN = 1  # exit code when a promise did not survive
DomainFile = Annotated[Path, typer.Option(help="A JSON file that declares the public domain.")]
Records = Annotated[int, typer.Option(min=1, max=10_000_000, help="How many rows to make up.")]


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
    check_folders(report.parent)
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
    pairs: Annotated[
        int, typer.Option(min=1, max=10**9, help="How many pairs of tables are replayed.")
    ] = 10_000,
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


@app.command()
def mock(
    out: Annotated[Path, typer.Argument(help="The .csv file to write.")],
    domain: DomainFile,
    records: Records = 1000,
    as_json: AsJson = False,
) -> None:
    """Make up rows from a domain alone, to try an analysis on."""
    check_written(out)
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    from privod.data.mock import mock_rows

    pa_csv.write_csv(pa.table(mock_rows(read_domain(domain), records)), out)
    emit({"rows": records, "file": str(out)}, as_json, words(f"{records:,} made-up rows: {out}"))


@app.command()
def sample(
    folder: Annotated[Path, typer.Argument(help="Where to write stays.csv and domain.json.")],
    records: Records = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Another number makes up other stays.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write made-up hospital stays with outliers among them, to follow the tutorial with."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    from privod.data.examples import HOSPITAL, hospital

    folder.mkdir(parents=True, exist_ok=True)
    rows, declared = folder / "stays.csv", folder / "domain.json"
    pa_csv.write_csv(pa.table(hospital(records, seed).columns()), rows)
    declared.write_text(json.dumps(HOSPITAL.to_json(), indent=2) + "\n", encoding="utf-8")
    told = f"{records:,} made-up stays: {rows}; what is public about them: {declared}"
    emit({"rows": records, "file": str(rows), "domain": str(declared)}, as_json, words(told))


@app.command()
def rehearse(
    analysis: Annotated[
        Path, typer.Argument(help="A JSON list of questions, each a name and its parameters.")
    ],
    domain: DomainFile,
    records: Records = 1000,
    expect: Expect = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole analysis on made-up rows and print what it would cost and be worth.

    A question that can never be asked of such data is named, with the reason, and left out.
    """
    from privod.data.mock import mock_table
    from privod.demo.catalog import ask_all
    from privod.query.preview import worth

    asked = read_json(analysis, "analysis", "Write [{'name': 'histogram', 'columns': ...}, ...].")
    if not isinstance(asked, list) or not asked:
        way_out = "Write [{'name': 'histogram', 'columns': ['ward'], 'epsilon': '0.1'}]."
        raise InvalidParameter("analysis", "must be a list of questions", str(analysis), way_out)
    declared = read_domain(domain)
    read = [_readable(entry, declared, domain.name) for entry in asked]
    queries = [query for query in read if not isinstance(query, PrivodError)]
    refused: list[dict[str, Any]] = [
        {"place": place, "name": _name(asked[place - 1]), "message": str(problem)}
        for place, problem in enumerate(read, 1)
        if isinstance(problem, PrivodError)
    ]
    if not queries:
        rule = "must have a question that can be asked"
        raise InvalidParameter("analysis", rule, str(analysis), refused[0]["message"])
    with tempfile.TemporaryDirectory() as directory, progress_bars(as_json):
        shown = ask_all(Path(directory), mock_table(declared, records), queries)
    worths = [worth(query, declared, records, expect) for query in queries]
    rows = [[step.name, step.price, told] for step, told in zip(shown.steps, worths, strict=True)]
    for one in refused:
        rows.insert(one["place"] - 1, [one["name"], "cannot be asked", one["message"]])
    emit(
        {**shown.to_json(), "worth": worths, "refused": refused},
        as_json,
        words("On made-up rows: what is answered here says nothing about the real ones.", "bold"),
        table("The bill", ["question", "price", "worth"], rows),
        *(words(f"In all, {budget.lines[0]}") for budget in shown.budgets),
    )


def _readable(entry: Any, domain: Domain, file: str) -> Query[Any] | PrivodError:
    """A question of the analysis, or why it can never be asked of such data."""
    from privod.ledger.coexistence import check_unit, is_beyond_add_remove
    from privod.query.catalog import query_from_json

    try:
        query = query_from_json(entry)
        query.check(domain)
        if is_beyond_add_remove(query.statements(domain)):
            check_unit(query.guarantee().adjacency, {file: domain})
    except PrivodError as problem:
        return problem
    return query


def _name(entry: Any) -> str:
    return str(entry.get("name", "")) if isinstance(entry, dict) else ""
