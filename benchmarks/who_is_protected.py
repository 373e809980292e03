"""How many people does a narrow promise protect, in a table of salaries?

The table is ontario_salary from the folder PRIVOD_DATA, or a generated one of the same shape. For a
promise about contexts records are taken out one by one, at random and among those with the
attributes of the person asked about; it is counted how often the person's contexts stay as they
are. For a promise about crowds all records are counted.

    python -m benchmarks.who_is_protected            # two attributes, 2**15 contexts; some minutes
    python -m benchmarks.who_is_protected --quick    # the same with fewer records; a minute
    python -m benchmarks.who_is_protected --large    # three attributes, 2**22 contexts; hours
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.race_contexts import Person, domain_of, person, table

from privod.curator.protection import who_is_protected
from privod.data import Table
from privod.privacy import InCrowd
from privod.questions.outlier_context.query import OutlierContext

DETECTORS = ("lof(n_neighbors=20, threshold=1.5)", "grubbs", "histogram")
PERSONS = {"far out": 0.9995, "at the edge": 0.99, "in the crowd": 0.5}
"""The persons asked about, by the share of all that earn less."""

CROWDS = (5, 20)


def asked(rows: Table, share: float, kind: str, attributes: tuple[str, ...]) -> Person:
    """The record at a share of the salaries, by some attributes."""
    found = person(kind, rows, int(share * len(rows)))
    kept = {name: found.attributes[name] for name in attributes}
    return Person(kind, kept, found.value)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--large", action="store_true")
    asked_for = parser.parse_args()
    name, rows = table(domain_of(4), 2000) if asked_for.smoke else table(domain_of(100))
    attributes = ("job_title", "employer", *(("year",) if asked_for.large else ()))
    sample = 2 if asked_for.smoke else 20 if asked_for.quick else 100
    print(f"{name}: {len(rows)} records; {' x '.join(attributes)}; {sample} taken out of each kind")
    figures: dict[str, float] = {}
    for kind, share in PERSONS.items():
        one = asked(rows, share, kind, attributes)
        for detector in DETECTORS:
            query = OutlierContext(
                group_columns=tuple(one.attributes),
                persons=((*one.attributes.values(), one.value),),
                column="salary",
                epsilon=1,
                detector=detector,
            )
            promise = query.guarantee().adjacency
            found = who_is_protected(rows, [promise], sample=sample)
            rule = detector.partition("(")[0]
            print(f"{kind}, {rule}: {' '.join(found.sentences()[1:])}")
            stem = f"{one.short}_{rule}"
            figures[f"{stem}_protected"] = found.protected / found.examined
            if found.alike:
                figures[f"{stem}_alike_protected"] = found.alike_protected / found.alike
    for crowd in CROWDS:
        found = who_is_protected(rows, [InCrowd(0.0, attributes, crowd)])
        print(f"crowds of {crowd} over {', '.join(attributes)}: {found.sentences()[1]}")
        figures[f"crowd_{crowd}_protected"] = found.protected / found.records
    for key, value in figures.items():
        print(f"figure {key} {value:.4g}")


if __name__ == "__main__":
    main()
