"""An exact run, step by step: at a holder, at a computing party, at the aggregator."""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Words
from privod.data import Table
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.joint.exact.engine import EngineProcess
from privod.joint.exact.forwarder import Forwarder, LocalAuthority
from privod.joint.exact.program import Program
from privod.joint.letters import exchange, pass_on
from privod.joint.outliers import OutlierQuestion
from privod.joint.question import Seat
from privod.joint.session import Session
from privod.joint.sharing import derive, stream, words_of
from privod.joint.sizes import NOTHING_SHARED, PHASE, SHORT, Sizes, agree_on_sizes
from privod.joint.transport.channel import Meeting
from privod.progress import report

Integers = NDArray[np.int64]
LONG = 1 << 32  # bytes of a letter
STEPS = {  # in order, with the longest letter of each; computing has no letters
    PHASE: SHORT,
    "program": SHORT,
    "shares": LONG,
    "comparing inputs": SHORT,
    "coin toss": SHORT,
    "comparing verdicts": SHORT,
    "opening": LONG,
}
PARTIES = 3
COIN_BYTES = 32
NOT_OPENED = "No verdict was opened."


def split(words: Integers) -> list[Words]:
    """Share words: what each computing party gets, its two components in the last axis."""
    drawn = np.frombuffer(os.urandom(16 * words.size), np.uint64).reshape(2, *words.shape)
    parts = [drawn[0], drawn[1], words.view(np.uint64) - drawn[0] - drawn[1]]
    return [np.stack([parts[one], parts[(one + 1) % PARTIES]], -1) for one in range(PARTIES)]


def opened(shares: list[Words]) -> Integers:
    """Put verdicts together; raise unless both copies of each component agree on 0 or 1."""
    for one in range(PARTIES):
        if not np.array_equal(shares[one][:, 1], shares[(one + 1) % PARTIES][:, 0]):
            raise ProtocolAborted(f"The computing parties' shares do not match. {NOT_OPENED}")
    total = (shares[0][:, 0] + shares[1][:, 0] + shares[2][:, 0]).view(np.int64)
    if not np.isin(total, (0, 1)).all():
        raise ProtocolAborted("What came are no verdicts: a computing party went wrong.")
    return total


def host(meeting: Meeting) -> None:
    """Pass on what the parties seal for each other."""
    for phase, most in STEPS.items():
        pass_on(meeting, phase, most)


def take_part(
    question: OutlierQuestion,
    seat: Seat,
    integers: Callable[[Table], Integers],
    program_for: Callable[[int], Program],
) -> tuple[Session, int | None, int, Integers]:
    """Go through a run; without a table, as a party that only computes.

    Its session, what was claimed, how many records all have, and what was opened: the two bits and
    a holder's own verdicts.
    """
    computing = seat.roster.computing
    computes = seat.identity.name in computing
    if not computes:
        _ = seat.records  # a holder needs some
    ids = _checked_ids(question, seat)
    with ExitStack() as stack:
        engine = stack.enter_context(EngineProcess()) if computes else None
        run = _Run(question, seat, seat.agreed(question), engine, integers)
        sizes = agree_on_sizes(question, seat, run.session, ids)
        program = program_for(sizes.total)
        coin = os.urandom(COIN_BYTES)
        commitments = run.agree_on_program(program, coin)
        claimed = None
        if seat.table is not None:
            claimed = seat.claim(question, question.own_columns(seat.domain))
        shares = run.share(sizes)
        run.compare("comparing inputs", shares)
        sample = run.toss(program, coin, commitments)
        told = None if shares is None else run.compute(shares, sample)
        run.compare("comparing verdicts", told)
        return run.session, claimed, sizes.total, run.open(sizes, told)


@dataclass(frozen=True)
class _Run:
    question: OutlierQuestion
    seat: Seat
    session: Session
    engine: EngineProcess | None
    integers: Callable[[Table], Integers]

    @cached_property
    def peers(self) -> list[str]:
        """The other computing parties; nobody's if this one does not compute."""
        names = self.session.roster.computing
        return [one for one in names if one != self.session.name] if self.engine else []

    def tell(self, phase: str, letters: Mapping[str, bytes]) -> dict[str, bytes]:
        return exchange(self.seat.channel, self.session, phase, letters, STEPS[phase])

    def key(self, peer: str, purpose: str) -> bytes:
        return derive(self.session.pair_keys[peer], self.session.id, purpose.encode())

    def agree_on_program(self, program: Program, coin: bytes) -> dict[str, bytes]:
        """Compile at every computing party; compare the code, and commit to coins."""
        digest = b""
        if self.engine is not None:
            report("program", 0, 1)
            digest = bytes.fromhex(self.engine.compile(program))
            report("program", 1, 1)
        told = digest + self._commitment(self.session.name, coin)
        heard = self.tell("program", dict.fromkeys(self.peers, told))
        for peer in self.peers:
            if heard.get(peer, b"")[: len(digest)] != digest:
                raise ProtocolAborted(
                    f"{self.session.name!r} and {peer!r} compiled different programs. Are their"
                    f" engines and privod the same? {NOTHING_SHARED}"
                )
        return {peer: heard[peer][len(digest) :] for peer in self.peers}

    def _commitment(self, name: str, coin: bytes) -> bytes:
        return hashlib.sha256(self.session.id + name.encode() + coin).digest()

    def share(self, sizes: Sizes) -> Words | None:
        """Share one's own values; return what this party computes on, if it does."""
        letters: dict[str, bytes] = {}
        if self.seat.table is not None:
            parts = split(self.integers(self.seat.table))
            names = self.session.roster.computing
            letters = {name: _sent(part) for name, part in zip(names, parts, strict=True)}
        kept = letters.pop(self.session.name, b"")
        heard = {**self.tell("shares", letters), self.session.name: kept}
        if self.engine is None:
            return None
        found = []
        for name, rows in sizes.rows.items():
            width = len(sizes.columns[name])
            words = words_of(heard.get(name, b""), rows * width * 2)
            found.append(words.reshape(rows, width, 2))
        if not sizes.aligned:
            return np.concatenate(found)
        order = [column for name in sizes.rows for column in sizes.columns[name]]
        together = np.concatenate(found, axis=1)
        return together[:, [order.index(column) for column in self.question.columns]]

    def compare(self, phase: str, shares: Words | None) -> None:
        """Compare keyed digests of every component between its two holders."""
        own: dict[str, bytes] = {}
        if shares is not None:
            names = self.session.roster.computing
            place = names.index(self.session.name)
            for peer, component in ((names[place - 1], 0), (names[(place + 1) % PARTIES], 1)):
                key = self.key(peer, phase)
                own[peer] = hmac.digest(key, _sent(shares[..., component]), "sha256")
        heard = self.tell(phase, own)
        for peer, digest in own.items():
            if not hmac.compare_digest(heard.get(peer, b""), digest):
                raise ProtocolAborted(
                    f"{self.session.name!r} and {peer!r} hold different shares in {phase!r}: a"
                    f" holder sent two versions, or one of them changed its own. {NOT_OPENED}"
                )

    def toss(self, program: Program, coin: bytes, committed: Mapping[str, bytes]) -> Words:
        """Reveal the coins now that inputs are committed; return the rows of the sample."""
        heard = self.tell("coin toss", dict.fromkeys(self.peers, coin))
        for peer in self.peers:
            if self._commitment(peer, heard.get(peer, b"")) != committed[peer]:
                raise ProtocolAborted(f"{peer!r} revealed another coin. {NOT_OPENED}")
        heard[self.session.name] = coin
        coins = b"".join(heard.get(name, b"") for name in self.session.roster.computing)
        drawn = stream(derive(coins, self.session.id, b"sample"), 0, 8 * program.rows)
        chosen = np.argsort(np.frombuffer(drawn, "<u8"), kind="stable")[: program.sample]
        return np.sort(chosen).astype(np.uint64)

    def compute(self, shares: Words, sample: Words) -> Words:
        """Let the engine compute with its peers; this party's shares of bits and verdicts."""
        assert self.engine is not None  # noqa: S101 - who has shares has an engine
        engine, roster, started = self.engine, self.session.roster, monotonic()
        sizes = [0, 0]
        links = {
            roster.computing.index(peer): (
                roster.names.index(peer),
                self.key(peer, f"link from {self.session.name}"),
                self.key(peer, f"link from {peer}"),
            )
            for peer in self.peers
        }
        problems: list[BaseException] = []
        with tempfile.TemporaryDirectory(prefix="privod-") as folder:
            forwarder = Forwarder(LocalAuthority.make(Path(folder)), links)

            def outgoing() -> Iterator[bytes]:
                for piece in forwarder.outgoing():
                    sizes[0] += len(piece)
                    yield piece

            def carry() -> None:
                try:
                    for piece in self.seat.channel.relay(outgoing()):
                        sizes[1] += len(piece)
                        forwarder.take(piece)
                except BaseException as problem:  # the engine must not wait for peers that are gone
                    problems.append(problem)
                    engine.kill()

            carrying = Thread(target=carry, daemon=True)
            carrying.start()
            job: dict[str, Any] = {
                "run": self.session.id.hex(),
                "rank": roster.computing.index(self.session.name),
                "addresses": forwarder.addresses,
                "folder": folder,
            }
            try:
                told = engine.compute(job, shares, sample, lambda *at: report("computing", *at))
                forwarder.end()
                carrying.join()
            except ProtocolAborted as problem:
                problems.append(problem)
            finally:
                forwarder.close()
        if problems:
            raise problems[0]
        self.seat.channel.traffic.add("computing", sizes[0], sizes[1], started)
        return told

    def open(self, sizes: Sizes, told: Words | None) -> Integers:
        """Send every holder the shares of its slice and of the bits; open one's own."""
        letters: dict[str, bytes] = {}
        if told is not None:
            for name, rows in sizes.slices.items():
                letters[name] = _sent(np.concatenate([told[:2], told[2:][rows]]))
        kept = letters.pop(self.session.name, b"")
        heard = {**self.tell("opening", letters), self.session.name: kept}
        if self.session.name not in sizes.rows:
            return np.empty(0, np.int64)
        length = 2 * (2 + sizes.rows[self.session.name])
        computing = self.session.roster.computing
        return opened([words_of(heard.get(one, b""), length).reshape(-1, 2) for one in computing])


def _sent(words: Words) -> bytes:
    return words.astype("<u8", copy=False).tobytes()


def _checked_ids(question: OutlierQuestion, seat: Seat) -> list[str] | None:
    """Read ids as all holders read them; over columns each holder needs them, none twice."""
    if not question.over_columns or seat.table is None:
        return None
    if seat.ids is None:
        way_out = "Name the column of record numbers with --ids; only keyed digests of it are sent."
        raise InvalidParameter("ids", "are needed over columns", None, way_out)
    found = [unicodedata.normalize("NFC", one).strip() for one in seat.ids]
    if len(found) != len(seat.table) or len({*found, ""}) != len(found) + 1:
        raise InvalidData("Ids must be one for each row, none twice and none empty.")
    return found
