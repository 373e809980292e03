"""How much memory, traffic and time does a joint run take: many parties, many rows, a slow line?

Every party is a process of its own and talks to the aggregator over mutual TLS on loopback, if
asked through a proxy that delays and slows every connection like a line between cities.

    python benchmarks/joint_scale.py                  # some sizes, each in a process of its own
    python benchmarks/joint_scale.py --parties 30 --rows 1000000 --columns 3 --tables 20
    python benchmarks/joint_scale.py --partition vertical --rows 1000000
    python benchmarks/joint_scale.py --wan            # 80 ms both ways together, 50 Mbit/s each way
    python benchmarks/joint_scale.py --quick          # three parties, below a minute

Memory per row is the largest resident size of a process less what it had before it made its rows,
over the rows it has (a party) or all have (the aggregator); the rows themselves, 8 bytes a value,
are in it.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.joint.contributions import Contributions
from privod.joint.pki import make_identities
from privod.joint.question import JointOutliers
from privod.joint.roster import Identity, Roster
from privod.joint.run import aggregate, rehearse, take_part
from privod.joint.transport.channel import Patience, attend, host
from privod.joint.transport.grpc import GrpcAggregator, GrpcChannel

ONE_WAY_SECONDS = 0.04
BYTES_PER_SECOND = 50e6 / 8
PIECE = 1 << 16
PATIENCE = Patience(coming=1200, stalled=1200)
TOP = 60.0


def question(partition: str, n_tables: int, n_columns: int) -> JointOutliers:
    """One crowd in a hundred."""
    return JointOutliers(
        partition=partition,
        radius=2.0 * n_columns**0.5,
        far_fraction=0.99,
        columns=tuple(f"x{number}" for number in range(n_columns)),
        n_tables=n_tables,
    )


def rows_of(place: int, rows: int, columns: tuple[str, ...]) -> Table:
    """Some rows of a cloud with a few strangers."""
    generator = np.random.default_rng(place)
    points = generator.normal(size=(rows, len(columns)))
    points[:5] = generator.uniform(20, 50, (5, 1))
    domain = Domain(tuple(Numeric(name, -TOP, TOP, fill=0.0) for name in columns))
    return Table(domain, dict(zip(columns, points.T, strict=True)))


def held_by(place: int, asked: JointOutliers, n_parties: int) -> tuple[str, ...]:
    """Everybody's columns."""
    if asked.partition == "horizontal":
        return asked.columns
    return tuple(np.array_split(np.array(asked.columns), n_parties)[place].tolist())


def resident() -> int:
    """Bytes in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def largest() -> int:
    """The most bytes that were ever in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def party(
    place: int,
    asked: JointOutliers,
    rows: int,
    roster: Roster,
    identity: Identity,
    results: Queue[dict[str, Any]],
) -> None:
    """Take part in a process of one's own."""
    small = {f"p{at}": rows_of(at, 2000, asked.columns) for at in range(3)}
    rehearse(replace(asked, partition="horizontal", n_tables=2, epsilon=None, delta=None), small)
    before = resident()
    table = rows_of(place, rows, held_by(place, asked, len(roster.names)))
    answer = attend(
        GrpcChannel(roster, identity, PATIENCE),
        lambda channel: take_part(asked, table, channel, identity, roster, Contributions()),
    )
    results.put(
        {
            "bytes_per_row": (largest() - before) / rows,
            "sent": answer.traffic.sent,
            "received": answer.traffic.received,
            "suspects": len(answer.rows),
        }
    )


@contextmanager
def slow_line(port: int) -> Iterator[int]:
    """A proxy to a port of this machine that delays and slows; gives its own port."""
    loop = asyncio.new_event_loop()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        free = loop.time()

        async def deliver() -> None:
            while True:
                due, piece = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()

        delivery = asyncio.create_task(deliver())
        piece = b"first"
        while piece:
            try:
                piece = await reader.read(PIECE)
            except ConnectionError:
                piece = b""
            free = max(free, loop.time()) + len(piece) / BYTES_PER_SECOND
            await queue.put((free + ONE_WAY_SECONDS, piece))
        await asyncio.gather(delivery, return_exceptions=True)

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(join, "127.0.0.1", 0))
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def measure(asked: JointOutliers, n_parties: int, rows: int, *, wan: bool) -> None:
    """One run; print its figures."""
    partition, n_tables = asked.partition, asked.n_tables
    names = [f"p{place:02}" for place in range(n_parties)]
    roster, identities = make_identities(names, "hub", "127.0.0.1:0")
    everything = rows if partition == "vertical" else rows * n_parties
    domain = rows_of(0, 10, asked.columns).domain
    context = get_context("forkserver")  # parties share the pages of what is imported
    context.set_forkserver_preload(["privod.joint.run", "privod.joint.transport.grpc"])
    results: Queue[dict[str, Any]] = context.Queue()
    small = {f"p{at}": rows_of(at, 2000, asked.columns) for at in range(3)}
    rehearse(replace(asked, partition="horizontal", n_tables=2, epsilon=None, delta=None), small)
    before = resident()
    with GrpcAggregator(roster, identities["hub"], "127.0.0.1:0", PATIENCE) as hub:
        with slow_line(hub.port) as slow:
            at = replace(roster, address=f"127.0.0.1:{slow if wan else hub.port}")
            processes = [
                context.Process(
                    target=party, args=(place, asked, rows, at, identities[name], results)
                )
                for place, name in enumerate(names)
            ]
            for process in processes:
                process.start()
            done = host(
                hub.meeting,
                lambda meeting: aggregate(asked, meeting, identities["hub"], roster, domain),
            )
            found = [results.get(timeout=600) for _ in names]
            for process in processes:
                process.join()
        assert done.n_records == everything
    steps = hub.meeting.traffic.steps[1:]  # without the wait until everybody has come
    line = "wan" if wan else "loopback"
    width = len(asked.columns)
    label = f"{partition}_{n_parties}x{rows}x{width}_{n_tables}tables_{line}"
    figures = {
        "seconds": sum(step.worked + step.waited for step in steps),
        "party_bytes_per_row": max(one["bytes_per_row"] for one in found),
        "aggregator_bytes_per_row": (largest() - before) / everything,
        "aggregator_megabytes": (largest() - before) / 1e6,
        "sent_megabytes_per_party": max(one["sent"] for one in found) / 1e6,
        "received_megabytes_per_party": max(one["received"] for one in found) / 1e6,
        "suspects": float(found[0]["suspects"]),
    }
    for name, value in figures.items():
        print(f"figure joint_{label}_{name} {value:.4g}", flush=True)


CASES = (
    "--rows 100000",
    "--rows 20000 --parties 10",
    "--rows 100000 --partition vertical",
    "--rows 100000 --wan",
    "--rows 30000 --partition vertical --wan",
)


def main() -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partition", choices=("horizontal", "vertical"), default="horizontal")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--columns", type=int, default=9)
    parser.add_argument("--wan", action="store_true", help="through the slow line")
    parser.add_argument("--quick", action="store_true", help="small, below a minute")
    if len(sys.argv) == 1:  # a process remembers the most memory it ever had
        for case in CASES:
            subprocess.run([sys.executable, __file__, *shlex.split(case)], check=True)
        return
    given = parser.parse_args()
    rows, tables = (20_000, 10) if given.quick else (given.rows, given.tables)
    asked = question(given.partition, tables, given.columns)
    measure(asked, given.parties, rows, wan=given.wan)


if __name__ == "__main__":
    main()
