"""What one running server holds: its curator, its limits, who is signed in, what is under way."""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from privod.curator import BudgetState, Charge, Curator, DataSet, Entry, Verification
from privod.errors import LedgerDamaged, PrivodError, Unavailable
from privod.query.query import Query
from privod.server.authentication import Sessions, Visitor, find_visitor
from privod.server.failures import UnknownToken
from privod.server.jobs.answers import Answers
from privod.server.jobs.jobs import Job, Jobs
from privod.server.jobs.uploads import Reports
from privod.server.kept import Kept
from privod.server.limits import Limits, Pace, RateLimiter
from privod.server.metrics import Metrics
from privod.wire import problem_of

if TYPE_CHECKING:
    from privod.server.provider import Provider

LOG = logging.getLogger("privod.server")
SERVER, STOP = "server", "stop"  # kinds of notes
PRESENT_SECONDS = 60.0  # after which a process that notes nothing is taken to be gone
KEPT_SECONDS = 24 * 3600.0  # for which notes are kept
MOST_SERVERS = MOST_STOPS = 1000
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class Paid:
    """What is kept of an answer that was stored: what it cost. The answer is in the ledger."""

    charges: tuple[Charge, ...] = ()
    stored: bool = True


@dataclass
class Site:
    """The state of one server.

    It answers to its `hosts` alone, against pages that point foreign names at it. `secure`:
    browsers reach it over TLS, here or at a proxy, so cookies are marked. A proxy may show it under
    the path `prefix`; requests come with it or without, addresses that go out carry it.
    """

    curator: Curator
    limits: Limits = field(default_factory=Limits)
    hosts: frozenset[str] = LOOPBACK_HOSTS
    secure: bool = False
    provider: Provider | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        self.notes = self.curator.server_notes
        try:
            self.secret = self.notes.secret("forms")
        except Unavailable:  # a disk that cannot be written: forms of this process alone
            self.secret = secrets.token_bytes(32)
        self.is_present = False
        """Whether this process could note that it is there, and so may take questions."""
        self.sessions = Sessions(self.notes)
        self.id = secrets.token_hex(8)
        self.presence = ExitStack()
        self._unnoted: dict[str, tuple[str | None, bool]] = {}
        self.metrics = Metrics()
        self.kept = Kept(self.curator)
        self.reports = Reports(self.curator, self.limits)
        self.jobs: Jobs[Paid] = Jobs(
            self.limits, self._token_is_valid, self._note_end, self._was_stopped
        )
        self.answers = Answers(self.curator, self.limits)
        self.sent = Pace(self.limits.sent_bytes)
        self.requests = RateLimiter(self.limits.requests)
        self.strangers = RateLimiter(self.limits.strangers)
        self.failures = RateLimiter(self.limits.failures)

    def dataset(self, of: str) -> DataSet:
        """A data set as it is now, to be shown: another process may have retired it."""
        known = self.kept.figure("datasets", lambda: self.curator.datasets())
        return next((one for one in known if one.name == of), self.curator.dataset(of))

    def budget(self, of: str, token: str | None = None) -> tuple[BudgetState, ...]:
        """The budgets of a data set, to be shown."""
        key = ("budgets", of, token)
        return self.kept.figure(key, lambda: self.curator.budget(of, token=token))

    def history(self, of: str) -> tuple[Entry, ...]:
        """The entries of the ledger about a data set, to be shown."""
        return self.kept.figure(("entries", of), lambda: self.curator.history(of))

    def answered(self, of: str) -> list[tuple[str, Query[Any]]]:
        """The answered questions about a data set with their keys, the newest first."""
        return self.kept.figure(("answered", of), lambda: self.answers.questions(of))

    def verify(self, visitor: Visitor, head: str | None) -> Verification:
        """Verify the whole ledger, and tell a token for one data set nothing of the others."""
        try:
            found = self.curator.verify(head)
        except LedgerDamaged:
            if visitor.of is None:
                raise
            raise LedgerDamaged(
                "The ledger does not hold, or lacks the head you noted. Somebody with a token for"
                " all data sets can see which entry is wrong."
            ) from None
        if visitor.of is None:
            return found
        entries = self.curator.history(visitor.of)
        versions = {entry.dataset for entry in entries if entry.kind == "register"}
        return replace(
            found,
            head=f"{entries[-1].number}:{entries[-1].hash}",
            entries=len(entries),
            questions=len({entry.ask for entry in entries if entry.kind == "charge"}),
            releases=sum(entry.kind == "release" for entry in entries),
            datasets=len(versions),
            without_rows=tuple(name for name in found.without_rows if name in versions),
        )

    def be_present(self) -> None:
        """Note that this process is there, and share rates with the others that are."""
        now = self.notes.clock()
        seen = self.notes.find(SERVER, self.id)
        if seen is None or now - seen.time > PRESENT_SECONDS / 3:
            self.notes.put(SERVER, self.id, "", MOST_SERVERS, now - KEPT_SECONDS)
        among = max(1, self.notes.count(SERVER, now - PRESENT_SECONDS))
        for limiter in (self.requests, self.strangers, self.failures):
            limiter.among = among

    def last_seen(self, server: str) -> float | None:
        """When a process last noted that it is there; None if it left."""
        found = self.notes.find(SERVER, server)
        return None if found is None else found.time

    def leave(self) -> None:
        """Let the other processes know that this one is gone."""
        self.presence.close()

    def take_note_away(self) -> None:
        """No longer note that this process is there."""
        with suppress(PrivodError):
            self.notes.take(SERVER, self.id)

    def stop_elsewhere(self, job_id: str) -> None:
        """Ask the process that works on a job to stop it."""
        self.notes.put(STOP, job_id, "", MOST_STOPS, self.notes.clock() - KEPT_SECONDS)

    def _was_stopped(self, job_id: str) -> bool:
        return self.notes.find(STOP, job_id) is not None

    def _token_is_valid(self, hashed: str) -> bool:
        return find_visitor(self.curator, hashed) is not None

    def _note_end(self, job: Job[Paid]) -> None:
        """Note how a job ended, for the time after this process."""
        outcome, for_good = "", True
        try:
            job.result()
        except PrivodError as problem:
            outcome = json.dumps(problem_of(problem)["error"])
            # Who is told to ask again later goes on then with what was charged.
            for_good = job.work.fate != "parted" and not isinstance(problem, Unavailable)
        self.metrics.count("questions_ended_total", outcome=job.state())
        self.end_record(job.id, outcome, for_good=for_good)

    def end_record(self, job_id: str, outcome: str | None, *, for_good: bool = True) -> None:
        """Note how a job ended, None if it never began; later if the database is away now."""
        self._unnoted[job_id] = (outcome, for_good)
        try:
            self.note_ends()
        except PrivodError:
            LOG.warning("the end of a job could not be noted yet; the ledger has what was charged")

    def note_ends(self) -> None:
        """Write the ends that are not noted yet: until then their questions take up room."""
        self.curator.asking.erase_failed()
        records = self.curator.job_records
        for job_id, (outcome, for_good) in list(self._unnoted.items()):
            if outcome is None:
                records.forget(job_id)
            else:
                records.end(job_id, self.id, outcome, for_good=for_good)
            self._unnoted.pop(job_id, None)

    @property
    def cookie_name(self) -> str:
        """With TLS, a name that browsers accept only from this very host and over TLS."""
        return "__Host-privod" if self.secure else "privod"


def site_of(request: Request) -> Site:
    """The server that a request came to."""
    site: Site = request.app.state.site
    return site


def visitor_of(request: Request) -> Visitor:
    """Who sent a request, as the middleware found out."""
    visitor: Visitor | None = request.scope["visitor"]
    if visitor is None:
        raise UnknownToken("Show a token that is known and not revoked.")
    return visitor
