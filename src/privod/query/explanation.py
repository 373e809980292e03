"""How much each column contributed to a score: as numbers, in words, or as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.data import Column
from privod.query.frames import as_frame

SIDES = {1: " (high)", -1: " (low)"}
MOST_REASONS = 3
MOST_PRINTED = 10  # records; of more, those that score highest


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

    def reasons(self) -> list[str]:
        """Of each record the columns that add most to its score, with their values and shares."""
        told = []
        for row, shares in enumerate(self.shares):
            raising = np.maximum(shares, 0)  # what lowers the score is no reason for it
            whole = max(float(raising.sum()), 1e-12)
            order = (-raising).argsort(kind="stable")[:MOST_REASONS].tolist()
            told.append(
                ", ".join(
                    f"{self._value(row, place)} {100 * raising[place] / whole:.0f} %"
                    for place in order
                    if raising[place] > 0
                )
            )
        return told

    def words(self) -> list[str]:
        """One sentence for each record: its score, and the reasons for it."""
        scored = zip(self.shares.sum(axis=1).tolist(), self.reasons(), strict=True)
        return [f"Score {score:.1f}: {why or 'nothing is unusual'}." for score, why in scored]

    def __str__(self) -> str:
        words = self.words()
        if len(words) <= MOST_PRINTED:
            return "\n".join(words)
        worst = (-self.shares.sum(axis=1)).argsort(kind="stable")[:MOST_PRINTED].tolist()
        told = [f"{row:>7}  {words[row]}" for row in worst]
        title = f"The {MOST_PRINTED} highest scores of {len(words):,} records (row 0 is the first):"
        return "\n".join([title, *told, "All are in words() and to_pandas()."])

    def to_pandas(self) -> Any:
        """A frame with what each column adds, the score, and the sentence in words."""
        told: dict[str, list[Any]] = {
            name: self.shares[:, place].tolist() for place, name in enumerate(self.columns)
        }
        scores = self.shares.sum(axis=1).tolist()
        return as_frame("pandas", {**told, "(score)": scores, "(why)": self.words()})

    def _repr_html_(self) -> str:
        return str(self.to_pandas()._repr_html_())

    def _value(self, row: int, place: int) -> str:
        column, value = self.declared[place], float(self.values[row, place])
        if np.isnan(value):
            return f"{column.name} (missing)"
        side = SIDES.get(int(self.sides[row, place]), "")
        return f"{column.name} {column.shown(value)}{side}"
