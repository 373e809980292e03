"""How long does it usually take to find crowds? The rate that prices state usual times by.

Made-up records are spread evenly over the ranges that were declared, so a price needs no rows. For
each question that compares records: nanoseconds of processor time for each record, column and pass
(`USUAL_NANOSECONDS` in privod/query/checks.py stands for all of them).

    python benchmarks/usual_times.py            # up to 10^6 records, two minutes
    python benchmarks/usual_times.py --quick    # up to 10^5
    python benchmarks/usual_times.py --smoke    # a few seconds
"""

from __future__ import annotations

import argparse
import time

from privod.data.examples import HOSPITAL
from privod.data.mock import mock_table
from privod.mechanisms import secure
from privod.query.catalog import QUERIES
from privod.query.checks import USUAL_NANOSECONDS

COMPARING = ("outlier-count", "graded-count", "outlier-radius", "outlier-subspaces")


def main() -> None:
    """Time each question on made-up records, compiled loops not counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true")
    size.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    n_records = 2_000 if given.smoke else 100_000 if given.quick else 1_000_000
    names = COMPARING[1:2] if given.smoke else COMPARING
    small, table = mock_table(HOSPITAL, 500), mock_table(HOSPITAL, n_records)
    for name in names:
        query = QUERIES[name].examples(HOSPITAL)[0]
        query.answer(small, secure())  # compiles
        began = time.process_time()
        query.answer(table, secure())
        taken = 1e9 * (time.process_time() - began)
        passes = query.usual_work(HOSPITAL, n_records) / (USUAL_NANOSECONDS * n_records)
        print(f"figure usual_nanoseconds_{name} {taken / n_records / passes:.0f}")


if __name__ == "__main__":
    main()
