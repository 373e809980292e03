"""The connection of a program to a server: requests out, nouns back, errors raised here.

Needs httpx and otherwise only what lies beside it, by relative imports: the thin client is a
distribution of its own that is made of these very files (folder `client/`).
"""

from __future__ import annotations

import ipaddress
import secrets
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

from ..errors import InvalidData, InvalidParameter, Unavailable
from ..progress import report
from .codec import decode, encode
from .nouns import Answer, Job
from .problems import Failure
from .requests import Ask

try:
    import httpx
except ImportError:
    raise Unavailable(
        "Talking to a server needs httpx, which is not installed. Install privod[client]."
    ) from None

PATIENCE = 60.0  # seconds for one request; a long answer is a job that is asked about again
REPORT_PATIENCE = 900.0  # for a report about rows, which a server makes while one waits
TRIES = 3  # of a request that never reached the server, or whose response never reached us
WAIT = 10.0  # seconds that the server may wait for an answer before it calls it a job
FIRST_PAUSE, PAUSE_RATIO, LONGEST_PAUSE = 0.2, 1.25, 5.0  # between looks at a job, in seconds
AWAY_SECONDS = 300.0  # for a server that went away to be back: a restart, or a host that reboots
STOPPED = ("interrupted", "stopping")  # kinds of errors of a server that is about to be away

BROKEN = (httpx.ReadTimeout, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""What happens to a request on a connection that there was."""

Noun = TypeVar("Noun")
Reader = Callable[[httpx.Response], Any]


def _plain(response: httpx.Response) -> Any:
    return response.json()


def _with_head(response: httpx.Response) -> Any:
    """An answer, or a job that may hold one, with the head of the ledger from its header."""
    data = response.json()
    if isinstance(data, dict):
        answer = data.get("answer") if "job" in data else data
        if isinstance(answer, dict):
            answer["head"] = response.headers.get("privod-ledger-head", "")
    return data


class _Away(Unavailable):
    """The server could not be reached, or is being stopped; `found` if it was there before."""

    def __init__(self, message: str, found: bool) -> None:
        super().__init__(message)
        self.found = found


class Connection:
    """A curator's JSON interface behind an address; see `privod.connect`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        authority: str | Path | None = None,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            way_out = "Write https://curator.example."
            raise InvalidParameter("url", "must be an http or https address", url, way_out)
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            way_out = "Use https, so that the token does not travel in the clear."
            raise InvalidParameter("url", "must be https unless it is this machine", url, way_out)
        if not token or not token.isascii() or not token.isprintable():
            way_out = "Set PRIVOD_TOKEN to yours; the owner makes one."
            given = "***" if token else None
            raise InvalidParameter("token", "must be the token of a server", given, way_out)
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1",
            headers={"authorization": f"Bearer {token}", "accept": "application/json"},
            timeout=PATIENCE,
            verify=_trusting(authority, parts.scheme),
        )
        self._away_seconds = away_seconds
        self._found = False
        self._finalizer = weakref.finalize(self, self._http.close)

    def close(self) -> None:
        """Close the connection; happens by itself when it is forgotten."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    @property
    def url(self) -> str:
        """The address of the interface."""
        return str(self._http.base_url)

    def ask(self, query: Mapping[str, Any], of: str, request_id: str | None = None) -> Answer:
        """Ask a question and wait for the answer; sent again under the same id, it is paid once."""
        asked = Ask(dict(query), request_id or secrets.token_hex(16), WAIT)
        pause, away_since = FIRST_PAUSE, None
        while True:
            try:
                data = self._again("POST", path_of(of, "ask"), encode(asked), _with_head)
                away_since = None
                if isinstance(data, dict) and "job" in data:
                    return self._finished(as_noun(Job, data))
                return as_noun(Answer, data)
            except _Away as problem:
                if not problem.found:
                    raise
                now = time.monotonic()
                if away_since is None:
                    pause, away_since = FIRST_PAUSE, now
                if now - away_since >= self._away_seconds:
                    raise Unavailable(
                        f"{problem} If the question was charged, asking it again costs nothing"
                        f" more: ask it under the same request id, {asked.request_id!r} (in the"
                        f" shell --request-id {asked.request_id})."
                    ) from None
                report("waiting for the server", int(now - away_since), int(self._away_seconds))
                time.sleep(pause)
                pause = min(pause * PAUSE_RATIO, LONGEST_PAUSE)

    def _finished(self, job: Job) -> Answer:
        pause = FIRST_PAUSE
        while job.answer is None:
            time.sleep(pause)
            pause = min(pause * PAUSE_RATIO, LONGEST_PAUSE)
            path = f"/jobs/{quote(job.job, safe='')}"
            job = as_noun(Job, self._again("GET", path, read=_with_head))
            report("answering", job.tenths, 10)
        return job.answer

    # ---- requests ------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """What the interface has there, as plain values."""
        return self._again("GET", path)

    def get_bytes(self, path: str) -> bytes:
        """What the interface has there as it was sent: a picture, a table, for the thin client."""
        content: bytes = self._again("GET", path, read=lambda response: response.content)
        return content

    def post(self, path: str, asked: Any) -> Any:
        """Send what may be sent twice."""
        return self._again("POST", path, encode(asked))

    def act(self, path: str, asked: Any, *, patience: float = PATIENCE) -> Any:
        """Send what must not be done twice: if the connection breaks, look before trying again."""
        sent = self._http.build_request("POST", path, json=encode(asked), timeout=patience)
        return self._once(sent)

    def send_file(self, path: str, fields: Mapping[str, str], file: Path) -> Any:
        """Send a file with the fields of a form, once."""
        with file.open("rb") as content:
            files = {"file": (file.name, content)}
            return self._once(
                self._http.build_request("POST", path, data=dict(fields), files=files)
            )

    def _again(self, method: str, path: str, body: Any = None, read: Reader = _plain) -> Any:
        """Send, and again if the connection broke."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(self._http.build_request(method, path, json=body), read)
            except Unavailable:
                if attempt == TRIES:
                    raise
                time.sleep(0.2 * attempt)
        raise AssertionError("unreachable")

    def _once(self, request: httpx.Request, read: Reader = _plain) -> Any:
        try:
            response = self._http.send(request)
            if response.is_success:
                content = read(response)
                self._found = True
                return content
            failed = response.json()
        except (httpx.HTTPError, ValueError) as problem:
            self._found |= isinstance(problem, BROKEN)
            raise _Away(
                f"The server at {self._http.base_url.netloc.decode()!r} cannot be reached or is no"
                " curator."
                " Check the address and whether it is running.",
                self._found,
            ) from None
        told = as_noun(Failure, failed).error
        self._found = True
        if told.kind in STOPPED:
            raise _Away(told.message, found=True)
        raise told.exception()  # what the curator raised over there


def _trusting(authority: str | Path | None, scheme: str) -> Any:
    if authority is None:  # http asks for nobody's certificate, and reading all takes time
        return True if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=str(authority))
    except OSError:
        way_out = "Name the PEM file of your certificate authority."
        raise InvalidParameter(
            "authority", "must be a readable PEM file", str(authority), way_out
        ) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def path_of(dataset: str, *parts: str) -> str:
    """The path of a data set, or of what lies below it."""
    name = quote(dataset.replace("%", "%25").replace("/", "%2F"), safe="")  # as the server reads it
    return "/".join(["/datasets", name, *(quote(part, safe="") for part in parts)])


def as_noun(kind: type[Noun], data: Any) -> Noun:
    """Read what the server sent."""
    try:
        return decode(kind, data)
    except InvalidData:
        raise Unavailable(
            "The server answered in a way that no curator does. Check the address."
        ) from None


def as_nouns(kind: type[Noun], data: Any) -> list[Noun]:
    """Read a list of what the server sent."""
    return [as_noun(kind, item) for item in (data if isinstance(data, list) else [data])]
