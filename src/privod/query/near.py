"""Which records make up a record's crowd: those within a distance, those alike, those beyond it.

Labels need that one record changes a crowd by at most 1, and a copy of the record itself by exactly
1: proved of all three in docs/proofs/anomaly_labels.md. In questions each is a text, such as
``distance(radius=0.5)``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.engines.size import IN_MEMORY
from privod.errors import InvalidParameter
from privod.outliers.crowds.lookup import crowds_and_copies
from privod.outliers.crowds.public_cover import most_in_one_ball
from privod.plug_ins import named_values
from privod.privacy import Adjacency, BetweenTails, InAlikeCrowd, InCrowd
from privod.query.checks import checked_radius, checked_records, numeric_columns
from privod.query.likeness import MOST_RECORDS, Entry, Likeness, checked_entries
from privod.query.memory import crowd_bytes, likeness_bytes

Records = tuple[tuple[Entry, ...], ...]
States = list[tuple[int, int]]

EXAMPLE = "distance(radius=1.0)"
LABEL_BYTES = 1 << 12  # of a record asked about: its numbers, its crowd and its label


class Near(ABC):
    """Which records of a table belong to the crowd of one; public, whatever the rows."""

    lone: ClassVar[str] = "with no other near it"
    """Which record has nobody in its crowd, in words."""

    @abstractmethod
    def __str__(self) -> str:
        """As questions write it."""

    @abstractmethod
    def records(self, rows: Any, columns: tuple[str, ...]) -> Records:
        """Read the records asked about; refuse columns that this does not fit."""

    def check(self, domain: Domain, columns: tuple[str, ...], records: Records) -> None:  # noqa: ARG002
        """Raise `InvalidParameter` unless this can be asked of data in this domain."""
        numeric_columns(domain, columns)

    @abstractmethod
    def states(self, table: Table, columns: tuple[str, ...], asked: Any, cap: int) -> States:
        """The crowd of each record asked about, up to the cap, and its copies; not private."""

    @abstractmethod
    def labels_moved(self, columns: tuple[str, ...], records: Any) -> int:
        """At most how many of these records one record can be in the crowd of."""

    @abstractmethod
    def adjacency(self, columns: tuple[str, ...], crowd: int) -> Adjacency:
        """Who is protected where everyone in such a crowd, of 2 at least, is."""

    @abstractmethod
    def few(self, max_crowd: int) -> str:
        """What a crowd of so many at most is, in words."""

    def held_per_record(self, columns: tuple[str, ...]) -> int:  # noqa: ARG002
        """How many values of each record of the data are held at once."""
        return 0

    @abstractmethod
    def most_bytes(self, records: int, n_columns: int, n_asked: int) -> int:
        """At most how much memory it takes beside a table of so many records."""


@dataclass(frozen=True)
class Distance(Near):
    """Records within a Euclidean distance over numeric columns."""

    radius: float

    def __str__(self) -> str:
        return f"distance(radius={self.radius!r})"

    def records(self, rows: Any, columns: tuple[str, ...]) -> Records:
        return checked_records(rows, len(columns))

    def states(self, table: Table, columns: tuple[str, ...], asked: Any, cap: int) -> States:
        order = sorted(range(len(columns)), key=lambda place: columns[place])  # as InCrowd adds up
        points = np.ascontiguousarray(np.array(asked, dtype=float)[:, order])
        names = tuple(columns[place] for place in order)
        return crowds_and_copies(table, names, self.radius, points, cap=cap)

    def labels_moved(self, columns: tuple[str, ...], records: Any) -> int:  # noqa: ARG002
        return most_in_one_ball(np.array(records, dtype=float), self.radius)

    def adjacency(self, columns: tuple[str, ...], crowd: int) -> Adjacency:
        return InCrowd(self.radius, columns, crowd)

    def few(self, max_crowd: int) -> str:
        return f"at most {max_crowd} records within {self.radius:g}"

    def most_bytes(self, records: int, n_columns: int, n_asked: int) -> int:
        # The index, and keys of all rows, sorted; past what memory holds, blocks of rows.
        rows = min(records, IN_MEMORY) + n_asked
        return 2 * crowd_bytes(rows, n_columns) + LABEL_BYTES * n_asked


@dataclass(frozen=True)
class Alike(Near):
    """Records that differ in few columns, numbers and categories [`Likeness`]."""

    lone: ClassVar[str] = "that no other is alike"

    max_distance: int = 0
    tolerances: tuple[tuple[str, float], ...] = ()
    weights: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        parts = [f"max_distance={self.max_distance}"]
        for name in ("tolerances", "weights"):
            rows = getattr(self, name)
            parts += [f"{name}={json.dumps(dict(rows))}"] if rows else []
        return f"alike({', '.join(parts)})"

    def likeness(self, columns: tuple[str, ...]) -> Likeness:
        """Which records are alike in these columns."""
        return Likeness.asked(columns, self.max_distance, self.tolerances, self.weights)

    def records(self, rows: Any, columns: tuple[str, ...]) -> Records:
        self.likeness(columns)
        return checked_entries(rows, len(columns))

    def check(self, domain: Domain, columns: tuple[str, ...], records: Records) -> None:
        self.likeness(columns).check(domain, records)

    def states(self, table: Table, columns: tuple[str, ...], asked: Any, cap: int) -> States:  # noqa: ARG002
        like, equal = self.likeness(columns), Likeness(columns, 0)
        held = like.held(table)
        return [
            (int(like.near(held, record).sum()), int(equal.near(held, record).sum()))
            for record in asked
        ]

    def labels_moved(self, columns: tuple[str, ...], records: Any) -> int:
        return self.likeness(columns).labels_moved(records)

    def adjacency(self, columns: tuple[str, ...], crowd: int) -> Adjacency:
        for name, weight in self.weights:
            if weight < 1:
                rule = f"must be at least 1, for {name} too"
                raise InvalidParameter("weights", rule, weight, "Leave the column out.")
        return InAlikeCrowd(columns, crowd, self.max_distance, self.tolerances, self.weights)

    def few(self, max_crowd: int) -> str:
        return f"at most {max_crowd} records alike"

    def held_per_record(self, columns: tuple[str, ...]) -> int:
        return len(columns)

    def most_bytes(self, records: int, n_columns: int, n_asked: int) -> int:  # noqa: ARG002
        return likeness_bytes(records, n_columns)


@dataclass(frozen=True)
class Tail(Near):
    """Records as far out or farther: the fewest on either side of any numeric column."""

    lone: ClassVar[str] = "farther out than all others in some column"

    def __str__(self) -> str:
        return "tail()"

    def records(self, rows: Any, columns: tuple[str, ...]) -> Records:
        found = checked_records(rows, len(columns))
        if len(found) > MOST_RECORDS:
            rule = f"must be at most {MOST_RECORDS}"
            raise InvalidParameter("records", rule, len(found), "Ask about fewer at a time.")
        return found

    def states(self, table: Table, columns: tuple[str, ...], asked: Any, cap: int) -> States:  # noqa: ARG002
        points = np.array(asked, dtype=float)
        counts = table.sums(columns, partial(_beyond, points)).reshape(len(points), -1)
        return [(int(row[:-1].min()), int(row[-1])) for row in counts]

    def labels_moved(self, columns: tuple[str, ...], records: Any) -> int:  # noqa: ARG002
        return len(records)  # every record is beyond every other, on one side or the other

    def adjacency(self, columns: tuple[str, ...], crowd: int) -> Adjacency:
        return BetweenTails(columns, crowd)

    def few(self, max_crowd: int) -> str:
        return f"at most {max_crowd} records as far out on one side of a column"

    def most_bytes(self, records: int, n_columns: int, n_asked: int) -> int:
        rows = min(records, IN_MEMORY)
        return likeness_bytes(rows, n_columns) + 8 * n_asked * (2 * n_columns + 1)


def _beyond(points: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of each point how many rows are at it or beyond, up and down each column, and equal it."""
    found = [
        [
            *(rows >= point).sum(axis=0).tolist(),
            *(rows <= point).sum(axis=0).tolist(),
            (rows == point).all(axis=1).sum(),
        ]
        for point in points
    ]
    return np.array(found, np.int64).ravel()


def tenths(columns: Sequence[Categorical | Numeric]) -> tuple[tuple[str, float], ...]:
    """Tolerances of a tenth of the range of each numeric column, for examples."""
    return tuple(
        (one.name, float(f"{(one.high - one.low) / 10:.3g}"))
        for one in columns
        if isinstance(one, Numeric)
    )


def near_of(text: Any) -> Near:
    """What a text says, such as ``alike(max_distance=1, tolerances={"age": 5})``."""
    if isinstance(text, Near):
        return text
    name, given = named_values(text, "near", EXAMPLE)
    known: dict[str, Sequence[str]] = {
        "distance": ("radius",),
        "alike": ("max_distance", "tolerances", "weights"),
        "tail": (),
    }
    if name not in known:
        way_out = f"Known are {', '.join(known)}."
        raise InvalidParameter("near", "must be a known one", text, way_out)
    strange = [key for key in given if key not in known[name]]
    if strange or (name == "distance" and not given):
        way_out = f"{name} has {', '.join(known[name]) or 'none'}. Try '{EXAMPLE}'."
        raise InvalidParameter("near", "must have known parameters", strange or text, way_out)
    if name == "tail":
        return Tail()
    if name == "distance":
        return Distance(checked_radius(given["radius"]))
    named = {key: value for key, value in given.items() if isinstance(value, dict)}
    like = Likeness.asked(
        tuple(dict.fromkeys(column for rows in named.values() for column in rows)) or ("any",),
        given.get("max_distance", 0),
        *(list(dict(named.get(key, {})).items()) for key in ("tolerances", "weights")),
    )
    for key in ("tolerances", "weights"):
        if key in given and key not in named:
            raise InvalidParameter(key, "must name columns", given[key], 'Write {"age": 5}.')
    return Alike(like.max_distance, like.tolerances, like.weights)
