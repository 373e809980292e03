"""The disks of one radius through two points of the plane, and who is in them, exactly.

Points have whole coordinates and the radius is a whole number. Which points a disk holds is first
asked in float64; where that is too close to call, whole numbers of any length decide.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from privod.outliers.crowds.kernels.tree import Floats, Ints

MARGIN = 2.0**-20  # distances nearer to the radius than this are too close to call in float64
_LIMB = 24
_MASK = (1 << _LIMB) - 1


@njit(cache=True, nogil=True)
def best_disk(
    x: Floats,
    y: Floats,
    weight: Ints,
    some: Ints,
    low_x: float,
    low_y: float,
    side: float,
    radius: int,
    base: int,
    best: int,
) -> int:
    """The most that a disk through two of some points holds, `base` included, if above `best`.

    Only disks with their center in the box count, where all those of the base are inside.
    """
    for i in range(some.size):
        for j in range(i + 1, some.size):
            u, v = some[i], some[j]
            a, b = int(x[v] - x[u]), int(y[v] - y[u])
            apart = a * a + b * b
            open_ = 4 * radius * radius - apart
            if open_ < 0:
                continue
            lean = math.sqrt(open_ / apart) / 2.0
            for turn in (1.0, -1.0):
                cx = x[u] + 0.5 * a - turn * lean * b
                cy = y[u] + 0.5 * b + turn * lean * a
                if (
                    cx < low_x - MARGIN
                    or cx > low_x + side + MARGIN
                    or cy < low_y - MARGIN
                    or cy > low_y + side + MARGIN
                ):
                    continue
                held, close = base + weight[u] + weight[v], 0
                for k in range(some.size):
                    if k != i and k != j:
                        w = some[k]
                        square = (x[w] - cx) ** 2 + (y[w] - cy) ** 2
                        if square <= (radius - MARGIN) ** 2:
                            held += weight[w]
                        elif square <= (radius + MARGIN) ** 2:
                            close += weight[w]
                if held + close <= best:
                    continue
                if close > 0:
                    for k in range(some.size):
                        w = some[k]
                        square = (x[w] - cx) ** 2 + (y[w] - cy) ** 2
                        if (
                            k != i
                            and k != j
                            and square > (radius - MARGIN) ** 2
                            and square <= (radius + MARGIN) ** 2
                            and in_disk(x[w] - x[u], y[w] - y[u], a, b, int(turn), radius)
                        ):
                            held += weight[w]
                best = max(best, held)
    return best


@njit(cache=True, nogil=True)
def in_disk(x: float, y: float, a: int, b: int, turn: int, radius: int) -> bool:
    """Whether (x, y) lies in the closed disk through 0 and (a, b) with its center on one side.

    The center is (a, b) / 2 + turn sqrt(lean) (-b, a) with lean = r^2 / (a^2 + b^2) - 1/4, so the
    question is whether straight + turned sqrt(lean) <= 0.
    """
    px, py = int(x), int(y)
    straight = px * px + py * py - (px * a + py * b)
    turned = -2 * turn * (py * a - px * b)
    if straight <= 0 and turned <= 0:
        return True
    if straight > 0 and turned >= 0:
        return False
    apart = a * a + b * b
    order = compare(abs(turned), 4 * radius * radius - apart, abs(straight), 4 * apart)
    return order <= 0 if straight <= 0 else order >= 0


@njit(cache=True, nogil=True)
def compare(a: int, b: int, c: int, d: int) -> int:
    """The sign of a a b - c c d, for numbers from 0 to below 2^48."""
    one, other = _product(a, b), _product(c, d)
    for place in range(one.size - 1, -1, -1):
        if one[place] != other[place]:
            return 1 if one[place] > other[place] else -1
    return 0


@njit(cache=True, nogil=True)
def _product(a: int, b: int) -> Ints:
    """a a b in limbs of 24 bits, lowest first."""
    low, high = a & _MASK, a >> _LIMB
    square = np.zeros(4, np.int64)
    square[0], square[1], square[2] = low * low, 2 * low * high, high * high
    _carry(square)
    whole = np.zeros(7, np.int64)
    low, high = b & _MASK, b >> _LIMB
    for place in range(4):
        whole[place] += square[place] * low
        whole[place + 1] += square[place] * high
    _carry(whole)
    return whole


@njit(cache=True, nogil=True)
def _carry(limbs: Ints) -> None:
    for place in range(limbs.size - 1):
        limbs[place + 1] += limbs[place] >> _LIMB
        limbs[place] &= _MASK
