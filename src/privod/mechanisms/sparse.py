"""Which of astronomically many noisy zeros reach a threshold? Drawn without touching the others.

Of `n` independent draws of discrete Laplace noise, `count_reaching` says how many are at least
`threshold`, `distinct` says which ones, and `DiscreteLaplace.draw_reaching` their values. Together
they have exactly the law of drawing all `n` and dropping those below, at a cost that grows with
what is kept and not with `n`, which may be 10^30 (docs/proofs/discrete_laplace.md, Theorem 5).

`noise.reaching(threshold) * n` tells beforehand, from public numbers, how many to expect. Where
some cells are occupied, all are drawn for as if none were, and `not_taken` says which draws count:
so nothing that is drawn, nor how much, depends on which are.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.mechanisms.exact import Enclosure, Real, Uniform, exp_minus
from privod.mechanisms.noise import DiscreteLaplace
from privod.mechanisms.randomness import Randomness

EXPECTED_PER_PART = 32  # draws are counted in parts that are expected to hold this many
SPARE = 64  # bits more than a bound has: a draw is repeated less than once in 2^64 times
GUARD = 64  # more than the 46 bits by which e^32 magnifies the rounding of the first probability


def count_reaching(noise: DiscreteLaplace, threshold: int, n: int, randomness: Randomness) -> int:
    """Draw how many of `n` independent draws of `noise` are at least `threshold`."""
    if n < 0:
        raise InvalidParameter("n", "must be at least 0", n, "Try 0.")
    if threshold <= 0:  # then most do; by symmetry those that do not are like those above 1 - t
        return n - count_reaching(noise, 1 - threshold, n, randomness)
    precision = n.bit_length() + GUARD
    likeliest = _reach(noise.scale, threshold, precision).high
    part = (EXPECTED_PER_PART << precision) // likeliest
    n_parts, rest = divmod(n, part)
    sizes = [part] * n_parts + [rest]
    return sum(_binomial(noise.scale, threshold, size, randomness) for size in sizes)


def distinct(count: int, bound: int, randomness: Randomness) -> list[int]:
    """Draw `count` different integers of 0 .. bound - 1, ascending, all sets alike [Floyd].

    Where r was drawn before, the largest one allowed is taken, which cannot have been.
    """
    if not 0 <= count <= bound:
        rule = f"must lie between 0 and {bound}, of which to choose"
        raise InvalidParameter("count", rule, count, "Draw fewer.")
    n_bits = bound.bit_length() + SPARE
    found: set[int] = set()
    for largest in range(bound - count, bound):
        number = randomness.below_hidden(largest + 1, n_bits)
        found.add(largest if number in found else number)
    return sorted(found)


def not_taken(numbers: list[int], taken: Iterable[NDArray[Any]]) -> NDArray[np.bool_]:
    """Which of these numbers are free, where those taken come ascending, in any parts."""
    free = np.ones(len(numbers), dtype=np.bool_)
    for part in taken:
        wanted = np.array(numbers, dtype=part.dtype)
        first = np.searchsorted(part, wanted, side="left")
        free &= first == np.searchsorted(part, wanted, side="right")
    return free


def _binomial(scale: Fraction, threshold: int, n: int, randomness: Randomness) -> int:
    """Draw by inversion: the smallest k with U < P(count <= k), searched for by doubling."""
    uniform = Uniform(randomness)

    def at_most(k: int) -> bool:
        return k >= n or uniform.is_below(_threshold(scale, threshold, n, k))

    high = 1
    while not at_most(high):
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at_most(middle) else (middle, high)
    return high


def _threshold(scale: Fraction, threshold: int, n: int, k: int) -> Real:
    """P(count <= k), as a number known to any precision."""

    def real(precision: int) -> Enclosure:
        known = _cumulative(scale, threshold, n, precision)
        one = 1 << precision
        return known[k] if k < len(known) else Enclosure(one - 1, one, precision)

    return real


@lru_cache(maxsize=64)
def _cumulative(scale: Fraction, threshold: int, n: int, precision: int) -> list[Enclosure]:
    """P(count <= k) for k = 0, 1, ... until what remains is surely at most 2**-precision."""
    working = precision + n.bit_length() + GUARD
    one = Enclosure(1 << working, 1 << working, working)
    hit = _reach(scale, threshold, working)
    odds = hit / (one - hit)
    probability = _power(one - hit, n)
    total = probability
    found = [total.rounded(precision)]
    k = 0
    while k < n and (1 << working) - total.low > 1 << working - precision:
        probability = (probability * odds).times(n - k, k + 1)
        total = total + probability
        found.append(total.rounded(precision))
        k += 1
    return found


def _reach(scale: Fraction, threshold: int, precision: int) -> Enclosure:
    """P(noise >= threshold) = q^threshold / (1 + q) for a threshold of at least 1."""
    one = Enclosure(1 << precision, 1 << precision, precision)
    return exp_minus(threshold / scale, precision) / (one + exp_minus(1 / scale, precision))


def _power(number: Enclosure, exponent: int) -> Enclosure:
    """Enclose number**exponent, by squaring, from the leading bit down."""
    result = Enclosure(1 << number.precision, 1 << number.precision, number.precision)
    for bit in bin(exponent)[2:]:
        result = result * result
        if bit == "1":
            result = result * number
    return result
