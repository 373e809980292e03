"""Contexts: groups of a population picked by attribute values, and how they hang together [PCOR].

A context picks a non-empty set of values in every attribute; its population is the records that
match in every attribute. Two contexts are connected if they differ in one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privod.data.domain import Categorical, Domain
from privod.data.table import Table
from privod.errors import InvalidParameter

__all__ = ["Context", "ContextSpace", "population"]

Category = str | int
Attribute = tuple[str, tuple[Category, ...]]
Choices = tuple[int, ...]

MOST_VALUES = 62  # of one attribute: its choices are the bits of a signed machine word


class Columns(Protocol):
    """A frame of pandas or polars, or any mapping of names to columns."""

    def __getitem__(self, name: str, /) -> Any: ...


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
            raise InvalidParameter(
                "a context", "must choose in every attribute", self.bits, way_out
            )

    @classmethod
    def of(
        cls, attributes: Sequence[Attribute], chosen: Mapping[str, Sequence[Category]]
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
    def chosen(self) -> dict[str, tuple[Category, ...]]:
        """The chosen values of each attribute."""
        picked: dict[str, tuple[Category, ...]] = {}
        start = 0
        for name, values in self.attributes:
            bits = self.bits[start : start + len(values)]
            picked[name] = tuple(v for v, bit in zip(values, bits, strict=True) if bit == "1")
            start += len(values)
        return picked

    def contains(self, record: Mapping[str, Any]) -> bool:
        """Whether the record, by attribute names, belongs to the context."""
        return all(record.get(name) in values for name, values in self.chosen.items())

    def row_filter(self, columns: Columns) -> NDArray[np.bool_]:
        """Which rows belong, given a frame or any mapping of names to columns."""
        inside = None
        for name, values in self.chosen.items():
            members = set(values)
            column = np.asarray(columns[name]).tolist()
            fits = np.fromiter((value in members for value in column), bool, len(column))
            inside = fits if inside is None else inside & fits
        assert inside is not None  # noqa: S101 - a context has at least one attribute
        return inside

    def connected(self) -> Iterator[Context]:
        """The contexts one value away."""
        for place, bit in enumerate(self.bits):
            bits = self.bits[:place] + ("0" if bit == "1" else "1") + self.bits[place + 1 :]
            try:
                yield Context(self.attributes, bits)
            except InvalidParameter:
                continue  # the last value of an attribute was taken away

    def in_words(self) -> str:
        """The context for people; attributes that keep all their values are left out."""
        parts = [
            f"{name} in {{{', '.join(map(str, self.chosen[name]))}}}"
            for name, values in self.attributes
            if len(self.chosen[name]) < len(values)
        ]
        return " and ".join(parts) or "everyone"

    def as_sql(self) -> str:
        """The context as a condition for a WHERE clause."""
        return " AND ".join(
            f"{_identifier(name)} IN ({', '.join(map(_literal, values))})"
            for name, values in self.chosen.items()
        )

    def to_json(self) -> dict[str, Any]:
        """Attributes, values and bits."""
        attributes = [{"name": name, "values": list(values)} for name, values in self.attributes]
        return {"attributes": attributes, "bits": self.bits}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Context:
        """Read back what `to_json` wrote."""
        attributes = tuple((one["name"], tuple(one["values"])) for one in data["attributes"])
        return cls(attributes, data["bits"])


def population(context: Context, table: Table) -> NDArray[np.bool_]:
    """Which rows of the table belong to the context."""
    inside = np.ones(len(table), dtype=bool)
    for name, values in context.chosen.items():
        (column,) = table.domain.categorical((name,))
        member = np.array([value in values for value in column.values])
        inside &= member[table.codes((name,))[:, 0]]
    return inside


@dataclass(frozen=True)
class ContextSpace:
    """All contexts that contain one record: public, whatever the rows.

    Inside, attributes are ordered by their number of values (the longest last) and the record's own
    value always has code 0, so that a context is a tuple of *choices*: one integer per attribute,
    bit c set if code c is chosen. It contains the record if every integer is odd.

    Parameters
    ----------
    columns : tuple of Categorical
        The attributes.
    record : tuple of str or int
        The record's value in each attribute.
    """

    columns: tuple[Categorical, ...]
    record: tuple[Category, ...]

    def __post_init__(self) -> None:
        for column, value in zip(self.columns, self.record, strict=True):
            if value not in column.values:
                way_out = f"The values of {column.name!r} are {', '.join(map(str, column.values))}."
                rule = "must have a declared value in every attribute"
                raise InvalidParameter("record", rule, value, way_out)
            if len(column.values) > MOST_VALUES:
                what = f"the attribute {column.name!r}"
                rule = f"must have at most {MOST_VALUES} values"
                way_out = "Group rare values in the declared domain, or leave the attribute out."
                raise InvalidParameter(what, rule, len(column.values), way_out)

    @classmethod
    def around(cls, domain: Domain, record: Mapping[str, Category]) -> ContextSpace:
        """The contexts of a record given by the values of its attributes."""
        return cls(domain.categorical(tuple(record)), tuple(record.values()))

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Names and values, as a `Context` carries them."""
        return tuple((column.name, column.values) for column in self.columns)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Which attribute stands at which place inside."""
        places = range(len(self.columns))
        return tuple(sorted(places, key=lambda place: len(self.columns[place].values)))

    @cached_property
    def own_codes(self) -> tuple[int, ...]:
        """The record's position among each attribute's values, in the order inside."""
        return tuple(self.columns[at].values.index(self.record[at]) for at in self.order)

    @cached_property
    def free_bits(self) -> tuple[int, ...]:
        """How many values besides the record's each attribute has, in the order inside."""
        return tuple(len(self.columns[at].values) - 1 for at in self.order)

    @property
    def n_contexts(self) -> int:
        """How many contexts contain the record."""
        return int(2 ** sum(self.free_bits))

    @property
    def everyone(self) -> Choices:
        """The context that keeps every value."""
        return tuple((2 << bits) - 1 for bits in self.free_bits)

    @property
    def own_cell(self) -> Choices:
        """The context of the record's own values alone."""
        return (1,) * len(self.columns)

    def numbered(self, number: int) -> Choices:
        """The context of that number: free bits in a row, the last attribute lowest."""
        choices = []
        for bits in reversed(self.free_bits):
            choices.append(((number & ((1 << bits) - 1)) << 1) | 1)
            number >>= bits
        return tuple(reversed(choices))

    def connected(self, choices: Choices) -> list[Choices]:
        """The contexts one value away that still contain the record."""
        return [
            (*choices[:place], choice ^ (2 << bit), *choices[place + 1 :])
            for place, choice in enumerate(choices)
            for bit in range(self.free_bits[place])
        ]

    def recode(self, codes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """A table's codes, shape (n, m), with the order inside and 0 for the record's values."""
        inside = codes[:, list(self.order)]
        own = np.array(self.own_codes)
        recoded = np.where(inside < own, inside + 1, inside)
        recoded[inside == own] = 0
        return recoded.astype(np.uint8)

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
            raise InvalidParameter(
                "a context", "must contain the record", context.in_words(), way_out
            )
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


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Category) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
