"""What comes before a request is known: its head must be there soon, and be small.

The parser waits for a head as long as it takes and keeps as much of it as comes, so that strangers
could hold connections by sending nothing, and memory by sending on.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["PromptProtocol"]

HEAD_SECONDS = 10.0
HEAD_BYTES = 32 * 1024


class PromptProtocol(HttpToolsProtocol):
    """A connection that is closed when a head takes too long or is too long."""

    _patience: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._patience = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hurry_no_more()
        super().connection_lost(exc)

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
