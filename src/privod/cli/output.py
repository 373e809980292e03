"""What a command prints: words and tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from privod.errors import PrivodError
from privod.progress import Listener, listening
from privod.wire import encode, problem_of

LINE_SECONDS = 10.0  # between two lines of progress, where nobody sees a bar


def emit(data: Any, as_json: bool, *shown: Any) -> None:
    """Print nouns or plain values as JSON, or what is to be shown of them."""
    if as_json:
        sys.stdout.write(json.dumps(encode(data), indent=2, allow_nan=False) + "\n")
        return
    from rich.console import Console

    console = Console(highlight=False)
    for item in filter(str, shown):  # a paragraph of no words is none
        console.print(item, crop=False, overflow="ignore")  # paths and commands stay whole


def complain(problem: PrivodError, as_json: bool, text: str) -> None:
    """Print an error to the standard error stream: as it is for programs, or in words."""
    said = json.dumps(problem_of(problem)) if as_json else f"privod: {text}"
    sys.stderr.write(said + "\n")


def words(text: str, style: str = "") -> Any:
    """A paragraph that is printed as it is, whatever brackets it contains."""
    from rich.text import Text

    return Text(text, style=style)


def moment(time: str) -> str:
    """A time as tables show it: to the minute."""
    return time[:16].replace("T", " ")


def table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], whole: Sequence[str] = ()
) -> Any:
    """A table for people; what stands under `whole` headings, such as ids, is never wrapped."""
    from rich.box import SIMPLE
    from rich.table import Table as RichTable

    drawn = RichTable(title=title, title_justify="left", header_style="bold", box=SIMPLE)
    for place, heading in enumerate(headings):
        longest = max((len(row[place]) for row in rows), default=0) if heading in whole else None
        drawn.add_column(heading, overflow="fold", no_wrap=heading in whole, min_width=longest)
    for row in rows:
        drawn.add_row(*(words(cell) for cell in row))
    return drawn


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[None]:
    """Show how far everything inside has come that reports it, on the error stream."""
    if quiet:
        yield
        return
    if not sys.stderr.isatty():
        with listening(_lines()):
            yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def listener(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=total)
            progress.update(tasks[phase], completed=done, total=total)

        with listening(listener):
            yield


def _lines() -> Listener:
    """Write a line about what goes on, at most one in `LINE_SECONDS`."""
    last = time.monotonic()

    def listener(phase: str, done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{phase}: {done:,}" + (f" of {total:,}" if total else "") + "\n")
            sys.stderr.flush()

    return listener
