"""Release many quantiles of a column at once, each with an interval, by recursive splitting.

The middle quantile splits the records, and the others are looked for on their own side, so nine
quantiles cost four choices [Kaplan 2022]. An eighth of epsilon counts records around the chosen
values, which gives intervals. Proof in docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from privod.arrays import Ints
from privod.data import Domain, Numeric, Table
from privod.data.columns import column_from_json
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, ExponentialMechanism, Randomness
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Loss, Replace, Zcdp, positive
from privod.privacy.loss import as_exact
from privod.query.checks import ExactNumber, column_names, dp_adjacency
from privod.query.conditional import Conditional
from privod.query.preview import Preview
from privod.query.query import Release
from privod.questions.quantiles.lattice import Lattice

DECILES = tuple(Fraction(place, 10) for place in range(1, 10))
INTERVAL_SHARE = Fraction(1, 8)  # of epsilon, for the counts that intervals are read off
FINEST = 10_000  # quantiles are multiples of a ten-thousandth
MOST_QUANTILES = 100
AROUND = tuple(Fraction(1, 2**power) for power in range(5, 0, -1))  # of a gap, where is counted
DOUBT = 0.025  # on either side of an interval


@dataclass(frozen=True)
class NoisyQuantiles:
    """Quantiles of some columns with intervals, in the numbers that columns are held in.

    `shown` of a column makes dates and ordered values of them.
    """

    columns: tuple[Numeric, ...]
    values: tuple[tuple[float, ...], ...]
    lows: tuple[tuple[float, ...], ...]
    highs: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Quantiles(Conditional[NoisyQuantiles]):
    """Estimates of the values below which given shares of the records lie, with 95 % intervals.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Quantiles are chosen
    by the exponential mechanism, level by level, and counts around them get exact discrete noise;
    the loss covers all columns, all quantiles and their intervals together.

    Parameters
    ----------
    columns : tuple of str
        Columns of numbers, dates or ordered values; epsilon is shared among them equally.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    quantiles : tuple of number
        The shares, increasing, between 0 and 1; the nine deciles unless said. Each is a multiple of
        1/10000.
    """

    name: ClassVar[str] = "quantiles"
    holds_rows: ClassVar[bool] = False
    question: ClassVar[str] = "What are the median and other quantiles of these columns?"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    quantiles: tuple[Fraction, ...] = DECILES
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        given = self.quantiles if isinstance(self.quantiles, list | tuple) else (self.quantiles,)
        shares = tuple(as_exact(share, "quantiles") for share in given)
        object.__setattr__(self, "quantiles", shares)
        way_out = "Try 0.25, 0.5, 0.75."
        if not 1 <= len(shares) <= MOST_QUANTILES:
            rule = f"must be 1 to {MOST_QUANTILES} shares"
            raise InvalidParameter("quantiles", rule, len(shares), way_out)
        rising = all(low < high for low, high in pairwise((Fraction(0), *shares, Fraction(1))))
        if not rising:
            rule = "must increase, between 0 and 1"
            raise InvalidParameter("quantiles", rule, tuple(map(str, shares)), way_out)
        if any((share * FINEST).denominator != 1 for share in shares):
            rule = f"must be multiples of 1/{FINEST}"
            raise InvalidParameter("quantiles", rule, tuple(map(str, shares)), way_out)
        self.guarantee()  # refuses an epsilon that is out of reach

    @property
    def levels(self) -> int:
        """How many choices a record takes part in: half of the quantiles are left at each."""
        return len(self.quantiles).bit_length()

    @property
    def level_epsilon(self) -> Fraction:
        """What one level of one column loses."""
        return self.epsilon * (1 - INTERVAL_SHARE) / (self.levels * len(self.columns))

    @property
    def parts(self) -> int:
        """How many parts of a level, or counts, one record can change."""
        return 2 if self.adjacency == Replace() else 1

    @property
    def count_noise(self) -> DiscreteLaplace:
        """The noise of the counts between places: a record lies between two of them."""
        return DiscreteLaplace.for_loss(
            self.epsilon * INTERVAL_SHARE / len(self.columns), self.parts
        )

    def choice(self, share: Fraction) -> ExponentialMechanism:
        """How a quantile is chosen, of records on one side of those chosen before.

        The utility counts in 1/denominator of a record, so one record changes it by the larger of
        numerator and the rest.
        """
        changed = max(share.numerator, share.denominator - share.numerator)
        return ExponentialMechanism.for_loss(self.level_epsilon / self.parts, changed)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.cost().loss, self.adjacency)

    def cost(self) -> Cost:
        share = Fraction(1, 2)  # every choice is made to lose the same
        level = self.choice(share).loss(1).epsilon * self.parts
        counts = self.count_noise.loss(self.parts)
        times = self.levels * len(self.columns)
        rho = (
            times * Zcdp.of_bounded_range(level).rho + len(self.columns) * Zcdp.of_loss(counts).rho
        )
        loss = Loss(times * level + len(self.columns) * counts.epsilon)
        return Cost(loss, Zcdp(rho))

    def preview(self, domain: Domain) -> Preview:
        places = max((Lattice(one).slots for one in domain.numeric(self.columns)), default=2)
        within = self.choice(Fraction(1, 2)).surely_within(places, 0.05 / self.levels) / 2
        shares = (Fraction(0), *self.quantiles, Fraction(1))
        least = min(high - low for low, high in pairwise(shares))
        return Preview(
            "the rank of each quantile",
            math.ceil(self.levels * within),
            typical_share=float(least),
            loose=True,
        )

    def check(self, domain: Domain) -> None:
        for column in domain.numeric(self.columns):
            column.check_range()

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002
        return 3 * len(self.columns) * len(self.quantiles)

    def work(self, domain: Domain, records: int) -> int:
        places = sum(Lattice(one).slots for one in domain.numeric(self.columns))
        return super().work(domain, records) + 100 * places * len(self.quantiles)

    def most_bytes(self, domain: Domain, records: int) -> int:
        places = max((Lattice(one).slots for one in domain.numeric(self.columns)), default=0)
        return super().most_bytes(domain, records) + 200 * places

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyQuantiles]:
        columns = table.domain.numeric(self.columns)
        found = [self._of_column(Lattice(one), table, randomness) for one in columns]
        values, lows, highs = zip(*found, strict=True)
        return self.release(NoisyQuantiles(columns, values, lows, highs), randomness)

    def _of_column(self, lattice: Lattice, table: Table, randomness: Randomness) -> Any:
        counts = lattice.counts(table)
        below = np.concatenate([[0], counts.cumsum()])  # records before each slot
        chosen: dict[Fraction, int] = {}
        self._split(below, (0, lattice.slots), self.quantiles, (Fraction(0), Fraction(1)), chosen,
                    randomness)  # fmt: skip
        slots = [chosen[share] for share in self.quantiles]
        places = _places(slots, lattice.slots)
        between = self.count_noise.add_to(np.diff(below[places]), randomness)
        ends = [
            lattice.ends(*_interval(share, places, between, self.count_noise, slot))
            for share, slot in zip(self.quantiles, slots, strict=True)
        ]
        values = tuple(lattice.value(slot) for slot in slots)
        return values, tuple(low for low, _ in ends), tuple(high for _, high in ends)

    def _split(
        self,
        below: Ints,
        span: tuple[int, int],
        shares: tuple[Fraction, ...],
        between: tuple[Fraction, Fraction],
        chosen: dict[Fraction, int],
        randomness: Randomness,
    ) -> None:
        """Choose the middle one of some quantiles among the slots of a span, then both halves."""
        if not shares:
            return
        middle = len(shares) // 2
        share = shares[middle]
        here = (share - between[0]) / (between[1] - between[0])
        slot = span[0]
        if span[1] - span[0] > 1:
            worth = _worth(below[span[0] : span[1] + 1], here)
            slot += self.choice(here).choose(worth, randomness)
        chosen[share] = slot
        cut = min(slot + 1, span[1])  # the records of the slot itself go to the lower side
        lower, upper = shares[:middle], shares[middle + 1 :]
        self._split(below, (span[0], cut), lower, (between[0], share), chosen, randomness)
        rest = (cut, span[1]) if cut < span[1] else (span[1] - 1, span[1] - 1)
        self._split(below, rest, upper, (share, between[1]), chosen, randomness)

    def sentence(self, value: NoisyQuantiles) -> str:
        told = []
        for place, column in enumerate(value.columns):
            shown = [
                f"{float(share):.4g} at {column.shown(at)} ({column.shown(low)} to"
                f" {column.shown(high)})"
                for share, at, low, high in zip(
                    self.quantiles,
                    value.values[place],
                    value.lows[place],
                    value.highs[place],
                    strict=True,
                )
            ]
            told.append(f"{column.name}: {', '.join(shown)}")
        return f"Quantiles with 95 % intervals. {'; '.join(told)}."

    def table(self, value: NoisyQuantiles) -> dict[str, list[Any]]:
        rows = [
            (column.name, float(share), *map(column.shown, ends))
            for place, column in enumerate(value.columns)
            for share, *ends in zip(
                self.quantiles, value.values[place], value.lows[place], value.highs[place],
                strict=True,
            )
        ]  # fmt: skip
        names = ("column", "quantile", "value", "from", "to")
        return {name: list(some) for name, some in zip(names, zip(*rows, strict=True), strict=True)}

    def value_to_json(self, value: NoisyQuantiles) -> Any:
        return {
            "columns": [column.to_json() for column in value.columns],
            "values": [list(some) for some in value.values],
            "lows": [list(some) for some in value.lows],
            "highs": [list(some) for some in value.highs],
        }

    def value_from_json(self, data: Any) -> NoisyQuantiles:
        columns = Domain(tuple(map(column_from_json, data["columns"]))).numeric()
        sides = (
            tuple(tuple(map(float, some)) for some in data[name])
            for name in ("values", "lows", "highs")
        )
        return NoisyQuantiles(columns, *sides)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:1]
        return (cls(columns=columns, epsilon=2),) if columns else ()


def _worth(below: Ints, share: Fraction) -> Ints:
    """Of each slot, how far the share of the records lies from it: 0 if within, else negative."""
    whole, part = share.denominator, share.numerator
    reach = whole * (below - below[0]) - part * (below[-1] - below[0])  # at the borders of slots
    off = np.maximum(np.maximum(reach[:-1], -reach[1:]), 0)
    return np.asarray(-off, np.int64)


def _places(slots: list[int], end: int) -> Ints:
    """Borders between which records are counted: close to each chosen slot, then farther apart."""
    marks = [0, *(slot + 1 for slot in slots), end]
    found = {0, end}
    for low, high in pairwise(marks):
        gap = high - low
        found |= {low + math.floor(part * gap) for part in AROUND}
        found |= {high - math.floor(part * gap) for part in AROUND}
        found |= {low, high}
    return np.array(sorted(found))


def _interval(
    share: Fraction, places: Ints, between: Ints, noise: DiscreteLaplace, slot: int
) -> tuple[int, int]:
    """Borders that enclose the quantile with 95 % certainty, and the chosen slot in any case.

    At each border the records before it less their share of all is tested to be below 0, from the
    lower end on, and above it, from the upper end on. The first test that fails ends it, so only
    the one at the quantile itself must be right.
    """
    q = float(share)
    before = np.concatenate([[0.0], between.cumsum()])
    reach = (1 - q) * before - q * (before[-1] - before)
    sizes = np.arange(len(places))
    margins = np.array([_margin(int(k), len(between) - int(k), q, noise) for k in sizes])
    surely_below = reach + margins < 0
    surely_above = reach - margins > 0
    surely_below[0] = surely_above[-1] = True
    low = int(np.argmin(surely_below)) - 1 if not surely_below.all() else len(places) - 1
    high = len(places) - 1
    while high > 0 and surely_above[high - 1]:
        high -= 1
    return min(int(places[low]), slot), max(int(places[high]), slot + 1)


@lru_cache(maxsize=1 << 12)
def _margin(n_before: int, n_after: int, share: float, noise: DiscreteLaplace) -> float:
    """What the summed noise of the counts stays below, with certainty 1 - DOUBT [Chernoff]."""
    scale = float(noise.scale)
    ratio = math.exp(-1 / scale)
    widest = max((1 - share) if n_before else 0.0, share if n_after else 0.0)
    if not widest:
        return 0.0
    rates = np.linspace(0.02, 0.98, 49) / (scale * widest)

    def log_moments(weight: float) -> Any:  # of discrete Laplace noise, at each rate
        grown = ratio * np.exp(rates * weight), ratio * np.exp(-rates * weight)
        return 2 * math.log1p(-ratio) - np.log1p(-grown[0]) - np.log1p(-grown[1])

    moments = np.zeros(len(rates))
    for times, weight in ((n_before, 1 - share), (n_after, share)):
        moments += times * log_moments(weight) if times else 0
    return float(np.min((moments - math.log(DOUBT)) / rates))
