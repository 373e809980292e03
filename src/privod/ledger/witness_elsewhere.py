"""A witness on another machine: a curator's server that keeps heads for others."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from privod.errors import InvalidParameter, LedgerDamaged, Unavailable
from privod.ledger.witness import Head, Remembers

PATIENCE = 30.0  # seconds for one request; an answer waits for it
LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_ANSWER = 10_000


class WitnessElsewhere(Remembers):
    """The latest head of one ledger, kept by a server: GET reads it, POST notes a later one."""

    path: str

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        plain = parts.scheme == "http" and parts.hostname in LOOPBACK
        if (parts.scheme != "https" and not plain) or not parts.hostname:
            way_out = "Write https://auditor.example/api/v1/witnesses/NAME."
            raise InvalidParameter("witness", "must be an https address", url, way_out)
        self.path = url
        self._token = token

    def read(self) -> Head | None:
        return _head(self._asked(None), self.path)

    def note(self, head: Head, *, durably: bool = True) -> None:  # noqa: ARG002 - it always is
        self._asked({"head": str(head)})

    def start_anew(self, head: Head) -> None:
        """Refuse: whoever keeps a witness elsewhere decides whether it forgets."""
        noted = self.read()
        if noted is not None and noted.number >= head.number:
            raise Unavailable(
                f"The witness {self.path!r} saw more than this ledger holds. Its keeper must remove"
                " it there before the ledger is accepted as restored."
            )
        self.note(head)

    def _asked(self, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - https, or http to this machine
            self.path,
            data=data,
            headers={"authorization": f"Bearer {self._token}", "content-type": "application/json"},
            method="GET" if body is None else "POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - as above
                return json.loads(answer.read(LONGEST_ANSWER))
        except (urllib.error.URLError, OSError, ValueError) as problem:
            code = getattr(problem, "code", None)
            said = f"it answers {code}" if code else "it cannot be reached"
            raise Unavailable(
                f"The witness {self.path!r} does not work: {said}. Nothing leaves without it."
                " Check its address, its token (PRIVOD_WITNESS_TOKEN) and its server."
            ) from None


def _head(data: Any, where: str) -> Head | None:
    noted = data.get("head") if isinstance(data, dict) else ""
    try:
        return None if noted is None else Head.read(str(noted))
    except InvalidParameter:
        raise LedgerDamaged(f"The witness {where!r} does not answer. Check its address.") from None
