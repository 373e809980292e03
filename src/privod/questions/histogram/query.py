"""Count the records in every cell of one or more columns: the plainest useful question.

A record lies in exactly one cell, so noise on every count, the empty ones too, keeps the guarantee
of the Laplace mechanism [Dwork 2006]; proof in docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Column, Domain, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Adjacency, Guarantee, positive
from privod.query.axes import Axis, table_of_counts
from privod.query.checks import ExactNumber, whole_number
from privod.query.count_query import CountQuery, NoiseName, chance
from privod.query.preview import Preview, of_counts
from privod.query.query import Release
from privod.questions.histogram.cuts import (
    GAPS,
    MOST_CELLS,
    axis_of,
    axis_size,
    binning_of,
    read_edges,
)
from privod.texts import did_you_mean


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts over the product of some axes; any of them may be negative."""

    axes: tuple[Axis, ...]
    counts: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyCounts):
            return NotImplemented
        return self.axes == other.axes and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Histogram(CountQuery[NoisyCounts]):
    """A noisy count of the records in every cell of these columns, with its margin of error.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Each count, empty
    cells included, gets one draw of exact discrete noise; Gaussian noise needs a delta.

    Parameters
    ----------
    columns : tuple of str
        The columns whose cells are counted; several columns give every combination of their cells,
        a million in all at most.
    epsilon : number
        The privacy loss of the whole histogram, greater than 0.
    bins : int
        Into how many equal intervals a numeric column's range is cut, at least 1.
    edges : tuple
        Where columns of numbers or dates are cut instead, by column:
        `{"amount": [0, 10, 100, 1000], "day": "month"}`. The words are log (bins that grow by one
        factor), month, quarter and year. What lies outside given edges is counted nowhere.
    gaps : bool
        Whether missing values, and numbers below and above the range, have cells of their own.
        Records that other questions leave out are counted then, too.
    """

    name: ClassVar[str] = "histogram"
    question: ClassVar[str] = "How are the records spread over these columns?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    bins: int = 10
    edges: tuple[Any, ...] = ()
    gaps: bool = False
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.bins, "bins", at_least=1)
        object.__setattr__(self, "edges", read_edges(self.edges))
        if not isinstance(self.gaps, bool):
            raise InvalidParameter("gaps", "must be true or false", self.gaps, "Leave it out.")
        for name, *_ in self.edges:
            if name not in self.columns:
                way_out = f"{did_you_mean(name, self.columns)} Leave it out.".strip()
                raise InvalidParameter("edges", "must be of columns asked for", name, way_out)
        if self.noise != "laplace":
            self.guarantee()  # refuses an epsilon that Gaussian noise cannot keep

    @property
    def n_histograms(self) -> int:
        return 1

    def n_cells(self, domain: Domain) -> int:
        """How many counts the answer has."""
        each = (
            axis_size(c, self.bins, self._cut(c.name), self.gaps) for c in self._columns(domain)
        )
        return math.prod(each)

    def preview(self, domain: Domain) -> Preview:
        cells = self.n_cells(domain)  # of which one holds all records
        return replace(of_counts(self.count_noise, cells), typical_share=1 / cells)

    def check(self, domain: Domain) -> None:
        cells = self.n_cells(domain)
        if cells > MOST_CELLS:
            rule = f"must give at most {MOST_CELLS} cells"
            raise InvalidParameter("columns", rule, cells, "Name fewer columns or use fewer bins.")

    def n_numbers(self, domain: Domain) -> int:
        return self.n_cells(domain)

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyCounts]:
        noise = self.count_noise
        counts = noise.add_to(self.counts_before_noise(table), randomness)
        promise, seeded = self.guarantee(), randomness.seeded
        value = self.value_of(table.domain, counts, MergedNoise.of(noise), promise, seeded=seeded)
        return self.release(value, randomness)

    def counts_before_noise(self, table: Table) -> NDArray[np.int64]:
        columns, axes = self._columns(table.domain), self._axes(table.domain)
        rules = [
            (column.name, binning_of(column, axis, self._cut(column.name), self.gaps))
            for column, axis in zip(columns, axes, strict=True)
        ]
        return (table.as_stored() if self.gaps else table).counts(rules)

    def value_of(
        self,
        domain: Domain,
        counts: NDArray[np.int64],
        noise: MergedNoise,  # noqa: ARG002 - counts are shown as they are
        promise: Guarantee,  # noqa: ARG002
        *,
        seeded: bool,  # noqa: ARG002
    ) -> NoisyCounts:
        return NoisyCounts(self._axes(domain), counts)

    def sentence(self, value: NoisyCounts) -> str:
        fullest = np.unravel_index(int(value.counts.argmax()), value.counts.shape)
        where = " and ".join(
            f"{axis.column} {axis.names[place]}"
            for axis, place in zip(value.axes, fullest, strict=True)
        )
        margin, n_cells = self.count_noise.quantile(0.95), value.counts.size
        most = "" if n_cells == 1 else f", the largest of {n_cells:,} noisy counts"
        each = "" if n_cells == 1 else " for each count"
        health = "".join(f" {told}" for told in self._health(value))
        return (
            f"{value.counts[fullest]:,} ± {margin:,} records have {where}{most} (95 % confidence"
            f"{each}).{health}"
        )

    def _health(self, value: NoisyCounts) -> list[str]:
        """The shares of records in cells for gaps, column by column, from the noisy counts."""
        told = []
        whole = max(int(value.counts.sum()), 1)
        for place, axis in enumerate(value.axes if self.gaps else ()):
            along = value.counts.sum(axis=tuple(n for n in range(value.counts.ndim) if n != place))
            more = GAPS if axis.edges else GAPS[:1]
            shares = [min(max(int(count) / whole, 0), 1) for count in along[-len(more) :]]
            said = ", ".join(f"{100 * n:.1f} % {gap}" for gap, n in zip(more, shares, strict=True))
            told.append(f"Of {axis.column} about {said}.")
        return told

    def table(self, value: NoisyCounts) -> dict[str, list[Any]]:
        return table_of_counts(value.axes, "noisy count", value.counts)

    def value_to_json(self, value: NoisyCounts) -> Any:
        axes = [
            {"column": axis.column, "names": list(axis.names), "edges": list(axis.edges)}
            for axis in value.axes
        ]
        return {"axes": axes, "counts": value.counts.tolist()}

    def value_from_json(self, data: Any) -> NoisyCounts:
        axes = tuple(
            Axis(axis["column"], tuple(axis["names"]), tuple(axis["edges"]))
            for axis in data["axes"]
        )
        return NoisyCounts(axes, np.asarray(data["counts"], dtype=np.int64))

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        first = cls(columns=domain.numeric_names[:1] or domain.names[:1], epsilon="0.5")
        if not domain.categorical_names:
            return (first,)
        return (first, cls(columns=domain.categorical_names[:2], epsilon="0.2"))

    def _axes(self, domain: Domain) -> tuple[Axis, ...]:
        return tuple(
            axis_of(column, self.bins, self._cut(column.name), self.gaps)
            for column in self._columns(domain)
        )

    def _cut(self, name: str) -> tuple[Any, ...]:
        return next((cut for cut in self.edges if cut[0] == name), ())

    def _columns(self, domain: Domain) -> tuple[Column, ...]:
        domain.known(self.columns)
        return tuple(domain[column] for column in self.columns)
