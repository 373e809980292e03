"""Put the tables of the experiments into the pages that show them.

    python -m scripts.write_figures                       # fill the pages from docs/figures
    python -m scripts.write_figures --take out/papers     # first take over the tables of full runs

A page marks the place of a table, and of a single figure within a sentence:

    <!-- table rauch/epsilon columns="set, auroc" where="method=DP grid" -->
    <!-- end -->
    <!-- table rauch/epsilon columns="set, method" across="epsilon" show="auroc" -->
    <!-- end -->
    it reaches <!-- figure rauch/epsilon auroc where="set=pima, epsilon=5" -->0.7<!-- end -->
    at most <!-- figure rauch/epsilon auroc where="set=pima" take="most" -->0.7<!-- end -->

`take` makes one figure of several rows: `least`, `most`, `mean`, or `count`, how many rows there
are. `less="set=wdbc"` subtracts the figure that the same rows have with these values instead.

Benchmarks end with named figures (`scripts/run_benchmark.py` keeps them). They are shown one by one
or as a table of rows and columns, whose names stand in the figures' names; `digits` rounds, and
`margin` names the figures that are shown after a ±:

    <!-- figure race_counts/figures value where="figure=count_peak_memory_gb" -->0.4<!-- end -->
    <!-- grid race_counts/figures rows="1000000x2: 10^6 x 2" columns="3 | 10"
         names="count_{row}_crowd_{column}_seconds" head="records" digits="2" -->
    <!-- end -->

What stands between the marks is written from docs/figures/rauch/epsilon.csv; `<!-- runs rauch -->`
names the command, the machine and the date of every table. A test fails when a page differs from
its tables.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from scripts.code_digest import digest

__all__ = ["FIGURES", "filled", "older", "pages", "shown", "take"]

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
MARK = re.compile(
    r"<!-- (?P<kind>table|figure|grid|runs) (?P<what>[\w/]+)(?P<rest>[^>]*?) -->"
    r"(?P<old>.*?)<!-- end -->",
    re.DOTALL,
)
PICTURE = re.compile(r"\]\((?:docs/|\.\./)?figures/([\w-]+/[\w.-]+\.png)\)")
OPTION = re.compile(r'(\w+)="([^"]*)"')
CONDITION = re.compile(r",\s*(?=[^=,|]+=)")  # a value may hold commas

Rows = list[dict[str, str]]


def pages() -> list[Path]:
    """Every page that may show a figure."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, figures: Path = FIGURES) -> str:
    """The page with everything between marks written anew."""

    def written(mark: re.Match[str]) -> str:
        kind, what, rest = mark["kind"], mark["what"], mark["rest"]
        head = f"<!-- {kind} {what}{rest} -->"
        if kind == "runs":
            return f"{head}\n{_runs(figures / what)}\n<!-- end -->"
        options = dict(OPTION.findall(rest))
        if kind == "grid":
            return f"{head}\n\n{_grid(_rows(figures / f'{what}.csv'), options)}\n\n<!-- end -->"
        all_rows = _rows(figures / f"{what}.csv")
        rows = _chosen(all_rows, options.get("where", ""))
        if kind == "figure":
            column = OPTION.sub("", rest).strip()
            value = _one(rows, column, options.get("take", ""), mark[0])
            if "less" in options:
                others = _chosen(all_rows, _instead(options.get("where", ""), options["less"]))
                value = _minus(value, _one(others, column, options.get("take", ""), mark[0]))
            return f"{head}{_rounded(value, options.get('digits'))}<!-- end -->"
        columns = _listed(options.get("columns", "")) or list(rows[0])
        if "across" in options:
            rows = _across(rows, columns, options["across"], options["show"])
            columns = list(rows[0])
        return f"{head}\n\n{_table(rows, columns)}\n\n<!-- end -->"

    return MARK.sub(written, text)


def _rows(path: Path) -> Rows:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _chosen(rows: Rows, where: str) -> Rows:
    """The rows that have these values; a value may name several with |."""
    for condition in filter(None, CONDITION.split(where)):
        key, _, values = condition.partition("=")
        rows = [row for row in rows if row[key] in values.split("|")]
    if not rows:
        raise SystemExit(f"No row of the table has {where!r}.")
    return rows


def _across(rows: Rows, keys: Sequence[str], across: str, show: str) -> Rows:
    """One row for each combination of the keys, one column for each value of `across`."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(tuple(row[key] for key in keys), {key: row[key] for key in keys})
        line[row[across] if row[across][:1].isalpha() else f"{across} {row[across]}"] = row[show]
    heads = dict.fromkeys(head for line in lines.values() for head in line)
    return [{head: line.get(head, "") for head in heads} for line in lines.values()]


def _one(rows: Rows, column: str, take: str, mark: str) -> str:
    """The figure of a single row, or what is taken of several."""
    if take == "count":
        return str(len(rows))
    if take:
        values = sorted((row[column] for row in rows if row[column]), key=_number)
        if take == "mean":
            return f"{sum(map(_number, values)) / len(values):.4g}"
        return values[{"least": 0, "most": -1}[take]]
    if len(rows) != 1:
        raise SystemExit(f"{len(rows)} rows for one figure: {mark}")
    return rows[0][column]


def _number(value: str) -> float:
    """A figure without its unit."""
    return float(value.split()[0].replace(",", ""))


def _minus(value: str, other: str) -> str:
    """The difference of two figures, with as many decimals as the longer one has."""
    decimals = max(len(one.partition(".")[2]) for one in (value, other))
    return f"{_number(value) - _number(other):.{decimals}f}"


def _instead(where: str, changes: str) -> str:
    """The conditions, with the values of some replaced."""
    others = CONDITION.split(changes)
    replaced = {one.partition("=")[0] for one in others}
    kept = [one for one in CONDITION.split(where) if one.partition("=")[0] not in replaced]
    return ", ".join([*kept, *others])


def _grid(figures: Rows, options: dict[str, str]) -> str:
    """A table of named figures; a figure that a run did not print leaves its place empty."""
    known = {row["figure"]: row["value"] for row in figures}
    rows, columns = (
        [_pair(entry) for entry in options[key].split("|")] for key in ("rows", "columns")
    )

    def named(pattern: str, row: str, column: str) -> str:
        found = known.get(options.get(pattern, "").format(row=row, column=column), "")
        return _rounded(found, options.get("digits"))

    def cell(row: str, column: str) -> str:
        return " ± ".join(filter(None, (named(each, row, column) for each in ("names", "margin"))))

    lines = [[cell(row, column) for column, _ in columns] for row, _ in rows]
    if not any(any(line) for line in lines):
        raise SystemExit(f"No figure is named {options['names']!r}.")
    heads = [options.get("head", ""), *(label for _, label in columns)]
    shown = zip(rows, lines, strict=True)
    return _markdown([heads, *([label, *line] for (_, label), line in shown)])


def _pair(entry: str) -> tuple[str, str]:
    """What stands in a name, and how it is shown."""
    key, _, label = entry.partition(":")
    return key.strip(), label.strip() or key.strip()


def _rounded(value: str, digits: str | None) -> str:
    """A measured number with so many digits that count; whole ones and words as they are."""
    if not digits or not value or value.lstrip("-").isdigit():
        return value
    number = float(f"{float(value):.{digits}g}")
    return f"{number:.{digits}g}" if 0 < abs(number) < 1 else f"{number:,.10g}"


def _table(rows: Rows, columns: Sequence[str]) -> str:
    """A Markdown table; `key: heading` shows a column under another name."""
    keys = [column.partition(":")[0].strip() for column in columns]
    heads = [column.partition(":")[2].strip() or column.strip() for column in columns]
    return _markdown([heads, *([row[key] for key in keys] for row in rows)])


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the head."""
    head, *rest = ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines]
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *rest])


def _runs(folder: Path) -> str:
    """One line a command: which tables it wrote, where and when."""
    made: dict[tuple[str, str, str], list[str]] = {}
    for table, run in json.loads((folder / "run.json").read_text()).items():
        made.setdefault((run["command"], run["machine"], run["date"]), []).append(table)
    return "\n".join(
        f"\n`{command}` ({machine}, {date}): {', '.join(sorted(tables))}."
        for (command, machine, date), tables in made.items()
    )


def shown() -> set[str]:
    """The pictures that pages show."""
    return {name for page in pages() for name in PICTURE.findall(page.read_text(encoding="utf-8"))}


def take(results: Path, figures: Path = FIGURES) -> list[str]:
    """Carry tables and pictures of full runs over; those of quick runs stay where they are."""
    taken = []
    for made in sorted(results.glob("*/run.json")):
        full = {k: v for k, v in json.loads(made.read_text()).items() if not v["quick"]}
        if not full:
            continue
        folder = figures / made.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        for table in full:
            shutil.copyfile(made.parent / f"{table}.csv", folder / f"{table}.csv")
            taken.append(f"{folder.name}/{table}")
        for picture in shown() & {f"{folder.name}/{p.name}" for p in made.parent.glob("*.png")}:
            shutil.copyfile(results / picture, figures / picture)
        notes = folder / "run.json"
        known = json.loads(notes.read_text()) if notes.exists() else {}
        notes.write_text(json.dumps({**known, **full}, indent=1, sort_keys=True) + "\n")
    return taken


def older(figures: Path = FIGURES) -> list[str]:
    """The tables whose script, or what it runs of privod, changed since they were made."""
    return [
        f"{notes.parent.name}/{table}"
        for notes in sorted(figures.glob("*/run.json"))
        for table, run in sorted(json.loads(notes.read_text()).items())
        if run.get("code") != digest(ROOT / run["command"].split()[0].rstrip(","))
    ]


def main() -> None:
    """Take over what was asked for and fill every page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--take", type=Path, help="folder with the results of experiments")
    folder = parser.parse_args().take
    for name in take(folder) if folder else ():
        print(f"taken: {name}")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    for name in older():
        print(f"older than the code: {name}")


if __name__ == "__main__":
    main()
