"""How many records can one record push over the line? The kissing number says.

Among the records within a radius of one place, those that are outlying now and would not be with
one neighbor more fall into groups around centers more than a radius apart; at most K such centers
fit. Upper bounds of K: exact in 1 and 2 dimensions for strict separation, then the best known
upper bounds of kissing numbers, then a bound that is easily proved.
"""

from __future__ import annotations

__all__ = ["packing_number"]

KISSING = {
    1: 2, 2: 5, 3: 12, 4: 24, 5: 44, 6: 77, 7: 134, 8: 240, 9: 363, 10: 553, 11: 868, 12: 1356,
    13: 2066, 14: 3177, 15: 4858, 16: 7320, 17: 10978, 18: 16406, 19: 24417, 20: 36195, 21: 53524,
    22: 80810, 23: 122351, 24: 196560,
}  # fmt: skip


def packing_number(dimensions: int) -> int:
    """At most this many points lie within r of a center and pairwise more than r apart."""
    if dimensions in KISSING:
        return KISSING[dimensions]
    return int(3**dimensions) - 1  # balls of r/2 around them and the center fit into one of 3r/2
