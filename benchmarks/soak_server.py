"""Does a hostile token slow anybody else down, and is anything lost when a server is killed?

    python benchmarks/soak_server.py [--seconds 60] [--clients 50] [--kills 100] [--database URL]

A server with the sample data runs in a process of its own, with two workers at about the heaviest
question that both take. Answers were encoded when they were released. Fifty honest clients read
stored answers, prices, budgets, lists, pages and pictures, five times a second each; in turn they
ask a bare FastAPI application for "hello".
Beside them one hostile token reads an answer of a million numbers on six connections, scores
records against a grid, opens forty requests whose bodies never come, and never reads ten answers.
Judged, where the machine is this script's own: honest reads take at most three times as long as a
hello at the median and 250 ms at 99 %, pictures 5 s at 99 %; nothing fails; the server does not
grow. A machine that others use is told and not judged by time.

With `--kills N` a server is killed N times instead (`kill -9`) while two clients ask, each time
begun anew, on SQLite and on PostgreSQL where that is installed: at the end every question that was
charged is answered, none was charged twice, and what was shown is what is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.postgres_cluster import find_server, running_server

from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.data.examples import HOSPITAL, hospital
from privod.privacy import AddRemove, Loss
from privod.query.query import Query
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.server.authentication import create_token
from privod.server.sample import DATASET
from privod.wire import answer_key

FORK = multiprocessing.get_context("fork")  # clients import nothing anew
Seen = tuple[str, float, int]
"""What was asked for, how many seconds it took, and its status."""

PACE = 0.2  # seconds from one request of a client to its next
READS_TIMES = 3.0  # of a hello, at the median
READS_P99, PICTURES_P99 = 250.0, 5000.0  # milliseconds
ALONE = 0.9  # of a core, that a process which only computes gets where the machine is our own
MOST_GROWTH = 100.0  # megabytes that the server may grow by, from a third of the run to its end
PICTURES = 40
HONEST_TOKENS = 10
BUSY_COLUMNS = 8  # 70 sets of 4: the heaviest question, almost, that is short enough for both
BUSY_CROWDS = (20_000, 20_001)  # larger than any crowd there, so that no count ends early
PATIENCE = 300.0
FIRST_SECONDS = 60.0  # for a first answer, on a busy machine too

SERVER = """
import sys
from privod.curator import Curator
from privod.server.limits import Limits, Rate
from privod.server.serve import Listening, serve

fast = Rate(1e6, 10**6)
limits = Limits(requests=fast, strangers=fast, stop_seconds=1, connections_each=1000)
serve(Curator.open(sys.argv[1], database=sys.argv[2] or None), Listening(port=0), limits)
"""
HELLO = """
import uvicorn
from fastapi import FastAPI

app = FastAPI()

@app.get("/")
async def hello():
    return {"hello": "world"}

uvicorn.run(app, port=0, access_log=False, timeout_keep_alive=60)
"""


@contextmanager
def started(code: str, *given: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server process and its address."""
    with tempfile.NamedTemporaryFile() as log:
        command = [sys.executable, "-c", code, *given]
        with subprocess.Popen(command, stderr=log) as server:
            try:
                found = None
                while found is None and server.poll() is None:
                    time.sleep(0.02)
                    found = re.search(r"http://(\S+)", Path(log.name).read_text())
                assert found is not None, Path(log.name).read_text()
                yield server, found.group(1)
            finally:
                server.kill()


# ---- honest and hostile clients, in processes of their own ---------------------------------------


@dataclass
class Wire:
    """A connection that sends requests as bytes, so that clients cost as little as they can."""

    address: str
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    async def fetch(self, request: bytes) -> int:
        """Send a request, read its answer to the end; returns its status, 0 if it was cut off."""
        try:
            if self.reader is None or self.writer is None:
                host, _, port = self.address.rpartition(":")
                self.reader, self.writer = await asyncio.open_connection(host, int(port))
            self.writer.write(request)
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            left = int(length.group(1)) if length else 0
            while left:
                left -= len(await self.reader.readexactly(min(left, 1 << 20)))
            return int(head[9:12])
        except (OSError, asyncio.IncompleteReadError):
            self.reader = self.writer = None
            return 0


def request_of(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as bytes."""
    told = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in told.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def honest(place: int, plan: dict[str, Any], until: float) -> list[Seen]:
    """One honest client: what it asked for, how long that took, and its status."""
    draw = random.Random(place)
    server, hello = Wire(plan["server"]), Wire(plan["hello"])
    visitor = plan["visitors"][place % len(plan["visitors"])]
    seen: list[Seen] = []
    next_at = time.perf_counter() + PACE * draw.random()
    kinds = [*visitor, "hello"]
    draw.shuffle(kinds)
    while time.perf_counter() < until or len(seen) < len(kinds):
        await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
        next_at = max(next_at + PACE, time.perf_counter())
        kind = kinds[len(seen) % len(kinds)]
        requests = visitor.get(kind, [plan["hello_request"]])
        wire = hello if kind == "hello" else server
        began = time.perf_counter()
        status = await wire.fetch(draw.choice(requests).encode("latin-1"))
        seen.append((kind, time.perf_counter() - began, status))
    return seen


async def hostile(plan: dict[str, Any], until: float) -> None:
    """One token that takes all it can get."""

    async def again(request: str) -> None:
        wire = Wire(plan["server"])
        while time.perf_counter() < until:
            if await wire.fetch(request.encode("latin-1")) in (0, 429, 503):
                await asyncio.sleep(0.05)

    async def half(request: str, seconds: float) -> None:
        """Send what is never finished, or ask for what is never read."""
        host, _, port = plan["server"].rpartition(":")
        while time.perf_counter() < until:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port), limit=1024)
                writer.write(request.encode("latin-1"))
                await asyncio.sleep(min(seconds, max(0.0, until - time.perf_counter())))
                writer.transport.abort()

    told = plan["hostile"]
    tasks = [again(told["large"]) for _ in range(6)] + [again(told["score"]) for _ in range(4)]
    tasks += [half(told["unsent"], 12.0) for _ in range(40)]
    tasks += [half(told["large"], 40.0) for _ in range(10)]
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, until - time.perf_counter())):
            await asyncio.gather(*tasks)


def clients(plan: dict[str, Any], told: Connection) -> None:
    """What a client process does: it tells what honest clients saw."""
    until = time.perf_counter() + plan["seconds"]

    async def run() -> list[list[Seen]]:
        if "hostile" in plan:
            await hostile(plan, until)
            return []
        return await asyncio.gather(*(honest(place, plan, until) for place in range(plan["n"])))

    told.send([one for found in asyncio.run(run()) for one in found])


def client_process(plan: dict[str, Any]) -> Connection:
    """A process of clients; what it tells comes over the connection."""
    here, there = FORK.Pipe()
    FORK.Process(target=clients, args=(plan, there), daemon=True).start()
    return here


# ---- what they ask -------------------------------------------------------------------------------


def prepared(directory: Path, *, cells: int, pictures: int) -> dict[str, Any]:
    """A curator with answers, one of them large, and everybody's tokens."""
    with Curator.open(directory) as curator:
        curator.register(DATASET, hospital(569), HOSPITAL, most_records=1000)
        curator.open_budget(DATASET, AddRemove(), Loss("10", "1e-5"))
        small = [
            Histogram(columns=("age",), epsilon=f"0.0{place + 1:03}") for place in range(pictures)
        ]
        large = Histogram(columns=("age",), epsilon="0.000001", bins=cells)
        grid = GridKnn(columns=("age", "heart_rate"), epsilon="1", cells_per_axis=64)
        asked: list[Query[Any]] = [*small, large, grid]
        for query in asked:
            curator.ask(query, DATASET)
        create_token(curator, "owner", None, "soak")
        return {
            "keys": [answer_key(query) for query in small],
            "queries": [query.to_json() for query in small],
            "large": answer_key(large),
            "grid": answer_key(grid),
            "honest": [
                create_token(curator, "analyst", None, f"honest {place}")
                for place in range(HONEST_TOKENS)
            ],
            "hostile": create_token(curator, "analyst", None, "hostile"),
        }


def signed_in(address: str, token: str) -> tuple[str, str]:
    """A browser's cookie and the code of its forms."""
    codes: list[str] = []
    with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE) as browser:
        for sent in ({"token": token}, {}):
            page = browser.get("/sign-in", follow_redirects=True)
            codes += re.findall(r'name="code" value="([0-9a-f]+)"', page.text)[:1]
            if sent:
                browser.post("/sign-in", data={**sent, "code": codes[-1]})
        browser.get(f"/data/{DATASET}").raise_for_status()  # its list is encoded once
        return f"privod={browser.cookies['privod']}", codes[-1]


def encode_all(made: dict[str, Any], address: str) -> None:
    """Every form of every answer, once, as the server makes them after a release of its own."""
    headers = {"authorization": f"Bearer {made['honest'][0]}"}
    base = f"http://{address}/api/v1/datasets/{DATASET}/answers"
    with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE) as client:
        for key in made["keys"]:
            for form in ("", "/svg"):
                got, deadline = client.get(f"/{key}{form}"), time.monotonic() + PATIENCE
                while got.status_code == 503 and time.monotonic() < deadline:
                    time.sleep(PACE)  # a busy machine draws late
                    got = client.get(f"/{key}{form}")
                got.raise_for_status()


def honest_requests(made: dict[str, Any], address: str, token: str) -> dict[str, list[str]]:
    """What one honest token may ask for, by kind."""
    shown = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    cookie, _ = signed_in(address, token)
    at = f"/api/v1/datasets/{DATASET}"

    def many(method: str, paths: list[str], bodies: list[bytes] | None = None) -> list[str]:
        given = bodies or [b""] * len(paths)
        return [
            request_of(method, path, shown, body).decode("latin-1")
            for path, body in zip(paths, given, strict=True)
        ]

    queries = [json.dumps({"query": query}).encode() for query in made["queries"]]
    new = json.dumps({"query": {**made["queries"][0], "epsilon": "0.7"}}).encode()
    return {
        "ask": many("POST", [f"{at}/ask"] * len(queries), queries),
        "price": many("POST", [f"{at}/price"], [new]),
        "budget": many("GET", [f"{at}/budget"]),
        "answers": many("GET", [f"{at}/answers"]),
        "answer": many("GET", [f"{at}/answers/{key}" for key in made["keys"]]),
        "picture": many("GET", [f"{at}/answers/{key}/svg" for key in made["keys"]]),
        "page": [request_of("GET", f"/data/{DATASET}", {"Cookie": cookie}).decode()],
    }


def hostile_requests(made: dict[str, Any], address: str) -> dict[str, str]:
    """What the hostile token asks for."""
    token = {"Authorization": f"Bearer {made['hostile']}", "Content-Type": "application/json"}
    at = f"/api/v1/datasets/{DATASET}"
    large = request_of("GET", f"{at}/answers/{made['large']}", token)
    unsent = request_of("POST", f"{at}/ask", {**token, "Content-Length": "100000"})
    cookie, code = signed_in(address, made["hostile"])
    records = "age,heart_rate\n" + "61.5,78.2\n" * 900
    form = httpx.Request("POST", "http://x", data={"code": code, "records": records})
    score = request_of(
        "POST",
        f"/data/{DATASET}/answers/{made['grid']}",
        {"Cookie": cookie, "Content-Type": form.headers["content-type"]},
        form.read(),
    )
    told = {"large": large, "unsent": unsent, "score": score}
    return {name: request.decode("latin-1") for name, request in told.items()}


@contextmanager
def busy_workers(directory: Path, address: str, records: int) -> Iterator[None]:
    """Both workers at work on the heaviest question, asked by two analysts, and then stopped."""
    if not records:
        yield
        return
    rows = np.random.default_rng(1).random((records, BUSY_COLUMNS))
    names = [f"c{place}" for place in range(BUSY_COLUMNS)]
    domain = Domain(tuple(Numeric(name, 0, 1) for name in names))
    with Curator.open(directory) as curator:
        values = dict(zip(names, rows.T, strict=True))
        curator.register("busy", values, domain, most_records=records)
        curator.open_budget("busy", AddRemove(), Loss("1"))
        tokens = [create_token(curator, "analyst", "busy", f"busy {n}") for n in range(2)]
    jobs = []
    with ExitStack() as stack:
        for token, crowd in zip(tokens, BUSY_CROWDS, strict=True):
            headers = {"authorization": f"Bearer {token}"}
            client = httpx.Client(
                base_url=f"http://{address}/api/v1", headers=headers, timeout=PATIENCE
            )
            stack.enter_context(client)
            query = OutlierSubspaces(radius_per_column=0.3, max_crowd=crowd, epsilon="0.1", size=4)
            sent = client.post("/datasets/busy/ask", json={"query": query.to_json(), "wait": 0})
            jobs.append((client, sent.raise_for_status().json()["job"]))
        while any(client.get(f"/jobs/{job}").json()["state"] == "waiting" for client, job in jobs):
            time.sleep(0.2)
        yield
        for client, job in jobs:
            client.delete(f"/jobs/{job}")


# ---- the load ------------------------------------------------------------------------------------


def resident_megabytes(process: int) -> float:
    """The memory of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def share_of_a_core() -> float:
    """How much of a core a process that only computes gets here, beside all other jobs."""
    began, computed = time.perf_counter(), time.process_time()
    while time.process_time() - computed < 0.3:
        sum(range(1000))
    return 0.3 / (time.perf_counter() - began)


def loaded(clients: int, seconds: float, *, cells: int, pictures: int, busy: int) -> bool:
    """Honest and hostile clients at once; True if every goal was met."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder)
        made = prepared(directory, cells=cells, pictures=pictures)
        alone = share_of_a_core() >= ALONE
        server, address = stack.enter_context(started(SERVER, folder, ""))
        _, hello = stack.enter_context(started(HELLO))
        visitors = [honest_requests(made, address, token) for token in made["honest"]]
        encode_all(made, address)
        plan = {"server": address, "hello": hello, "seconds": seconds, "visitors": visitors}
        plan |= {"n": clients, "hello_request": request_of("GET", "/", {}).decode()}
        bad = {"server": address, "seconds": seconds, "hostile": hostile_requests(made, address)}
        with busy_workers(directory, address, busy):
            client_process(bad)
            honest_ones, grown = client_process(plan), [resident_megabytes(server.pid)]
            while not honest_ones.poll(max(1.0, seconds / 60)):
                grown.append(resident_megabytes(server.pid))
            seen = honest_ones.recv()
        return judged(seen, grown, alone)


def judged(seen: list[Seen], grown: list[float], alone: bool) -> bool:
    """Print what the honest clients saw; True if every goal was met."""
    times: dict[str, list[float]] = {}
    failures: Counter[tuple[str, int]] = Counter()
    for kind, taken, status in seen:
        times.setdefault(kind, []).append(1000 * taken)
        failures[kind, status] += status != 200
    figures: dict[str, float] = {}
    for kind, them in sorted(times.items()):
        middle, late = np.percentile(them, [50, 99])
        print(f"{kind}: {len(them)} requests, median {middle:.1f} ms, 99 % {late:.1f} ms")
        figures |= {f"{kind}_median_ms": middle, f"{kind}_p99_ms": late}
    reads = [kind for kind in times if kind not in ("hello", "picture", "page")]
    every = np.concatenate([times[kind] for kind in reads])
    figures["reads_of_a_hello"] = float(np.median(every) / np.median(times["hello"]))
    figures["reads_p99_ms"] = float(np.percentile(every, 99))
    figures["server_grew_megabytes"] = grown[-1] - grown[len(grown) // 3]
    figures["failures"] = failures.total()
    print(f"failures: { {key: n for key, n in failures.items() if n} }")
    for name, value in figures.items():
        print(f"figure {name} {value:.4g}")
    met = not failures.total() and figures["server_grew_megabytes"] < MOST_GROWTH
    goals = {
        "reads_of_a_hello": READS_TIMES,
        "reads_p99_ms": READS_P99,
        "page_p99_ms": READS_P99,
        "picture_p99_ms": PICTURES_P99,
    }
    for name, most in goals.items():
        print(f"{name}: {figures[name]:.3g}, goal {most:g}{'' if alone else ', not judged'}")
        met &= figures[name] <= most or not alone
    if not alone:
        print("not judged by time: other jobs use this machine")
    return met


# ---- kills ---------------------------------------------------------------------------------------


def killed(rounds: int, database: str | None) -> bool:
    """Kill a server again and again while questions are asked; True if nothing went wrong."""
    name = "postgresql" if database else "sqlite"
    shown: dict[str, Any] = {}
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        with Curator.open(folder, database=database) as curator:
            curator.register(DATASET, hospital(569), HOSPITAL, most_records=1000)
            curator.open_budget(DATASET, AddRemove(), Loss("1000"))
            create_token(curator, "owner", None, "soak")
            tokens = [create_token(curator, "analyst", None, f"kills {n}") for n in range(2)]
        for place in range(rounds + 1):  # the last one is not killed before all is answered
            with started(SERVER, folder, database or "") as (server, address):
                askers = [
                    threading.Thread(target=asking, args=(address, token, f"{place:04}{n}", shown))
                    for n, token in enumerate(tokens)
                ]
                for asker in askers if place < rounds else ():
                    asker.start()
                if place < rounds:
                    before, deadline = len(shown), time.monotonic() + FIRST_SECONDS
                    while place % 2 and len(shown) == before and time.monotonic() < deadline:
                        time.sleep(0.02)  # every second one is killed among answers
                    time.sleep(draw.uniform(0.05, 1.2))
                else:
                    wait_until_answered(folder, database)
                server.kill()
                for asker in askers if place < rounds else ():
                    asker.join()
        with Curator.open(folder, database=database) as curator:
            curator.verify()
            entries = curator.history(DATASET)
            stored = {answer_key(one.query): one.to_json() for one in curator.releases(DATASET)}
    charged = Counter(str(entry.query) for entry in entries if entry.kind == "charge")
    answered = Counter(str(entry.query) for entry in entries if entry.kind == "release")
    lost = sum(stored.get(key) != release for key, release in shown.items())
    lost += len(charged.keys() - answered.keys())
    twice = sum(n > 1 for n in (*charged.values(), *answered.values()))
    told = f"{len(charged)} charged, {len(answered)} answered, {len(shown)} shown"
    print(f"{name}: killed {rounds} times: {told}, {lost} lost, {twice} twice")
    for figure, value in {"kills": rounds, "lost": lost, "twice": twice}.items():
        print(f"figure {name}_{figure} {value}")
    return lost == 0 and twice == 0 and len(shown) > 0


def asking(address: str, token: str, name: str, shown: dict[str, Any]) -> None:
    """Ask new questions until the server is gone; notes what was shown."""
    headers = {"authorization": f"Bearer {token}"}
    base = f"http://{address}/api/v1"
    with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE) as client:
        for number in range(100):
            query = Histogram(columns=("age",), epsilon=f"0.0{name}{number:02}1").to_json()
            try:
                told = client.post(f"/datasets/{DATASET}/ask", json={"query": query}).json()
            except (httpx.TransportError, ValueError):
                return
            if "release" in told:
                shown[told["key"]] = told["release"]


def wait_until_answered(folder: str, database: str | None) -> None:
    """Wait until the last server has answered what those before it left."""
    deadline = time.monotonic() + PATIENCE
    with Curator.open(folder, database=database) as curator:
        while time.monotonic() < deadline:
            kinds = Counter(entry.kind for entry in curator.history(DATASET))
            if kinds["charge"] == kinds["release"]:
                return
            time.sleep(1.0)


def main() -> None:
    """Run the load or the kills, and exit with an error if anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="3600 shows memory over time")
    parser.add_argument("--kills", type=int, default=0, help="kill so many times instead")
    parser.add_argument("--quick", action="store_true", help="a few seconds of load only")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    if given.smoke:
        loaded(2, 1.0, cells=1000, pictures=2, busy=0)  # how fast says nothing beside tests
        return
    if given.kills:
        met = killed(given.kills, None)
        if find_server() is not None:
            with running_server() as database:
                met &= killed(given.kills, database)
    else:
        seconds = 8.0 if given.quick else given.seconds
        met = loaded(given.clients, seconds, cells=10**6, pictures=PICTURES, busy=100_000)
    print("all met" if met else "missed")
    sys.exit(not met)


if __name__ == "__main__":
    main()
