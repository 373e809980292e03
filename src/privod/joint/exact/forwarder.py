"""Carry the engine's links through a party's authenticated channel.

The engine believes the rank that a message states, and its port serves more than its own service.
So it hears loopback connections only, under an authority made for the run at this site. Its bytes
travel sealed from forwarder to forwarder. A request is handed on only if it is a push that states
the rank whose key sealed it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privod.errors import ProtocolAborted
from privod.joint.pki import make_identities

LOOPBACK = "127.0.0.1"
PORTS = range(10_000, 32_000)  # below those that a system gives to whoever asks for any
PIECE = 1 << 19  # bytes of a connection carried at a time
WAITING = 64  # pieces that may wait to be sent before no more are read
PAUSE_SECONDS = 0.002
COMING_SECONDS = 60.0  # for the engine to listen
LARGEST_REQUEST = 1 << 28
PREFIX = struct.Struct(">BI")  # kind, number of the connection
OPENED_HERE, OPENED_THERE, CLOSED, END = range(4)
HEADER = struct.Struct(">4sII")  # of the engine's requests: magic, bytes after this, bytes of meta
MAGIC = b"PRPC"
SERVICE = b"org.interconnection.link.ReceiverService"
METHOD = b"Push"
SHOWN = 256  # bytes of a field that are looked at
FOREIGN = "A computing party sent what its engine never sends. The run was ended."

Key = tuple[int, int, int]  # rank, kind, number: a connection


@dataclass(frozen=True)
class LocalAuthority:
    """Certificates of one run at one site, in a folder that only its user can read."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> LocalAuthority:
        """Make an authority, and a certificate for the engine and for the forwarder."""
        roster, identities = make_identities(("engine", "forwarder"), "run", f"{LOOPBACK}:0")
        (folder / "authority.pem").write_text(roster.authority)
        for name in ("engine", "forwarder"):
            (folder / f"{name}.pem").write_text(identities[name].certificate)
            (folder / f"{name}.key").write_bytes(identities[name].private_key)
        return cls(folder)

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """The forwarder's side: nobody without a certificate of this authority is heard."""
        made = ssl.create_default_context(purpose, cafile=str(self.folder / "authority.pem"))
        made.check_hostname = False  # the authority signed three names and forgot its key
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_cert_chain(self.folder / "forwarder.pem", self.folder / "forwarder.key")
        return made


@dataclass
class Requests:
    """Put a peer's bytes together to whole messages; of requests, let its own pushes pass only."""

    rank: int | None  # None for answers to this site's requests
    _waiting: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> bytes:
        """Take more bytes; return the messages that are whole, or raise."""
        self._waiting += data
        done = 0
        with memoryview(self._waiting) as view:
            while len(view) - done >= HEADER.size:
                magic, size, meta = HEADER.unpack_from(view, done)
                start, end = done + HEADER.size, done + HEADER.size + size
                if magic != MAGIC or meta > size or size > LARGEST_REQUEST:
                    raise ProtocolAborted(FOREIGN)
                if len(view) < end:
                    break
                if self.rank is not None:
                    self._check(bytes(view[start : start + meta]), view[start + meta : end])
                done = end
            whole = bytes(view[:done])
        del self._waiting[:done]
        return whole

    def _check(self, meta: bytes, body: memoryview) -> None:
        with body:
            told, push = _fields(meta), _fields(body)
        call = told.get(1, b"")
        named = _fields(call) if isinstance(call, bytes) else {}
        plain = told.get(3, 0) == 0 and told.get(5, 0) == 0  # not compressed, nothing attached
        if (named.get(1), named.get(2)) != (SERVICE, METHOD) or not plain:
            raise ProtocolAborted(FOREIGN)
        if push.get(1, 0) != self.rank:
            raise ProtocolAborted(FOREIGN)


def _fields(message: bytes | memoryview) -> dict[int, bytes | int]:
    """Read the outermost fields of a protocol buffer; of a repeated one the last, as engines do."""
    found: dict[int, bytes | int] = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            found[number], place = _varint(message, place)
            continue
        size = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            size, place = _varint(message, place)
        if size < 0 or place + size > len(message):
            raise ProtocolAborted(FOREIGN)
        found[number] = bytes(message[place : place + min(size, SHOWN)])
        place += size
    return found


def _varint(message: bytes | memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise ProtocolAborted(FOREIGN)


@dataclass
class _Link:
    """The sealed way to one peer: messages are numbered, so none can be lost, doubled or moved."""

    place: int  # on the roster
    rank: int
    sending: AESGCM
    receiving: AESGCM
    sent: int = 0
    received: int = 0
    ended: bool = False

    def seal(self, message: bytes) -> bytes:
        self.sent += 1
        nonce = self.sent.to_bytes(12, "big")
        return bytes([self.place]) + self.sending.encrypt(nonce, message, None)

    def open(self, sealed: bytes) -> bytes:
        self.received += 1
        try:
            return self.receiving.decrypt(self.received.to_bytes(12, "big"), sealed, None)
        except InvalidTag:
            raise ProtocolAborted("An engine's message was altered on its way.") from None


class Forwarder:
    """One site's end of links: by rank, a peer's place on the roster and keys both ways."""

    def __init__(
        self, authority: LocalAuthority, links: Mapping[int, tuple[int, bytes, bytes]]
    ) -> None:
        self._authority = authority
        self._links = {
            place: _Link(place, rank, AESGCM(sending), AESGCM(receiving))
            for rank, (place, sending, receiving) in links.items()
        }
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._writers: dict[Key, asyncio.StreamWriter] = {}
        self._requests: dict[Key, Requests] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._numbers = 0
        self._ended = self._closed = False
        self._closing = Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = free_port()
        self.addresses = [f"{LOOPBACK}:{self.port}"] * (len(links) + 1)
        for link in self._links.values():
            listening = asyncio.run_coroutine_threadsafe(self._listen(link), self._loop)
            self.addresses[link.rank] = f"{LOOPBACK}:{listening.result()}"

    def outgoing(self) -> Iterator[bytes]:
        """Sealed pieces for the peers, until everybody has ended."""
        while (piece := self._outgoing.get()) is not None:
            yield piece

    def take(self, piece: bytes) -> None:
        """Hand a peer's sealed piece on."""
        link = self._links.get(piece[0])
        if link is None or link.ended:
            raise ProtocolAborted(FOREIGN)
        message = link.open(piece[1:])
        asyncio.run_coroutine_threadsafe(self._hand_on(link, message), self._loop).result()
        self._close_if_all_ended()

    def end(self) -> None:
        """Tell the peers that this site's engine is done, after all that it said."""

        async def tell() -> None:
            while self._tasks:
                await asyncio.wait(self._tasks)
            for link in self._links.values():
                self._send(link, END, 0, b"")

        asyncio.run_coroutine_threadsafe(tell(), self._loop).result()
        self._ended = True
        self._close_if_all_ended()

    def _close_if_all_ended(self) -> None:
        if self._ended and all(link.ended for link in self._links.values()):
            self.close()

    def close(self) -> None:
        """End the channel's stream and every connection."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._outgoing.put(None)

        async def stop() -> None:
            for server in self._servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers.values():
                writer.transport.abort()
            await asyncio.sleep(PAUSE_SECONDS)  # in which transports let go of their sockets

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, link: _Link) -> int:
        """Hear the engine's connections that are meant for a peer."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._numbers += 1
            self._start(link, OPENED_HERE, self._numbers, reader, writer)

        context = self._authority.context(ssl.Purpose.CLIENT_AUTH)
        server = await asyncio.start_server(accept, LOOPBACK, 0, ssl=context, limit=PIECE)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def _start(
        self,
        link: _Link,
        kind: int,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._writers[link.rank, kind, number] = writer
        task = self._loop.create_task(self._pump(link, kind, number, reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, link: _Link, kind: int, number: int, reader: asyncio.StreamReader
    ) -> None:
        """Carry what the engine says in a connection to the peer."""
        with suppress(OSError):
            while data := await reader.read(PIECE):
                self._send(link, kind, number, data)
                while self._outgoing.qsize() > WAITING:
                    await asyncio.sleep(PAUSE_SECONDS)
        if kind == OPENED_HERE:
            self._send(link, CLOSED, number, b"")

    def _send(self, link: _Link, kind: int, number: int, data: bytes) -> None:
        self._outgoing.put(link.seal(PREFIX.pack(kind, number) + data))

    async def _hand_on(self, link: _Link, message: bytes) -> None:
        kind, number = PREFIX.unpack_from(message)
        if kind == END:
            link.ended = True
            return
        here = OPENED_HERE if kind == OPENED_THERE else OPENED_THERE
        key = link.rank, here, number
        if kind == CLOSED:
            if (writer := self._writers.pop(key, None)) is not None:
                writer.close()
            return
        if key not in self._writers:
            if here == OPENED_HERE:
                return  # an answer in a connection that the engine has closed
            self._start(link, here, number, *await self._dial())
            self._requests[key] = Requests(link.rank)
        whole = self._requests.setdefault(key, Requests(None)).add(message[PREFIX.size :])
        with suppress(OSError):
            self._writers[key].write(whole)
            await self._writers[key].drain()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the engine of this site, once it listens."""
        context = self._authority.context(ssl.Purpose.SERVER_AUTH)
        deadline = monotonic() + COMING_SECONDS
        while True:
            try:
                return await asyncio.open_connection(LOOPBACK, self.port, ssl=context, limit=PIECE)
            except ssl.SSLError:
                raise ProtocolAborted("Another program listens where the engine should.") from None
            except OSError:
                if monotonic() > deadline:
                    raise ProtocolAborted("The engine did not come up. Run again.") from None
                await asyncio.sleep(0.05)


_ports_asked_for = count()


def free_port() -> int:
    """A port that nobody listens on, and that nobody is given before its use."""
    while True:
        port = PORTS[(97 * os.getpid() + next(_ports_asked_for)) % len(PORTS)]
        with suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            return port
