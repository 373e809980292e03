"""Which constants should PrivateDetector have, and how good are they on tables left out?

    python -m benchmarks.choose_detector --tables FOLDER [--settings 12] [--only KEPT] [--most 60]
                                         [--fits 5] [--keep measured.json] [--quick] [--smoke]

FOLDER (or the environment variable PRIVOD_TABLES) holds the tables of macrOData (arXiv 2602.09329)
as *.npz with train, test and test_labels; only those are read whose name's SHA-256 ends in an even
digit. Settings are drawn at random from a product of a few values for each constant, or of those
that `--only` names; the present one is always among them. Each is measured by both protocols
(race_detectors.py) at epsilon 0.1 and 1, delta 1e-6, as the mean AUROC of `--fits` fits less that
of IForest. Then every family of tables is left out in turn (tables cut from one source are one
family): the setting that is best on all others is measured on those left out. A setting is worth
taking only if it is ahead of the present one by more than its standard error over tables. Ends with
the figures: the present setting, the best, what is left out, and how far each setting is ahead.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.race_detectors import auroc, even, outward

from privod.data import Domain, Numeric
from privod.mechanisms import seeded
from privod.query import count_query
from privod.questions.detector_profile import components, ranges, rarity, shares, stages
from privod.questions.detector_profile.query import DetectorProfile

Floats = NDArray[np.float64]
Setting = tuple[float, ...]
Measured = dict[str, dict[str, list[float]]]  # by setting, by table: less IForest, each case

CASES = tuple(itertools.product(("novelty", "contaminated"), ("1", "0.1")))
MOST_ROWS, MOST_COLUMNS = 5000, 100
CONSTANTS: dict[str, tuple[Any, tuple[float, ...]]] = {
    "DOUBT": (ranges, (0.0, 0.5, 1.0)),
    "MANY_OCTAVES": (ranges, (4.0, 5.0, 6.0)),
    "HIDDEN": (ranges, (1.0, 16.0, 64.0)),
    "ZOOM_BINS": (stages, (17, 33, 65)),
    "ZOOMING_PAYS": (stages, (3.0, 6.0, 12.0)),
    "BINS": (count_query, (2.0, 3.0, 4.5)),
    "MOMENTS_COST": (stages, (2.0, 2.5)),
    "HALF_TAIL": (rarity, (0.0, 0.5, 1.0)),
    "KEPT": (shares, (0.0, 0.5, 1.0)),
    "POWER": (components, (1.0, 1.5, 2.0)),
}


class Case(NamedTuple):
    """A table by one protocol."""

    fitted: Floats
    scored: Floats
    labels: NDArray[np.int64]
    domain: Domain
    forest: float


def cases_of(path: Path) -> dict[str, Case] | None:
    """The table by both protocols; None for one without both labels or with gaps."""
    from pyod.models.iforest import IForest

    with np.load(path, allow_pickle=False) as held:
        train, test = (np.clip(held[name].astype(float), -1e15, 1e15) for name in ("train", "test"))
        labels = held["test_labels"].astype(np.int64)
    whole = np.vstack([train, test])
    if not 0 < labels.sum() < len(labels) or not np.isfinite(whole).all():
        return None
    if whole.shape[1] > MOST_COLUMNS:
        return None
    known = np.append(np.zeros(len(train), dtype=np.int64), labels)
    some = np.random.default_rng(0).permutation(len(whole))[:MOST_ROWS]
    train, test, labels = train[:MOST_ROWS], test[:MOST_ROWS], labels[:MOST_ROWS]
    if not 0 < labels.sum() < len(labels) or known[some].sum() == 0:
        return None
    ends = zip(whole.min(axis=0), whole.max(axis=0), strict=True)
    rough = [(-outward(-low), outward(high) or 1.0) for low, high in ends]
    domain = Domain(tuple(Numeric(f"x{at}", *pair) for at, pair in enumerate(rough)))

    def case(rows: Floats, asked: Floats, told: NDArray[np.int64]) -> Case:
        forest = IForest(random_state=0).fit(rows).decision_function(asked)
        return Case(rows, np.ascontiguousarray(asked), told, domain, auroc(told, forest))

    mixed = whole[some]
    return {
        "novelty": case(train, test, labels),
        "contaminated": case(mixed, mixed, known[some]),
    }


def family(name: str) -> str:
    return name.partition("_part-")[0]


def present() -> Setting:
    return tuple(float(getattr(module, name)) for name, (module, _) in CONSTANTS.items())


def drawn_settings(size: int, only: list[str]) -> list[Setting]:
    kept = dict(zip(CONSTANTS, present(), strict=True))
    choices = [
        values if not only or name in only else (kept[name],)
        for name, (_, values) in CONSTANTS.items()
    ]
    every = list(itertools.product(*choices))
    order = np.random.default_rng(0).permutation(len(every))
    drawn = [tuple(map(float, every[place])) for place in order[:size]]
    return [present(), *(setting for setting in drawn if setting != present())]


def put(setting: Setting) -> None:
    for (name, (module, _)), value in zip(CONSTANTS.items(), setting, strict=True):
        kind = type(getattr(module, name))
        setattr(module, name, Fraction(str(value)) if kind is Fraction else kind(value))


def measure(cases: dict[str, Case], fits: int) -> list[float]:
    """The mean AUROC of a few seeds less IForest's, with the constants as they are now."""
    found = []
    for protocol, epsilon in CASES:
        one = cases[protocol]
        asked = DetectorProfile(columns=one.domain.names, epsilon=epsilon, delta="1e-6")
        values = (
            asked.answer_rows(one.domain, one.fitted, seeded(seed)).value for seed in range(fits)
        )
        mean = np.mean([auroc(one.labels, value.scores_of(one.scored)) for value in values])
        found.append(float(mean) - one.forest)
    return found


def best(table: Measured, names: list[str]) -> str:
    return max(table, key=lambda key: np.mean([table[key][name] for name in names]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, default=os.environ.get("PRIVOD_TABLES") or None)
    parser.add_argument("--settings", type=int, default=12)
    parser.add_argument("--only", nargs="+", default=[], choices=list(CONSTANTS))
    parser.add_argument("--most", type=int, default=60, help="tables, at most")
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    options = parser.parse_args()
    paths = sorted(filter(even, options.tables.rglob("*.npz"))) if options.tables else []
    if not paths:
        print("skipped: no folder of macrOData tables (--tables or PRIVOD_TABLES)")
        sys.exit(0)
    warnings.simplefilter("ignore")
    most = 1 if options.smoke else min(options.most, 6) if options.quick else options.most
    fits = 1 if options.smoke or options.quick else options.fits
    known: Measured = {}
    if options.keep and options.keep.exists():
        known = json.loads(options.keep.read_text())
    settings = drawn_settings(1 if options.smoke else options.settings, options.only)
    before = present()
    names: list[str] = []
    for place in np.random.default_rng(0).permutation(len(paths)):
        if len(names) == most:
            break
        cases = cases_of(paths[place])
        if cases is None:
            continue
        names.append(paths[place].stem)
        try:
            for setting in settings:
                put(setting)
                rows = known.setdefault(json.dumps(setting), {})
                if names[-1] not in rows:
                    rows[names[-1]] = measure(cases, fits)
        finally:
            put(before)
        if options.keep:
            options.keep.write_text(json.dumps(known))
    table = {json.dumps(setting): known[json.dumps(setting)] for setting in settings}
    own = table[json.dumps(before)]
    left_out: dict[str, list[float]] = {}
    for one in dict.fromkeys(map(family, names)):
        others = [name for name in names if family(name) != one]
        choice = best(table, others) if others else json.dumps(before)
        left_out |= {name: table[choice][name] for name in names if family(name) == one}
    print("constants", list(CONSTANTS), "best", best(table, names))
    print(f"figure tables {len(names)}")
    print(f"figure families {len(set(map(family, names)))}")
    for at, (protocol, epsilon) in enumerate(CASES):
        for label, found in (("present", own), ("left_out", left_out)):
            mean = np.mean([found[name][at] for name in names])
            print(f"figure {protocol}_less_IForest_{label}_eps{epsilon} {mean:.4f}")
    for setting in settings[1:]:
        rows = table[json.dumps(setting)]
        ahead = np.array([np.subtract(rows[name], own[name]) for name in names])
        errors = ahead.std(axis=0) / np.sqrt(len(ahead))
        pairs = zip(ahead.mean(axis=0), errors, strict=True)
        changed = {
            name: value
            for name, value, old in zip(CONSTANTS, setting, before, strict=True)
            if value != old
        }
        print(changed, *(f"{mean:+.4f} ({error:.4f})" for mean, error in pairs))


if __name__ == "__main__":
    main()
