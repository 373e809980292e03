"""What one running server holds: its curator, its limits, who is signed in, what is under way."""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from privod.curator import Answer, Curator
from privod.errors import PrivodError
from privod.server.authentication import Sessions, Visitor, find_visitor
from privod.server.failures import UnknownToken
from privod.server.jobs.answers import Answers
from privod.server.jobs.jobs import Job, Jobs
from privod.server.limits import Limits, RateLimiter
from privod.server.metrics import Metrics
from privod.wire import problem_of

if TYPE_CHECKING:
    from privod.server.provider import Provider

__all__ = ["LOOPBACK_HOSTS", "Site", "site_of", "visitor_of"]

LOG = logging.getLogger("privod.server")
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass
class Site:
    """The state of one server.

    Parameters
    ----------
    curator : Curator
        The one way to the data.
    limits : Limits
        What is accepted.
    hosts : frozenset of str
        The names this server answers to, against pages that point foreign names at it.
    secure : bool
        Whether browsers reach it over TLS, here or at a proxy; cookies are then marked so.
    provider : Provider, optional
        Where people may sign in instead of showing a token.
    """

    curator: Curator
    limits: Limits = field(default_factory=Limits)
    hosts: frozenset[str] = LOOPBACK_HOSTS
    secure: bool = False
    provider: Provider | None = None

    def __post_init__(self) -> None:
        self.secret = secrets.token_bytes(32)
        self.sessions = Sessions()
        self.id = secrets.token_hex(8)
        self.presence = ExitStack()
        self.metrics = Metrics()
        self.jobs: Jobs[Answer] = Jobs(self.limits, self._token_is_valid, self._note_end)
        self.answers = Answers(self.curator, self.limits)
        self.requests = RateLimiter(self.limits.requests)
        self.strangers = RateLimiter(self.limits.strangers)
        self.failures = RateLimiter(self.limits.failures)

    def _token_is_valid(self, hashed: str) -> bool:
        return find_visitor(self.curator, hashed) is not None

    def _note_end(self, job: Job[Answer]) -> None:
        """Note how a job ended, for the time after this process."""
        try:
            job.result()
            outcome = ""
        except PrivodError as problem:
            outcome = json.dumps(problem_of(problem)["error"])
        self.metrics.count("jobs_total", outcome=job.state())
        try:
            self.curator.job_records.end(job.id, outcome)
        except PrivodError:
            LOG.warning("the end of a job could not be noted; the ledger has what was charged")

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
