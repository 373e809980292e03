"""Around what, and within which radius, are products taken? Public, given or bought.

Columns are scaled to [-1, 1] by their declared ranges. The center is the noisy mean; the radius is
about the third quartile of the distances from it, by noisy counts in public geometric bins.
Also here: by how much one record changes each part of the release, proved in
docs/proofs/mean_covariance.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.data import Numeric
from privod.errors import InvalidData, InvalidParameter
from privod.privacy import AddRemove, Adjacency
from privod.query.moments import UNIT, products_change, squared_products_change
from privod.query.release_file import checked_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DISTANCE_BINS = 24  # for the radius, each ending a square root of two below the last
QUARTILE = 0.75  # of the records lie within the radius
FEWEST_RECORDS = 10.0  # taken to be there, however low noise makes their number


class Change(NamedTuple):
    """By how much one record changes numbers: sizes added up, and squares added up."""

    absolute: int
    squared: int


def change_of(part: str, n_axes: int, adjacency: Adjacency) -> Change:
    """What one record changes of a part: total, sums, radius, products or scores."""
    replaced = adjacency != AddRemove()
    times = 2 if replaced else 1
    if part == "total":
        return Change(1, 1)  # a replaced record may be dropped for a missing value
    if part == "sums":  # coordinates between -UNIT and UNIT; replaced, they move by twice as much
        return Change(times * n_axes * UNIT, times**2 * n_axes * UNIT**2)
    if part in ("radius", "scores"):  # a record lies in one bin
        return Change(times, times)
    return Change(times * products_change(n_axes), times * squared_products_change())


def half_ranges(columns: tuple[Numeric, ...]) -> tuple[Floats, Floats]:
    """The middles of the ranges and half their lengths; halved first, which cannot overflow."""
    lows, highs = (np.array([getattr(one, end) for one in columns]) for end in ("low", "high"))
    return lows / 2 + highs / 2, highs / 2 - lows / 2


@dataclass(frozen=True)
class Frame:
    """The columns, around what products are taken and within which radius; public.

    Parameters
    ----------
    columns : tuple of Numeric
        As declared.
    means : tuple of float
        The center, each column scaled to [-1, 1].
    radius : float
        In the same units; records farther away are pulled back to it. From 2 sqrt(m) 2^-11.5, the
        least that a release finds, to 2 sqrt(m), for m columns.
    """

    columns: tuple[Numeric, ...]
    means: tuple[float, ...]
    radius: float

    @classmethod
    def around(cls, columns: tuple[Numeric, ...], sums: Ints, total: int) -> Frame:
        """Around the mean of noisy sums, as wide as can be."""
        records = max(float(total), FEWEST_RECORDS)
        means = np.clip(sums / (UNIT * records), -1.0, 1.0)
        return cls(columns, tuple(means.tolist()), _widest(columns))

    @property
    def centers(self) -> Floats:
        """The center in the columns' own units."""
        middles, halves = half_ranges(self.columns)
        return np.asarray(middles + np.array(self.means) * halves)

    @property
    def distance_ends(self) -> Floats:
        """The upper ends of the bins of distances, ascending; the last bin holds all the rest."""
        return np.asarray(self.radius * 0.5 ** (np.arange(DISTANCE_BINS)[::-1] / 2))

    @property
    def text(self) -> str:
        """Everything in one line, which a question takes."""
        return json.dumps(self.to_json(), sort_keys=True, allow_nan=False)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        columns = [column.to_json() for column in self.columns]
        return {"columns": columns, "means": list(self.means), "radius": self.radius}

    @classmethod
    def from_json(cls, data: Any) -> Frame:
        """Read back what `to_json` wrote; it may come from anywhere."""
        columns = checked_columns(data["columns"])
        means, radius = tuple(map(float, data["means"])), float(data["radius"])
        if len(means) != len(columns) or not all(-1 <= mean <= 1 for mean in means):
            raise InvalidData("The center does not fit the columns.")
        widest = cls(columns, means, _widest(columns))
        least = float(widest.distance_ends[0])
        if not least <= radius <= widest.radius:  # smaller ones could overflow at a record
            rule = f"must have a radius from {least!r} to {widest.radius!r}"
            raise InvalidParameter("frame", rule, radius, "Take it from a release.")
        return replace(widest, radius=radius)


def _widest(columns: tuple[Numeric, ...]) -> float:
    """The radius that holds every record, wherever the center is."""
    return 2 * math.sqrt(len(columns))


def radius_from(frame: Frame, noisy: Ints, total: int) -> Frame:
    """The frame, narrowed to the first bin within whose end three quarters of the records lie."""
    records = max(float(total), FEWEST_RECORDS)
    enough = np.flatnonzero(noisy.cumsum() >= QUARTILE * records)
    last = int(enough[0]) if len(enough) else len(noisy) - 1
    return replace(frame, radius=float(frame.distance_ends[last]))
