"""Which records does a question look at? Those that meet its conditions, all of them.

A condition is about one column: a category among some, a number or a date between two ends, both
of which belong to it. Conditions look at records as questions see them: clipped and filled. How
many records meet them is private under every adjacency.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data.columns import Categorical, Column, Ordinal
from privod.data.domain import Domain
from privod.errors import InvalidParameter

FORM = (
    "Write {'country': ['DE', 'FR'], 'amount': {'from': 10000}}; in the shell 'amount >= 10000' or"
    " 'amount <= 500', both ends included."
)
SEVERAL = re.compile(r"\n| and ")
MOST_CONDITIONS = 20
MOST_VALUES = 1000
Entry = tuple[Any, ...]


@dataclass(frozen=True)
class Conditions:
    """What records must meet, in one canonical form.

    By column: (column, "among", value, ...) or (column, "between", low, high), where None is no
    end.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, given: Any) -> Conditions:
        """Read conditions: by column, as texts such as "amount >= 10000", or in canonical form."""
        if isinstance(given, Conditions):
            return given
        if given is None or given in ((), [], {}, ""):
            return cls()
        if isinstance(given, str):
            given = [part.strip() for part in SEVERAL.split(given) if part.strip()]
        if isinstance(given, Mapping):
            found = [_by_column(name, wanted) for name, wanted in given.items()]
        elif isinstance(given, list | tuple):
            found = [_listed(entry) for entry in given]
        else:
            raise InvalidParameter("where", "must be conditions by column", given, FORM)
        if len(found) > MOST_CONDITIONS:
            rule = f"must be at most {MOST_CONDITIONS} conditions"
            raise InvalidParameter("where", rule, len(found), "Ask for fewer.")
        return cls(tuple(sorted(_joined(found), key=lambda entry: entry[0])))

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        return tuple(entry[0] for entry in self.entries)

    def check(self, domain: Domain) -> None:
        """Refuse conditions that such data cannot be held against."""
        for name, kind, *wanted in self.entries:
            domain.known([name], "where")
            column = domain[name]
            if isinstance(column, Categorical) and kind == "between":
                rule = f"must list values of {name!r}, which has no order"
                raise InvalidParameter("where", rule, tuple(wanted), FORM)
            if kind == "among" and not isinstance(column, Categorical | Ordinal):
                rule = f"must give {name!r} an end, from or to"
                raise InvalidParameter("where", rule, tuple(wanted), FORM)
            ends = [column.number(value) for value in wanted if value is not None]
            if kind == "between" and ends != sorted(ends):
                rule = f"must give {name!r} ends in their order"
                raise InvalidParameter("where", rule, tuple(wanted), "Swap them.")

    def met_by(self, column: Column, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of a column's values meet the condition on it."""
        (entry,) = (entry for entry in self.entries if entry[0] == column.name)
        if entry[1] == "among":
            return np.isin(values, [column.number(value) for value in entry[2:]])
        low, high = (None if end is None else column.number(end) for end in entry[2:])
        met = np.ones(len(values), dtype=bool)
        if low is not None:
            met &= values >= low
        if high is not None:
            met &= values <= high
        return met

    def texts(self) -> tuple[str, ...]:
        """The conditions as the shell and forms take them."""
        return tuple(map(_text, self.entries))

    def words(self) -> str:
        """The conditions for people, nothing where there are none."""
        return " and ".join(map(_words, self.entries))


NO_CONDITIONS = Conditions()


def _words(entry: Entry) -> str:
    name, kind, *wanted = entry
    shown = [_shown(value) for value in wanted]
    if kind == "among":
        return f"{name} is {' or '.join(shown)}"
    if wanted[0] is None:
        return f"{name} is at most {shown[1]}"
    return (
        f"{name} is at least {shown[0]}"
        if wanted[1] is None
        else (f"{name} is from {shown[0]} to {shown[1]}")
    )


def _text(entry: Entry) -> str:
    name, kind, *wanted = entry
    shown = [_shown(value) for value in wanted]
    if kind == "among":
        return f"{name} in {', '.join(shown)}"
    if None not in wanted:
        return f"{name} from {shown[0]} to {shown[1]}"
    return f"{name} <= {shown[1]}" if wanted[0] is None else f"{name} >= {shown[0]}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _by_column(name: Any, wanted: Any) -> Entry:
    """One condition as people write it: a value, a list of values, or ends."""
    if isinstance(wanted, Mapping):
        if not wanted or not set(wanted) <= {"from", "to"}:
            raise InvalidParameter("where", "must give ends as from and to", wanted, FORM)
        return _entry(name, "between", (wanted.get("from"), wanted.get("to")))
    return _entry(name, "among", wanted if isinstance(wanted, list | tuple) else (wanted,))


def _listed(entry: Any) -> Entry:
    if isinstance(entry, str):
        return _from_text(entry)
    if not isinstance(entry, list | tuple) or len(entry) < 2:
        raise InvalidParameter("where", "must be conditions by column", entry, FORM)
    return _entry(entry[0], entry[1], entry[2:])


def _from_text(text: str) -> Entry:
    """Read "amount >= 10000", "amount <= 5", "day from 2024-01-01 to 2024-12-31", "sex in f, m"."""
    for sign, place in ((">=", 0), ("<=", 1)):
        name, found, end = (part.strip() for part in text.partition(sign))
        if found:
            ends = [None, None]
            ends[place] = _value(end)
            return _entry(name, "between", ends)
    for word in (" in ", "="):
        name, found, listed = text.partition(word)
        if found:
            values = [_value(value.strip()) for value in listed.split(",")]
            return _entry(name.strip(), "among", values)
    name, found, rest = text.partition(" from ")
    low, to, high = rest.partition(" to ")
    if found and to:
        return _entry(name.strip(), "between", (_value(low.strip()), _value(high.strip())))
    raise InvalidParameter("where", "must be a condition", text, FORM)


def _value(text: str) -> Any:
    """A value of the shell: a whole number, a number, or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _entry(name: Any, kind: Any, wanted: Iterable[Any]) -> Entry:
    values = [_plain(value) for value in wanted]
    if not isinstance(name, str) or kind not in ("among", "between"):
        raise InvalidParameter("where", "must be conditions by column", (name, kind), FORM)
    if kind == "between":
        if len(values) != 2 or values == [None, None]:
            rule = f"must give {name!r} an end, from or to"
            raise InvalidParameter("where", rule, tuple(values), FORM)
        return (name, kind, *values)
    if not values or None in values:
        raise InvalidParameter("where", f"must list values of {name!r}", tuple(values), FORM)
    if len(values) > MOST_VALUES:
        rule = f"must list at most {MOST_VALUES} values"
        raise InvalidParameter("where", rule, len(values), "List fewer.")
    return (name, kind, *sorted(dict.fromkeys(values), key=lambda value: (str(type(value)), value)))


def _plain(value: Any) -> Any:
    """A value as JSON writes it, in one form."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if value is not None and not isinstance(value, str | int | float):
        raise InvalidParameter("where", "must hold texts and numbers", type(value).__name__, FORM)
    if isinstance(value, float) and value != value:  # NaN
        raise InvalidParameter("where", "must hold finite numbers", value, FORM)
    return value


def _joined(entries: list[Entry]) -> list[Entry]:
    """Two ends of one column as one condition."""
    found: dict[str, Entry] = {}
    for entry in entries:
        name, kind, *wanted = entry
        known = found.get(name)
        if known is not None:
            both = [*zip(known[2:], wanted, strict=False)]
            ends = kind == known[1] == "between"
            if not ends or any(one is not None and other is not None for one, other in both):
                raise InvalidParameter("where", "must name each column once", name, FORM)
            wanted = [other if one is None else one for one, other in both]
        found[name] = (name, kind, *wanted)
    return list(found.values())
