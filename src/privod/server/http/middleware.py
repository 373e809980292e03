"""What every request passes first: is it for us, who sends it, is it too much."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privod.errors import AnswerFailed, NotAllowed, PrivodError
from privod.server.authentication import Visitor, find_visitor, token_hash
from privod.server.failures import UnknownToken
from privod.server.limits import NoRoom, Slots, TooLarge, TooSlow, network_of
from privod.server.metrics import REQUEST_ID
from privod.server.site import Site

API_PREFIX = "/api/"
LONGEST_TOKEN = 200
LOG = logging.getLogger("privod.server")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
TLS_ONLY = {"strict-transport-security": "max-age=31536000"}

Failure = Callable[[Scope, PrivodError], Response]


class Middleware:
    """The outermost layer; to the paths in `uploads` an owner of the server may send a file."""

    def __init__(self, app: ASGIApp, site: Site, failure: Failure, uploads: frozenset[str]) -> None:
        self._app = app
        self._site = site
        self._failure = failure
        self._uploads = uploads
        headers = {**HEADERS, **(TLS_ONLY if site.secure else {})}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        # A token is found in an SQLite file sooner than a thread is found to look for it.
        self._looks_here = site.curator.database.engine == "sqlite"
        limits = site.limits
        strangers = limits.strangers_at_once, limits.strangers_at_once_each
        self._known = (
            Slots(limits.arriving, limits.arriving_each),
            Slots(limits.at_once, limits.at_once_each),
        )
        self._strangers = Slots(*strangers), Slots(*strangers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        scope = {**scope, "path": self._own_path(scope["path"]), "visitor": None}
        request_id = secrets.token_hex(8)
        own = (REQUEST_ID.encode(), request_id.encode())
        sender = _Sender(send, [*self._headers, own], self._site.prefix)
        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            scope["visitor"] = visitor = await self._identify(scope, headers)
            if visitor is not None:
                self._site.requests.take(visitor.id)
            else:
                self._site.strangers.take(address_of(scope))
            await self._pass(scope, headers, receive, sender)
        except PrivodError as problem:
            await self._fail(scope, receive, sender, problem)
        except Exception as problem:
            # Where it failed, and how; what it said might speak of rows.
            frames = traceback.extract_tb(problem.__traceback__)[-8:]
            where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
            LOG.error("unexpected %s in %s", type(problem).__name__, where)
            await self._fail(
                scope, receive, sender, AnswerFailed("The server failed. Tell its operator when.")
            )
        name = scope["visitor"].name if scope["visitor"] else "-"
        route = scope.get("pattern", "-")
        told = {
            "request": request_id,
            "method": scope["method"],
            "route": route,
            "status": sender.status,
            "visitor": name,
        }
        LOG.info("%s %s %s %s", scope["method"], route, sender.status, name, extra=told)
        method = scope["method"] if route != "-" else "-"  # a method may be any word
        self._site.metrics.count(
            "requests_total", method=method, route=route, status=str(sender.status)
        )

    def _own_path(self, path: str) -> str:
        """A path without the prefix, which some proxies take off and others leave on."""
        prefix = self._site.prefix
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            return path.removeprefix(prefix) or "/"
        return path

    async def _pass(
        self, scope: Scope, headers: Headers, receive: Receive, sender: _Sender
    ) -> None:
        limits = self._site.limits
        visitor: Visitor | None = scope["visitor"]
        owner = visitor is not None and visitor.role == "owner" and visitor.of is None
        upload = owner and scope["method"] == "POST" and scope["path"] in self._uploads
        body = _Body(receive, limits.upload_bytes if upload else limits.body_bytes, sender)
        if upload:
            self._check_room(headers)
        who = address_of(scope) if visitor is None else visitor.id
        arriving, served = self._strangers if visitor is None else self._known
        with arriving.taken(who) if body.is_expected(headers) else nullcontext():
            await body.prepare(headers, None if upload else limits.body_seconds)
        with served.taken(who):  # once it is complete: what never comes keeps nobody out
            await self._app(scope, body.receive, sender.send)
        if body.overflown and not sender.started:
            raise TooLarge(body.message)

    def _check_room(self, headers: Headers) -> None:
        """Refuse a file before it is sent that the disk has no room for."""
        length = headers.get("content-length", "")
        wanted = int(length) if length.isascii() and length.isdigit() else 0
        site = self._site
        free = shutil.disk_usage(site.curator.directory).free
        if free < wanted + site.limits.least_free_bytes:
            raise NoRoom("The curator's disk has no room for this file. Make room, then send it.")

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        name, _, port = (
            host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "0")
        )
        if name.lower() not in self._site.hosts or not (port.isascii() and port.isdigit()):
            raise NotAllowed("This server does not answer to that name. Use one it was given.")

    async def _identify(self, scope: Scope, headers: Headers) -> Visitor | None:
        """Who shows a token or a session; nobody is fine here, an unknown token is not."""
        api = scope["path"].startswith(API_PREFIX)
        hashed = self._shown_token(headers) if api else await self._session_token(scope, headers)
        if hashed is None:
            return None
        if self._looks_here:
            visitor = find_visitor(self._site.curator, hashed)
        else:
            visitor = await run_in_threadpool(find_visitor, self._site.curator, hashed)
        if visitor is None and api:
            self._site.failures.take(address_of(scope))
            raise UnknownToken("The token is unknown or revoked. Ask the owner for a new one.")
        return visitor

    def _shown_token(self, headers: Headers) -> str | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return None
        return token_hash(token)

    async def _session_token(self, scope: Scope, headers: Headers) -> str | None:
        scope["cookie"] = cookie = _cookie(headers.get("cookie", ""), self._site.cookie_name)
        if not cookie:
            return None
        return await run_in_threadpool(self._site.sessions.token_of, cookie)

    async def _fail(
        self, scope: Scope, receive: Receive, sender: _Sender, problem: PrivodError
    ) -> None:
        if not sender.started:
            sender.muted = False
            await self._failure(scope, problem)(scope, receive, sender.send)


class _Sender:
    """Sends the response with our headers, and knows whether it has begun."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]], prefix: str) -> None:
        self._send = send
        self._headers = headers
        self._prefix = prefix.encode()
        self.started = False
        self.muted = False
        self.status = 0

    async def send(self, message: Message) -> None:
        if self.muted and not self.started:
            return  # a larger body than allowed came in; the middleware answers in the app's place
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            own = [self._onward(*pair) for pair in message.get("headers", ())]
            names = {name for name, _ in own}
            message["headers"] = own + [pair for pair in self._headers if pair[0] not in names]
        await self._send(message)

    def _onward(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        """A header; where it leads to a path of ours, under the prefix."""
        ours = name == b"location" and value.startswith(b"/")
        return (name, self._prefix + value) if ours else (name, value)


class _Body:
    """Receives the body, up to a limit."""

    def __init__(self, receive: Receive, limit: int, sender: _Sender) -> None:
        self._receive = receive
        self._limit = limit
        self._sender = sender
        self._left = limit
        self._ready: list[Message] = []
        self.overflown = False
        self.message = (
            f"The request is larger than {limit} bytes, the most with this token. Send less."
        )

    def is_expected(self, headers: Headers) -> bool:
        """Whether the request says that a body comes."""
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    async def prepare(self, headers: Headers, seconds: float | None) -> None:
        """Refuse a body that says it is too large; read it whole if it must be here in time."""
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limit:
            raise TooLarge(self.message)
        if seconds is None or not self.is_expected(headers):
            return
        try:
            async with asyncio.timeout(seconds):
                await self._read()
        except TimeoutError:
            raise TooSlow(
                f"The request took longer than {seconds:g} seconds to arrive. Send it again."
            ) from None

    async def _read(self) -> None:
        chunks = bytearray()
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                self._ready.append(message)
                return
            chunks += message.get("body", b"")
            more = message.get("more_body", False)
            if len(chunks) > self._limit:
                raise TooLarge(self.message)
        self._ready.append({"type": "http.request", "body": bytes(chunks), "more_body": False})

    async def receive(self) -> Message:
        if self._ready:
            return self._ready.pop(0)
        message: Message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.overflown = self._sender.muted = True
            raise TooLarge(self.message)
        return message


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None and len(morsel.value) <= LONGEST_TOKEN else ""


def address_of(scope: Scope) -> str:
    """Where a request comes from; behind a proxy, what the proxy says. For limits, not for logs."""
    client: Any = scope.get("client")
    return network_of(str(client[0])) if client else "-"
