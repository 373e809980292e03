"""How long does a joint run take over a line between cities: 80 ms there and back, 50 Mbit/s?

Every party is a process of its own and reaches the aggregator, by mutual TLS, through a proxy on
loopback, a process of its own as well, that delays and slows each connection in both directions.

    python -m scripts.run_benchmark benchmarks/joint_wan.py             # some minutes
    python -m scripts.run_benchmark benchmarks/joint_wan.py --quick     # small, below a minute
"""

from __future__ import annotations

import asyncio
from multiprocessing import get_context
from multiprocessing.connection import Connection

from benchmarks.joint_scale import Case, follow_parent, measure_all

ONE_WAY_SECONDS = 0.04
BYTES_PER_SECOND = 50e6 / 8
PIECE = 1 << 16
CASES = {
    "rows_3": Case("horizontal", 3, 100_000),
    "rows_10": Case("horizontal", 10, 100_000, columns=6),
    "rows_3_verified": Case("horizontal", 3, 100_000, verify=True),
    "columns_3": Case("vertical", 3, 50_000),
    "columns_3_verified": Case("vertical", 3, 50_000, verify=True),
}
QUICK = {"rows_3": Case("horizontal", 3, 20_000, tables=10)}


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, late and no faster than the line."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

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
    free, piece = loop.time(), b"first"
    while piece:
        try:
            piece = await reader.read(PIECE)
        except ConnectionError:
            piece = b""
        free = max(free, loop.time()) + len(piece) / BYTES_PER_SECOND
        await queue.put((free + ONE_WAY_SECONDS, piece))
    await asyncio.gather(delivery, return_exceptions=True)


async def pass_on(target: int, told: Connection) -> None:
    """Lead to a port from one's own, which is told first."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    told.send(int(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


def proxy(target: int, told: Connection) -> None:
    """The line, for as long as there is somebody at its ends."""
    follow_parent()
    asyncio.run(pass_on(target, told))


def slow_line(target: int) -> int:
    """Start a proxy that leads to this port; return its own."""
    context = get_context("spawn")
    told, telling = context.Pipe(duplex=False)
    context.Process(target=proxy, args=(target, telling), daemon=True).start()
    telling.close()
    return int(told.recv())


if __name__ == "__main__":
    measure_all(__doc__ or "", CASES, QUICK, slow_line)
