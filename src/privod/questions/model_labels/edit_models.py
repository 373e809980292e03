"""Models of anomalies that state how far a verdict is from changing, known by a name [Asif 2020].

A model gives each record a *margin*: a whole number that changes by at most 1 when one record comes
or goes, at least 0 where the record is anomalous. That is all the general construction needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from privod.data import Numeric
from privod.errors import InvalidParameter
from privod.plug_ins import given_numbers, name_and_numbers, new_name, number_parameters

__all__ = ["GROUP", "EditModel", "edit_model", "plug_in_model"]

GROUP = "privod.edit_models"
"""The entry point group by which other packages bring models: a function each."""

Floats = NDArray[np.float64]
Margin = Callable[..., int]

FAILED = -1  # the margin where somebody's function fails: normal, one edit from the border


def knn_distance(
    points: Floats, record: Floats, *, n_neighbors: int = 5, radius: float = 1.0
) -> int:
    """Anomalous if the n-th nearest record is farther than the radius, in Euclidean distance.

    That is so if fewer than n_neighbors records lie within the radius; one record changes their
    number by at most 1.
    """
    with np.errstate(over="ignore"):  # infinitely far is far
        scaled = (points - record) / radius
        near = (scaled * scaled).sum(axis=1) <= 1
    return n_neighbors - 1 - int(near.sum())


def tail_rank(points: Floats, record: Floats, *, n_beyond: int = 5) -> int:
    """Anomalous if in some column fewer than n_beyond records lie as far out on its side.

    One record changes each of the two counts of a column by at most 1, and so the least of them.
    """
    least = np.minimum((points >= record).sum(axis=0), (points <= record).sum(axis=0))
    return n_beyond - 1 - int(least.min())


@dataclass(frozen=True)
class EditModel:
    """A model of anomalies, known by a name, with its parameters.

    Parameters
    ----------
    name : str
        What queries call it.
    function : callable
        Takes the rows of the columns asked about, shape (n, d), and the record, and returns its
        margin. It must depend on nothing else, and change by at most 1 with one record.
    parameters : tuple of (str, number)
        The function's keyword-only parameters; all are greater than 0.
    """

    name: str
    function: Margin
    parameters: tuple[tuple[str, int | float], ...] = ()

    def __str__(self) -> str:
        listed = ", ".join(f"{key}={number!r}" for key, number in self.parameters)
        return f"{self.name}({listed})" if listed else self.name

    def margin(self, points: Floats, record: Floats) -> int:
        """How far the verdict on the record is from changing, -1 where the function fails."""
        try:
            return self._margin(points, record)
        except Exception:  # a charged question never fails because of rows
            return FAILED

    def try_out(self, columns: tuple[Numeric, ...], record: Floats) -> None:
        """Refuse a function that fails on made-up rows, before anything is charged."""
        ends = np.array([[one.low for one in columns], [one.high for one in columns]])
        steps = np.linspace(0, 1, 30)[:, None]
        spread = ends[0] * (1 - steps) + ends[1] * steps
        for points in (ends[:0], ends[:1], ends, spread, np.repeat(spread[:1], 20, axis=0)):
            try:
                self._margin(points, record)
            except Exception as problem:  # whatever it is, it is refused
                rule = "must give a whole number for all rows and never fail"
                way_out = "It failed on made-up rows, so nothing was charged. Mend it."
                told = f"{self}: {type(problem).__name__}"
                raise InvalidParameter("model", rule, told, way_out) from None

    def _margin(self, points: Floats, record: Floats) -> int:
        found = self.function(points, record, **dict(self.parameters))
        if isinstance(found, bool) or not isinstance(found, int | np.integer):
            raise TypeError("a margin is a whole number")
        return int(found)


_known: dict[str, EditModel] = {}


def plug_in_model(name: str, function: Margin) -> EditModel:
    """Make a model of your own known; a name never changes its meaning.

    The promise rests on its margin changing by at most 1 when one record comes or goes; that is not
    checked. Keyword-only parameters, whose defaults are numbers, are parameters of the model.
    """
    new_name(name, _known)
    _known[name] = EditModel(name, function, number_parameters(function))
    return _known[name]


def edit_model(text: str) -> EditModel:
    """The model a text describes, such as ``knn-distance(n_neighbors=5, radius=2)``."""
    name, inside = name_and_numbers(text, "model", "tail-rank(n_beyond=5)")
    if name not in _known:
        for point in entry_points(group=GROUP, name=name):
            plug_in_model(name, point.load())
    if name not in _known:
        way_out = f"Known are {', '.join(_known)}; make your own known with plug_in_model."
        raise InvalidParameter("model", "must be a known one", text, way_out)
    model = _known[name]
    kinds = {key: type(number) for key, number in model.parameters}
    given = given_numbers(inside, "model", kinds, model)
    for key, number in given.items():
        if not number > 0:
            raise InvalidParameter(key, "must be above 0", number, f"Try {model}.")
    return replace(model, parameters=tuple((dict(model.parameters) | given).items()))


plug_in_model("knn-distance", knn_distance)
plug_in_model("tail-rank", tail_rank)
