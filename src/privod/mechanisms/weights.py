"""How is e^(-gap / scale) enclosed by integers, fast? By tables, one for each digit of the gap.

A weight is the product of one entry of each table, in 62 bits after the point. The loops that
multiply them are compiled (`privod.mechanisms.kernels.choosing`); this module builds the tables
and says how far off a product may be (docs/proofs/selection.md, Lemma 1).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms.exact import Enclosure, Real, exp_minus, powers

WEIGHT_BITS = 62  # after the point; a weight of 1 still fits 64 bits
DIGIT_BITS = 8
TABLE_GUARD = 16  # bits by which a table's digits are known better than they are kept
SUMMED = 1 << 10  # candidates whose weights, or coins that landed, are added up together


class Tables(NamedTuple):
    """For each digit of a gap, what it multiplies the weight by, rounded down."""

    digits: NDArray[np.uint64]
    """A row for each digit, the least first: 0 to 6 of them."""

    slack: np.uint64
    """By how much a weight may exceed its lower bound, in units of 2**-WEIGHT_BITS."""


def tables_of(scale: Fraction) -> Tables:
    """The tables of a scale, which are kept: they take milliseconds."""
    return _tables(scale.numerator, scale.denominator)  # a pair is looked up sooner than a fraction


@lru_cache(maxsize=64)
def _tables(numerator: int, denominator: int) -> Tables:
    scale = Fraction(numerator, denominator)
    digits, slack = [], 1
    place = 1
    while place < WEIGHT_BITS * scale:  # past it e^-x < 2^-x is at most one unit
        precise = powers(place / scale, (1 << DIGIT_BITS) - 1, WEIGHT_BITS + TABLE_GUARD)
        known = [one.rounded(WEIGHT_BITS) for one in precise]
        digits.append([one.low for one in known])
        slack += max(one.high - one.low for one in known) + 2  # what a product leaves out
        place <<= DIGIT_BITS
    return Tables(np.array(digits, np.uint64).reshape(-1, 1 << DIGIT_BITS), np.uint64(slack))


def true_weight(gap: int, scale: Fraction) -> Real:
    """The weight itself, to any precision."""

    def real(precision: int) -> Enclosure:
        return exp_minus(gap / scale, precision)

    return real
