"""Does a server grow under a day of mixed traffic, compressed into minutes?

    python benchmarks/soak_day.py [--visits 150]

A server with the sample data, in a process of its own, is visited again and again. A visit is what
a few people do in an hour: an analyst signs in, reads pages, prices a question, asks a new one,
asks it again, stops another, fetches answers as JSON, table, picture and notebook, scores records
and compares answers; an owner makes a token and revokes it, registers a data set, opens a budget
and retires the data set when it was asked about; an auditor reads the ledger, and sometimes
verifies it; others try wrong tokens, broken bodies and unknown addresses. The memory, the open
files and the threads of the server's process are noted after each visit. What they have grown by
from the end of the first third to the end may be no more than the limits below. What should be
answered must be, and what should be refused must not end in a 5xx.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from privod.server.sample import DATASET, Sample, sample

PATIENCE = 300.0
MOST_GROWTH = 96.0  # megabytes; 64 of them are what it keeps of answers that it has written
MOST_FILES, MOST_THREADS = 20, 5
AROUND = 3  # visits whose median is taken, as memory goes up and down
QUICK_VISITS = 9
VERIFY_EVERY = 20
DOMAIN = {"columns": [{"name": "age", "low": 0, "high": 120}]}
SERVER = """
import sys
from privod.curator import Curator
from privod.server.limits import Limits, Rate
from privod.server.serve import Listening, serve

fast = Rate(1e6, 10**6)
limits = Limits(requests=fast, strangers=fast, failures=fast)
serve(Curator.open(sys.argv[1]), Listening(port=0), limits)
"""


@dataclass
class Tally:
    """How many requests were answered, by status; those that failed by name."""

    statuses: Counter[int] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def hear(self, response: httpx.Response, least: int) -> None:
        """Count a response; from which status on it failed depends on who asked."""
        self.statuses[response.status_code] += 1
        if response.status_code >= least:
            path = f"{response.request.method} {response.request.url.path}"
            self.failed.append(f"{response.status_code} {path}")


@dataclass(frozen=True)
class Size:
    """What the server's process takes at a moment."""

    megabytes: float
    files: int
    threads: int

    @classmethod
    def of(cls, process: int) -> Size:
        """Read it from the system."""
        status = Path(f"/proc/{process}/status").read_text()
        found = dict(re.findall(r"^(VmRSS|Threads):\s+(\d+)", status, re.MULTILINE))
        files = len(list(Path(f"/proc/{process}/fd").iterdir()))
        return cls(int(found["VmRSS"]) / 1024, files, int(found["Threads"]))


@contextmanager
def served(directory: str) -> Iterator[tuple[int, str]]:
    """A server's process and its address."""
    command = [sys.executable, "-c", SERVER, directory]
    log = Path(directory) / "log"
    with log.open("w") as written, subprocess.Popen(command, stderr=written) as server:
        try:
            while not (found := re.search(r"http://[0-9.:]+", log.read_text())):
                time.sleep(0.05)
            yield server.pid, found.group()
        finally:
            server.terminate()
            server.wait(PATIENCE)


class Day:
    """Everybody who visits.

    Parameters
    ----------
    address : str
        The server's.
    made : Sample
        Its data and tokens.
    """

    def __init__(self, address: str, made: Sample) -> None:
        self.tally = Tally()
        self._address = address
        self._made = made
        self._analyst, self._owner, self._auditor = (
            self._api(token) for token in (made.analyst, made.owner, made.auditor)
        )
        self._stranger = self._api("wrong", least=500)
        self._clumsy = self._api(made.analyst, least=500)
        self._keys: list[str] = []
        self._columns: list[str] = []
        """Those of records that the newest answer can score; none if it scores none."""

    def close(self) -> None:
        """Everybody goes home."""
        for client in (self._analyst, self._owner, self._auditor, self._stranger, self._clumsy):
            client.close()

    def visit(self, number: int) -> None:
        """What happens in an hour."""
        self._ask(number)
        self._browse(number)
        self._own(number)
        self._audit(number)
        self._intrude()

    def _client(self, prefix: str = "", least: int = 400, **headers: str) -> httpx.Client:
        heard: dict[str, list[Callable[..., Any]]] = {
            "response": [partial(self.tally.hear, least=least)]
        }
        where = self._address + prefix
        return httpx.Client(base_url=where, headers=headers, timeout=PATIENCE, event_hooks=heard)

    def _api(self, token: str, least: int = 400) -> httpx.Client:
        return self._client("/api/v1", least, authorization=f"Bearer {token}")

    def _ask(self, number: int) -> None:
        about, api = f"/datasets/{DATASET}", self._analyst
        kinds: list[dict[str, Any]] = [
            {"name": "histogram", "columns": ["age"]},
            {"name": "detector-profile", "columns": ["age", "stay"]},
            {"name": "grid-knn", "columns": ["age", "stay"], "cells_per_axis": 8},
            {"name": "quantiles", "columns": ["age", "stay"]},
        ]
        query = {**kinds[number % len(kinds)], "epsilon": f"0.001{number:06}1"}
        api.post(f"{about}/price", json={"query": query})
        asked = {"query": query, "wait": 30}
        told = api.post(f"{about}/ask", json=asked).json()
        while "job" in told and told.get("answer") is None and "error" not in told:
            time.sleep(0.1)
            told = api.get(f"/jobs/{told['job']}").json()
        key = str((told.get("answer") or told)["key"])
        self._columns = [] if query["name"] == "histogram" else query["columns"]
        self._keys.append(key)
        api.post(f"{about}/ask", json=asked)  # stored by now
        for form in ("", "/csv", "/svg"):
            api.get(f"{about}/answers/{key}{form}")
        other = {**query, "epsilon": f"0.001{number:06}2"}
        started = api.post(f"{about}/ask", json={"query": other, "wait": 0}).json()
        if "job" in started:
            api.delete(f"/jobs/{started['job']}")
        for page in ("/questions", "/datasets", "/jobs", f"{about}/answers", f"{about}/budget"):
            api.get(page)

    def _browse(self, number: int) -> None:
        with self._client() as browser:
            found = re.search(r'name="code" value="([0-9a-f]+)"', browser.get("/sign-in").text)
            code = "" if found is None else found.group(1)
            browser.post("/sign-in", data={"code": code, "token": self._made.analyst})
            shown = re.search(r'name="code" value="([0-9a-f]+)"', browser.get("/").text)
            code = code if shown is None else shown.group(1)
            key, earlier = self._keys[-1], self._keys[number // 2]
            compared = [f"/compare?key={key}&key={earlier}"] if key != earlier else []
            about = f"/data/{DATASET}"
            pages = ["", "/history", "/ask", "/ask/histogram", "/mock.csv", "/answers"]
            pages += [f"/answers/{key}{form}" for form in ("", ".svg", ".csv", ".json", ".ipynb")]
            for page in (*pages, f"/answers/{earlier}", *compared):
                browser.get(about + page)
            browser.get("/questions")
            if self._columns:
                records = "\n".join([",".join(self._columns), "14,20", "28,10"])
                browser.post(f"{about}/answers/{key}", data={"code": code, "records": records})
            browser.post("/sign-out", data={"code": code})

    def _own(self, number: int) -> None:
        api, name = self._owner, f"visit {number}"
        token = api.post("/tokens", json={"role": "analyst", "name": name}).json()["token"]
        listed = api.get("/tokens").json()
        api.delete(f"/tokens/{listed[-1]['id']}")
        with self._api(token, least=500) as revoked:
            revoked.get("/me")
        rows = "age\n" + "\n".join(str(20 + place % 60) for place in range(2000))
        fields = {"name": name, "domain": json.dumps(DOMAIN), "most_records": "5000"}
        api.post("/datasets", data=fields, files={"file": ("ages.csv", rows.encode())})
        api.get(f"/datasets/{name}/report")
        adjacency = {"name": "add-remove"}
        api.post(f"/datasets/{name}/budgets", json={"adjacency": adjacency, "epsilon": "1"})
        query = {"name": "histogram", "columns": ["age"], "epsilon": "0.5"}
        self._analyst.post(f"/datasets/{name}/ask", json={"query": query, "wait": 30})
        api.post(f"/datasets/{name}/retire", json={"reason": "over", "confirmed": True})

    def _audit(self, number: int) -> None:
        self._auditor.get(f"/datasets/{DATASET}/history")
        self._auditor.get("/metrics")
        if number % VERIFY_EVERY == 0:
            self._auditor.post("/verify", json={})

    def _intrude(self) -> None:
        self._stranger.get("/datasets")
        self._clumsy.get("/no/such/address")
        for body in (
            b'{"query": {"name": "\\ud800"',
            b'{"query": {"name": "\\ud800"}}',
            b" " * 200_000,
        ):
            self._clumsy.post(f"/datasets/{DATASET}/ask", content=body)
        with self._client(least=500) as nobody:
            for page in ("/api/v1/health", "/api/v1/ready", "/", "/data/none"):
                nobody.get(page)


def spent_day(visits: int) -> bool:
    """Let everybody visit so often; True if nothing failed and nothing grew past its limit."""
    sizes: list[Size] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        made = sample(Path(directory))
        made.curator.close()
        with served(directory) as (process, address):
            day = Day(address, made)
            for number in range(visits):
                day.visit(number)
                sizes.append(Size.of(process))
                if number % max(1, visits // 10) == 0:
                    print(f"visit {number}: {sizes[-1]}", flush=True)
            day.close()
        left = [path.name for path in Path(directory).glob("upload-*")]
    third = max(AROUND, visits // 3)
    grown = {
        name: statistics.median(getattr(size, name) for size in sizes[-AROUND:])
        - statistics.median(getattr(size, name) for size in sizes[third - AROUND : third])
        for name in ("megabytes", "files", "threads")
    }
    statuses = day.tally.statuses
    print(f"{statuses.total()} requests, by status: {dict(sorted(statuses.items()))}")
    for name in sorted(set(day.tally.failed)):
        print(f"failed: {name}")
    for name in left:
        print(f"left behind: {name}")
    print(f"figure day_visits {visits}")
    print(f"figure day_requests {statuses.total()}")
    print(f"figure day_seconds {time.monotonic() - began:.0f}")
    for name, value in grown.items():
        print(f"figure day_grew_{name} {value:.4g}")
    limits = {"megabytes": MOST_GROWTH, "files": MOST_FILES, "threads": MOST_THREADS}
    within = all(grown[name] <= limits[name] for name in limits)
    return within and not left and not day.tally.failed


def main() -> None:
    """Spend the day; exit with an error if anything failed or grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=150)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_VISITS} visits")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    met = spent_day(1 if given.smoke else QUICK_VISITS if given.quick else given.visits)
    print("all met" if met else "missed")
    sys.exit(not met)


if __name__ == "__main__":
    main()
