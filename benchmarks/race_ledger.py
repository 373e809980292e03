"""How many charges a second, how long a question takes, and how quickly a stored answer comes.

Run `python benchmarks/race_ledger.py`, or with `--quick`. Both engines are measured in one run; a
PostgreSQL server is started where its programs are found. The data set is tiny and the question is
a histogram, so that what is measured is the ledger. With `--fsync-ms 4` the disk is one whose flush
takes 4 ms, however quick the one of this machine is (`slow_disk.py`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.slow_disk import with_slow_disk
from benchmarks.soak_ledger import DATA, Place, context, empty, fill, places, question

from privod.curator import Curator
from privod.ledger.acts import ChargeElsewhere
from privod.privacy import AddRemove, Guarantee, Loss

UNIT = Fraction(1, 10**6)
CLIENTS = 50
PROCESSES = 8


def timed(act: Callable[[int], object], numbers: range) -> list[float]:
    """Milliseconds of each call."""
    times = []
    for number in numbers:
        began = time.perf_counter()
        act(number)
        times.append(1000 * (time.perf_counter() - began))
    return times


def figures(name: str, times: list[float]) -> None:
    """The median and the slow end of some latencies."""
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    print(f"figure {name}_ms_median {statistics.median(times):.2f}")
    print(f"figure {name}_ms_p95 {cuts[94]:.2f}")


def _charge(place: Place, count: int) -> None:
    lost = Guarantee(Loss(UNIT), AddRemove())
    with place.open() as curator:
        for number in range(count):
            curator.do(ChargeElsewhere(DATA, lost, f"charge {number}"), confirmed=True)


def charges_a_second(place: Place, processes: int, count: int) -> float:
    """Durable charges to one budget, from several processes at once."""
    with context().Pool(processes) as pool:
        pool.starmap(_charge, [(place, 1)] * processes)  # start them up
        began = time.perf_counter()
        pool.starmap(_charge, [(place, count)] * processes, chunksize=1)
        return processes * count / (time.perf_counter() - began)


def stored(curator: Curator, count: int) -> list[float]:
    """Latencies of a stored answer under many concurrent clients of one process."""

    def client(_: int) -> list[float]:
        return timed(lambda _: curator.ask(question(0, UNIT), DATA), range(count))

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [latency for times in pool.map(client, range(CLIENTS)) for latency in times]


def disk(directory: str, count: int) -> list[float]:
    """What the disk itself takes to make one small write durable."""
    handle = os.open(Path(directory) / "probe", os.O_WRONLY | os.O_CREAT)
    try:

        def write(_: int) -> None:
            os.write(handle, bytes(4096))
            os.fsync(handle)

        return timed(write, range(count))
    finally:
        os.close(handle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--fsync-ms", type=float, help="measure on a disk that is as slow as this")
    parser.add_argument("--charges-only", action="store_true", help="leave questions out")
    arguments = parser.parse_args()
    if arguments.fsync_ms is not None:
        with_slow_disk(arguments.fsync_ms)
    count = 10 if arguments.smoke else 30 if arguments.quick else 300
    with places() as engines, tempfile.TemporaryDirectory() as scratch:
        figures("fsync", disk(scratch, count))
        for engine, url in engines:
            empty(url)
            place = Place(f"{scratch}/{engine}", url)
            fill(place, Loss(1))
            for processes in (1, PROCESSES):
                rate = charges_a_second(place, processes, count)
                print(f"figure {engine}_charges_per_second_{processes}_processes {rate:.0f}")
            if arguments.charges_only:
                continue
            with place.open() as curator:
                asking = timed(
                    lambda number: curator.ask(question(number, UNIT), DATA), range(count)
                )
                figures(f"{engine}_question", asking)
                figures(
                    f"{engine}_stored_answer",
                    timed(lambda _: curator.ask(question(0, UNIT), DATA), range(count)),
                )
                figures(f"{engine}_stored_answer_{CLIENTS}_threads", stored(curator, count // 10))
                began = time.perf_counter()
                entries = curator.verify().entries
                seconds = time.perf_counter() - began
            print(
                f"figure {engine}_entries_verified_per_second {entries / seconds:.0f}", flush=True
            )


if __name__ == "__main__":
    main()
