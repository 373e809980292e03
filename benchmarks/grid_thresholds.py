"""Does a grid's threshold flag as many as it was asked to?

    python benchmarks/grid_thresholds.py                # a minute or two
    python benchmarks/grid_thresholds.py --quick        # the small grids

Independent normal columns within [-5, 5], epsilon 1, k = 5, the automatic number of cells or bins.
The threshold comes from the release alone; what is measured is the share of the reference's own
records that score beyond it, and of fresh records, drawn like these. Means of two answers, each of
other records; of fifty where a thin grid makes them differ, with the least and the most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.progress import track
from privod.questions.grid_knn.query import GridKnn

REACH = 5.0
TARGETS = (0.02, 0.1)
FRESH = 10_000


class Case(NamedTuple):
    """A size, whether every cell is kept where some would be dropped, and how often to ask."""

    columns: int
    records: int
    keeps_all: bool = False
    answers: int = 2

    @property
    def name(self) -> str:
        """The case as part of a figure's name."""
        return f"{self.columns}x{self.records}{'_all_cells' if self.keeps_all else ''}"


SMALL = (Case(2, 50_000), Case(4, 50_000), Case(12, 2_000, answers=50))
LARGE = (
    *(Case(6, 50_000, keeps_all=True), Case(6, 50_000), Case(8, 50_000, keeps_all=True)),
    *(Case(8, 50_000), Case(12, 50_000), Case(20, 3_000), Case(30, 2_000)),
)


def drawn(rng: np.random.Generator, n: int, columns: int) -> NDArray[np.float64]:
    """Normal records, cut off at the declared range."""
    return np.clip(rng.normal(size=(n, columns)), -REACH, REACH)


def samples(case: Case) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """For each answer a reference, and fresh records."""
    for seed in range(case.answers):
        rng = np.random.default_rng(seed)
        yield drawn(rng, case.records, case.columns), drawn(rng, FRESH, case.columns)


def table_of(points: NDArray[np.float64]) -> Table:
    """A reference with its declared ranges."""
    columns = tuple(Numeric(f"x{axis}", -REACH, REACH) for axis in range(points.shape[1]))
    values = {column.name: points[:, axis] for axis, column in enumerate(columns)}
    return Table(Domain(columns), values)


def measured(case: Case) -> dict[str, float]:
    """What a case's thresholds flag, what is hidden, and how the grid is cut."""
    names = tuple(f"x{axis}" for axis in range(case.columns))
    asked = GridKnn(columns=names, epsilon=1, expected_records=case.records)
    if case.keeps_all:
        asked = replace(asked, drop_below=None)
    flagged: list[list[float]] = []
    own: list[list[float]] = []
    hidden: list[float] = []
    for points, fresh in samples(case):
        grid = asked.answer(table_of(points), secure()).value
        limits = [grid.limits(target).graded.item() for target in TARGETS]
        scores, known = grid.walk(fresh).graded, grid.walk(points).graded
        flagged.append([float((scores > limit).mean()) for limit in limits])
        own.append([float((known > limit).mean()) for limit in limits])
        hidden.append(grid.hidden_share)
    shares = {"flagged": np.mean(flagged, axis=0), "of_the_reference": np.mean(own, axis=0)}
    if case.answers > 2:
        shares |= {"least": np.min(flagged, axis=0), "most": np.max(flagged, axis=0)}
    return {
        "cells_per_axis": float(grid.grid.cells_per_axis),
        "dropped_below": float(asked.threshold or 0),
        **{
            f"{name}_at_{target:g}": float(share)
            for name, each in shares.items()
            for target, share in zip(TARGETS, each, strict=True)
        },
        "hidden": float(np.mean(hidden)),
    }


def main() -> None:
    """Measure every case and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the small grids")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    asked = parser.parse_args()
    cases = SMALL[:1] if asked.smoke else SMALL if asked.quick else (*SMALL, *LARGE)
    for case in track(cases, "asking"):
        for name, value in measured(case).items():
            print(f"figure {case.name}_{name} {value:.3g}", flush=True)


if __name__ == "__main__":
    main()
