"""How much memory and time does a density sketch of many records take?

    python benchmarks/race_sketch.py [--quick]

A table of 10^7 records in 10 columns is made, and a sketch of it with all defaults, in one process.
The figures are the most memory that sketching itself took at a time, as a share of the table's own
800 megabytes, and records a second. `--quick` takes 10^6 records.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.questions.density_sketch.query import DensitySketch

N_COLUMNS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    n_rows = 5_000 if given.smoke else 1_000_000 if given.quick else 10_000_000
    columns = tuple(Numeric(f"x{place}", -8, 8) for place in range(N_COLUMNS))
    random = np.random.default_rng(0)
    table = Table(Domain(columns), {column.name: random.normal(size=n_rows) for column in columns})
    query = DensitySketch(columns=table.domain.names, epsilon=1)
    tracemalloc.start()  # from here on: what is taken beside the table
    begun = time.perf_counter()
    value = query.answer(table, secure()).value
    took = time.perf_counter() - begun
    _, held = tracemalloc.get_traced_memory()
    size = f"{n_rows}x{N_COLUMNS}"
    print(f"{size}: a sketch of about {value.total} records in {took:.1f} seconds")
    print(f"figure sketch_memory_to_input_{size} {held / (8 * n_rows * N_COLUMNS):.3f}")
    print(f"figure sketch_records_per_second_{size} {n_rows / took:.0f}")


if __name__ == "__main__":
    main()
