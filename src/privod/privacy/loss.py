"""How much one release may reveal: epsilon and delta, as exact fractions that only add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from privod.errors import InvalidParameter

__all__ = ["Loss", "Number", "decimal_text", "exact", "positive"]

Number = int | float | str | Decimal | Fraction

LONGEST_TEXT = 1000  # sums of many fractions have long denominators; no honest number is longer
LARGEST_EXPONENT = 60  # '1e999999999' would become an integer of a gigabyte


def exact(value: Number, name: str) -> Fraction:
    """Read a number as it is written: 0.1 means one tenth, not the nearest binary float."""
    way_out = "Write a number such as 0.5, '0.5' or '1/3'."
    if isinstance(value, bool):
        raise InvalidParameter(name, "must be a number", value, way_out)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameter(name, "must be finite", value, way_out)
        return Fraction(repr(float(value)))  # the shortest text that reads back as this float
    if isinstance(value, str):
        _refuse_monsters(value, name)
    try:
        return Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        if hasattr(value, "item"):  # a NumPy scalar is read as the Python number it prints
            return exact(value.item(), name)
        raise InvalidParameter(name, "must be a number", value, way_out) from None


def _refuse_monsters(text: str, name: str) -> None:
    """Keep a short text from becoming a number that fills the memory."""
    if len(text) > LONGEST_TEXT:
        rule = f"must have at most {LONGEST_TEXT} characters"
        raise InvalidParameter(name, rule, text[:20] + "...", "Write a shorter number.")
    _, _, exponent = text.lower().partition("e")
    digits = exponent.strip("+-_ ")
    if digits.isdigit() and (len(digits) > 4 or int(digits) > LARGEST_EXPONENT):
        rule = f"must have an exponent of at most {LARGEST_EXPONENT}"
        raise InvalidParameter(name, rule, text, "Write a more usual number.")


def positive(value: Number, name: str) -> Fraction:
    """Read a number that must be greater than zero."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidParameter(name, "must be greater than 0", value, "Try 1.")
    return number


@dataclass(frozen=True, init=False)
class Loss:
    """The privacy loss of one release or of many together.

    Guarantee
    ---------
    Under an adjacency (see `Guarantee`), any outcome is at most exp(epsilon) times as likely on one
    data set as on an adjacent one, but for a probability of delta.

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
        for name, given in (("epsilon", epsilon), ("delta", delta)):
            number = exact(given, name)
            if number < 0:
                raise InvalidParameter(name, "must be at least 0", given, "Try 0.")
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
        delta * (1 + e^epsilon + ... + e^((size - 1) epsilon)), here rounded up to a fraction.
        """
        if size < 1:
            raise InvalidParameter("size", "must be at least 1", size, "Try 1.")
        if self.delta == 0 or size == 1:
            return Loss(self.epsilon * size, self.delta)
        growth = sum(_exp_rounded_up(self.epsilon * step) for step in range(size))
        return Loss(self.epsilon * size, min(_rounded_up(self.delta * growth), Fraction(1)))

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
        return text.removesuffix(".0")
    return str(number)


SIGNIFICANT_DIGITS = 12


def _rounded_up(number: Fraction) -> Fraction:
    """The next number above that has few decimal digits, so that books stay readable."""
    exponent = SIGNIFICANT_DIGITS - math.floor(math.log10(number))
    return Fraction(math.ceil(number * Fraction(10) ** exponent)) / Fraction(10) ** exponent


EXP_TERMS = 40  # past this many terms of the series the rest is below 2**-100 for exponents up to 1


def _exp_rounded_up(exponent: Fraction) -> Fraction:
    """A fraction at least e**exponent and hardly above it, for exponent >= 0."""
    halvings = max(0, math.ceil(exponent)).bit_length()
    small = exponent / 2**halvings
    term, total = Fraction(1), Fraction(1)
    for index in range(1, EXP_TERMS):
        term = term * small / index
        total += term
    total += 2 * term * small / EXP_TERMS  # the tail is below twice its first term, as small <= 1
    for _ in range(halvings):
        total = Fraction(math.ceil(total * total * 2**120), 2**120)
    return total
