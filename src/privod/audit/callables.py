"""Does any function keep a promise? The game for callables: no query, no table, no registry.

Three small parts, each a plain callable, after dp_auditorium [Kong 2023]: a mechanism (data and
randomness in, anything out), statistics of what comes out, and a generator of adjacent pairs. The
search plays short games over many pairs, and one long game, on fresh runs, over the pair that told
most, so that looking at many pairs calls nobody a liar. What a game could not have caught is said
with its verdict: `Power`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from privod.audit.game import Floats, Power, Reading, caught_between
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure
from privod.privacy import Loss, decimal_text
from privod.progress import track

FEWEST_RUNS = 200


class Mechanism(Protocol):
    """Whatever looks at data: a question, an estimator's fit, a reader and all that follows it."""

    def __call__(self, data: Any, randomness: Randomness, /) -> Any:
        """What is released of the data."""


class Pairs(Protocol):
    """Where to look: pairs of adjacent data sets, the most promising first, any number of them."""

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        """Begin again with the first pair."""


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
        How often it is asked of each data set of the worst pair; a quarter to choose the event,
        the rest to prove it.
    most_pairs : int
        How many pairs are tried, each with a tenth of the runs (but at least 100).
    randomness : Randomness, optional
        Seeded for tests.
    """
    if runs < FEWEST_RUNS:
        raise InvalidParameter("runs", f"must be at least {FEWEST_RUNS}", runs, "Try 20000.")
    if not statistics:
        way_out = "Give at least one number to read off an answer."
        raise InvalidParameter("statistics", "must not be empty", statistics, way_out)
    source = randomness if randomness is not None else secure()
    delta = float(claimed.delta)
    tried = list(islice(pairs(), most_pairs))
    if not tried:
        raise InvalidParameter("pairs", "must give a pair", 0, "Give two adjacent data sets.")
    told, short = [], max(FEWEST_RUNS // 2, runs // 10)
    for pair in track(tried, "pairs"):
        samples = [_sampled(mechanism, data, statistics, short, source) for data in pair]
        told.append(caught_between(samples, statistics, delta)[0])
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
