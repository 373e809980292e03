"""What a worker process does: one task at a time, answered over its pipe, and nothing else."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from privod.curator.protection import who_is_protected
from privod.curator.publication import written
from privod.curator.rows import KeptRows, RowStore
from privod.data import Domain, Table
from privod.data.csv_file import CsvBytes, CsvDialect
from privod.data.intake import IntakeReport, LossyIntake
from privod.engines.size import SizeClass
from privod.errors import InvalidData, PrivodError
from privod.privacy import Loss, adjacency_from_json
from privod.progress import listening
from privod.query import scoring
from privod.query.catalog import query_from_json
from privod.query.scorer import Scorable
from privod.server.jobs.encoding import differences, encode, read_stored
from privod.wire import problem_of

READY, PROGRESS, DONE, FAILED = b"+", b"p", b"d", b"f"
"""How a worker's messages begin."""

TARGET = 0.1  # the share of the reference that lies beyond the limit of scores
M_MMAP_THRESHOLD = -3  # of mallopt
MAPPED_BYTES = 1 << 20


def work(channel: Connection, most_bytes: int, niceness: int) -> None:
    """Do the tasks that come in, until the pipe is closed."""
    _settle(niceness)
    tables: dict[str, Table] = {}
    while True:
        try:
            task = channel.recv_bytes()
        except (EOFError, OSError):
            return
        if task == READY:
            channel.send_bytes(READY)
            continue
        try:
            asked = json.loads(task)
            _limit_memory(asked.get("bytes", most_bytes))
            signal.setitimer(signal.ITIMER_PROF, asked.get("seconds", 0))  # then SIGPROF ends us
            written = _done(asked, tables, channel)
        except Exception:  # what it says may quote a row
            channel.send_bytes(FAILED)
            continue
        channel.send_bytes(DONE + written)


def _limit_memory(most_bytes: int) -> None:
    """Let the next task take so much, and no more, beside what earlier ones left here."""
    if sys.platform == "linux":
        # What it allocates itself: libraries that are only mapped, and room that is only reserved,
        # do not count, as they would by RLIMIT_AS.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _held_bytes() + most_bytes
        if most != resource.RLIM_INFINITY:
            limit = min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _held_bytes() -> int:
    """What this process has allocated: the library, a table, room that was not given back."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[5]
    except OSError:
        return 0  # nothing says so here: then the limit is for all tasks of this process together
    return int(pages) * resource.getpagesize()


def _settle(niceness: int) -> None:
    """Give way to the server, end when the server is gone, and give back what is let go.

    Nothing is warned of: that would stand in a log, and may follow rows. Arrays of a megabyte or
    more are mapped one by one, so that what a task takes is what it holds.
    """
    warnings.simplefilter("ignore")
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library that has no such choice
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the server, which ends us
    os.nice(niceness)
    threading.Thread(target=_end_with_the_server, daemon=True).start()


def _end_with_the_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()  # also while a task is being done, and however the server ended
        os._exit(1)


def _done(task: dict[str, Any], tables: dict[str, Table], channel: Connection) -> bytes:
    kind = task["kind"]
    if kind == "answer":
        return _answer(task, tables, channel)
    if kind == "protected":
        return _protected(task, tables)
    others = {"keep": _keep, "budget": _budget_picture, "score": _score, "compare": _compare}
    return others.get(kind, encode)(task)


def where(rows: KeptRows) -> dict[str, Any]:
    """The part of a task that says where rows are."""
    return {
        "directory": str(rows.directory),
        "folder": rows.folder,
        "seal": rows.seal,
        "domain": rows.domain.to_json(),
        "engine": rows.engine,
    }


def _rows(task: dict[str, Any]) -> KeptRows:
    domain = Domain.from_json(task["domain"])
    return KeptRows(Path(task["directory"]), task["folder"], task["seal"], domain, task["engine"])


def _answer(task: dict[str, Any], tables: dict[str, Table], channel: Connection) -> bytes:
    query = query_from_json(task["query"])
    with listening(_telling(channel)):
        rows = _rows(task)
        noise = rows.noise(bytes.fromhex(task["key"]), query)
        found = query.answer(_table(rows, tables), noise)
    return written(query, task["rows_per_person"], found).text.encode()


def _protected(task: dict[str, Any], tables: dict[str, Table]) -> bytes:
    """Whom narrow promises protect, for the owner alone."""
    table = _table(_rows(task), tables)
    groups = [[adjacency_from_json(one) for one in group] for group in task["groups"]]
    found = [who_is_protected(table, group, sample=task["sample"]) for group in groups]
    return json.dumps([one.to_json() for one in found]).encode()


def _keep(task: dict[str, Any]) -> bytes:
    """The rows of an owner's file in a folder, or why they are not."""
    dialect, intake = task["dialect"], task["intake"]
    try:
        folder, seal, report = RowStore(Path(task["rows"])).keep(
            Path(task["path"]),
            Domain.from_json(task["domain"]),
            None if dialect is None else CsvDialect(**dialect),
            SizeClass(task["most_records"]),
            confirmed=task["confirmed"],
            intake=None if intake is None else IntakeReport.from_json(intake),
        )
    except LossyIntake as lossy:
        return json.dumps({"message": str(lossy), "lossy": lossy.report.to_json()}).encode()
    except PrivodError as problem:
        return json.dumps(problem_of(problem)["error"]).encode()
    return json.dumps({"folder": folder, "seal": seal, "report": report.to_json()}).encode()


def _compare(task: dict[str, Any]) -> bytes:
    releases = [read_stored(one) for one in task["answers"]]
    return json.dumps(differences(*releases)).encode()


def _score(task: dict[str, Any]) -> bytes:
    """A visitor's records scored, or why they cannot be."""
    try:
        return _scores(read_stored(task).value, task)
    except PrivodError as problem:
        return json.dumps({"problem": str(problem)}).encode()


def _scores(released: Any, task: dict[str, Any]) -> bytes:
    """A visitor's records scored, the most outlying first."""
    if not isinstance(released, Scorable):
        raise InvalidData("This answer cannot score records.")
    sent = CsvBytes(task["records"].encode("latin-1"), "sent here")
    scorer = released.scorer()
    taken = scoring.read_records(sent, scorer, CsvDialect(**task["dialect"]))
    if len(taken.rows) > task["most"]:
        raise InvalidData(
            f"At most {task['most']:,} records are scored here. Download the answer as JSON and"
            " score more on your own machine (`privod score`)."
        )
    points, rows = taken.points, taken.rows.tolist()
    found = scoring.score(scorer, points, TARGET)
    why, beyond = scoring.reasons(scorer, points, found), found.stands_out
    shown = [
        {
            "row": rows[at],
            "score": f"{found.scores[at]:.4g}",
            "out": beyond is not None and bool(beyond[at]),
            "why": why[at],
        }
        for at in (-found.scores).argsort(kind="stable").tolist()
    ]
    told = {
        "rows": shown,
        "out": 0 if beyond is None else int(beyond.sum()),
        "limit": None if found.limit is None else f"{found.limit:.4g}",
        "share": f"{100 * TARGET:.0f} %",
        "explains": scoring.explains(scorer),
        "guess": bool(found.hidden_share > TARGET),
        "doubt": found.doubt(TARGET),
        "notes": taken.sentences(),
    }
    return json.dumps(told).encode()


def _telling(channel: Connection) -> Callable[[str, int, int | None], None]:
    """Tells the progress in tenths, each once; a step's name stays here."""
    told = 0
    lock = threading.Lock()  # reports may come from several threads

    def hear(_phase: str, done: int, total: int | None) -> None:
        nonlocal told
        tenths = min(9, 10 * done // total) if total else 0
        with lock:
            if tenths > told:
                told = tenths
                channel.send_bytes(PROGRESS + str(tenths).encode())

    return hear


def _table(rows: KeptRows, tables: dict[str, Table]) -> Table:
    """The rows, kept for the next question about them; those of an earlier folder are let go."""
    if rows.folder not in tables:
        tables.clear()
        tables[rows.folder] = rows.load()
    return tables[rows.folder]


def _budget_picture(task: dict[str, Any]) -> bytes:
    from privod import pictures

    charges = [(name, Loss(*loss)) for name, loss in task["charges"]]
    return pictures.svg(pictures.draw_budget(task["title"], Loss(*task["budget"]), charges))
