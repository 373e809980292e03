"""Contexts: groups of a population picked by attribute values, and how they hang together [PCOR].

A context picks a non-empty set of values in every attribute; its population is the records that
match in every attribute. Two contexts are connected if they differ in one value. The values of an
ordered attribute are intervals, and a context that is looked at picks a run of them: a range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data.columns import Categorical
from privod.data.domain import Domain
from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.intervals import Interval, Ordered, ranges_of
from privod.texts import some

Category = str | int
AttributeValue = str | int | Interval
Attribute = tuple[str, tuple[AttributeValue, ...]]
Choices = tuple[int, ...]

MOST_VALUES = 4096  # of one attribute: a search looks at a context for each, at every visit
ENDS_MOVED = 4  # a range grows or shrinks at either end
FEW_NAMED = 4  # values that are listed, even where listing those left out would be shorter


@dataclass(frozen=True)
class Context:
    """A choice of values in every attribute, as a vector of bits.

    Parameters
    ----------
    attributes : tuple of (str, tuple)
        Each attribute's name and all its possible values, in order.
    bits : str
        One character per value, all attributes in a row: 1 if the value is chosen, else 0. At
        least one value of every attribute is chosen.
    """

    attributes: tuple[Attribute, ...]
    bits: str

    def __post_init__(self) -> None:
        listed = tuple((str(name), tuple(values)) for name, values in self.attributes)
        object.__setattr__(self, "attributes", listed)
        length = sum(len(values) for _, values in listed)
        if len(self.bits) != length or set(self.bits) - {"0", "1"}:
            rule = f"must be {length} characters 0 or 1, one per value"
            raise InvalidParameter("bits", rule, self.bits, "Name the values with Context.of.")
        if not listed or not all(self.chosen.values()):
            way_out = "Choose at least one value of every attribute."
            raise InvalidParameter("a context", "must choose in each attribute", self.bits, way_out)

    @classmethod
    def of(
        cls, attributes: Sequence[Attribute], chosen: Mapping[str, Sequence[AttributeValue]]
    ) -> Context:
        """The context that chooses these values; an attribute that is not named keeps all."""
        known = dict(attributes)
        for name, values in chosen.items():
            if name not in known:
                way_out = f"The attributes are {', '.join(map(repr, known))}."
                raise InvalidParameter("a context", "must choose from attributes", name, way_out)
            strange = [value for value in values if value not in known[name]]
            if strange:
                way_out = f"The values of {name!r} are {', '.join(map(str, known[name]))}."
                raise InvalidParameter("a context", "must choose known values", strange, way_out)
        bits = "".join(
            "1" if value in chosen.get(name, values) else "0"
            for name, values in attributes
            for value in values
        )
        return cls(tuple(attributes), bits)

    @cached_property
    def chosen(self) -> dict[str, tuple[AttributeValue, ...]]:
        """The chosen values of each attribute."""
        picked: dict[str, tuple[AttributeValue, ...]] = {}
        start = 0
        for name, values in self.attributes:
            bits = self.bits[start : start + len(values)]
            picked[name] = tuple(v for v, bit in zip(values, bits, strict=True) if bit == "1")
            start += len(values)
        return picked

    def contains(self, record: Mapping[str, Any]) -> bool:
        """Whether the record, by attribute names, belongs to the context."""
        return all(_belongs(record.get(name), values) for name, values in self.chosen.items())

    def in_words(self) -> str:
        """The context for people; attributes that keep all their values are left out."""
        parts = [
            _in_words(name, values, self.chosen[name])
            for name, values in self.attributes
            if len(self.chosen[name]) < len(values)
        ]
        return " and ".join(parts) or "everyone"

    def to_json(self) -> dict[str, Any]:
        attributes = [
            {"name": name, "values": [_plain(value) for value in values]}
            for name, values in self.attributes
        ]
        return {"attributes": attributes, "bits": self.bits}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Context:
        attributes = tuple(
            (
                one["name"],
                tuple(Interval.from_json(v) if isinstance(v, dict) else v for v in one["values"]),
            )
            for one in data["attributes"]
        )
        return cls(attributes, data["bits"])


def population(context: Context, table: Table) -> NDArray[np.bool_]:
    """Which rows of the table belong to the context."""
    inside = np.ones(len(table), dtype=bool)
    for name, values in context.attributes:
        chosen = np.array([value in context.chosen[name] for value in values])
        column = Ordered.of(table.domain, name, values)
        if column is None:
            inside &= chosen[table.codes((name,))[:, 0]]
        else:
            inside &= chosen[column.codes(table)]
    return inside


@dataclass(frozen=True)
class ContextSpace:
    """All contexts that contain one record: public, whatever the rows.

    Inside, attributes are ordered by their number of values (the longest last, intervals before
    categories) and the record's own value always has code 0, so that a context is a tuple of
    *choices*: one integer per attribute, bit c set if code c is chosen. It contains the record if
    every integer is odd. In an ordered attribute only runs of intervals are chosen.
    """

    columns: tuple[Categorical | Ordered, ...]
    record: tuple[Category | float, ...]

    def __post_init__(self) -> None:
        for column, value in zip(self.columns, self.record, strict=True):
            if isinstance(column, Ordered):
                column.position(value)  # refuses a number outside the declared range
                continue
            if value not in column.values:
                shown = some([str(one) for one in column.values], 20)
                way_out = f"The values of {column.name!r} are {shown}."
                rule = "must have a declared value in every attribute"
                raise InvalidParameter("record", rule, value, way_out)
            if len(column.values) > MOST_VALUES:
                what = f"the attribute {column.name!r}"
                rule = f"must have at most {MOST_VALUES} values"
                way_out = "Group rare values in the declared domain, or leave the attribute out."
                raise InvalidParameter(what, rule, len(column.values), way_out)

    @classmethod
    def around(
        cls,
        domain: Domain,
        record: Mapping[str, Category | float],
        cuts: Mapping[str, tuple[float, ...]] | None = None,
    ) -> ContextSpace:
        """The contexts of a record given by the values of its attributes.

        An attribute with `cuts` is numeric, and these part its declared range into intervals.
        """
        parted = cuts or {}
        columns: list[Categorical | Ordered] = []
        for name in record:
            if name in parted:
                (column,) = domain.numeric((name,))
                columns.append(Ordered(column, parted[name]))
            else:
                columns += domain.categorical((name,))
        return cls(tuple(columns), tuple(record.values()))

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Names and values, as a `Context` carries them."""
        return tuple((column.name, column.values) for column in self.columns)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Which attribute stands at which place inside."""

        def rank(place: int) -> tuple[bool, int]:
            column = self.columns[place]
            return not isinstance(column, Ordered), len(column.values)

        return tuple(sorted(range(len(self.columns)), key=rank))

    @cached_property
    def own_codes(self) -> tuple[int, ...]:
        """The record's position among each attribute's values, in the order inside."""
        return tuple(_position(self.columns[at], self.record[at]) for at in self.order)

    @cached_property
    def free_bits(self) -> tuple[int, ...]:
        """How many values besides the record's each attribute has, in the order inside."""
        return tuple(len(self.columns[at].values) - 1 for at in self.order)

    @cached_property
    def byte_ends(self) -> tuple[int, ...]:
        """Where the bits of each attribute begin in whole bytes, one after another, and the end."""
        return (0, *accumulate(bits // 8 + 1 for bits in self.free_bits))

    @cached_property
    def runs(self) -> tuple[tuple[int, ...] | None, ...]:
        """Of each ordered attribute its possible choices; None for one whose values are not.

        Runs of intervals that contain the record's own, by their first and then their last one.
        """
        return tuple(
            self._runs(place) if isinstance(self.columns[at], Ordered) else None
            for place, at in enumerate(self.order)
        )

    @cached_property
    def n_choices(self) -> tuple[int, ...]:
        """How many choices each attribute has, in the order inside."""
        free = zip(self.runs, self.free_bits, strict=True)
        return tuple(2**bits if runs is None else len(runs) for runs, bits in free)

    @cached_property
    def n_contexts(self) -> int:
        """How many contexts contain the record."""
        return math.prod(self.n_choices)

    @property
    def most_connected(self) -> int:
        """To how many contexts one can be connected."""
        free = zip(self.runs, self.free_bits, strict=True)
        return sum(bits if runs is None else min(bits, ENDS_MOVED) for runs, bits in free)

    @property
    def everyone(self) -> Choices:
        """The context that keeps every value."""
        return tuple((2 << bits) - 1 for bits in self.free_bits)

    @property
    def own_cell(self) -> Choices:
        """The context of the record's own values alone."""
        return (1,) * len(self.columns)

    def numbered(self, number: int) -> Choices:
        """The context of that number: a digit for each attribute, the last one lowest."""
        choices = []
        for place in reversed(range(len(self.columns))):
            number, digit = divmod(number, self.n_choices[place])
            choices.append(self.choice(place, digit))
        return tuple(reversed(choices))

    def choice(self, place: int, digit: int) -> int:
        """A choice of the attribute at a place inside, by number."""
        runs = self.runs[place]
        return (digit << 1) | 1 if runs is None else runs[digit]

    def connected(self, choices: Choices) -> list[Choices]:
        """The contexts one value away that still contain the record."""
        return [
            (*choices[:place], choice ^ (2 << bit), *choices[place + 1 :])
            for place, choice in enumerate(choices)
            for bit in self._free_to_change(place, choice)
        ]

    def codes(self, table: Table) -> NDArray[np.uint16]:
        """A table's codes, shape (n, m), with the order inside and 0 for the record's values."""
        listed = []
        for place, at in enumerate(self.order):
            column = self.columns[at]
            if isinstance(column, Ordered):
                codes = column.codes(table)
            else:
                codes = table.codes((column.name,))[:, 0]
            own = self.own_codes[place]
            recoded = np.where(codes < own, codes + 1, codes)
            recoded[codes == own] = 0
            listed.append(recoded.astype(np.uint16))
        return np.stack(listed, axis=1)

    def chosen_codes(self, place: int, choice: int) -> NDArray[np.bool_]:
        """Which codes of the attribute at a place inside a choice takes in."""
        n_codes = self.free_bits[place] + 1
        packed = np.frombuffer(choice.to_bytes(-(-n_codes // 8), "little"), np.uint8)
        return np.unpackbits(packed, count=n_codes, bitorder="little").astype(np.bool_)

    def context(self, choices: Choices) -> Context:
        """The choices as a value to release."""
        bits = [""] * len(self.columns)
        for place, at in enumerate(self.order):
            bits[at] = "".join(
                "1" if (choices[place] >> self._code(place, code)) & 1 else "0"
                for code in range(self.free_bits[place] + 1)
            )
        return Context(self.attributes, "".join(bits))

    def choices(self, context: Context) -> Choices:
        """The choices of a context that contains the record."""
        if context.attributes != self.attributes:
            way_out = f"Choose among {', '.join(name for name, _ in self.attributes)}."
            raise InvalidParameter("a context", "must be of these attributes", context, way_out)
        if not context.contains(
            dict(zip((c.name for c in self.columns), self.record, strict=True))
        ):
            way_out = "Choose the record's own value in every attribute, and others beside it."
            raise InvalidParameter("a context", "must hold the record", context.in_words(), way_out)
        return tuple(
            sum(
                1 << self._code(place, code)
                for code, value in enumerate(self.columns[at].values)
                if value in context.chosen[self.columns[at].name]
            )
            for place, at in enumerate(self.order)
        )

    def _code(self, place: int, position: int) -> int:
        """The code inside of the value at that position of the attribute's list."""
        own = self.own_codes[place]
        return 0 if position == own else position + (position < own)

    def _runs(self, place: int) -> tuple[int, ...]:
        own, last = self.own_codes[place], self.free_bits[place]
        return tuple(
            sum(1 << self._code(place, position) for position in range(first, end + 1))
            for first in range(own + 1)
            for end in range(own, last + 1)
        )

    def _free_to_change(self, place: int, choice: int) -> Sequence[int]:
        """Which free values of an attribute can come or go; of a run, its ends and those next."""
        runs = self._runs_known[place]
        bits = range(self.free_bits[place])
        return bits if runs is None else [bit for bit in bits if choice ^ (2 << bit) in runs]

    @cached_property
    def _runs_known(self) -> tuple[frozenset[int] | None, ...]:
        return tuple(None if runs is None else frozenset(runs) for runs in self.runs)


def _position(column: Categorical | Ordered, value: Category | float) -> int:
    if isinstance(column, Ordered):
        return column.position(value)
    return column.values.index(value)


def _belongs(value: Any, values: Collection[AttributeValue]) -> bool:
    """Whether a record's value is one of these, or lies in an interval among them."""
    if value in values:
        return True
    return any(isinstance(one, Interval) and value in one for one in values)


def _in_words(
    name: str, values: tuple[AttributeValue, ...], chosen: tuple[AttributeValue, ...]
) -> str:
    """A choice for people: ranges of an ordered attribute, else the shorter of two lists."""
    intervals = [one for one in values if isinstance(one, Interval)]
    if intervals:
        ranges = ranges_of(intervals, [one for one in chosen if isinstance(one, Interval)])
        return f"{name} " + " or ".join(one.in_words() for one in ranges)
    left_out = [value for value in values if value not in chosen]
    if len(chosen) > FEW_NAMED and len(left_out) < len(chosen):
        return f"{name} not in {{{', '.join(map(str, left_out))}}}"
    return f"{name} in {{{', '.join(map(str, chosen))}}}"


def _plain(value: AttributeValue) -> Any:
    return value.to_json() if isinstance(value, Interval) else value
