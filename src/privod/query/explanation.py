"""How much each column contributed to a score: as numbers, in words, or as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Categorical, Column
from privod.query.frames import as_frame

SIDES = {1: "high", -1: "low", 0: "rare"}
LEAST = 0.05  # of a score: columns that add less are not named


@dataclass(frozen=True, eq=False)
class Explanation:
    """What every column adds to the score of every record; the rows add up to the scores.

    Arrays have the shape (records, columns). `values` are the records: categories as places in
    their lists, NaN missing. `sides` is 1 in the highest quarter of a column, -1 in the lowest,
    else 0.
    """

    declared: tuple[Column, ...]
    shares: NDArray[np.float64]
    values: NDArray[np.float64]
    sides: NDArray[np.int64]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.declared)

    def words(self, most: int = 3) -> list[str]:
        """One sentence for each record: its score, and the columns that add most to it."""
        return [self._sentence(row, most) for row in range(len(self.shares))]

    def __str__(self) -> str:
        return "\n".join(self.words())

    def to_pandas(self) -> Any:
        """A frame with what each column adds, the score, and the sentence in words."""
        told: dict[str, list[Any]] = {
            name: self.shares[:, place].tolist() for place, name in enumerate(self.columns)
        }
        scores = self.shares.sum(axis=1).tolist()
        return as_frame("pandas", {**told, "(score)": scores, "(why)": self.words()})

    def _repr_html_(self) -> str:
        return str(self.to_pandas()._repr_html_())

    def _sentence(self, row: int, most: int) -> str:
        shares = self.shares[row]
        score = float(shares.sum())
        order = [int(place) for place in np.argsort(-shares, kind="stable")[:most]]
        parts = [
            f"{self._value(row, place)} (adds {shares[place]:.1f})"
            for place in order
            if shares[place] > LEAST * max(score, 0.1)
        ]
        return f"Score {score:.1f}: {', '.join(parts) or 'nothing is unusual'}."

    def _value(self, row: int, place: int) -> str:
        column, value = self.declared[place], float(self.values[row, place])
        if np.isnan(value):
            return f"{column.name} is missing"
        if isinstance(column, Categorical):
            return f"{column.name} is {column.shown(value)}"
        side = SIDES[int(self.sides[row, place])]
        return f"{column.name} is {side}, {column.shown(value)}"
