"""Few connections each, a head that is soon there and small, and an answer that is soon taken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privod.server.limits import network_of

HEAD_SECONDS = 10.0
HEAD_BYTES = 32 * 1024
READ_SECONDS = 30.0  # in which a piece of an answer must be read


class Connections:
    """The connections that are open, counted for each address."""

    def __init__(self, most_each: int, shared: Container[str]) -> None:
        self._most_each = most_each
        self._shared = shared
        self._held: Counter[str] = Counter()

    def admit(self, address: str) -> bool:
        """Count one more, unless it is one too many."""
        whose = network_of(address)
        if self._held[whose] >= self._most_each and address not in self._shared:
            return False
        self._held[whose] += 1
        return True

    def dismiss(self, address: str) -> None:
        """Count one less of those admitted."""
        whose = network_of(address)
        self._held[whose] -= 1
        if not self._held[whose]:
            del self._held[whose]


class PromptProtocol(HttpToolsProtocol):
    """A connection that is closed if it is one too many, or too slow to send a head or to read."""

    _admitted: str | None = None  # the address it is counted under
    _patience: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def __init__(self, *given: Any, counted: Connections, **named: Any) -> None:
        super().__init__(*given, **named)
        self._counted = counted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self._counted.admit(address):
            transport.abort()  # a parting over TLS could be drawn out
            return
        self._admitted = address
        self._patience = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._admitted is not None:
            self._counted.dismiss(self._admitted)
        self._hurry_no_more()
        self._was_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What was sent is not read as fast as it comes."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Nearly all that was sent was read."""
        self._was_read()
        super().resume_writing()

    def _was_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self._hurry_no_more()

    def _hurry_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
