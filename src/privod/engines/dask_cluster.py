"""Add up over partitions on the workers of a Dask cluster, with the same bits as here.

Whoever reaches the scheduler is the curator: exact counts lie in the memory of workers. So a
cluster is reached by TLS with certificates for both sides, or on this machine alone. Tasks have
random names and return counts or nothing. Workers are checked before a question is charged; a
cluster that is lost afterwards costs time alone: the same rows are added up here instead.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

from privod.data.folding import Fold, Sweep
from privod.engines.cluster import (
    SWEEPS_PER_THREAD,
    TASKS_PER_THREAD,
    Plan,
    fitness,
    folded,
    merged,
    swept,
)
from privod.engines.source import RegisteredRows, versions
from privod.errors import InvalidParameter, Unavailable

State = TypeVar("State")

PATIENCE = 5.0  # seconds between two looks whether the cluster is still there
LONGEST_WITHOUT_WORKERS = 60.0  # seconds; a killed worker is started again within a few


class DaskCluster:
    """The workers of a Dask cluster; what is `closing` ends with it, last one first.

    Other processes of this machine reach it at the address too, if it has one.
    """

    def __init__(
        self, client: Any, closing: Sequence[Any] = (), address: str | None = None
    ) -> None:
        self._client = client
        self.address = address
        self._closing = [*closing, client]

    @classmethod
    def open(cls, address: str) -> Self:
        """Connect to a cluster, or start one on this machine; docs/engines.md has the addresses."""
        kind, _, number = address.partition(":")
        if kind != "local" and not _is_allowed(address):
            way_out = "Write tls://host:port, or local:2 to start two workers on this machine."
            rule = "must be an address with TLS, or of this machine"
            raise InvalidParameter("engine", rule, address, way_out)
        if kind == "local" and not (number.isdigit() and 1 <= int(number) <= 1024):
            raise InvalidParameter("engine", "must say how many workers", address, "Try local:2.")
        try:
            import dask
            from distributed import Client, LocalCluster, Security
        except ImportError:
            raise Unavailable("Install privod[dask] to count on a Dask cluster.") from None
        try:
            if kind != "local":
                secure = Security() if address.startswith("tls:") else None
                client = Client(address, security=secure, set_as_default=False)
                return cls(client, address=address)
            with dask.config.set(_NO_SPILLING | _NO_PAGES | _PATIENT):
                cluster = LocalCluster(
                    n_workers=int(number),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    security=Security.temporary(),
                    silence_logs=50,
                )
                return cls(Client(cluster, set_as_default=False), [cluster])
        except (OSError, ValueError, TypeError, RuntimeError):
            raise Unavailable(
                f"The Dask cluster at {address!r} cannot be reached. Check that its scheduler runs,"
                " and the certificates in Dask's configuration (distributed.comm.tls)."
            ) from None

    def close(self) -> None:
        """Disconnect, and stop the workers that were started here."""
        while self._closing:
            self._closing.pop().close()

    def check(self, rows: RegisteredRows) -> None:
        """Raise `Unavailable` unless every worker can add up these rows as we would."""
        found: dict[str, str] = {}
        with suppress(Exception):  # of the network, whose words say nothing to an owner
            found = self._client.run(_fitness, Plan.of(rows, None), versions())
        wrong = sorted(set(found.values()) - {""})
        if not found or wrong:
            why = wrong[0] if wrong else "no worker answers"
            raise Unavailable(
                f"The Dask cluster cannot count these rows: {why}. Nothing was charged. Mend the"
                " cluster, or open the curator without it."
            )

    def fold(self, rows: RegisteredRows, fold: Fold[State]) -> State | None:
        found = self._added_up(folded, rows, fold, rows.source.pieces, TASKS_PER_THREAD)
        return cast("State | None", found)

    def sweep(self, rows: RegisteredRows, sweep: Sweep[State]) -> State | None:
        found = self._added_up(swept, rows, sweep, sweep.n_parts, SWEEPS_PER_THREAD)
        return cast("State | None", found)

    def _added_up(
        self, work: Any, rows: RegisteredRows, what: Any, n_pieces: int, tasks_per_thread: int
    ) -> Any:
        """Add up partitions, or parts, in a few tasks each of which has many of them."""
        with suppress(Exception):  # then the rows are added up where we are
            plan = Plan.of(rows, what)
            n_tasks = max(1, min(n_pieces, tasks_per_thread * self._n_threads()))
            parts = [
                self._submit(work, plan, tuple(range(task, n_pieces, n_tasks)))
                for task in range(n_tasks)
            ]
            while len(parts) > 1:  # by twos, so that no machine holds all parts
                pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
                parts = [self._submit(merged, plan, *pair) for pair in pairs]
            return self._result(parts[0])[0]
        return None

    def _submit(self, work: Any, *arguments: Any) -> Any:
        return self._client.submit(work, *arguments, key=secrets.token_hex(16), pure=False)

    def _n_threads(self) -> int:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(worker["nthreads"] for worker in workers)

    def _result(self, future: Any) -> Any:
        """Wait for a result as long as somebody may be working on it."""
        last_seen = time.monotonic()
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                if self._n_threads():
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > LONGEST_WITHOUT_WORKERS:
                    return None


_NO_SPILLING = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
_NO_PAGES: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_PATIENT = {"distributed.comm.timeouts.connect": "300s"}  # workers of ours start, however busy


def _is_allowed(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme == "tls":
        return bool(parts.hostname)
    with suppress(ValueError):
        return parts.scheme == "tcp" and ip_address(parts.hostname or "").is_loopback
    return False


def _fitness(plan: Plan, needed: tuple[str, ...]) -> str:
    """Why this worker cannot count; "" if it can."""
    import dask

    if any(dask.config.get(setting, default=None) for setting in _NO_SPILLING):
        return "a worker spills to disk (set distributed.worker.memory.target and .spill false)"
    return fitness(plan, needed)
