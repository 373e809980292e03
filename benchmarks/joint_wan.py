"""How long does a joint run take over a line between cities: 80 ms there and back, 50 Mbit/s?

Every party is a process of its own and reaches the aggregator, by mutual TLS, through a proxy on
loopback that delays and slows each connection in both directions.

    python scripts/run_benchmark.py benchmarks/joint_wan.py             # some minutes
    python scripts/run_benchmark.py benchmarks/joint_wan.py --quick     # small, below a minute
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import closing
from threading import Thread

from benchmarks.joint_scale import Case, measure

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


class SlowLine:
    """A proxy on a port of its own to whatever port it is asked to reach."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._target = 0
        starting = asyncio.start_server(self._join, "127.0.0.1", 0)
        self._server = self._loop.run_until_complete(starting)
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def reach(self, port: int) -> int:
        """Lead to that port from now on; return one's own."""
        self._target = port
        return int(self._server.sockets[0].getsockname()[1])

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    def close(self) -> None:
        """Stop passing anything on."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def main() -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, below a minute")
    with closing(SlowLine()) as line:
        for name, case in (QUICK if parser.parse_args().quick else CASES).items():
            measure(name, case, line.reach)


if __name__ == "__main__":
    main()
