"""Carry the engine's links through a party's authenticated channel.

The engine believes the rank that a message states and serves more than its own service. So it hears
loopback connections only, under an authority made for the run, and this forwarder is the only one
that holds the other certificate. Whole requests travel sealed from forwarder to forwarder; one is
handed on only if it is a push of the rank whose key sealed it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privod.errors import ProtocolAborted
from privod.joint.pki import make_identities

__all__ = ["Forwarder", "LocalAuthority", "Requests"]

LOOPBACK = "127.0.0.1"
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
FOREIGN = "A computing party sent something that is no message of its engine. The run was ended."


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
        made.check_hostname = False  # the authority lives for this run and signed two names
        made.verify_mode = ssl.CERT_REQUIRED
        chain = self.folder / "forwarder.pem", self.folder / "forwarder.key"
        made.load_cert_chain(*map(str, chain))
        return made


@dataclass
class Requests:
    """Put a peer's bytes together to whole requests, and let only its own pushes pass."""

    rank: int | None
    _waiting: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> bytes:
        """Take more bytes; return the requests that are whole, or raise."""
        self._waiting += data
        done = 0
        while len(self._waiting) - done >= HEADER.size:
            magic, size, meta = HEADER.unpack_from(self._waiting, done)
            if magic != MAGIC or meta > size or size > LARGEST_REQUEST:
                raise ProtocolAborted(FOREIGN)
            end = done + HEADER.size + size
            if len(self._waiting) < end:
                break
            if self.rank is not None:
                start = done + HEADER.size
                view = memoryview(self._waiting)
                try:
                    self._check(view[start : start + meta], view[start + meta : end])
                finally:
                    view.release()
            done = end
        whole = bytes(self._waiting[:done])
        del self._waiting[:done]
        return whole

    def _check(self, meta: memoryview, body: memoryview) -> None:
        told = _fields(meta)
        call = _fields(told.pop(1, b""))
        named = call.get(1) == SERVICE and call.get(2) == METHOD
        plain = told.get(3, 0) == 0 and told.get(5, 0) == 0  # not compressed, nothing attached
        if not named or not plain or _fields(body).get(1, 0) != self.rank:
            raise ProtocolAborted(FOREIGN)


def _fields(message: bytes | memoryview | int) -> dict[int, bytes | int]:
    """Read the outermost fields of a protocol buffer; of a repeated one the last, as engines do."""
    if isinstance(message, int):
        raise ProtocolAborted(FOREIGN)
    found: dict[int, bytes | int] = {}
    view, place = memoryview(message), 0
    while place < len(view):
        tag, place = _varint(view, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            found[number], place = _varint(view, place)
            continue
        size, place = (8, place) if kind == 1 else (4, place) if kind == 5 else (-1, place)
        if kind == 2:
            size, place = _varint(view, place)
        if size < 0 or place + size > len(view):
            raise ProtocolAborted(FOREIGN)
        found[number] = bytes(view[place : place + min(size, 256)]) if number < 3 else 0
        place += size
    return found


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(view) and shift < 64:
        byte = view[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise ProtocolAborted(FOREIGN)


@dataclass
class _Link:
    """The sealed way to one peer: messages are numbered, so none can be lost, doubled or moved."""

    place: int
    rank: int
    sending: AESGCM
    receiving: AESGCM
    sent: int = 0
    received: int = 0
    ended: bool = False

    def seal(self, message: bytes) -> bytes:
        """Seal the next message."""
        self.sent += 1
        return bytes([self.place]) + self.sending.encrypt(_nonce(self.sent), message, None)

    def open(self, sealed: bytes) -> bytes:
        """Open the next message."""
        self.received += 1
        try:
            return self.receiving.decrypt(_nonce(self.received), sealed, None)
        except InvalidTag:
            raise ProtocolAborted("A message of an engine was altered on its way.") from None


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


class Forwarder:
    """One site's end of the engine's links, in a thread with an event loop.

    Parameters
    ----------
    authority : LocalAuthority
        Of this run and site.
    rank : int
        This site's rank.
    links : dict of int to (int, bytes, bytes)
        For each peer's rank: its place on the roster, the key to send and the key to receive with.
    """

    def __init__(
        self, authority: LocalAuthority, rank: int, links: dict[int, tuple[int, bytes, bytes]]
    ) -> None:
        self._authority = authority
        self._links = {
            peer: _Link(place, peer, AESGCM(sending), AESGCM(receiving))
            for peer, (place, sending, receiving) in links.items()
        }
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._writers: dict[tuple[int, int, int], asyncio.StreamWriter] = {}
        self._framers: dict[tuple[int, int, int], Requests] = {}
        self._numbers = 0
        self._ended = self._closed = False
        self._closing = Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self._servers: list[asyncio.Server] = []
        self.engine_port = _free_port()
        self.addresses = [f"{LOOPBACK}:{self.engine_port}"] * (len(links) + 1)
        for peer in links:
            port = asyncio.run_coroutine_threadsafe(self._listen(peer), self._loop).result()
            self.addresses[peer] = f"{LOOPBACK}:{port}"
        self.rank = rank

    # what the channel calls

    def outgoing(self) -> Iterator[bytes]:
        """Sealed pieces for the peers, until this site has ended."""
        while (piece := self._outgoing.get()) is not None:
            yield piece

    def take(self, piece: bytes) -> None:
        """Hand a peer's sealed piece on."""
        link = next((one for one in self._links.values() if one.place == piece[0]), None)
        if link is None or link.ended:
            raise ProtocolAborted(FOREIGN)
        message = link.open(piece[1:])
        asyncio.run_coroutine_threadsafe(self._hand_on(link, message), self._loop).result()

    def end(self) -> None:
        """Tell the peers that this site's engine is done."""

        async def tell() -> None:
            for server in self._servers:
                server.close()
            while self._tasks:  # what was read last is on its way first
                await asyncio.wait(self._tasks)
            for link in self._links.values():
                self._send(link, END, 0, b"")

        asyncio.run_coroutine_threadsafe(tell(), self._loop).result()
        self._ended = True
        if self.all_ended:
            self.close()

    @property
    def all_ended(self) -> bool:
        """Whether this site and both peers are done."""
        return self._ended and all(link.ended for link in self._links.values())

    def close(self) -> None:
        """Let the channel's stream end, and every connection."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._outgoing.put(None)

        async def stop() -> None:
            for server in self._servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            for writer in self._writers.values():
                writer.transport.abort()
            self._loop.call_later(0.1, self._loop.stop)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()

    # inside the loop

    async def _listen(self, peer: int) -> int:
        """Hear the engine's connections that are meant for a peer."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._numbers += 1
            self._start(self._links[peer], OPENED_HERE, self._numbers, reader, writer)

        server = await asyncio.start_server(
            accept,
            LOOPBACK,
            0,
            ssl=self._authority.context(ssl.Purpose.CLIENT_AUTH),
            limit=PIECE,
        )
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
        key = link.rank, kind, number
        self._writers[key] = writer
        task = self._loop.create_task(self._pump(link, kind, number, reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, link: _Link, kind: int, number: int, reader: asyncio.StreamReader
    ) -> None:
        """Carry what the engine says in a connection to the peer."""
        with suppress(OSError, ssl.SSLError):
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
                return  # an answer to a connection that the engine has closed
            self._start(link, here, number, *await self._dial())
        whole = self._framers.setdefault(
            key, Requests(link.rank if here == OPENED_THERE else None)
        ).add(message[PREFIX.size :])
        if whole:
            with suppress(OSError):
                self._writers[key].write(whole)
                await self._writers[key].drain()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the engine of this site, once it listens."""
        context = self._authority.context(ssl.Purpose.SERVER_AUTH)
        deadline = monotonic() + COMING_SECONDS
        while True:
            try:
                return await asyncio.open_connection(
                    LOOPBACK, self.engine_port, ssl=context, limit=PIECE
                )
            except ssl.SSLError:
                raise ProtocolAborted("Another program listens where the engine should.") from None
            except OSError:
                if monotonic() > deadline:
                    raise ProtocolAborted("The engine did not come up. Run again.") from None
                await asyncio.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
