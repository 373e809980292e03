"""Replay: run a question on a table, force the same draws on an adjacent one, add up what is lost.

A pair passes if both runs take the same laws in the same order, draw as many bits, release the same
to the last bit, and lose no more than is claimed: no statistics [after Re:cord-play, arXiv
2602.17454]. Proof, and what a replay cannot see: docs/proofs/replay.md.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from privod.mechanisms import DiscreteGaussian, Randomness, seeded
from privod.mechanisms.law import Law, Lost, Unlike
from privod.privacy import Cost, decimal_text
from privod.privacy.zcdp import delta_of_rho
from privod.query.query import Query

Mechanism = Callable[[Any, Randomness], Any]
"""What looks at data: a question, an estimator's fit, a reader and all that follows it."""


@dataclass(frozen=True)
class Replayed:
    """What replays of one claim found.

    So many pairs were replayed, up to the first that broke the claim: `trouble` says how, "" if
    none did, and `pair` holds its two data sets. `most` is the loss of the pair that lost most.
    """

    what: str
    claimed: Cost
    pairs: int
    most: Lost
    trouble: str = ""
    pair: tuple[Any, Any] | None = None

    @property
    def holds(self) -> bool:
        """Whether no pair broke the claim."""
        return not self.trouble

    @property
    def share(self) -> float:
        """The largest loss of a pair, as a share of what is claimed."""
        return _share(self.most, self.claimed)

    def sentence(self) -> str:
        """The finding in words."""
        claimed = f"claimed epsilon {decimal_text(self.claimed.loss.epsilon)}"
        if self.trouble:
            return f"{self.what}: {claimed}, BROKEN by pair {self.pairs}: {self.trouble}"
        return (
            f"{self.what}: {claimed}, largest loss of {self.pairs} replayed pairs"
            f" {100 * self.share:.1f} % of it: the promise holds."
        )


@dataclass(frozen=True)
class _Draw:
    law: Law
    seen: Any
    name: Any
    requests: tuple[int, ...]


class _Bits(Randomness):
    """The bits of one draw, which notes how many were asked for."""

    seeded = True

    def __init__(self, seed: int, number: int) -> None:
        self._source = seeded(seed * 2**32 + number)
        self.requests: list[int] = []

    def bytes(self, n: int) -> bytes:
        self.requests.append(n)
        return self._source.bytes(n)


class _Recorder(Randomness):
    """Keeps what every law was given and gave."""

    seeded = True

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.tape: list[_Draw] = []
        self.streams: list[str] = []

    def bytes(self, n: int) -> bytes:
        raise Unlike(f"{n} random bytes are read outside of any law: nobody knows what they tell.")

    def stream(self, name: str) -> Randomness:
        if name in self.streams:
            raise Unlike(f"The bits of {name!r} are used twice, so noise cancels out.")
        self.streams.append(name)
        return self

    def draw(self, law: Law, given: Any) -> Any:
        if not isinstance(law, Law):
            raise Unlike(f"{type(law).__name__} is no law.")
        bits = _Bits(self._seed, len(self.tape))
        seen = law.seen(given)
        drawn = law.sample(given, bits)
        self.tape.append(_Draw(law, seen, law.named(given, drawn), tuple(bits.requests)))
        return drawn


class _Player(_Recorder):
    """Forces what a recorder kept, and adds up what that loses."""

    def __init__(self, seed: int, tape: list[_Draw]) -> None:
        super().__init__(seed)
        self._forced = tape
        self.lost = Lost()

    def draw(self, law: Law, given: Any) -> Any:
        if len(self.tape) == len(self._forced):
            raise Unlike(f"{law} is drawn from on one table only.")
        before = self._forced[len(self.tape)]
        super().draw(law, given)
        here = self.tape[-1]
        if type(law) is not type(before.law):
            raise Unlike(f"{before.law} on one table is {law} on the other.")
        self.lost += before.law.largest_loss(before.seen, law, here.seen)
        if law.same_bits and before.requests != here.requests:
            raise Unlike(f"{law} reads other numbers of random bytes.")
        return law.placed(given, before.name)


def replay(mechanism: Mechanism, one: Any, other: Any, seed: int) -> Lost:
    """What the draws of a mechanism lose between two data sets; `Unlike` if they tell for certain.

    The mechanism takes data and randomness, and all its randomness from laws. The data sets are
    adjacent. Releases must be equal, byte by byte when pickled.
    """
    return _Recording(mechanism, one, seed, pickle.dumps).lost(other)


class _Recording:
    """What a mechanism drew and released of one data set, to be forced on adjacent ones."""

    def __init__(
        self, mechanism: Mechanism, one: Any, seed: int, read: Callable[[Any], Any]
    ) -> None:
        self._mechanism, self._seed, self._read = mechanism, seed, read
        self._recorder = _Recorder(seed)
        self._released = read(_run(mechanism, one, self._recorder))

    def lost(self, other: Any) -> Lost:
        """What the draws lose between the two."""
        tape = self._recorder.tape
        player = _Player(self._seed, tape)
        released = self._read(_run(self._mechanism, other, player))
        if len(player.tape) < len(tape):
            raise Unlike(f"{tape[len(player.tape)].law} is drawn from on one table only.")
        if self._recorder.streams != player.streams:
            raise Unlike("Streams are named after rows.")
        if self._released != released:
            raise Unlike("The same draws make another release.")
        return player.lost


def _run(mechanism: Mechanism, data: Any, randomness: Randomness) -> Any:
    """Run it; that it fails on some rows tells of these rows."""
    try:
        return mechanism(data, randomness)
    except Unlike:
        raise
    except Exception as error:
        raise Unlike(f"It fails on a table: {type(error).__name__}: {error}") from error


def replay_pairs(
    what: str,
    mechanism: Mechanism,
    claimed: Cost,
    pairs: Iterable[tuple[Any, Any]],
    same: Callable[[Any], Any] | None = None,
) -> Replayed:
    """Replay every pair until one breaks the claim; what comes again is recorded once."""
    most, number = Lost(), 0
    read = pickle.dumps if same is None else same
    recorded: tuple[Any, _Recording] | None = None
    for number, pair in enumerate(pairs, start=1):
        try:
            if recorded is None or recorded[0] is not pair[0]:
                recorded = pair[0], _Recording(mechanism, pair[0], number, read)
            lost = recorded[1].lost(pair[1])
        except Unlike as found:
            return Replayed(what, claimed, number, most, str(found), pair)
        if not holds(lost, claimed):
            trouble = f"{_share(lost, claimed):.3f} times what is claimed is lost."
            return Replayed(what, claimed, number, lost, trouble, pair)
        most = max(most, lost, key=lambda one: _share(one, claimed))
    return Replayed(what, claimed, number, most)


def replay_question(query: Query[Any], claimed: Cost, pairs: Iterable[tuple[Any, Any]]) -> Replayed:
    """Replay a question, registered or not; answers and guarantees are compared as JSON."""

    def same(release: Any) -> str:
        told = query.value_to_json(release.value), release.guarantee.to_json()
        return json.dumps(told, default=str)

    return replay_pairs(query.name, query.answer, claimed, pairs, same)


def holds(lost: Lost, claimed: Cost) -> bool:
    """Whether no more is lost than is claimed, in epsilon and delta and in the concentrated sense.

    That may fail as often as it claims itself, no more often than the other. Gaussian noise loses
    no epsilon for certain: one sort of it is known exactly, several by the sum of their rhos.
    """
    if lost.concentrated > claimed.zcdp.rho or lost.delta > claimed.zcdp.delta:
        return False
    loss = claimed.loss
    if not any(changed for _, changed in lost.gaussian):
        return lost.epsilon <= loss.epsilon
    left = loss.delta - lost.delta
    if left <= 0:
        return False
    if len(lost.gaussian) == 1 and lost.epsilon < loss.epsilon:
        ((sigma2, changed),) = lost.gaussian
        if DiscreteGaussian(sigma2).delta(loss.epsilon - lost.epsilon, changed) <= left:
            return True
    return delta_of_rho(lost.rho, loss.epsilon) <= left


def _share(lost: Lost, claimed: Cost) -> float:
    """The largest of the losses as a share of what is claimed."""
    both = (lost.concentrated, claimed.zcdp.rho), (lost.epsilon, claimed.loss.epsilon)
    return float(max((one / of for one, of in both if of), default=0))
