"""Messages between parties and an aggregator: one interface, whatever carries them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Condition, Thread
from time import monotonic
from typing import TypeVar

from privod.errors import PrivodError, ProtocolAborted
from privod.joint.transport.frames import Assembly, split
from privod.joint.transport.traffic import Traffic
from privod.progress import overhearing, report

SESSION_BYTES = 16
WAITING = 64  # frames for one party that the aggregator keeps while it relays
LOOK_SECONDS = 1.0  # between looks whether the run still goes on
Result = TypeVar("Result")


@dataclass(frozen=True)
class Patience:
    """Seconds that a run waits for parties to come, and for one that makes no progress."""

    coming: float = 60.0
    stalled: float = 600.0


class Channel(ABC):
    """A party's end: one message per step to the aggregator, one back."""

    def __init__(self, name: str, session: bytes) -> None:
        self.name = name
        self.session = session
        self.traffic = Traffic()
        self._step = 0

    def trade(self, phase: str, payload: bytes | memoryview, most: int) -> bytes:
        """Send this step's message and wait for the answer, of at most `most` bytes."""
        report(phase, 0, 1)
        started = monotonic()
        sent = 0

        def outgoing() -> Iterator[bytes]:
            nonlocal sent
            for frame in split(payload, self.session, self._step):
                sent += len(frame)
                yield frame

        incoming = Assembly("the aggregator", self.session, self._step, most)
        received = 0
        for frame in self._carry(outgoing()):
            received += len(frame)
            incoming.add(frame)
        answer = incoming.message()
        self._step += 1
        self.traffic.add(phase, sent, received, started)
        report(phase, 1, 1)
        return answer

    @abstractmethod
    def _carry(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        """Bring the frames to the aggregator; give back the frames of its answer."""

    def relay(self, frames: Iterator[bytes]) -> Iterable[bytes]:  # noqa: ARG002
        """Pass frames on to other parties, outside the steps, and give back those for this one.

        A frame begins with the place of its receiver on the roster; when it arrives, with that of
        its sender.
        """
        raise ProtocolAborted("This transport carries messages of steps only. Run over gRPC.")

    @abstractmethod
    def moved(self) -> None:
        """Tell the aggregator that one's own work goes on."""

    @abstractmethod
    def close(self, problem: str | None = None) -> None:
        """Leave; with a problem, the run ends for everybody."""


class Meeting:
    """The aggregator's side of a run, which goes on without parties that are `spared` and lost."""

    def __init__(
        self, names: Sequence[str], patience: Patience | None = None, spared: Iterable[str] = ()
    ) -> None:
        self.names = tuple(names)
        self.session = os.urandom(SESSION_BYTES)
        self.traffic = Traffic()
        self._patience = patience or Patience()
        self._changed = Condition()
        self._came: set[str] = set()  # also too late, to be told why
        self._here: set[str] = set()
        self._spared = frozenset(spared)
        self._lost: dict[str, str] = {}
        self._done: set[str] = set()
        self._turn = dict.fromkeys(self.names, 0)
        self._open: tuple[int, int] | None = None
        self._moved = dict.fromkeys(self.names, monotonic())
        self._received = 0
        self._step = 0
        self._phase = "coming"
        self._started = monotonic()
        self._deposits: dict[str, bytes] = {}
        self._answers: dict[str, dict[int, bytes]] = {name: {} for name in self.names}
        self._failure: str | None = None
        self._finished = False
        self._boxes: dict[str, Queue[bytes | None]] = {name: Queue(WAITING) for name in self.names}

    # what the protocol calls

    @property
    def lost(self) -> dict[str, str]:
        """Who was lost without an end of the run, each with the phase in which."""
        with self._changed:
            return dict(self._lost)

    @property
    def _due(self) -> list[str]:
        return [name for name in self.names if name not in self._lost]

    def collect(self, phase: str, most: int) -> dict[str, bytes]:
        """Wait for this step's message, of at most `most` bytes, of every party that is there."""
        report(phase, 0, len(self.names))
        with self._changed:
            self._phase = phase
            self._started = monotonic()
            self._deposits = {}
            self._received = 0
            self._open = self._step, most
            self._changed.notify_all()
            while self._failure is None and any(one not in self._deposits for one in self._due):
                self._wait_for_late()
            self._raise_failure()
            self._open = None
            report(phase, len(self.names), len(self.names))
            return {name: self._deposits[name] for name in self.names if name in self._deposits}

    def _wait_for_late(self) -> None:
        """Wait for a change, or until somebody who is due has got nowhere for too long."""
        coming = self._step == 0
        limit = self._patience.coming if coming else self._patience.stalled
        now = monotonic()
        left = {
            name: max(self._started, 0.0 if coming else self._moved[name]) + limit - now
            for name in self._due
            if name not in self._deposits
        }
        late = [name for name, seconds in left.items() if seconds <= 0]
        if not late:
            self._changed.wait(min(left.values()))
            return
        what = "did not come" if coming else f"made no progress in {self._phase!r}"
        if self._spared.issuperset(late):
            self._lost |= dict.fromkeys(late, self._phase)
            self._changed.notify_all()
            return
        names = ", ".join(late)
        self._fail(f"{names} {what} within {limit:g} seconds. Run again when all are there.")

    def reply(self, answers: Mapping[str, bytes]) -> None:
        """Answer every party; the step is over."""
        with self._changed:
            self._raise_failure()
            for name in self._deposits:
                self._answers[name][self._step] = answers[name]
            sent = sum(len(answers[name]) for name in self._deposits)
            self.traffic.add(self._phase, sent, self._received, self._started)
            self._deposits = {}
            self._step += 1
            self._changed.notify_all()

    def reply_all(self, answer: bytes) -> None:
        """Answer every party alike."""
        self.reply(dict.fromkeys(self.names, answer))

    def fail(self, reason: str) -> None:
        """End the run for everybody; the first reason stands."""
        with self._changed:
            self._fail(reason)

    def finish(self) -> None:
        """Wait until every party has its last answer, then let nobody's leaving matter any more."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure is not None or self._done.issuperset(self._due),
                self._patience.stalled,
            )
            self._raise_failure()
            self._finished = True
            self._changed.notify_all()

    # what transports call

    def join(self, name: str) -> None:
        """Let a party in, once."""
        with self._changed:
            self._came.add(name)
            self._changed.notify_all()
            self._raise_failure()
            if name not in self.names:
                raise ProtocolAborted(f"{name!r} is not on the roster of this run.")
            if name in self._here:
                raise ProtocolAborted(f"{name!r} already takes part in this run.")
            if name in self._lost:
                raise ProtocolAborted(f"{name!r} came too late: the run goes on without it.")
            self._here.add(name)

    def moved(self, name: str) -> None:
        """Note that a party's work goes on."""
        self._moved[name] = monotonic()  # read by `_wait_for_late`, which looks again in time

    def leave(self, name: str, problem: str | None, *, done: bool = False) -> None:
        """Note that a party left; unless it was done or can be spared, the run ends."""
        with self._changed:
            if done:
                self._done.add(name)
            elif name in self._spared and name not in self._done:
                self._lost.setdefault(name, self._phase)
            elif name not in self._done:
                self._fail(
                    _printable(problem) or f"{name!r} was lost during {self._phase!r}. Run again."
                )
            self._changed.notify_all()

    def accept(
        self, name: str, frames: Iterable[bytes], is_lost: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """Take one message of a party, wait for all, and give back the frames of the answer."""
        try:
            step = self._turn[name]
            assembly = Assembly(name, self.session, step, self._wait_until_open(name, step))
            for frame in frames:
                assembly.add(frame)
                self.moved(name)
            if not assembly.is_whole and is_lost():
                self.leave(name, None)
            answer = self._deposit(name, step, assembly)
        except ProtocolAborted as problem:
            if name not in self.lost:
                self.fail(str(problem))
            raise
        yield from split(answer, self.session, step)

    def relay(self, name: str, frames: Iterable[bytes]) -> Iterator[bytes]:
        """Pass a party's frames on, and give back those for it, until it sends no more."""
        place = bytes([self.names.index(name)])
        box = self._boxes[name]

        def pass_on() -> None:
            try:
                for frame in frames:
                    if len(frame) < 2 or frame[0] >= len(self.names):
                        raise ProtocolAborted(f"{name!r} sent a frame to nobody. Run again.")
                    self._put(self._boxes[self.names[frame[0]]], place + frame[1:])
                    self.moved(name)
                self._put(box, None)
            except ProtocolAborted as problem:
                self.fail(str(problem))
            except Exception:
                self.leave(name, None)  # its stream broke

        Thread(target=pass_on, daemon=True).start()
        while True:
            try:
                frame = box.get(timeout=LOOK_SECONDS)
            except Empty:
                self._look()
                continue
            if frame is None:
                return
            yield frame

    def _put(self, box: Queue[bytes | None], frame: bytes | None) -> None:
        while True:
            try:
                box.put(frame, timeout=LOOK_SECONDS)
                return
            except Full:
                self._look()

    def _look(self) -> None:
        with self._changed:
            self._raise_failure()

    def wait_for_end(self, seconds: float) -> bool:
        """Wait that long at most; return whether the run has ended, well or badly."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._failure) or self._finished, seconds)

    def wait_for_all(self, seconds: float) -> None:
        """Wait until everybody has come, or been told why it was in vain; that long at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._came.issuperset(self.names), seconds)

    @property
    def failure(self) -> str | None:
        """Why the run failed, None if it did not."""
        with self._changed:
            return self._failure

    def _wait_until_open(self, name: str, step: int) -> int:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._failure is not None
                    or name in self._lost
                    or (self._open or (-1,))[0] == step
                )
            )
            self._raise_failure(name)
            assert self._open is not None  # noqa: S101 - just waited for, told to the type checker
            return self._open[1]

    def _deposit(self, name: str, step: int, assembly: Assembly) -> bytes:
        message = assembly.message()
        with self._changed:
            self._raise_failure(name)
            if name in self._deposits or self._turn[name] != step:
                raise ProtocolAborted(f"{name!r} sent two messages in one step. Run again.")
            self._deposits[name] = message
            self._received += len(message)
            self._turn[name] = step + 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._failure is not None or step in self._answers[name])
            self._raise_failure()
            return self._answers[name].pop(step)

    def _fail(self, reason: str) -> None:
        if self._failure is None and not self._finished:
            self._failure = reason
            self._changed.notify_all()

    def _raise_failure(self, name: str = "") -> None:
        if self._failure is not None:
            raise ProtocolAborted(self._failure)
        if name in self._lost:
            raise ProtocolAborted(f"The run goes on without {name!r}, which was lost for a while.")


def _printable(text: str | None) -> str:
    """A party's words without line breaks and control characters: they end up on terminals."""
    return "".join(letter if letter.isprintable() else " " for letter in text or "")


def reason_of(name: str, problem: BaseException) -> str:
    """Say why a party ended the run, without anything its rows could have put into a message."""
    if isinstance(problem, ProtocolAborted):
        return (
            str(problem) if problem.others is None else f"{name!r} ended the run: {problem.others}"
        )
    if isinstance(problem, PrivodError):
        return f"{name!r} ended the run: {problem}"
    return f"{name!r} ended the run because of a {type(problem).__name__}."


def attend(channel: Channel, act: Callable[[Channel], Result]) -> Result:
    """Act as a party and leave properly; a problem of one's own ends the run for everybody."""
    try:
        with overhearing(lambda *_: channel.moved()):
            result = act(channel)
    except BaseException as problem:
        channel.close(reason_of(channel.name, problem))
        raise
    channel.close()
    return result


def host(meeting: Meeting, act: Callable[[Meeting], Result]) -> Result:
    """Act as the aggregator until every party is done; a problem ends the run for everybody."""
    try:
        result = act(meeting)
        meeting.finish()
    except BaseException as problem:
        meeting.fail(reason_of("the aggregator", problem))
        raise
    return result
