"""Does a grid's threshold flag as many as it was asked to? Does that of marginal histograms?

    python benchmarks/grid_thresholds.py                # a minute or two
    python benchmarks/grid_thresholds.py --quick        # the small grids
    python benchmarks/grid_thresholds.py --marginals    # marginal histograms instead

Independent normal columns within [-5, 5], epsilon 1, k = 5, the automatic number of cells or bins.
The threshold comes from the release alone; what is measured is the share of fresh records, drawn
like the reference, that score beyond it. Means of two answers, each of other records.
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
from privod.queries.grid_knn.query import GridKnn
from privod.queries.marginals.query import MarginalHistograms

REACH = 5.0
TARGETS = (0.02, 0.1)
ANSWERS, FRESH = 2, 10_000


class Case(NamedTuple):
    """A size, and whether every cell is kept where some would be dropped."""

    columns: int
    records: int
    keeps_all: bool = False

    @property
    def name(self) -> str:
        """The case as part of a figure's name."""
        return f"{self.columns}x{self.records}{'_all_cells' if self.keeps_all else ''}"


SMALL = (Case(2, 50_000), Case(4, 50_000), Case(12, 2_000))
LARGE = (
    *(Case(6, 50_000, keeps_all=True), Case(6, 50_000), Case(8, 50_000, keeps_all=True)),
    *(Case(8, 50_000), Case(12, 50_000), Case(20, 3_000), Case(30, 2_000)),
)


MARGINALS = (*(Case(n, 50_000) for n in (6, 30, 100, 200)), Case(100, 2_000))


def drawn(rng: np.random.Generator, n: int, columns: int) -> NDArray[np.float64]:
    """Normal records, cut off at the declared range."""
    return np.clip(rng.normal(size=(n, columns)), -REACH, REACH)


def tables(case: Case) -> Iterator[tuple[Table, NDArray[np.float64]]]:
    """For each answer a reference, and fresh records."""
    columns = tuple(Numeric(f"x{axis}", -REACH, REACH) for axis in range(case.columns))
    for seed in range(ANSWERS):
        rng = np.random.default_rng(seed)
        points = drawn(rng, case.records, case.columns)
        values = {column.name: points[:, axis] for axis, column in enumerate(columns)}
        yield Table(Domain(columns), values), drawn(rng, FRESH, case.columns)


def measured(case: Case) -> dict[str, float]:
    """What a case's thresholds flag, what is hidden, and how the grid is cut."""
    names = tuple(f"x{axis}" for axis in range(case.columns))
    asked = GridKnn(columns=names, epsilon=1, expected_records=case.records)
    if case.keeps_all:
        asked = replace(asked, drop_below=None)
    flagged: list[list[float]] = []
    hidden: list[float] = []
    for table, fresh in tables(case):
        grid = asked.answer(table, secure()).value
        scores = grid.scores(fresh).graded
        flagged.append([float((scores > grid.threshold(t).graded).mean()) for t in TARGETS])
        hidden.append(grid.hidden_share)
    means = np.mean(flagged, axis=0)
    return {
        "cells_per_axis": float(grid.grid.cells_per_axis),
        "dropped_below": float(asked.threshold or 0),
        **{f"flagged_at_{t:g}": float(mean) for t, mean in zip(TARGETS, means, strict=True)},
        "hidden": float(np.mean(hidden)),
    }


def by_marginals(case: Case) -> dict[str, float]:
    """What the thresholds of both scores flag of marginal histograms."""
    names = tuple(f"x{axis}" for axis in range(case.columns))
    asked = MarginalHistograms(columns=names, epsilon=1)
    flagged = []
    for table, fresh in tables(case):
        release = asked.answer(table, secure()).value
        scores, most = release.scores(fresh), release.threshold(TARGETS[1])
        shares = (scores.density > most.density).mean(), (scores.tail > most.tail).mean()
        flagged.append([float(share) for share in shares])
    density, tail = np.mean(flagged, axis=0)
    return {f"density_flagged_at_{TARGETS[1]:g}": density, f"tail_flagged_at_{TARGETS[1]:g}": tail}


def main() -> None:
    """Measure every case and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the small grids")
    parser.add_argument("--marginals", action="store_true", help="marginal histograms instead")
    asked = parser.parse_args()
    cases = SMALL if asked.quick else MARGINALS if asked.marginals else (*SMALL, *LARGE)
    for case in track(cases, "asking"):
        for name, value in (by_marginals if asked.marginals else measured)(case).items():
            print(f"figure {case.name}_{name} {value:.3g}", flush=True)


if __name__ == "__main__":
    main()
