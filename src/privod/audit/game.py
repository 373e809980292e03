"""The distinguishing game: try to catch a question breaking its promise, from outside.

Ask the question many times of two adjacent tables. On a quarter of the runs look for the event
whose odds differ most; on the rest bound those odds with certainty. If even the lower bound passes
exp(epsilon), the promise is broken. The game sees what sampling can see: events of 1e-21 it cannot,
so coins that rare have tests of their exact probabilities instead (docs/proofs/coins.md). What so
many runs could have caught is said with every verdict: `Power`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from privod.data import Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, secure
from privod.privacy import Loss, decimal_text
from privod.progress import track
from privod.query.query import Query

DOUBT = 1e-6
"""How likely an honest question may be called a liar, per game."""

MOST_EVENTS = 400  # thresholds tried per reading; runs of their own keep the choice honest
RESOLUTION = 1e-4  # to which an epsilon is found
CLOSINGS, PLACES = 4, 33  # a span is cut to a sixteenth each time
MOST_WEIGHED = 8  # of them, the most promising, are compared by what they would prove
CHOOSING = 4  # a quarter of the runs chooses the event: a rough choice does, a proof needs many

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """A number read off a released value, and what it is called."""

    name: str
    read: Callable[[Any], float]


@dataclass(frozen=True)
class Game:
    """A question, two adjacent tables that it should find hardest to hide, and where to look."""

    query: Query[Any]
    left: Table
    right: Table
    readings: tuple[Reading, ...]


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
        proof = self.runs - self.runs // CHOOSING
        likelier = round(chance * proof)
        low, high = 0.0, math.log(max(2, 2 * proof))
        if lower_bound(likelier, 0, proof, DOUBT, self.delta) <= claimed:
            return math.inf
        while high - low > 1e-3:
            middle = (low + high) / 2
            rarer = round(chance * math.exp(-middle) * proof)
            caught = lower_bound(likelier, rarer, proof, DOUBT, self.delta) > claimed
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
class Verdict:
    """What was claimed, what was caught, and by which event.

    Parameters
    ----------
    question : str
        The query's name.
    adjacency : str
        Under which adjacency the two tables are adjacent.
    claimed : Loss
        The promise.
    caught : float
        An epsilon that the question surely spends, up to `DOUBT`; at most the claimed one if the
        promise holds.
    event : str
        The event that told the tables apart best.
    runs : int
        How often the question was asked of each table.
    """

    question: str
    adjacency: str
    claimed: Loss
    caught: float
    event: str
    runs: int

    @property
    def holds(self) -> bool:
        """Whether the promise survived."""
        return self.caught <= float(self.claimed.epsilon)

    @property
    def power(self) -> Power:
        """What so many runs would have caught."""
        return Power(self.runs, float(self.claimed.delta))

    @property
    def least_breach(self) -> float:
        """The smallest true epsilon that an even event would have given away; inf if none."""
        return self.power.least_breach(float(self.claimed.epsilon))

    def sentence(self) -> str:
        """The verdict in words."""
        outcome = "holds" if self.holds else "IS BROKEN"
        return (
            f"{self.question} under {self.adjacency}: claimed epsilon"
            f" {decimal_text(self.claimed.epsilon)}, caught {self.caught:.3f} by"
            f" '{self.event}' in {self.runs} runs each: the promise {outcome}."
            f" {self.power.sentence(float(self.claimed.epsilon))}"
        )


def fineness(number: float) -> float:
    """How many binary places a number needs; noise from floats gives itself away by them."""
    return float(number).as_integer_ratio()[1].bit_length() - 1


def play(game: Game, runs: int, randomness: Randomness | None = None) -> Verdict:
    """Play one game and say what was caught."""
    if runs < 100:
        raise InvalidParameter("runs", "must be at least 100", runs, "Try 20000.")
    source = randomness if randomness is not None else secure()
    guarantee = game.query.guarantee()
    samples = [_sample(game, table, runs, source) for table in (game.left, game.right)]
    caught, event = caught_between(samples, game.readings, float(guarantee.loss.delta))
    return Verdict(
        question=game.query.name,
        adjacency=guarantee.adjacency.name,
        claimed=guarantee.loss,
        caught=max(0.0, caught),
        event=event,
        runs=runs,
    )


def caught_between(
    samples: list[Floats], readings: tuple[Reading, ...], delta: float
) -> tuple[float, str]:
    """What two samples surely differ by, and by which event; a row of a sample is a reading.

    The event is chosen on the first quarter of the runs and proved on the rest.
    """
    first = samples[0].shape[1] // CHOOSING
    event = _most_telling([sample[:, :first] for sample in samples], delta)
    proof = [sample[:, first:] for sample in samples]
    hits = [event.hits(sample) for sample in proof]
    likelier, rarer = hits[event.likelier], hits[1 - event.likelier]
    caught = lower_bound(likelier, rarer, proof[0].shape[1], DOUBT, delta)
    reading, side = readings[event.reading].name, ("left", "right")[event.likelier]
    told = f"{reading} {event.relation} {event.threshold:g}, likelier on the {side}"
    return caught, told


def _sample(game: Game, table: Table, runs: int, randomness: Randomness) -> Floats:
    sample = np.empty((len(game.readings), runs))
    for run in track(range(runs), f"asking {game.query.name}"):
        value = game.query.answer(table, randomness).value
        for place, reading in enumerate(game.readings):
            sample[place, run] = reading.read(value)
    return sample


@dataclass(frozen=True)
class _Event:
    reading: int
    relation: str
    threshold: float
    likelier: int

    def hits(self, sample: Floats) -> int:
        values = sample[self.reading]
        if self.relation == ">=":
            return int((values >= self.threshold).sum())
        if self.relation == "<=":
            return int((values <= self.threshold).sum())
        return int((values == self.threshold).sum())


def _most_telling(samples: list[Floats], delta: float) -> _Event:
    """The event that proves most on these runs."""
    found = [(-math.inf, 0, 0, _Event(0, ">=", -math.inf, 0))]
    runs = samples[0].shape[1]
    for reading in range(len(samples[0])):
        for relation in (">=", "<=", "="):
            thresholds = _thresholds(np.concatenate([sample[reading] for sample in samples]))
            hits = [_hits(sample[reading], relation, thresholds) for sample in samples]
            for likelier in (0, 1):
                k, m = hits[likelier], hits[1 - likelier]
                epsilons = _promising(k, m, runs, delta)
                for place in np.argsort(-epsilons, kind="stable")[:MOST_WEIGHED]:
                    event = _Event(reading, relation, float(thresholds[place]), likelier)
                    found.append((float(epsilons[place]), int(k[place]), int(m[place]), event))
    found.sort(key=lambda one: -one[0])
    best = max(
        found[:MOST_WEIGHED], key=lambda one: lower_bound(one[1], one[2], runs, DOUBT, delta)
    )
    return best[3]


def _thresholds(values: Floats) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= MOST_EVENTS:
        return distinct
    return np.asarray(distinct[np.linspace(0, len(distinct) - 1, MOST_EVENTS).astype(int)])


def _hits(values: Floats, relation: str, thresholds: Floats) -> NDArray[np.int64]:
    ordered = np.sort(values)
    below = np.searchsorted(ordered, thresholds, side="left")
    upto = np.searchsorted(ordered, thresholds, side="right")
    hits = {">=": len(values) - below, "<=": upto, "=": upto - below}[relation]
    return np.asarray(hits, dtype=np.int64)


def lower_bound(likelier: int, rarer: int, runs: int, doubt: float, delta: float) -> float:
    """A lower bound of ln((p - delta) / q) from hits on both sides, wrong with at most `doubt`.

    The chance of so many hits or more at p is at most x with probability at most x, and so is that
    of so few or fewer at q; so their product is at most t with probability at most t (1 - ln t)
    [Fisher 1932]. Bounded is the epsilon up to which no p = e^epsilon q + delta makes it reach t.
    """
    level = _product_level(doubt)
    least = float(betaincinv(likelier, runs - likelier + 1, level)) if likelier else 0.0
    most = float(betaincinv(rarer + 1, runs - rarer, 1 - level)) if rarer < runs else 1.0
    if least <= delta:
        return -math.inf
    low = math.log((least - delta) / most)  # here one of both is too unlikely by itself
    high = math.log((likelier / runs - delta) / (max(rarer, 1) / runs))  # and here neither is
    while high - low > RESOLUTION:
        middle = (low + high) / 2
        span = (least - delta) / math.exp(middle), most
        likeliest = _likeliest(likelier, rarer, runs, middle, delta, span)
        low, high = (middle, high) if likeliest < level else (low, middle)
    return low


def _likeliest(
    likelier: int, rarer: int, runs: int, epsilon: float, delta: float, span: tuple[float, float]
) -> float:
    """The largest product over all q of a span; its logarithm is concave, so it is closed in on."""
    low, high = span
    best = 0.0
    for _ in range(CLOSINGS):
        q = np.linspace(low, high, PLACES)
        p = np.minimum(math.exp(epsilon) * q + delta, 1.0)
        many = betainc(likelier, runs - likelier + 1, p)
        few = betainc(runs - rarer, rarer + 1, 1 - q) if rarer < runs else 1.0
        product = many * few
        place = int(np.argmax(product))
        best = max(best, float(product[place]))
        low, high = float(q[max(0, place - 1)]), float(q[min(PLACES - 1, place + 1)])
    return best


@lru_cache
def _product_level(doubt: float) -> float:
    """The t with t (1 - ln t) = doubt, from below."""
    low, high = 0.0, doubt
    while high - low > 1e-6 * doubt:
        middle = (low + high) / 2
        low, high = (middle, high) if middle * (1 - math.log(middle)) <= doubt else (low, middle)
    return low


def _promising(
    likelier: NDArray[np.int64], rarer: NDArray[np.int64], runs: int, delta: float
) -> Floats:
    """What each side by itself proves of an event [Clopper and Pearson 1934]: less, but quickly."""
    k, m = likelier.astype(float), rarer.astype(float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, DOUBT / 2), 0.0)
    high = np.where(m < runs, betaincinv(m + 1, np.maximum(runs - m, 1), 1 - DOUBT / 2), 1.0)
    gap = np.maximum(low - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gap) - np.log(high))
