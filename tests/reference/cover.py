"""The most whole points of the plane in one closed disk: try every disk through two of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

Place = tuple[int, int]


def cover(points: list[Place], radius: int) -> int:
    """A best disk can be moved until two different points lie on its border, or holds one place."""
    best = max((points.count(point) for point in points), default=0)
    for one, other in combinations(sorted(set(points)), 2):
        for side in (1, -1):
            best = max(best, held(points, one, other, side, radius))
    return best


def held(points: list[Place], one: Place, other: Place, side: int, radius: int) -> int:
    """How many points lie in the disk through two, whose center is on one side of them."""
    a, b = other[0] - one[0], other[1] - one[1]
    apart = a * a + b * b
    if apart > 4 * radius * radius:
        return 0
    lean = Fraction(radius * radius, apart) - Fraction(1, 4)
    return sum(inside(x - one[0], y - one[1], a, b, side, lean) for x, y in points)


def inside(x: int, y: int, a: int, b: int, side: int, lean: Fraction) -> bool:
    """The sign of straight + turned sqrt(lean), the power of (x, y) towards the disk."""
    straight = x * x + y * y - (x * a + y * b)
    turned = -2 * side * (y * a - x * b)
    if straight <= 0 and turned <= 0:
        return True
    if straight > 0 and turned >= 0:
        return False
    if straight <= 0:
        return turned * turned * lean <= straight * straight
    return turned * turned * lean >= straight * straight
