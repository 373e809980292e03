"""Packing numbers: tried against rounding in the plane, certified by polynomials above."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.outliers.crowds.kernels.leaf import within
from privod.outliers.crowds.packing import (
    WIDEST_COSINE,
    gegenbauer,
    packing_number,
    spherical_code_bound,
)

Floats = NDArray[np.float64]
Sixfold = tuple[Floats, Floats, float]  # corners, middle, square of the radius
Polynomial = list[Fraction]  # the coefficients, lowest first

HEXAGON = np.array(
    [
        [1.8005750316644868, 0.9059353132153655],
        [0.5330701497897642, 2.139237106522275],
        [-1.1687529746842855, 1.6581965760514257],
        [-1.6030712172836128, -0.05614574772633302],
        [-0.33556633540889014, -1.2894475410332424],
        [1.3662567890651596, -0.8084070105623931],
    ]
)
MIDDLE = np.array([0.09875190719043703, 0.4248947827445163])
ONE, OTHER = np.triu_indices(6, 1)
ROUNDED_RADIUS = 1.2505202795137496 * float(np.sqrt(2))


def apart(points: Floats, square: float) -> bool:
    return not any(within(a, b, square) for a, b in itertools.combinations(points, 2))


def around(points: Floats, middle: Floats, square: float) -> bool:
    return all(within(middle, point, square) for point in points)


def test_rounding_lets_six_points_of_a_hexagon_stand_apart() -> None:
    square = ROUNDED_RADIUS * ROUNDED_RADIUS
    assert around(HEXAGON, MIDDLE, square)
    assert apart(HEXAGON, square)
    assert packing_number(2) == 6


def hexagons_that_rounding_lets_stand_apart(number: int, steps: int) -> list[Sixfold]:
    """Such hexagons, found by walks from a known one in units of the last place."""
    rng = np.random.default_rng(2)
    middles = np.tile(MIDDLE, (number, 1, 1))
    corners = np.tile(HEXAGON, (number, 1, 1))
    for _ in range(steps):
        moved = corners.copy()
        moved[np.arange(number), rng.integers(6, size=number)] += (
            rng.integers(-2, 3, (number, 2)) * 2.0**-53
        )
        good = climb(moved, middles) > 0
        corners[good] = moved[good]
    different = np.unique(corners, axis=0)
    reached = squares(different, middles[: len(different)])
    return [(different[i], MIDDLE, float(reached[i])) for i in range(len(different))]


def climb(corners: Floats, middles: Floats) -> Floats:
    """The least square distance of two corners over the largest to the middle, less 1."""
    gaps = corners[:, ONE] - corners[:, OTHER]
    nearest = (gaps[:, :, 0] ** 2 + gaps[:, :, 1] ** 2).min(axis=1)
    farthest = squares(corners, middles)
    return np.asarray((nearest - farthest) / farthest)


def squares(corners: Floats, middles: Floats) -> Floats:
    gaps = corners - middles
    return np.asarray((gaps[:, :, 0] ** 2 + gaps[:, :, 1] ** 2).max(axis=1))


def test_no_seventh_point_stands_apart_in_the_plane() -> None:
    hexagons = hexagons_that_rounding_lets_stand_apart(100, 200)
    assert len(hexagons) > 3
    nudges = np.array(list(itertools.product(range(-12, 13), repeat=2))) * 2.0**-53
    for hexagon, middle, square in hexagons:
        assert around(hexagon, middle, square)
        assert apart(hexagon, square)
        for seventh in middle + nudges:
            new = not any(within(seventh, corner, square) for corner in hexagon)
            assert not (new and within(seventh, middle, square))


def test_no_third_point_stands_apart_on_the_line() -> None:
    rng = np.random.default_rng(8)
    middles, radii = rng.random(300), 0.7 + rng.random(300)
    for middle, radius in zip(middles, radii, strict=True):
        square = radius * radius
        near = middle + np.concatenate([-radius + np.arange(-3, 4) * 2.0**-53, [0.0, 2.0**-53]])
        near = np.concatenate([near, 2 * middle - near])[:, None]
        near = near[[within(point, np.array([middle]), square) for point in near]]
        assert not any(apart(np.array(some), square) for some in itertools.combinations(near, 3))
    assert packing_number(1) == 2


def test_random_points_in_a_ball_never_stand_apart_in_larger_numbers() -> None:
    rng = np.random.default_rng(9)
    for d in (1, 2, 3, 4):
        most = 0
        for _ in range(60):
            directions = rng.normal(size=(300, d))
            points = directions / np.sqrt((directions**2).sum(1))[:, None]
            chosen: list[Floats] = []
            for point in points * 0.999999:
                if not any(within(point, other, 1.0) for other in chosen):
                    chosen.append(point)
            most = max(most, len(chosen))
        assert d + 1 <= most <= packing_number(d)


@pytest.mark.parametrize("d", [*range(3, 26), 34, 50])
def test_a_polynomial_certifies_the_bound_of_every_dimension(d: int) -> None:
    """f <= 0 up to the cosine, no negative Gegenbauer coefficient: N <= f(1) / f_0 [Delsarte]."""
    factor, square = levenshtein_polynomial(d, WIDEST_COSINE)
    whole = times(factor, times(square, square))
    coefficients = in_gegenbauer_polynomials(whole, d)
    assert min(coefficients) >= 0 < coefficients[0]
    bound = sum(whole) / coefficients[0]
    assert bound == spherical_code_bound(d, WIDEST_COSINE)
    assert packing_number(d) == (13 if d == 3 else int(bound) + 1)


def test_the_bounds_are_the_kissing_numbers_where_those_are_sharp() -> None:
    half = Fraction(1, 2)
    assert spherical_code_bound(8, half) == 240
    assert spherical_code_bound(24, half) == 196560


def levenshtein_polynomial(d: int, s: Fraction) -> tuple[Polynomial, Polynomial]:
    """A factor that is not positive from -1 to s, and what is to be squared."""
    k = next(k for k in itertools.count() if gegenbauer(d + 2, k, s) <= 0)
    if gegenbauer(d, k, s) <= gegenbauer(d, k + 1, s):
        family = [one_zero(d, degree) for degree in (k - 1, k)]
        factor = [-s, Fraction(1)]
    else:
        family = [zonal(d + 2, degree) for degree in (k - 1, k)]
        factor = times([-s, Fraction(1)], [Fraction(1), Fraction(1)])
    low, high = family  # the kernel of Christoffel and Darboux, up to a number
    kernel = [value(low, s) * c for c in high]
    for place, c in enumerate(low):
        kernel[place] -= value(high, s) * c
    return factor, divided(kernel, s)


def one_zero(d: int, degree: int) -> Polynomial:
    """(P_degree - P_(degree + 1)) / (1 - t)."""
    gap = [-c for c in zonal(d, degree + 1)]
    for place, c in enumerate(zonal(d, degree)):
        gap[place] += c
    return [-c for c in divided(gap, Fraction(1))]


def zonal(d: int, degree: int) -> Polynomial:
    before, here = [Fraction(1)], [Fraction(0), Fraction(1)]
    if degree == 0:
        return before
    for i in range(1, degree):
        up = [Fraction(2 * i + d - 2, i + d - 2) * c for c in [Fraction(0), *here]]
        for place, c in enumerate(before):
            up[place] -= Fraction(i, i + d - 2) * c
        before, here = here, up
    return here


def value(polynomial: Polynomial, at: Fraction) -> Fraction:
    return sum((c * at**power for power, c in enumerate(polynomial)), Fraction(0))


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    product = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            product[i + j] += a * b
    return product


def divided(polynomial: Polynomial, root: Fraction) -> Polynomial:
    """Without the factor t - root."""
    quotient = [Fraction(0)] * (len(polynomial) - 1)
    carried = Fraction(0)
    for place in range(len(polynomial) - 1, 0, -1):
        carried = polynomial[place] + carried * root
        quotient[place - 1] = carried
    assert polynomial[0] + carried * root == 0
    return quotient


def in_gegenbauer_polynomials(polynomial: Polynomial, d: int) -> list[Fraction]:
    rest, found = list(polynomial), [Fraction(0)] * len(polynomial)
    for degree in range(len(polynomial) - 1, -1, -1):
        basis = zonal(d, degree)
        found[degree] = rest[degree] / basis[degree]
        for place, c in enumerate(basis):
            rest[place] -= found[degree] * c
    return found
