"""Where did a run of many rounds break off? The next one goes on there, with fresh keys.

Nothing of a broken session is used again: keys, masks, orders of rows and hashes are drawn anew.
What is kept is what a party had after a whole round: its share of the counts so far, or the rows
that are left. A state is named by all sessions that led to it; everybody offers the states it has,
and the run goes on from the latest one that all have. Parties are never more than one round apart,
so two states are enough. A round that is made again shows what one more round shows.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting

__all__ = ["Offer", "Rounds", "host_resume", "read_rounds", "resume"]

PHASE = "resuming"
LARGEST_OFFER = 4096  # bytes, of one party
KEPT = 2  # states: parties are at most one round apart
CHECK_BYTES = 32
Values = NDArray[np.integer[Any]]


@dataclass(frozen=True, order=True)
class Offer:
    """A state by name.

    Attributes
    ----------
    done : int
        How many rounds are over.
    history : str
        Stands for the sessions in which they were made.
    opened : int
        How many suspects these rounds opened to everybody, 0 before.
    """

    done: int = 0
    history: str = ""
    opened: int = 0


class Rounds:
    """A party's last completed rounds of one run, in a file of its own or in memory.

    Parameters
    ----------
    path : path, optional
        The file; a run that ends well removes it. One that cannot be read is no loss but of time:
        the run begins anew.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._subject = b""
        self._session = b""
        self._states: list[tuple[Offer, Values]] = []
        self.at = Offer()

    def prepare(self, subject: bytes, session: Session) -> None:
        """Keep only states of these very rows, parameters and parties."""
        if self._path is not None:
            self._subject, self._states = read_rounds(self._path)
        if self._subject != subject:
            self._subject, self._states = subject, []
        self._session = session.id
        self.at = Offer()

    @property
    def offers(self) -> list[Offer]:
        """The states that this party could go on from."""
        return [offer for offer, _ in self._states]

    def go_on(self, start: Offer) -> None:
        """Begin after the rounds of a state; those after it are forgotten."""
        self.at = start
        self._states = [(offer, kept) for offer, kept in self._states if offer.done <= start.done]

    @property
    def values(self) -> Values | None:
        """What the party had at this point, None at the beginning."""
        return next((kept.copy() for offer, kept in self._states if offer == self.at), None)

    def complete(self, values: Values, opened: int = 0) -> None:
        """Note that one more round is over, and what the party has after it."""
        name = f"{self.at.history}|{self._session.hex()}|{self.at.done + 1}"
        history = hashlib.sha256(name.encode()).hexdigest()
        self.at = Offer(self.at.done + 1, history, opened)
        self._states = [*self._states, (self.at, values.copy())][-KEPT:]
        if self._path is not None:
            _write(self._path, self._subject, self._states)

    def end(self) -> None:
        """Forget everything: the run is over."""
        self._states = []
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def resume(channel: Channel, session: Session, rounds: Rounds) -> None:
    """Agree with everybody after which round to go on."""
    own = json.dumps([[one.done, one.history, one.opened] for one in rounds.offers])
    answer = channel.trade(PHASE, own.encode(), LARGEST_OFFER << 10)
    try:
        offered = [text.encode() for text in json.loads(answer)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ProtocolAborted("The offers to go on cannot be read. Run again.") from None
    start = _common(offered)
    if start.done and start not in rounds.offers:
        raise ProtocolAborted("The aggregator left our offer to go on out. Run again.")
    session.bind(start)
    rounds.go_on(start)


def host_resume(meeting: Meeting) -> Offer:
    """Pass on what everybody could go on from; return what they do go on from."""
    offered = meeting.collect(PHASE, LARGEST_OFFER)
    start = _common(list(offered.values()))
    meeting.reply_all(json.dumps([text.decode() for text in offered.values()]).encode())
    return start


def _common(offered: list[bytes]) -> Offer:
    """The latest state that everybody has."""
    try:
        states = [
            {
                Offer(int(done), str(history), int(opened))
                for done, history, opened in json.loads(one)
            }
            for one in offered
        ]
        return max(set.intersection(*states), default=Offer())
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ProtocolAborted("An offer to go on cannot be read. Run again.") from None


def _write(path: Path, subject: bytes, states: list[tuple[Offer, Values]]) -> None:
    """Write a checksum, a line of JSON and the arrays; readable by the owner alone, never half."""
    head = {
        "subject": subject.hex(),
        "states": [
            [at.done, at.history, at.opened, kept.dtype.str, list(kept.shape)]
            for at, kept in states
        ],
    }
    body = b"".join(
        [json.dumps(head).encode(), b"\n", *(np.ascontiguousarray(kept).data for _, kept in states)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(hashlib.sha256(body).digest() + body)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_rounds(path: Path) -> tuple[bytes, list[tuple[Offer, Values]]]:
    """Return what a broken run was about and its last states; nothing of a damaged file."""
    try:
        content = path.read_bytes()
        check, body = content[:CHECK_BYTES], content[CHECK_BYTES:]
        if hashlib.sha256(body).digest() != check:
            return b"", []
    except OSError:
        return b"", []
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    states = []
    for done, history, opened, kind, shape in head["states"]:
        count = int(np.prod(shape))
        kept = np.frombuffer(rest, kind, count).reshape(shape)
        rest = rest[kept.nbytes :]
        states.append((Offer(done, history, opened), kept))
    return bytes.fromhex(head["subject"]), states
