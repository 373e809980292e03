"""Run a benchmark and keep the figures it ends with.

    python -m scripts.run_benchmark benchmarks/race_counts.py            # and what it takes
    python -m scripts.run_benchmark --table plain benchmarks/race_engines.py --sets plain
    python -m scripts.write_figures --take out/benchmarks                # into the pages

Every benchmark prints lines `figure NAME VALUE`. They become out/benchmarks/STEM/figures.csv, a row
each, beside the command, the machine's class and the date; one that is run in several parts has a
table for each. Figures of a `--quick` run stay there.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from scripts.code_digest import digest

__all__ = ["kept"]

ROOT = Path(__file__).parent.parent
RESULTS = Path("out/benchmarks")


def kept(
    script: Path,
    arguments: list[str],
    results: Path = RESULTS,
    root: Path = ROOT,
    table: str = "figures",
) -> dict[str, str]:
    """Run a script, show what it says, and write its figures down."""
    figures: dict[str, str] = {}
    command = [sys.executable, str(script), *arguments]
    found = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": found}  # some benchmarks share others' data
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith("figure "):
                _, name, value = line.split()
                figures[name] = value
    if process.returncode:
        raise SystemExit(f"{script} failed with {process.returncode}: its figures are not kept.")
    if not figures:
        raise SystemExit(f"{script} prints no line `figure NAME VALUE`.")
    folder = results / script.stem
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{table}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("figure", "value"), *figures.items()])
    run = {
        "command": shlex.join(
            [script.resolve().relative_to(root.resolve()).as_posix(), *arguments]
        ),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "quick": "--quick" in arguments,
        "code": digest(script),
    }
    notes = folder / "run.json"
    known = json.loads(notes.read_text()) if notes.exists() else {}
    notes.write_text(json.dumps({**known, table: run}, indent=1) + "\n")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", default="figures", help="what the table is called")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the benchmark")
    given = parser.parse_args()
    kept(given.script, given.arguments, table=given.table)
