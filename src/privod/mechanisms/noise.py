"""How is noise added to counts? By integer noise whose law is exactly the one the promise needs.

`DiscreteLaplace` is the noise of counts, `Geometric` its one-sided half; the path from random bits
to noise holds no float (docs/proofs/discrete_laplace.md). The time that a batch of draws takes
depends slightly on the noise drawn, never on the counts it is added to.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms.exact import Enclosure, exp_minus, powers
from privod.mechanisms.inversion import InversionTable, Thresholds
from privod.mechanisms.law import Law, Lost, changes_of
from privod.mechanisms.randomness import Randomness
from privod.privacy import Loss, Number, positive
from privod.privacy.loss import as_exact

Shape = int | tuple[int, ...]

SMALLEST_SCALE = Fraction(1, 10**9)  # noise of loss 10^9: anything smaller is a slip
LARGEST_SCALE = Fraction(2**40)  # noise beyond a trillion, which still fits 64 bits with ease
LARGEST_COUNT = 2**62  # so that a count and its noise fit 64 bits together

DIGIT_BITS = 8
DIGIT = 1 << DIGIT_BITS
ONE_TABLE_SCALE = 64  # up to here one table holds the law; past it, split off a digit
RUN_PER_SCALE = 8  # a table runs to 8 scales: e^-8, one draw in three thousand, runs past it
BLOCK = 1 << 17  # draws at a time, so that they stay in the processor's cache


@dataclass(frozen=True)
class Geometric:
    """Numbers k = 0, 1, 2, ... with probability proportional to e^(-k / scale), exactly.

    The scale lies between 1/10^9 and 2^40 and is read as an exact fraction.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale))

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        drawn = np.empty(shape, dtype=np.int64)
        flat = drawn.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK]
            block[:] = _geometric(self.scale, block.size, randomness)
        return drawn


class Added(Law):
    """Integer noise: each of some counts gets a draw of its own."""

    def draw(self, shape: Shape, randomness: Randomness) -> NDArray[np.int64]:
        """Return an array of independent draws."""
        drawn: NDArray[np.int64] = randomness.draw(self, np.zeros(shape, dtype=np.int64))
        return drawn

    def add_to(self, counts: NDArray[Any], randomness: Randomness) -> NDArray[np.int64]:
        """Return the counts, each with its own draw added, as a new array of the same shape."""
        noisy: NDArray[np.int64] = randomness.draw(self, checked_counts(counts))
        return noisy

    def sample(self, given: NDArray[np.int64], bits: Randomness) -> NDArray[np.int64]:
        noisy = np.empty(given.shape, dtype=np.int64)
        flat, flat_counts = noisy.reshape(-1), given.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            block = slice(start, start + BLOCK)
            np.add(flat_counts[block], self._draws(flat[block].size, bits), out=flat[block])
        return noisy

    @abstractmethod
    def _draws(self, n: int, bits: Randomness) -> NDArray[np.int64]:
        """So many draws, a block at most."""


@dataclass(frozen=True)
class DiscreteLaplace(Added):
    """Integer noise k with probability proportional to e^(-|k| / scale), exactly.

    Guarantee
    ---------
    Integers that together change by at most `sensitivity` between adjacent data sets (the sum of
    the absolute changes), each with its own draw, lose epsilon = sensitivity / scale.

    Parameters
    ----------
    scale : number
        Between 1/10^9 and 2^40, read as an exact fraction.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale))

    @classmethod
    def for_loss(cls, epsilon: Number, sensitivity: Number) -> DiscreteLaplace:
        """The noise that makes counts of this sensitivity lose exactly `epsilon`."""
        changed, lost = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        if not SMALLEST_SCALE <= changed / lost <= LARGEST_SCALE:
            least, most = float(changed / LARGEST_SCALE), float(changed / SMALLEST_SCALE)
            rule = f"must lie between {least:.2g} and {most:.2g}"
            raise InvalidParameter("epsilon", rule, _for_humans(lost), "Try 1.")
        return cls(changed / lost)

    def loss(self, sensitivity: Number) -> Loss:
        """What is lost by releasing noisy integers of this total sensitivity."""
        return Loss(positive(sensitivity, "sensitivity") / self.scale)

    def draw_reaching(
        self, threshold: int, shape: Shape, randomness: Randomness
    ) -> NDArray[np.int64]:
        """Return independent draws of the noise given that it is at least `threshold`."""
        if abs(threshold) > LARGEST_COUNT:
            rule = "must lie within 2^62 of 0"
            raise InvalidParameter("threshold", rule, threshold, "Try a few scales.")
        if threshold >= 0:  # past 0 the law forgets where it stands: threshold plus a geometric
            return threshold + Geometric(self.scale).draw(shape, randomness)
        drawn = self.draw(shape, randomness)
        flat = drawn.reshape(-1)
        while (short := np.flatnonzero(flat < threshold)).size:
            flat[short] = self.draw(short.size, randomness)
        return drawn

    @property
    def deviation(self) -> float:
        """The standard deviation, for humans: sqrt(2 q) / (1 - q) with q = e^(-1 / scale)."""
        half = float(1 / self.scale) / 2
        return 1 / (math.sqrt(2) * math.sinh(half)) if half < 700 else 0.0

    def tail(self, size: int) -> float:
        """The probability of noise larger than `size` >= 0 in absolute value, for error bars."""
        if size < 0:
            return 1.0
        rate = float(1 / self.scale)
        return 2 * math.exp(-rate * (size + 1)) / (1 + math.exp(-rate))

    def reaching(self, threshold: int) -> float:
        """The probability of noise of at least `threshold`, for planning."""
        if threshold <= 0:
            return 1 - self.reaching(1 - threshold)
        return self.tail(threshold - 1) / 2

    def quantile(self, confidence: float) -> int:
        """The smallest size that the noise stays within with at least this probability."""
        if not 0 < confidence < 1:
            raise InvalidParameter("confidence", "must lie in (0, 1)", confidence, "Try 0.95.")
        rate = float(1 / self.scale)
        needed = math.log(2 / ((1 - confidence) * (1 + math.exp(-rate)))) / rate - 1
        size = max(0, math.ceil(needed) - 1)  # one less, then walk: floats may be off by one
        while self.tail(size) > 1 - confidence:
            size += 1
        return size

    def _draws(self, n: int, bits: Randomness) -> NDArray[np.int64]:
        return _laplace(self.scale, n, bits)

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        each = [Lost.pure(one / self.scale) for one in changes_of(self, seen, other, other_seen)]
        return sum(each, Lost())


def _laplace(scale: Fraction, n: int, randomness: Randomness) -> NDArray[np.int64]:
    """Draw noise X: G or -1 - G, that is G or its complement, with odds 1 : q [Theorem 3]."""
    code = _signed_table(scale).draw(n, randomness)
    low = code.astype(np.int64)
    if scale > ONE_TABLE_SCALE:  # complement commutes with "xor": low and high digits meet so
        return low ^ (_geometric(scale / DIGIT, n, randomness) << DIGIT_BITS)
    run = _run(scale)
    past = np.flatnonzero((code == run) | (code == ~run))
    if past.size:
        more = _geometric(scale, past.size, randomness)
        low[past] += np.where(low[past] < 0, -more, more)
    return low


def _geometric(scale: Fraction, n: int, randomness: Randomness) -> NDArray[np.int64]:
    """Draw G: a digit and the rest above it, or a run and, past it, a fresh start [Theorem 2]."""
    code = _unsigned_table(scale).draw(n, randomness)
    low = code.astype(np.int64)
    if scale > ONE_TABLE_SCALE:
        return low | (_geometric(scale / DIGIT, n, randomness) << DIGIT_BITS)
    run = _run(scale)
    past = np.flatnonzero(code == run)
    while past.size:
        more = _unsigned_table(scale).draw(past.size, randomness)
        low[past] += more
        past = past[more == run]
    return low


def _run(scale: Fraction) -> int:
    return math.ceil(RUN_PER_SCALE * scale)


def _run_thresholds(scale: Fraction) -> Thresholds:
    """P(G < j), j = 1 .. run: the last outcome is "the run or more"."""

    def thresholds(precision: int) -> list[Enclosure]:
        one, *rest = powers(1 / scale, _run(scale), precision)
        return [one - power for power in rest]

    return thresholds


def _digit_thresholds(scale: Fraction) -> Thresholds:
    """P(G mod 256 < j), j = 1 .. 255."""

    def thresholds(precision: int) -> list[Enclosure]:
        one, *rest, last = powers(1 / scale, DIGIT, precision)
        return [(one - power) / (one - last) for power in rest]

    return thresholds


def _signed(unsigned: Thresholds, scale: Fraction) -> Thresholds:
    """First all outcomes without complement, of weight 1 / (1 + q), then all with, q / (1 + q)."""

    def thresholds(precision: int) -> list[Enclosure]:
        one = Enclosure(1 << precision, 1 << precision, precision)
        ratio = exp_minus(1 / scale, precision)
        plain = one / (one + ratio)
        below = unsigned(precision)
        return [
            *(bound * plain for bound in below),
            plain,
            *(plain + ratio * plain * bound for bound in below),
        ]

    return thresholds


@lru_cache(maxsize=64)
def _unsigned_table(scale: Fraction) -> InversionTable:
    thresholds, size = _law(scale)
    return InversionTable(thresholds, np.arange(size, dtype=np.int16))


@lru_cache(maxsize=64)
def _signed_table(scale: Fraction) -> InversionTable:
    thresholds, size = _law(scale)
    plain = np.arange(size, dtype=np.int16)
    return InversionTable(_signed(thresholds, scale), np.concatenate([plain, ~plain]))


def _law(scale: Fraction) -> tuple[Thresholds, int]:
    """The law of the lowest table and the number of its outcomes."""
    if scale > ONE_TABLE_SCALE:
        return _digit_thresholds(scale), DIGIT
    return _run_thresholds(scale), _run(scale) + 1


def _checked_scale(scale: Number) -> Fraction:
    number = as_exact(scale, "scale")
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:
        rule = "must lie between 1/10^9 and 2^40"
        way_out = "Try sensitivity / epsilon, such as 1."
        raise InvalidParameter("scale", rule, _for_humans(number), way_out)
    return number


def _for_humans(number: Fraction) -> float:
    """A number that may have hundreds of digits, short."""
    return float(f"{float(number):.6g}")


def checked_counts(counts: NDArray[Any]) -> NDArray[np.int64]:
    array = np.asarray(counts)
    if array.dtype.kind not in "iu":
        message = f"counts must be integers, got an array of {array.dtype}. Round them beforehand."
        raise InvalidData(message)
    if array.dtype.itemsize == 8 and array.size:
        lowest, highest = int(array.min()), int(array.max())
        if max(-lowest, highest) > LARGEST_COUNT:
            raise InvalidData("counts must lie within 2^62 of 0, so that noisy ones fit 64 bits.")
    return array.astype(np.int64, copy=False)
