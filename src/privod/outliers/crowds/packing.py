"""How many records can one record push over the line? A packing number says.

"Within" is decided in float64, so it must hold with a little slack in every distance: six points of
a hexagon can be within the radius of its middle and yet, after rounding, all farther than it from
each other. Proofs: docs/proofs/outlier_count.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

ON_THE_LINE = 2  # one on each side: rounding keeps the order of distances
IN_THE_PLANE = 6  # the hexagon, whose seventh point in the middle rounding does not allow
IN_SPACE = 12 + 1  # thirteen directions come within 57.14 degrees [Musin and Tarasov 2012]
WIDEST_COSINE = Fraction(1, 2) + Fraction(1, 2**30)  # of two directions, with room for rounding


@lru_cache(maxsize=256)
def packing_number(dimensions: int) -> int:
    """At most so many points are within r of a center and no two within r of each other.

    From 3 dimensions on one point may lie next to the center, the others show in directions of at
    least nearly 60 degrees from each other.
    """
    known = {1: ON_THE_LINE, 2: IN_THE_PLANE, 3: IN_SPACE}
    if dimensions in known:
        return known[dimensions]
    return math.floor(spherical_code_bound(dimensions, WIDEST_COSINE)) + 1


def spherical_code_bound(dimensions: int, cosine: Fraction) -> Fraction:
    """At most so many directions have pairwise cosines of at most `cosine` [Levenshtein 1979].

    From 3 dimensions on; 240 in 8 and 196560 in 24 dimensions for a cosine of 1/2.
    """
    n, s = dimensions, cosine
    k = 0
    while gegenbauer(n + 2, k, s) > 0:  # s lies past the last zeros up to k - 1
        k += 1
    before, here, after = (gegenbauer(n, degree, s) for degree in (k - 1, k, k + 1))
    if here <= after:  # degree 2 k - 1
        tail = (before - here) / ((1 - s) * here)
        return math.comb(k + n - 3, k - 1) * (Fraction(2 * k + n - 3, n - 1) - tail)
    tail = (1 + s) * (here - after) / ((1 - s) * (here + after))  # degree 2 k
    return math.comb(k + n - 2, k) * (Fraction(2 * k + n - 1, n - 1) - tail)


def gegenbauer(dimensions: int, degree: int, at: Fraction) -> Fraction:
    """The zonal polynomial of the sphere in so many dimensions, 1 at 1."""
    before, here = Fraction(1), at
    if degree == 0:
        return before
    for i in range(1, degree):
        up = (2 * i + dimensions - 2) * at * here - i * before
        before, here = here, up / (i + dimensions - 2)
    return here
