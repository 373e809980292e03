"""Does the ledger hold under eight processes, under kill -9, and when its server crashes?

Run `python benchmarks/soak_ledger.py` (about five minutes), or with `--quick`. The test suite runs
the same trials with smaller numbers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.postgres_cluster import crash, find_server, running_server

from privod.curator import Accounting, Curator
from privod.data import Domain, Numeric
from privod.errors import AnswerFailed, BudgetExceeded, LedgerDamaged, PrivodError, Unavailable
from privod.privacy import NOTHING_SPENT, AddRemove, Cost, Loss, ZcdpBudget
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram

N_COLUMNS = 40
DOMAIN = Domain(tuple(Numeric(f"x{column}", 0, 1) for column in range(N_COLUMNS)))
DATA = "people"


@dataclass(frozen=True)
class Place:
    """Where a curator is: a directory, and the URL of its database if it has one."""

    directory: str
    url: str | None

    def open(self) -> Curator:
        return Curator.open(self.directory, database=self.url)


def context() -> ForkServerContext:
    """Processes that start quickly and share nothing."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["privod.curator", "pyarrow.dataset", "pandas", __name__])
    return found


def fill(place: Place, budget: Loss, accounting: Accounting = "sums") -> None:
    """Register a hundred people and open a budget."""
    values = np.linspace(0, 1, 100)
    with place.open() as curator:
        curator.register(DATA, dict.fromkeys(DOMAIN.names, values), DOMAIN)
        curator.open_budget(DATA, AddRemove(), budget, accounting=accounting, confirmed=True)


def question(number: int, unit: Fraction) -> Histogram:
    """One of 4000 different questions of the same price."""
    bins, column = divmod(number, N_COLUMNS)
    return Histogram(columns=(f"x{column}",), bins=bins + 1, epsilon=unit)


# ---- many at once ------------------------------------------------------------------------------


def _grab(place: Place, first: int, count: int, unit: Fraction) -> int:
    """Ask as many questions as asked for; count those that were granted."""
    granted = 0
    with place.open() as curator:
        for number in range(first, first + count):
            try:
                granted += not curator.ask(question(number, unit), DATA).stored
            except BudgetExceeded:
                continue
    return granted


def fitting(units: int, accounting: Accounting) -> int:
    """How many questions at epsilon 1 / units a budget of (1, 1e-6) pays."""
    if accounting == "sums":
        return units
    cost = Cost.of_loss(Loss(Fraction(1, units)))
    return ZcdpBudget.of(1, "1e-6").questions_left(NOTHING_SPENT, cost)


def hammer(
    place: Place, processes: int, units: int, accounting: Accounting = "sums"
) -> tuple[int, float]:
    """Let processes ask for more than there is; how many got something, and in how long."""
    unit = Fraction(1, units)
    fill(place, Loss(1, "1e-6"), accounting)
    each = -(-fitting(units, accounting) * 5 // (4 * processes))  # a quarter more than there is
    jobs = [(place, worker * each, each, unit) for worker in range(processes)]
    began = time.perf_counter()
    with context().Pool(processes) as pool:
        granted = sum(pool.starmap(_grab, jobs))
    seconds = time.perf_counter() - began
    with place.open() as curator:
        curator.verify()
        (state,) = curator.budget(DATA)
        assert state.spent == Loss(Fraction(granted, units))
        assert granted == fitting(units, accounting)
    return granted, seconds


# ---- killed at any moment ----------------------------------------------------------------------


def _work_until_killed(
    place: Place,
    unit: Fraction,
    seed: int,
    shown: str,
    expected: tuple[type[PrivodError], ...] = (),
) -> None:
    """Ask at random, and note every answer that was shown, until somebody ends it.

    `expected` failures are passed over: those of a server that crashes meanwhile.
    """
    chance = random.Random(seed)
    handle = os.open(shown, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with place.open() as curator:
        while True:
            query = question(chance.randrange(4000), unit)
            try:
                release = curator.ask(query, DATA, request_id=f"{seed}-{chance.random()}").release
            except expected:
                time.sleep(0.05)
                continue
            line = json.dumps([canonical_json(query.to_json()), canonical_json(release.to_json())])
            os.write(handle, f"{line}\n".encode())


def kill_often(
    place: Place, times: int, scratch: Path, seed: int = 0, accounting: Accounting = "sums"
) -> int:
    """Kill two askers at a random moment, again and again; how many answers were shown."""
    chance = random.Random(seed)
    fill(place, Loss(10**6, "1e-6"), accounting)
    shown: dict[str, str] = {}
    for trial in range(times):
        notes = scratch / f"shown-{trial}"
        workers = [
            context().Process(
                target=_work_until_killed,
                args=(place, Fraction(1, 7), 1000 * trial + worker, str(notes)),
            )
            for worker in range(2)
        ]
        for worker in workers:
            worker.start()
        while not notes.exists() or not notes.stat().st_size:  # wait for the first answer
            time.sleep(0.01)
        for worker in workers:
            time.sleep(chance.uniform(0, 0.3))
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        _check(place, notes, shown)
    return len(shown)


def crash_often(place: Place, url: str, times: int, scratch: Path) -> int:
    """End the server at once and start it, again and again; how many answers were shown."""
    chance = random.Random(1)
    fill(place, Loss(10**6, "1e-6"))
    notes = scratch / "shown-through-crashes"
    notes.touch()
    workers = [
        context().Process(
            target=_work_until_killed,
            args=(place, Fraction(1, 7), seed, str(notes), (Unavailable, AnswerFailed)),
        )
        for seed in range(2)
    ]
    for worker in workers:
        worker.start()
    for _ in range(times):
        size = notes.stat().st_size
        while notes.stat().st_size == size and all(worker.is_alive() for worker in workers):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.3))
        crash(url)
    held = all(worker.is_alive() for worker in workers)  # a ledger that lost entries ends them
    for worker in workers:
        worker.kill()
        worker.join()
    assert held
    shown: dict[str, str] = {}
    _check(place, notes, shown)
    return len(shown)


def _check(place: Place, notes: Path, shown: dict[str, str]) -> None:
    """The ledger holds, and every answer ever shown is the stored one, to the last digit."""
    for line in notes.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            continue  # the kill tore it: this answer was not shown to the end
        query, release = json.loads(line)
        if shown.setdefault(query, release) != release:
            raise LedgerDamaged("A stored release is noisy a second time.")
    with place.open() as curator:
        curator.verify()  # also: no release without its charge, no overspending
        stored = {
            canonical_json(release.query.to_json()): canonical_json(release.to_json())
            for release in curator.releases(DATA)
        }
    if any(stored.get(query) != release for query, release in shown.items()):
        raise LedgerDamaged("An answer that was shown is not stored.")


# ---- both, on both engines ---------------------------------------------------------------------


@contextmanager
def places() -> Iterator[list[tuple[str, str | None]]]:
    """SQLite, and PostgreSQL where there is a server to start."""
    if find_server() is None:
        print("skipped: PostgreSQL, no server program was found")
        yield [("sqlite", None)]
        return
    with running_server() as url:
        yield [("sqlite", None), ("postgresql", url)]


def empty(url: str | None) -> None:
    """Make a PostgreSQL database as new."""
    if url is not None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


def hold_out(
    engine: str, url: str | None, scratch: Path, sizes: tuple[int, int, int], notes: Path
) -> None:
    """Many processes at once, by both ways of accounting, then kills."""
    units, kills, processes = sizes
    empty(url)
    granted, seconds = hammer(Place(f"{scratch}/{engine}-hammer", url), processes, units)
    print(f"figure {engine}_units_in_the_ledger {units}")
    print(f"figure {engine}_granted_to_{processes}_processes {granted}")
    print(f"figure {engine}_seconds {seconds:.1f}")
    empty(url)
    place = Place(f"{scratch}/{engine}-zcdp", url)
    granted, _ = hammer(place, processes, units // 10, "zcdp")
    print(f"figure {engine}_zcdp_questions_due {fitting(units // 10, 'zcdp')}")
    print(f"figure {engine}_zcdp_granted_to_{processes}_processes {granted}")
    empty(url)
    answers = kill_often(Place(f"{scratch}/{engine}-kill", url), kills, notes)
    print(f"figure {engine}_kills_survived {kills}")
    print(f"figure {engine}_answers_shown_and_stored {answers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    units, kills, crashes, processes = (1000, 100, 20, 8)
    if given.quick or given.smoke:
        units, kills, crashes, processes = (10, 1, 1, 2) if given.smoke else (100, 5, 2, 8)
    with places() as engines, tempfile.TemporaryDirectory() as scratch:
        for engine, url in engines:
            notes = Path(scratch) / f"{engine}-notes"
            notes.mkdir()
            if url is None or not given.smoke:  # tests/test_curator_postgres.py asks the same
                hold_out(engine, url, Path(scratch), (units, kills, processes), notes)
            if url is None:
                continue
            empty(url)
            place = Place(f"{scratch}/{engine}-crash", url)
            answers = crash_often(place, url, crashes, notes)
            print(f"figure {engine}_crashes_of_the_server_survived {crashes}")
            print(f"figure {engine}_answers_shown_through_crashes {answers}", flush=True)


if __name__ == "__main__":
    main()
