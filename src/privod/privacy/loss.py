"""Privacy loss: epsilon and delta as exact fractions that only add up."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import InvalidParameter
from .certified import exp_above

Number = int | float | str | Decimal | Fraction

LONGEST_TEXT = 1000  # sums of many fractions have long denominators; no honest number is longer
LARGEST_EXPONENT = 60  # '1e999999999' would become an integer of a gigabyte
LARGEST = Fraction(sys.float_info.max)  # so that every number read is also a float
LARGEST_BITS = LARGEST.numerator.bit_length()
WRITTEN = re.compile(
    r"[+-]?(?:\d+/\d+|(?:\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?)", re.ASCII
)


def exact(value: Number, name: str) -> Fraction:
    """Read a number as it is written: 0.1 means one tenth, not the nearest binary float."""
    way_out = "Write a number such as 0.5, '0.5' or '1/3'."
    if (numpy := sys.modules.get("numpy")) and isinstance(value, numpy.generic):
        value = value.item()  # a NumPy scalar is read as the Python number it prints
    if isinstance(value, bool):
        raise InvalidParameter(name, "must be a number", value, way_out)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameter(name, "must be finite", value, way_out)
        return Fraction(repr(float(value)))  # the shortest text that reads back as this float
    if isinstance(value, str | Decimal):
        value = _usual_text(str(value).strip(), name, way_out)
    try:
        number = Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise InvalidParameter(name, "must be a number", value, way_out) from None
    return _in_reach(number, value, name)


def _usual_text(text: str, name: str, way_out: str) -> str:
    """Keep a short text from becoming a number that fills the memory."""
    if len(text) > LONGEST_TEXT:
        rule = f"must have at most {LONGEST_TEXT} characters"
        raise InvalidParameter(name, rule, text[:20] + "...", "Write a shorter number.")
    written = WRITTEN.fullmatch(text)
    if written is None:
        raise InvalidParameter(name, "must be a number", text, way_out)
    if abs(int(written["exponent"] or 0)) > LARGEST_EXPONENT:
        rule = f"must have an exponent of at most {LARGEST_EXPONENT}"
        raise InvalidParameter(name, rule, text, "Write a more usual number.")
    return text


def as_exact(value: Number, name: str) -> Fraction:
    """The number as a fraction; what is one, or a whole number, needs no reading."""
    if type(value) is Fraction:
        return _in_reach(value, value, name)
    if type(value) is int:
        return _in_reach(Fraction(value), value, name)
    return exact(value, name)


def as_float(value: Number, name: str) -> float:
    """The number as a float; a finite float needs no reading."""
    if type(value) is float and math.isfinite(value):
        return value
    return float(as_exact(value, name))


def _in_reach(number: Fraction, given: Number, name: str) -> Fraction:
    # A numerator of fewer bits is below LARGEST whatever the denominator, and this is quicker.
    if number.numerator.bit_length() >= LARGEST_BITS and abs(number) > LARGEST:
        raise InvalidParameter(name, "must be below 1.8e308", given, "Try 1.")
    return number


def positive(value: Number, name: str) -> Fraction:
    """A number that must be greater than zero, as a fraction."""
    number = as_exact(value, name)
    if number <= 0:
        way_out = "Try 0.1." if name == "epsilon" else "Try 1."
        raise InvalidParameter(name, "must be greater than 0", value, way_out)
    return number


@dataclass(frozen=True, init=False)
class Loss:
    """The privacy loss of one release or of many together.

    Guarantee
    ---------
    Under an adjacency (see `Guarantee`), any outcome is at most exp(epsilon) times as likely on one
    data set as on an adjacent one, up to an added probability of delta.

    Parameters
    ----------
    epsilon : number
        At least 0. Decimals are read as written, so ten times 0.1 is exactly 1.
    delta : number
        At least 0; 0 is the pure promise, 1 and more is none.
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        for name, given, usual in (("epsilon", epsilon, "1"), ("delta", delta, "0")):
            number = as_exact(given, name)
            if number.numerator < 0:
                raise InvalidParameter(name, "must be at least 0", given, f"Try {usual}.")
            object.__setattr__(self, name, number)

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __mul__(self, times: int) -> Loss:
        return Loss(self.epsilon * times, self.delta * times)

    __rmul__ = __mul__

    def __le__(self, other: Loss) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def for_groups(self, size: int) -> Loss:
        """The loss towards `size` records that change together (group privacy).

        A chain of `size` adjacent steps gives size * epsilon and
        delta * (1 + e^epsilon + ... + e^((size - 1) epsilon)), here rounded up to a fraction. From
        1 on, where nothing is promised, it is 1.
        """
        if size < 1:
            raise InvalidParameter("size", "must be at least 1", size, "Try 1.")
        if self.delta == 0 or size == 1:
            return Loss(self.epsilon * size, self.delta)
        doublings = math.ceil(1 / self.delta).bit_length()  # 2**doublings is above 1 / delta
        exponent = self.epsilon * (size - 1)
        hopeless = size * self.delta >= 1 or exponent >= LN_2_ROUNDED_UP * doublings
        if hopeless or size >= LARGEST_GROUP:
            return Loss(self.epsilon * size, 1)  # e**exponent may have too many digits to write out
        grown = self.delta * _powers_rounded_up(exp_above(self.epsilon), size)
        return Loss(self.epsilon * size, min(rounded_up(grown), Fraction(1)))

    def __str__(self) -> str:
        text = f"epsilon {decimal_text(self.epsilon)}"
        return text if self.delta == 0 else f"{text}, delta {decimal_text(self.delta)}"

    def to_json(self) -> dict[str, str]:
        """Exact fractions as text."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Loss:
        """Read back what `to_json` wrote."""
        return cls(exact(data["epsilon"], "epsilon"), exact(data.get("delta", 0), "delta"))


def decimal_text(number: Fraction) -> str:
    """The number in decimals if that is exact and short, else as a fraction."""
    text = repr(float(number))
    if Fraction(text) == number:
        return text.removesuffix(".0").replace("e-0", "e-")
    return str(number)


SIGNIFICANT_DIGITS = 12
LN_2_ROUNDED_UP = Fraction(694, 1000)
LARGEST_GROUP = 2**64  # of more records than any table holds nothing is promised


def rounded_up(number: Fraction) -> Fraction:
    """The next number above that has few decimal digits, so that ledgers stay readable."""
    finest = _last_digit(number)
    return math.ceil(number / finest) * finest


def rounded_down(number: Fraction) -> Fraction:
    """The next number below that has few decimal digits."""
    finest = _last_digit(number)
    return math.floor(number / finest) * finest


def _last_digit(number: Fraction) -> Fraction:
    """What the twelfth digit of a number above 0 is worth."""
    place = math.floor((number.numerator.bit_length() - number.denominator.bit_length()) * 0.30103)
    while Fraction(10) ** place > number:
        place -= 1
    while Fraction(10) ** (place + 1) <= number:
        place += 1
    return Fraction(10) ** (place - SIGNIFICANT_DIGITS)


BINARY_DIGITS = 2**120  # sums are rounded up to multiples of 2**-120


def _powers_rounded_up(factor: Fraction, count: int) -> Fraction:
    """At least 1 + factor + ... + factor**(count - 1), for factor >= 1, in few steps."""
    total, power = Fraction(0), Fraction(1)  # of no terms; factor to their number
    for bit in f"{count:b}":
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = total * factor + 1, power * factor
        total, power = _in_binary_digits(total), _in_binary_digits(power)
    return total


def _in_binary_digits(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number * BINARY_DIGITS), BINARY_DIGITS)
