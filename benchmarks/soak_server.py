"""How quickly are stored releases served to many clients at once, and does anything break?

    python benchmarks/soak_server.py [--seconds 20] [--clients 50]

A server on loopback, started by this script with the sample data, answers one stored question to
many clients, each in its own connection, from a second process. Two kinds of load: *paced*, in
which every client asks ten times a second, and *flat out*, in which every client asks again as soon
as it has its answer, so that the median says how many requests a second the server can take. A
third load is paced again, *beside busy workers*: both at work on about the heaviest question that
both take (of longer ones only one is answered at a time), which is stopped then. Where other jobs
take the processors, times are told and not judged. The memory of the server is looked at before and
after. Then a server, or its workers, is killed again and again while questions are asked: nothing
that was shown may be lost, and nothing charged twice. At last every role visits every route, and
some twenty thousand random requests look for a 5xx.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import uvicorn

from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.privacy import AddRemove, Loss
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.server.authentication import create_token
from privod.server.limits import Limits, Rate
from privod.server.sample import DATASET, Sample, sample
from privod.server.serve import Listening, configured
from privod.wire import answer_key

UNLIMITED = Limits(requests=Rate(1e9, 10**9), strangers=Rate(1e9, 10**9))
QUESTION = Histogram(columns=("radius",), epsilon="0.5")
PACE = 0.1  # seconds from one request of a client to its next
GOAL = 0.010  # seconds, at the median; judged where the machine is this script's own
ALONE = 0.9  # of a core, that a process which only computes gets there
PROBE_SECONDS = 0.3
FUZZ_EXAMPLES = 300
MOST_GROWTH = 100.0  # megabytes that the server may grow by under load
BUSY_RECORDS = 100_000
BUSY_COLUMNS = 8  # 70 sets of 4: the heaviest question, almost, that is short enough for both
BUSY_CROWDS = (20_000, 20_001)  # larger than any crowd there, so that no count ends early


@dataclass(frozen=True)
class Load:
    """What the clients of one load saw."""

    requests: int
    failures: int
    seconds: float
    milliseconds: dict[str, float]


async def client(
    host: str, port: int, request: bytes, until: float, pace: float, start: float
) -> tuple[list[float], int]:
    """One client: the time of each request, and how many failed."""
    reader, writer = await asyncio.open_connection(host, port)
    times, failures = [], 0
    next_at = time.perf_counter() + start
    while time.perf_counter() < until:
        await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
        next_at += pace
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - began)
        failures += not head.startswith(b"HTTP/1.1 200")
    writer.close()
    await writer.wait_closed()
    return times, failures


async def load(port: int, request: bytes, clients: int, seconds: float, pace: float) -> Load:
    """Many clients at once, their first requests spread over one pace."""
    began = time.perf_counter()
    found = await asyncio.gather(
        *(
            client("127.0.0.1", port, request, began + seconds, pace, pace * place / clients)
            for place in range(clients)
        )
    )
    taken = time.perf_counter() - began
    times = 1000 * np.concatenate([np.array(times) for times, _ in found])
    shares = {"median": 50, "95 %": 95, "99 %": 99, "largest": 100}
    return Load(
        len(times),
        sum(failures for _, failures in found),
        taken,
        {name: round(float(np.percentile(times, share)), 2) for name, share in shares.items()},
    )


def request_of(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """A request as bytes, so that the clients cost as little as they can."""
    head = [
        f"{method} /api/v1{path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def measured(port: int, request: bytes, clients: int, seconds: float, pace: float) -> Load:
    """The load from a process of its own, as clients are."""
    given = json.dumps([port, request.decode(), clients, seconds, pace])
    run = subprocess.run(
        [sys.executable, __file__, "--as-clients"],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return Load(**json.loads(run.stdout))


def as_clients() -> None:
    """What the second process does."""
    port, request, clients, seconds, pace = json.loads(sys.stdin.read())
    found = asyncio.run(load(port, request.encode(), clients, seconds, pace))
    print(json.dumps(vars(found)))


def serve_and_load(clients: int, seconds: float) -> bool:
    """Start the server, ask once, then let the clients in; True if the goal was met."""
    with tempfile.TemporaryDirectory() as directory:
        made = sample(Path(directory))
        server = uvicorn.Server(configured(made.curator, Listening(port=0), UNLIMITED))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        made.curator.ask(QUESTION, DATASET)
        body = json.dumps({"query": QUESTION.to_json()}).encode()
        ask = request_of("POST", f"/datasets/{DATASET}/ask", made.analyst, body)
        met = True
        figures: dict[str, float] = {}
        try:
            measured(port, ask, clients, 2.0, PACE)  # warm
            before = resident_megabytes()
            for name, pace in [("paced", PACE), ("flat out", 0.0), ("beside busy workers", PACE)]:
                own_share = share_of_a_core()
                with ExitStack() as stack:
                    busy: list[str] = []
                    if name.startswith("beside"):
                        busy = stack.enter_context(busy_workers(made, port))
                    found = measured(port, ask, clients, seconds, pace)
                own_share = min(own_share, share_of_a_core())
                met &= all(state == "answering" for state in busy)
                rate = found.requests / found.seconds
                print(f"{name}: {clients} clients, {rate:.0f} requests a second, {vars(found)}")
                case = f"{clients}_clients_{name.replace(' ', '_')}"
                figures[f"{case}_requests_per_second"] = rate
                figures[f"{case}_median_ms"] = found.milliseconds["median"]
                met &= found.failures == 0
                if pace and own_share >= ALONE:
                    met &= found.milliseconds["median"] < 1000 * GOAL
                elif pace:
                    print(
                        f"not judged by {1000 * GOAL:g} ms: other jobs left a busy process"
                        f" {own_share:.0%} of a core"
                    )
            figures["server_grew_megabytes"] = resident_megabytes() - before
            met &= figures["server_grew_megabytes"] < MOST_GROWTH
        finally:
            server.should_exit = True
            thread.join()
            made.curator.close()
    for name, value in figures.items():
        print(f"figure {name} {value:.4g}")
    return met


def share_of_a_core() -> float:
    """How much of a core a process that only computes gets here, beside all other jobs."""
    began, computed = time.perf_counter(), time.process_time()
    while time.process_time() - computed < PROBE_SECONDS:
        sum(range(1000))
    return PROBE_SECONDS / (time.perf_counter() - began)


def resident_megabytes() -> float:
    """The memory of this process, in which the server runs."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def busy_workers(made: Sample, port: int) -> Iterator[list[str]]:
    """Both workers at work on the heaviest question, asked by two analysts, and then stopped.

    What is handed out is filled, at the end, with where the two questions stood then.
    """
    states: list[str] = []
    rows = np.random.default_rng(1).random((BUSY_RECORDS, BUSY_COLUMNS))
    names = [f"c{place}" for place in range(BUSY_COLUMNS)]
    domain = Domain(tuple(Numeric(name, 0, 1) for name in names))
    values = dict(zip(names, rows.T, strict=True))
    made.curator.register("busy", values, domain, most_records=BUSY_RECORDS)
    made.curator.open_budget("busy", AddRemove(), Loss("1"))
    address = f"http://127.0.0.1:{port}/api/v1"
    clients = []
    try:
        for place, crowd in enumerate(BUSY_CROWDS):
            token = create_token(made.curator, "analyst", "busy", f"busy {place}")
            client = httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=60)
            clients.append((client, address))
            query = OutlierSubspaces(radius_per_column=0.3, max_crowd=crowd, epsilon="0.1", size=4)
            sent = client.post(
                f"{address}/datasets/busy/ask", json={"query": query.to_json(), "wait": 0}
            )
            sent.raise_for_status()
        for client, where in clients:
            while any(job["state"] == "waiting" for job in client.get(f"{where}/jobs").json()):
                time.sleep(0.5)
        yield states
    finally:
        for client, where in clients:
            for job in client.get(f"{where}/jobs").json():
                print(f"the busy question was {job['state']} after the load")
                states.append(job["state"])
                client.delete(f"{where}/jobs/{job['job']}")
            client.close()


SERVER = """
import sys
from privod.curator import Curator
from privod.server.limits import Limits, Rate
from privod.server.serve import Listening, serve

serve(Curator.open(sys.argv[1]), Listening(port=0), Limits(requests=Rate(1e6, 10**6)))
"""


def killed(rounds: int) -> bool:
    """Kill the server or its workers while questions are asked; True if nothing went wrong."""
    shown: dict[str, object] = {}
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        made = sample(Path(directory))
        made.curator.close()
        for place in range(rounds):
            shown |= one_round(directory, made.analyst, place, draw, whole=place % 2 == 0)
        with Curator.open(directory) as curator:
            curator.verify()
            entries = curator.history(DATASET)
            stored = {answer_key(one.query): one.to_json() for one in curator.releases(DATASET)}
    asked = [str(entry.query) for entry in entries if entry.kind == "charge"]
    answered = [str(entry.query) for entry in entries if entry.kind == "release"]
    kept = all(stored.get(key) == release for key, release in shown.items())
    once = len(set(answered)) == len(answered) and len(asked) >= len(answered)
    print(
        f"killed {rounds} times: {len(asked)} charged, {len(answered)} answered, {len(shown)} shown"
    )
    print(f"figure kills {rounds}")
    print(f"figure answers_shown_and_kept {len(shown) if kept and once else 0}")
    return kept and once and len(shown) > 0


def one_round(
    directory: str, token: str, place: int, draw: random.Random, *, whole: bool
) -> dict[str, object]:
    """Ask until the kill; what was shown by then."""
    shown: dict[str, object] = {}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, directory], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = ""
        while "http://" not in line:
            line = server.stderr.readline()
        address = "http" + line.partition("http")[2].split()[0]
        threading.Thread(target=server.stderr.read, daemon=True).start()
        threading.Timer(draw.uniform(3, 8), kill, (server, whole)).start()
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=60) as client:
            for number in range(12):
                epsilon = f"0.00{place:02}{number:02}1"
                query = Histogram(columns=("radius",), epsilon=epsilon).to_json()
                try:
                    told = client.post(f"/datasets/{DATASET}/ask", json={"query": query}).json()
                except httpx.TransportError:
                    break
                if "release" in told:
                    shown[told["key"]] = told["release"]
        server.kill()
    return shown


def kill(server: subprocess.Popen[str], whole: bool) -> None:
    """Kill a server, or the worker processes below it."""
    if whole:
        server.kill()
        return
    below = {server.pid}
    for _ in range(3):
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in below:
                    below.add(int(process.name))
    for process_id in below - {server.pid}:
        with suppress(OSError):
            if "forkserver" in Path(f"/proc/{process_id}/cmdline").read_text():
                os.kill(process_id, signal.SIGKILL)


def knock_and_fuzz() -> bool:
    """The role and fuzz tests with many more examples than a test run has time for."""
    tests = ["tests/test_server_roles.py", "tests/test_server_fuzz.py"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        env={**os.environ, "PRIVOD_FUZZ_EXAMPLES": str(FUZZ_EXAMPLES)},
    )
    return run.returncode == 0


def main() -> None:
    """Run everything and exit with an error if anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--load-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a few seconds of load only")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--as-clients", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_clients:
        as_clients()
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if given.smoke:
        serve_and_load(2, 0.2)  # whether it runs; how fast says nothing beside other tests
        return
    met = serve_and_load(given.clients, 3.0 if given.quick else given.seconds)
    if not given.quick:
        met &= killed(given.kills)
    if not (given.load_only or given.quick):
        met &= knock_and_fuzz()
    print("all met" if met else "missed")
    sys.exit(not met)


if __name__ == "__main__":
    main()
