"""Which constants should PrivateDetector have, and how good are they on sets left out?

    python -m benchmarks.choose_detector [--settings 48] [--only KEPT] [--keep measured.json]
                                         [--rows 20000] [--quick]

Settings are drawn at random from a product of a few values for each constant, or of the constants
named by `--only`, the others as they are; the present ones are always among them. Each is measured
on every labeled set (see race_detectors.py; sets are cut to 20,000 rows, or to `--rows`) at epsilon
0.1 and 1, as the mean AUROC over a few seeds. Then every family of sets is left out in turn (sets
that share rows or a subject are one family): the setting that is best on average over all other
sets is taken, and measured on those left out. The mean of these is the honest figure; that of the
setting chosen by all sets flatters. `--keep` writes what was measured into a file and goes on from
there. `--quick` takes small sets and few settings. Ends with figures: these means, of how many
families left out how many choose the present setting, and with `--only` the mean of each setting.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.race_detectors import Labeled, auroc, labeled_sets, numbers

from privod.data import Domain
from privod.estimators.bounds import coded, declared_columns
from privod.mechanisms import seeded
from privod.query import count_query
from privod.questions.detector_profile import ranges, rarity, shares, stages
from privod.questions.detector_profile.query import DetectorProfile

Setting = tuple[float, ...]
Measured = dict[str, dict[str, list[float]]]  # by setting, by set: AUROC at each epsilon

EPSILONS = ("0.1", "1")
MOST_ROWS = 20_000
CONSTANTS: dict[str, tuple[Any, tuple[float, ...]]] = {
    "DOUBT": (ranges, (0.0, 0.5, 1.0, 1.5)),
    "ZOOMING_PAYS": (stages, (6.0, 12.0, 24.0)),
    "BINS": (count_query, (2.0, 3.0, 4.5)),
    "MOMENTS_COST": (stages, (2.0, 2.5)),
    "OUTSIDE": (rarity, (1.0, 2.0)),
    "KEPT": (shares, (0.0, 0.25, 0.5, 0.75, 1.0)),
}
FAMILIES = {
    "kdd_u2r": "kdd", "kdd_r2l": "kdd", "kdd_any": "kdd",
    "thyroid": "thyroid", "annthyroid": "thyroid",
    "heart_cleveland": "heart", "heart_statlog": "heart",
}  # fmt: skip


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
    drawn = [every[place] for place in order[:size]]
    return [present(), *(setting for setting in drawn if setting != present())]


def put(setting: Setting) -> None:
    for (name, (module, _)), value in zip(CONSTANTS.items(), setting, strict=True):
        exact = isinstance(getattr(module, name), Fraction)
        setattr(module, name, Fraction(str(value)) if exact else value)


def measure(one: Labeled) -> list[float]:
    """The mean AUROC over a few seeds at each epsilon, with the constants as they are now."""
    columns = declared_columns(one.bounds, tuple(map(str, one.frame.columns)))
    rows = np.asarray(coded(one.frame, columns), dtype=np.float64)
    repeats = 6 if rows.size < 30_000 else 3 if rows.size < 300_000 else 1
    names = tuple(column.name for column in columns)
    found = []
    for epsilon in EPSILONS:
        asked = DetectorProfile(columns=names, epsilon=epsilon)
        values = [
            asked.answer_rows(Domain(columns), rows, seeded(seed)).value for seed in range(repeats)
        ]
        found.append(float(np.mean([auroc(one.labels, value.scores(rows)) for value in values])))
    return found


def measured(sets: list[Labeled], settings: list[Setting], keep: Path | None) -> Measured:
    known: Measured = json.loads(keep.read_text()) if keep and keep.exists() else {}
    before = present()
    try:
        for setting in settings:
            key = json.dumps(setting)
            if key not in known:
                put(setting)
                known[key] = {one.name: measure(one) for one in sets}
                if keep:
                    keep.write_text(json.dumps(known))
            means = np.mean(list(known[key].values()), axis=0)
            shown = dict(zip(CONSTANTS, setting, strict=True))
            print(*(f"{mean:.4f}" for mean in means), shown, flush=True)
    finally:
        put(before)
    return {json.dumps(setting): known[json.dumps(setting)] for setting in settings}


def best(table: Measured, names: list[str]) -> str:
    return max(table, key=lambda key: np.mean([table[key][name] for name in names]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=48)
    parser.add_argument("--only", nargs="+", default=[], choices=list(CONSTANTS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="of a set, at most")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    options = parser.parse_args()
    folder = os.environ.get("PRIVOD_DATA")
    if not folder:
        sys.exit("Set PRIVOD_DATA to the folder of data sets.")
    warnings.simplefilter("ignore")
    from pyod.models.iforest import IForest

    quick = options.quick or options.smoke
    sets = list(labeled_sets(Path(folder), 40_000 if quick else 2**40, options.rows))
    if options.smoke:
        sets = sorted(sets, key=lambda one: one.frame.size)[:2]
    n_settings = 1 if options.smoke else 6 if quick else options.settings
    settings = drawn_settings(n_settings, options.only)
    table = measured(sets, settings, options.keep)
    names = [one.name for one in sets]
    forest = {
        one.name: auroc(one.labels, IForest(random_state=0).fit(numbers(one)[0]).decision_scores_)
        for one in sets
    }
    left_out: dict[str, list[float]] = {}
    choices: Counter[str] = Counter()
    for family in dict.fromkeys(FAMILIES.get(name, name) for name in names):
        others = [name for name in names if FAMILIES.get(name, name) != family]
        choice = best(table, others)
        choices[choice] += 1
        for name in names:
            if name not in others:
                left_out[name] = table[choice][name]
                shown = " ".join(f"{value:.3f}" for value in left_out[name])
                print(f"{name}: left out {shown}, IForest {forest[name]:.3f}")
    chosen = best(table, names)
    print("constants", list(CONSTANTS))
    for choice, times in choices.most_common():
        print(f"chosen {times} times of {choices.total()}: {choice}")
    print(f"chosen by all sets: {chosen}")
    print(f"figure sets {len(names)}")
    print(f"figure settings {len(settings)}")
    print(f"figure families {choices.total()}")
    print(f"figure families_choosing_the_most_chosen {choices.most_common(1)[0][1]}")
    print(f"figure families_choosing_the_present {choices[json.dumps(present())]}")
    print(f"figure auroc_IForest {np.mean(list(forest.values())):.4f}")
    for at, epsilon in enumerate(EPSILONS):
        for label, found in (
            ("left_out", left_out),
            ("present", table[json.dumps(present())]),
            ("chosen_by_all", table[chosen]),
        ):
            mean = np.mean([found[name][at] for name in names])
            print(f"figure auroc_{label}_eps{epsilon} {mean:.4f}")
        for setting in settings if options.only else ():
            values = dict(zip(CONSTANTS, setting, strict=True))
            label = "_".join(f"{name}_{values[name]:g}" for name in options.only)
            mean = np.mean([table[json.dumps(setting)][name][at] for name in names])
            print(f"figure auroc_{label}_eps{epsilon} {mean:.4f}")


if __name__ == "__main__":
    main()
