"""Send something encoded, small from memory or large from a file, in pieces, whole or in part."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from privod.server.authentication import find_visitor
from privod.server.failures import UnknownToken
from privod.server.jobs.answers import Encoded
from privod.server.site import site_of, visitor_of

PIECE_BYTES = 256 * 1024
VALID_SECONDS = 1.0  # between two looks whether the token is valid
RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")
CACHING = {"cache-control": "private, no-cache", "accept-ranges": "bytes"}


def send(
    request: Request,
    found: Encoded,
    media_type: str,
    headers: Mapping[str, str] | None = None,
    *,
    before: bytes = b"",
    after: bytes = b"",
) -> Response:
    """The response: 200, 206 for a range, 304 where nothing changed, 416 beyond the end.

    `before` and `after` stand around what was encoded, in this response.
    """
    size = len(before) + found.size + len(after)
    tag = f'"{found.digest[:32]}-{found.form}{"-in" if before or after else ""}"'
    told = {**CACHING, **(headers or {}), "etag": tag}
    if found.head:
        told["privod-ledger-head"] = found.head
    known = request.headers.get("if-none-match", "").split(",")
    if request.method == "GET" and tag in [one.strip().removeprefix("W/") for one in known]:
        return Response(status_code=304, headers=told)
    first, end, status = 0, size, 200
    if (asked := _range(request, tag, size)) is not None:
        first, end = asked
        if first >= end:
            beyond = {**told, "content-range": f"bytes */{size}"}
            return Response(status_code=416, headers=beyond)
        status = 206
        told["content-range"] = f"bytes {first}-{end - 1}/{size}"
    told["content-length"] = str(end - first)
    if isinstance(found.content, bytes):
        whole = before + found.content + after
        return Response(whole[first:end], status, told, media_type)
    pieces = _paced(request, _pieces(found.content, found.size, before, after, first, end))
    return StreamingResponse(pieces, status, told, media_type)


async def _paced(request: Request, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece when the token's share of bytes allows it, while the token is valid."""
    site, visitor, looked = site_of(request), visitor_of(request), time.monotonic()
    async for piece in pieces:
        await asyncio.sleep(site.sent.delay(visitor.id, len(piece)))
        if time.monotonic() - looked > VALID_SECONDS:
            looked = time.monotonic()
            if await run_in_threadpool(find_visitor, site.curator, visitor.id) is None:
                raise UnknownToken("The token was revoked.")  # and the connection is closed
        yield piece


def _range(request: Request, tag: str, size: int) -> tuple[int, int] | None:
    """The one range that is asked for, as first byte and end; None for the whole."""
    if request.method != "GET" or request.headers.get("if-range", tag) != tag:
        return None
    found = RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size if int(found[2]) else 0
    end = min(size, int(found[2]) + 1) if found[2] else size
    return int(found[1]), end


async def _pieces(
    path: Path, whole: int, before: bytes, after: bytes, first: int, end: int
) -> AsyncIterator[bytes]:
    """The bytes from the first to the end, a piece at a time."""
    inside = len(before), len(before) + whole
    if first < inside[0]:
        yield before[first:end]
    at, until = max(first, inside[0]) - inside[0], min(end, inside[1]) - inside[0]
    if at < until:
        file = await run_in_threadpool(path.open, "rb")
        try:
            await run_in_threadpool(file.seek, at)
            while at < until:
                piece = await run_in_threadpool(file.read, min(PIECE_BYTES, until - at))
                if not piece:
                    return  # cut short by somebody else: the length in the header tells it
                yield piece
                at += len(piece)
        finally:
            file.close()
    if end > inside[1]:
        yield after[max(0, first - inside[1]) : end - inside[1]]
