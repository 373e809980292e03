"""How wrong are labels of anomalies: plain DP, sensitive privacy, and newcomers under plain DP?

Of each data set of the folder PRIVOD_DATA some records are held out and labelled against the rest,
with numbers and categories compared as `novelty-labels` does. Errors are the probabilities that the
mechanisms themselves have, not samples: of `anomaly-labels` under plain DP and under sensitive
privacy with an edit margin of a tenth of the crowd, for a record that is in the data, and of
`novelty-labels`, which protects every record. Values and ranges are read off the data here, as no
curator would: this is a measurement by who may see the rows.

    PRIVOD_DATA=folder python -m scripts.run_benchmark benchmarks/race_labels.py
    PRIVOD_DATA=folder python -m scripts.run_benchmark benchmarks/race_labels.py --quick
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._folder import data_frame

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.sources import read
from privod.questions.anomaly_labels.query import AnomalyLabels
from privod.questions.novelty_labels.query import NoveltyLabels

MAX_CROWD = 20
EDIT_MARGIN = 2
EPSILONS = ("1", "0.1")


@dataclass(frozen=True)
class Compared:
    """A data set, and what near means in it."""

    name: str
    categories: tuple[str, ...]
    tolerances: tuple[tuple[str, float], ...]
    max_distance: int


SETS = (
    Compared(
        "adult",
        ("workclass", "education", "marital-status", "occupation", "race", "sex"),
        (("age", 3.0), ("hours-per-week", 5.0)),
        1,
    ),
    Compared(
        "us_homicide_west",
        ("agency_type", "state", "weapon"),
        (("victim_age", 3.0), ("year", 1.0)),
        0,
    ),
    Compared("mammography", (), tuple((f"x{place}", 0.5) for place in range(1, 7)), 1),
    Compared("thyroid", (), tuple((f"x{place}", 0.05) for place in range(1, 7)), 1),
)


def table_of(one: Compared) -> Table:
    """The data set with the columns that are compared, its domain read off."""
    frame = data_frame(one.name)
    columns: list[Categorical | Numeric] = []
    for name in one.categories:
        values = sorted({str(value) for value in frame[name].to_pylist() if value is not None})
        columns.append(Categorical(name, tuple(values)))
    for name, _ in one.tolerances:
        numbers = frame[name].to_numpy().astype(float)
        columns.append(Numeric(name, float(numbers.min()) - 1, float(numbers.max()) + 1))
    return read(frame, Domain(tuple(columns)))


def crowds(one: Compared, table: Table, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of some records: how many others are near, and how many are equal."""
    rows = np.random.default_rng(0).choice(len(table), n, replace=False)
    codes = table.codes(one.categories) if one.categories else None
    names = tuple(name for name, _ in one.tolerances)
    numbers = table.numbers(names)
    limits = np.array([tolerance for _, tolerance in one.tolerances])
    near, equal = [], []
    for row in rows.tolist():
        apart = (np.abs(numbers - numbers[row]) > limits).sum(axis=1)
        same = (numbers == numbers[row]).all(axis=1)
        if codes is not None:
            apart += (codes != codes[row]).sum(axis=1)
            same &= (codes == codes[row]).all(axis=1)
        near.append(int((apart <= one.max_distance).sum()) - 1)
        equal.append(int(same.sum()) - 1)
    return np.array(near), np.array(equal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 records of each set")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    for one in SETS:
        table = table_of(one)
        others, copies = crowds(one, table, 20 if options.smoke else 200 if options.quick else 2000)
        anomalous = others + 1 <= MAX_CROWD
        found = list(zip(others[anomalous].tolist(), copies[anomalous].tolist(), strict=True))
        figures[f"{one.name}_anomalous"] = len(found)
        print(f"{one.name}: {len(table)} records, {len(found)} of {len(others)} are anomalous")
        for epsilon in EPSILONS:
            newcomer = NoveltyLabels(
                columns=("x",),
                records=((0.0,),),
                model=f"crowd(max_crowd={MAX_CROWD}, near=alike())",
                epsilon=epsilon,
            )
            plain, sensitive = (
                AnomalyLabels(
                    records=((0.0,),),
                    columns=("x",),
                    max_crowd=MAX_CROWD,
                    near="alike()",
                    epsilon=epsilon,
                    edit_margin=margin,
                )
                for margin in (None, EDIT_MARGIN)
            )
            errors = {
                "plain": [plain.error(n + 1, same + 1) for n, same in found],
                "sensitive": [sensitive.error(n + 1, same + 1) for n, same in found],
                "newcomer": [newcomer.error(MAX_CROWD - 1 - n) for n, _ in found],
            }
            for law, chances in errors.items():
                name = f"{one.name}_{law}_mean_error_at_{epsilon}"
                figures[name] = float(np.mean(chances)) if chances else float("nan")
                print(
                    f"  epsilon {epsilon}, {law}: mean {figures[name]:.3g},"
                    f" median {float(np.median(chances)) if chances else float('nan'):.3g}"
                )
    print()
    for name, value in figures.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
