"""Models of anomalies that state how far a verdict is from changing [Asif 2020].

A model gives each record a *margin*: a whole number that changes by at most 1 when one record comes
or goes, at least 0 where the record is anomalous. That is all the general construction needs. Ours
is a crowd; others are known by a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from privod.arrays import Floats
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.plug_ins import (
    Named,
    given_numbers,
    name_and_numbers,
    named_values,
    new_name,
    number_parameters,
    tried_out,
)
from privod.query.checks import LARGEST_COUNT, numeric_columns, whole_number
from privod.query.memory import likeness_bytes
from privod.query.near import Near, Records, Tail, near_of

GROUP = "privod.edit_models"
"""The entry point group by which other packages bring models: a function each."""

Margin = Callable[..., int]

EXAMPLE = "crowd(max_crowd=5, near=distance(radius=1.0))"
FAILED = -1  # the margin where somebody's function fails: normal, one edit from the border


@dataclass(frozen=True)
class CrowdModel:
    """Anomalous with at most so many records in the crowd, the new one included.

    With `near` a distance that is the k-NN distance, k = max_crowd: the k-th nearest record is
    farther away. With the tail it is the rank from the nearest end of a column.
    """

    max_crowd: int
    near: Near

    def __str__(self) -> str:
        return f"crowd(max_crowd={self.max_crowd}, near={self.near})"

    @property
    def alone(self) -> str:
        """Which record's label is least often wrong, in words."""
        return self.near.lone

    @property
    def meaning(self) -> str:
        """What an outlier is, after what is labeled one."""
        return f". An outlier has {self.near.few(self.max_crowd)}, itself included"

    def alone_margin(self, columns: tuple[str, ...], records: Records) -> int:  # noqa: ARG002
        """The margin of such a record."""
        return self.max_crowd - 1

    def margins(
        self, table: Table, columns: tuple[str, ...], records: Records, most_edits: int
    ) -> list[int]:
        """How far the verdict on each record is from changing, up to so many edits."""
        states = self.near.states(table, columns, records, self.max_crowd + most_edits)
        return [self.max_crowd - 1 - crowd for crowd, _ in states]


@dataclass(frozen=True)
class EditModel(Named):
    """A model of anomalies of somebody's own.

    The function takes the rows of the columns asked about, shape (n, d), and the record, and
    returns its margin. It must depend on nothing else, and change by at most 1 with one record. Its
    parameters are greater than 0.
    """

    @property
    def near(self) -> EditModel:
        """Who says which records it takes, and what they share: itself."""
        return self

    def margin(self, points: Floats, record: Floats) -> int:
        """How far the verdict on the record is from changing, -1 where the function fails."""
        try:
            return self._margin(points, record)
        except Exception:  # a charged question never fails because of rows
            return FAILED

    @property
    def alone(self) -> str:
        """Which record's label is least often wrong, in words."""
        return "that no other record has a bearing on"

    @property
    def meaning(self) -> str:
        """By which model, after what is labeled an outlier."""
        return f" by {self}"

    def alone_margin(self, columns: tuple[str, ...], records: Records) -> int:
        """The margin where the data hold nothing near; a model may call such a record normal."""
        nothing = np.empty((0, len(columns)))
        return max(0, min(self.margin(nothing, np.array(record)) for record in records))

    def records(self, rows: Any, columns: tuple[str, ...]) -> Records:
        return Tail().records(rows, columns)

    def check(self, domain: Domain, columns: tuple[str, ...], records: Records) -> None:
        numeric = domain.numeric(numeric_columns(domain, columns))
        for record in records:
            self.try_out(numeric, np.array(record, dtype=float))

    def margins(
        self,
        table: Table,
        columns: tuple[str, ...],
        records: Records,
        most_edits: int,  # noqa: ARG002
    ) -> list[int]:
        """How far the verdict on each record is from changing."""
        points = table.numbers(columns)
        return [self.margin(points, np.array(record, dtype=float)) for record in records]

    def labels_moved(self, columns: tuple[str, ...], records: Records) -> int:  # noqa: ARG002
        """One record may change all verdicts."""
        return len(records)

    def held_per_record(self, columns: tuple[str, ...]) -> int:
        """A model is shown the columns asked about, side by side."""
        return len(columns)

    def most_bytes(self, records: int, n_columns: int, n_asked: int) -> int:  # noqa: ARG002
        """The points, and four arrays of their shape; somebody's model may take more."""
        return 5 * 8 * records * n_columns + likeness_bytes(records, 1)

    def try_out(self, columns: tuple[Numeric, ...], record: Floats) -> None:
        """Refuse a function that fails on made-up rows, before anything is charged."""
        ends = np.array([[one.low for one in columns], [one.high for one in columns]])
        steps = np.linspace(0, 1, 30)[:, None]
        spread = ends[0] * (1 - steps) + ends[1] * steps
        for points in (ends[:0], ends[:1], ends, spread, np.repeat(spread[:1], 20, axis=0)):
            with tried_out("model", "must give a whole number for all rows and never fail", self):
                self._margin(points, record)

    def _margin(self, points: Floats, record: Floats) -> int:
        found = self.call(points, record)
        if isinstance(found, bool) or not isinstance(found, int | np.integer):
            raise TypeError("a margin is a whole number")
        return int(found)


_known: dict[str, EditModel] = {}


def plug_in_model(name: str, function: Margin) -> EditModel:
    """Make a model of your own known; a name never changes its meaning.

    The promise rests on its margin changing by at most 1 when one record comes or goes; that is not
    checked. Keyword-only parameters, whose defaults are numbers, are parameters of the model.
    """
    new_name(name, {"crowd", *_known})
    _known[name] = EditModel(name, function, number_parameters(function))
    return _known[name]


def model_of(text: Any) -> CrowdModel | EditModel:
    """The model a text describes, such as ``crowd(max_crowd=5, near=distance(radius=2.0))``."""
    if isinstance(text, CrowdModel | EditModel):
        return text
    if isinstance(text, str) and text.lstrip().startswith("crowd("):
        _, given = named_values(text, "model", EXAMPLE)
        if set(given) != {"max_crowd", "near"}:
            rule = "must have the parameters max_crowd and near"
            raise InvalidParameter("model", rule, sorted(given), f"Try '{EXAMPLE}'.")
        most = whole_number(given["max_crowd"], "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        return CrowdModel(most, near_of(given["near"]))
    name, inside = name_and_numbers(text, "model", EXAMPLE)
    if name not in _known:
        for point in entry_points(group=GROUP, name=name):
            plug_in_model(name, point.load())
    if name not in _known:
        way_out = f"Known are {', '.join(('crowd', *_known))}; add yours with plug_in_model."
        raise InvalidParameter("model", "must be a known one", text, way_out)
    model = _known[name]
    kinds = {key: type(number) for key, number in model.parameters}
    given = given_numbers(inside, "model", kinds, model)
    for key, number in given.items():
        if not number > 0:
            raise InvalidParameter(key, "must be above 0", number, f"Try {model}.")
    return replace(model, parameters=tuple((dict(model.parameters) | given).items()))
