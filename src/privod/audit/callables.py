"""Does any function keep a promise? The game for callables: no query, no table, no registry.

Three small parts, each a plain callable, after dp_auditorium [Kong 2023]: a mechanism (data and
randomness in, anything out), statistics of what comes out, and a generator of adjacent pairs. The
search plays short games over many pairs, and one long game, on fresh runs, over the pair that told
most, so that looking at many pairs calls nobody a liar. What a game could not have caught is said
with its verdict: `Power`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from privod.audit.game import DOUBT, Floats, Reading, caught_between, lower_bound
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure
from privod.privacy import Loss, decimal_text
from privod.progress import track

__all__ = ["Finding", "Mechanism", "Pairs", "Power", "search"]


class Mechanism(Protocol):
    """Whatever looks at data: a question, an estimator's fit, a reader and all that follows it."""

    def __call__(self, data: Any, randomness: Randomness, /) -> Any:
        """What is released of the data."""


class Pairs(Protocol):
    """Where to look: pairs of adjacent data sets, the most promising first, any number of them."""

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        """Begin again with the first pair."""


@dataclass(frozen=True)
class Power:
    """What a game of so many runs would have caught, were it so.

    An event that has probability `chance` on one side and exp(-epsilon) of that on the other is
    caught, with even odds, if epsilon is at least what `least_epsilon` says.
    """

    runs: int
    delta: float

    def least_epsilon(self, chance: float = 0.5) -> float:
        """The smallest epsilon that is told from 0 by an event of this chance."""
        return self._least(chance, 0.0)

    def least_breach(self, claimed: float, chance: float = 0.5) -> float:
        """The smallest true epsilon at which a promise of `claimed` would be called broken."""
        return self._least(chance, claimed)

    def _least(self, chance: float, claimed: float) -> float:
        """By bisection: the bound grows as the event gets rarer on the other side."""
        proof = self.runs - self.runs // 2
        likelier = round(chance * proof)
        low, high = 0.0, math.log(max(2, 2 * proof))
        if _bound(likelier, 0, proof, self.delta) <= claimed:
            return math.inf
        while high - low > 1e-3:
            middle = (low + high) / 2
            rarer = round(chance * math.exp(-middle) * proof)
            caught = _bound(likelier, rarer, proof, self.delta) > claimed
            low, high = (low, middle) if caught else (middle, high)
        return high

    def sentence(self, claimed: float) -> str:
        """The power in words."""
        breach = self.least_breach(claimed)
        if math.isinf(breach):
            return f"{self.runs} runs cannot catch a breach of epsilon {claimed:g}: play more."
        return (
            f"An event seen in half of {self.runs} runs on one side would have given away an"
            f" epsilon of {breach:.2f} or more."
        )


@dataclass(frozen=True)
class Finding:
    """What the search found: the worst pair, what was caught on it, and what could have been."""

    claimed: Loss
    caught: float
    event: str
    pair: tuple[Any, Any]
    pairs: int
    power: Power

    @property
    def holds(self) -> bool:
        """Whether the promise survived."""
        return self.caught <= float(self.claimed.epsilon)

    def sentence(self) -> str:
        """The finding in words."""
        outcome = "holds" if self.holds else "IS BROKEN"
        return (
            f"Claimed epsilon {decimal_text(self.claimed.epsilon)}, caught {self.caught:.3f} by"
            f" '{self.event}' on the worst of {self.pairs} pairs, in {self.power.runs} runs each:"
            f" the promise {outcome}. {self.power.sentence(float(self.claimed.epsilon))}"
        )


def search(
    mechanism: Mechanism,
    claimed: Loss,
    pairs: Pairs,
    statistics: tuple[Reading, ...],
    *,
    runs: int = 20_000,
    most_pairs: int = 20,
    randomness: Randomness | None = None,
) -> Finding:
    """Look for a pair of adjacent data sets on which the mechanism breaks its promise.

    Parameters
    ----------
    mechanism : callable of data and randomness
        What is audited.
    claimed : Loss
        What it promises between adjacent data sets.
    pairs : callable that gives an iterator of pairs
        The adjacent data sets to try.
    statistics : tuple of Reading
        Numbers to read off what the mechanism returns.
    runs : int
        How often it is asked of each data set of the worst pair; half to choose the event, half
        to prove it.
    most_pairs : int
        How many pairs are tried, each with a tenth of the runs.
    randomness : Randomness, optional
        Seeded for tests.
    """
    if runs < 1000:
        raise InvalidParameter("runs", "must be at least 1000", runs, "Try 20000.")
    if not statistics:
        way_out = "Give at least one number to read off an answer."
        raise InvalidParameter("statistics", "must not be empty", statistics, way_out)
    source = randomness if randomness is not None else secure()
    delta = float(claimed.delta)
    tried = list(islice(pairs(), most_pairs))
    if not tried:
        raise InvalidParameter("pairs", "must give a pair", 0, "Give two adjacent data sets.")
    told = []
    for pair in track(tried, "pairs"):
        short = [_sampled(mechanism, data, statistics, runs // 10, source) for data in pair]
        told.append(caught_between(short, statistics, delta)[0])
    worst = tried[int(np.argmax(told))]
    samples = [_sampled(mechanism, data, statistics, runs, source) for data in worst]
    caught, event = caught_between(samples, statistics, delta)
    return Finding(claimed, max(0.0, caught), event, worst, len(tried), Power(runs, delta))


def _sampled(
    mechanism: Mechanism,
    data: Any,
    statistics: tuple[Reading, ...],
    runs: int,
    randomness: Randomness,
) -> Floats:
    sample = np.empty((len(statistics), runs))
    for run in range(runs):
        value = mechanism(data, randomness)
        for place, statistic in enumerate(statistics):
            sample[place, run] = statistic.read(value)
    return sample


def _bound(likelier: int, rarer: int, runs: int, delta: float) -> float:
    return float(lower_bound(likelier, rarer, runs, DOUBT, delta))
