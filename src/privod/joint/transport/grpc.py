"""The same messages over gRPC with mutual TLS: one port at the aggregator, none at the parties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Self

from privod.errors import ProtocolAborted, Unavailable
from privod.joint.roster import Identity, Roster
from privod.joint.transport.channel import Channel, Meeting, Patience
from privod.joint.transport.frames import CHUNK, HEADER

try:
    import grpc
except ImportError:
    raise Unavailable("Runs over the network need grpcio. Install privod[parties].") from None

SERVICE = "privod.Parties"
ATTEND, TRADE, RELAY = (f"/{SERVICE}/{name}" for name in ("Attend", "Trade", "Relay"))
DONE = b"done"
ROSTER_KEY = "privod-roster"
HEARTBEAT = b""
MOVED = b"moved"  # a heartbeat of a party whose work went on since the last one
BEAT_SECONDS = 1.0
SILENCE_SECONDS = 30.0  # without a heartbeat, after which somebody counts as lost
RETRY_SECONDS = 0.2
HANDSHAKE_TRIES = 5  # a listener that comes up may reset a connection; one that refuses always does
GRACE_SECONDS = 2.0
LATE_SECONDS = 10.0  # after its start the aggregator tells also those who come after a failure
LOST_SECONDS = 10.0  # within which a broken call is known to be one, on a busy machine too
LOST = "The aggregator was lost. Run again."

OPTIONS = [
    ("grpc.so_reuseport", 0),  # else two aggregators would share one port, and its callers
    ("grpc.max_receive_message_length", CHUNK + HEADER.size),
    ("grpc.max_send_message_length", CHUNK + HEADER.size),
]


class GrpcAggregator:
    """Listen for the parties of one run, on any free port if it is 0."""

    def __init__(
        self,
        roster: Roster,
        identity: Identity,
        listen: str | None = None,
        patience: Patience | None = None,
        spared: Iterable[str] = (),
    ) -> None:
        self.meeting = Meeting(roster.names, patience, spared)
        self._roster = roster
        self._heard: dict[str, float] = {}
        self._began = monotonic()
        threads = 4 * len(roster.names) + 8  # two calls per party, and room to refuse strangers
        self._server = grpc.server(ThreadPoolExecutor(threads), options=OPTIONS)
        credentials = grpc.ssl_server_credentials(
            [(identity.private_key, identity.certificate.encode())],
            root_certificates=roster.authority.encode(),
            require_client_auth=True,
        )
        handlers = {
            "Attend": grpc.stream_stream_rpc_method_handler(self._attend),
            "Trade": grpc.stream_stream_rpc_method_handler(self._trade),
            "Relay": grpc.stream_stream_rpc_method_handler(self._relay),
        }
        service = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((service,))
        try:
            self.port = self._server.add_secure_port(listen or roster.address, credentials)
        except RuntimeError:
            raise Unavailable(
                f"Nothing can listen on {listen or roster.address!r}. Is the port taken?"
            ) from None

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, _kind: object, problem: object, _trace: object) -> None:
        if problem is not None:
            self.meeting.fail("The aggregator ended the run.")
        if isinstance(problem, ProtocolAborted):
            self.meeting.wait_for_all(self._began + LATE_SECONDS - monotonic())
        self._server.stop(GRACE_SECONDS).wait()

    def _attend(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        name = self._speaker(context)
        metadata = dict(context.invocation_metadata())
        if metadata.get(ROSTER_KEY) != self._roster.digest().hex():
            reason = f"{name!r} has another roster. Give everybody the same roster file."
            self.meeting.fail(reason)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        try:
            self.meeting.join(name)
        except ProtocolAborted as problem:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        if not context.add_callback(lambda: self.meeting.leave(name, None)):
            self.meeting.leave(name, None)
        self._heard[name] = monotonic()
        Thread(target=self._listen, args=(name, messages), daemon=True).start()
        yield self.meeting.session
        while not self.meeting.wait_for_end(BEAT_SECONDS):
            if monotonic() - self._heard[name] > SILENCE_SECONDS:
                self.meeting.leave(name, None)
            yield HEARTBEAT
        if self.meeting.failure is not None:
            context.abort(grpc.StatusCode.ABORTED, self.meeting.failure)

    def _listen(self, name: str, messages: Iterator[bytes]) -> None:
        try:
            for message in messages:
                self._heard[name] = monotonic()
                if message == DONE:
                    self.meeting.leave(name, None, done=True)
                elif message == MOVED:
                    self.meeting.moved(name)
                elif message != HEARTBEAT:
                    self.meeting.leave(name, message.decode(errors="replace")[:1000])
        except grpc.RpcError:
            return  # the stream broke, which the callback of the call notices too

    def _trade(self, frames: Iterator[bytes], context: Any) -> Iterator[bytes]:
        name = self._speaker(context)
        ended = Event()
        if not context.add_callback(ended.set):
            ended.set()
        try:
            # A killed party's frames end a moment before its call is seen to.
            yield from self.meeting.accept(name, frames, lambda: ended.wait(LOST_SECONDS))
        except ProtocolAborted as problem:
            context.abort(grpc.StatusCode.ABORTED, str(problem))
        except grpc.RpcError:
            self.meeting.leave(name, None)

    def _relay(self, frames: Iterator[bytes], context: Any) -> Iterator[bytes]:
        name = self._speaker(context)
        try:
            yield from self.meeting.relay(name, frames)
        except ProtocolAborted as problem:
            context.abort(grpc.StatusCode.ABORTED, str(problem))

    def _speaker(self, context: Any) -> str:
        """Return the name whose pinned certificate the caller has, or end the call."""
        peer = context.auth_context()
        (name,) = peer.get("x509_common_name", [b""])
        (certificate,) = peer.get("x509_pem_cert", [b""])
        for member in self._roster.parties:
            if member.name == name.decode() and member.has(certificate.decode()):
                return member.name
        context.abort(
            grpc.StatusCode.PERMISSION_DENIED,
            f"{name.decode()!r} is not on the aggregator's roster with this certificate.",
        )
        raise AssertionError("abort raises")


class GrpcChannel(Channel):
    """A party's connection to the aggregator of its roster; opening it waits for the aggregator."""

    def __init__(
        self, roster: Roster, identity: Identity, patience: Patience | None = None
    ) -> None:
        credentials = grpc.ssl_channel_credentials(
            roster.authority.encode(), identity.private_key, identity.certificate.encode()
        )
        options = [*OPTIONS, ("grpc.ssl_target_name_override", roster.aggregator.name)]
        self._wire = grpc.secure_channel(roster.address, credentials, options)
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        self._failure: str | None = None
        self._over = Event()
        self._moving = Event()
        self._call: Any = None
        self._attending: Any = None
        try:
            session = self._come(roster, (patience or Patience()).coming)
        except ProtocolAborted:
            self._wire.close()
            raise
        super().__init__(identity.name, session)
        self._heard = monotonic()
        Thread(target=self._watch, daemon=True).start()
        Thread(target=self._guard, daemon=True).start()

    def _come(self, roster: Roster, seconds: float) -> bytes:
        deadline = monotonic() + seconds
        handshakes = 0
        while True:
            self._messages = SimpleQueue()
            self._attending = self._wire.stream_stream(ATTEND)(
                _beating(self._messages, self._moving),
                metadata=[(ROSTER_KEY, roster.digest().hex())],
            )
            try:
                return bytes(next(self._attending))
            except grpc.RpcError as problem:
                self._messages.put(None)
                reason = problem.details() or ""
                if problem.code() != grpc.StatusCode.UNAVAILABLE:
                    raise ProtocolAborted(reason) from None
                refused = "refused" in reason.lower()
                handshakes += not refused
                if handshakes >= HANDSHAKE_TRIES or "certificate" in reason.lower():
                    why = (
                        "cannot be found: its name has no address here. Check it in the roster."
                        if "resol" in reason.lower()
                        else "and this party do not accept each other's certificates. Compare"
                        " rosters and certificates."
                    )
                    raise ProtocolAborted(f"The aggregator at {roster.address} {why}") from None
                if monotonic() > deadline:
                    raise ProtocolAborted(
                        f"No aggregator answered at {roster.address} within {seconds:g} seconds."
                        " Is it started, and is the port open?"
                    ) from None
                sleep(RETRY_SECONDS)

    def _watch(self) -> None:
        """Notice the end of the run, also while this party works on its own."""
        try:
            for _ in self._attending:
                self._heard = monotonic()
        except grpc.RpcError as problem:
            if problem.code() == grpc.StatusCode.ABORTED:
                self._failure = problem.details()
            elif not self._over.is_set():
                self._failure = LOST
        if self._failure is not None and self._call is not None:
            self._call.cancel()

    def _guard(self) -> None:
        """Notice an aggregator that hangs."""
        while not self._over.wait(BEAT_SECONDS) and self._attending.is_active():
            if monotonic() - self._heard > SILENCE_SECONDS:
                self._failure = LOST
                self._wire.close()
                return

    def _carry(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        return self._stream(TRADE, frames)

    def relay(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        """Pass frames on to other parties, and give back those for this one."""
        return self._stream(RELAY, frames)

    def _stream(self, method: str, frames: Iterator[bytes]) -> Iterable[bytes]:
        self.check()
        self._call = self._wire.stream_stream(method)(frames)
        try:
            yield from self._call
        except grpc.RpcError as problem:
            if problem.code() == grpc.StatusCode.ABORTED:
                raise ProtocolAborted(problem.details()) from None
            self._over.wait(RETRY_SECONDS)  # the other stream may know the reason better
            raise ProtocolAborted(self._failure or LOST) from None
        finally:
            self._call = None
        self.check()

    def moved(self) -> None:
        """Let the next heartbeat say that one's own work goes on."""
        self._moving.set()

    def check(self) -> None:
        """Raise if the run has ended elsewhere."""
        if self._failure is not None:
            raise ProtocolAborted(self._failure)

    def close(self, problem: str | None = None) -> None:
        """Leave; with a problem, the run ends for everybody."""
        self._over.set()
        self._messages.put(DONE if problem is None else problem.encode())
        self._messages.put(None)
        deadline = monotonic() + GRACE_SECONDS
        while self._attending.is_active() and monotonic() < deadline:
            sleep(0.01)  # until the aggregator has noted it
        self._wire.close()


def _beating(messages: SimpleQueue[bytes | None], moving: Event) -> Iterator[bytes]:
    """Send what is in the queue, and a heartbeat whenever there is nothing; None ends it."""
    while True:
        try:
            message = messages.get(timeout=BEAT_SECONDS)
        except Empty:
            message = MOVED if moving.is_set() else HEARTBEAT
            moving.clear()
        if message is None:
            return
        yield message
