"""How much memory, traffic and time does a run over columns take, and what does it find?

As `joint_scale.py` does over rows: a process for every party, mutual TLS on loopback.

    python -m scripts.run_benchmark benchmarks/joint_columns.py             # some minutes
    python -m scripts.run_benchmark benchmarks/joint_columns.py --quick     # below a minute
"""

from __future__ import annotations

from benchmarks.joint_scale import Case, measure_all

CASES = {
    "columns_3": Case("vertical", 3, 1_000_000),
    "columns_5": Case("vertical", 5, 300_000, columns=15),
    "columns_3_verified": Case("vertical", 3, 200_000, verify=True),
}
QUICK = {"columns_3_verified": Case("vertical", 3, 10_000, tables=10, verify=True)}

if __name__ == "__main__":
    measure_all(__doc__ or "", CASES, QUICK)
