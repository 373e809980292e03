"""Does a threshold flag the share that it was asked for, of records that were not used?

    python benchmarks/flagged_shares.py [--quick]

Every labeled set of the folder PRIVOD_DATA (and of its folder detection/) with at least 4,000 rows,
cut to 20,000, and generated ones (normal, correlated, lognormal, with a constant column) are halved
at random. Each question is asked of one half, several times; the thresholds of the release are held
against that half (what noise does) and against the other (what sampling adds). Ranges as in
race_detectors.py; categories are numbered. The figures are the median, the least and the most over
the sets of the median share over the releases; and which share of all releases flagged between half
of what was asked for and twice that. `--quick` takes small sets and one epsilon.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.race_detectors import labeled_sets, numbers

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.query.scorer import Scorable
from privod.query.scoring import score
from privod.questions.detector_profile.query import DetectorProfile

Floats = NDArray[np.float64]

FEWEST_ROWS, MOST_ROWS = 4_000, 20_000
GENERATED = 8_000  # rows
TARGETS = (0.01, 0.02, 0.05, 0.1)
EPSILONS = (1, 100)
RELEASES = 5


class Halved(NamedTuple):
    """A set: the half that is asked, the half that is held out, and the declared ranges."""

    name: str
    asked: Floats
    held: Floats
    domain: Domain


def halved(name: str, rows: Floats, lows: Floats, highs: Floats) -> Halved:
    """Half of the rows at random, and the others."""
    limits = enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
    columns = tuple(
        Numeric(f"x{place}", low, high if high > low else low + 1) for place, (low, high) in limits
    )
    order = np.random.default_rng(3).permutation(len(rows))
    return Halved(name, rows[order[::2]], rows[order[1::2]], Domain(columns))


def generated() -> Iterator[Halved]:
    """Six columns each, in the easiest ways of being unlike one another."""
    random = np.random.default_rng(5)
    shape = (GENERATED, 6)
    normal, mixing = random.normal(size=shape), random.normal(size=(6, 6))
    constant = random.normal(size=shape)
    constant[:, 3] = 1.0
    for name, rows, low, high in (
        ("normal", normal, -8.0, 8.0),
        ("correlated", random.normal(size=shape) @ mixing, -16.0, 16.0),
        ("lognormal", np.exp(random.normal(size=shape)), 0.0, 64.0),
        ("constant", constant, -8.0, 8.0),
    ):
        yield halved(name, rows, np.full(6, low), np.full(6, high))


def all_sets(folder: Path, *, quick: bool) -> Iterator[Halved]:
    yield from generated()
    for one in labeled_sets(folder, 150_000 if quick else 2**40, MOST_ROWS):
        if len(one.frame) >= FEWEST_ROWS:
            rows, (lows, highs) = numbers(one)
            yield halved(one.name, rows, lows, highs)


def flagged(released: Scorable, rows: Floats) -> list[float]:
    """Which share of rows the threshold for each target flags."""
    shares = []
    for target in TARGETS:
        found = score(released.scorer(), rows, target)
        assert found.stands_out is not None
        shares.append(float(found.stands_out.mean()))
    return shares


def measured(one: Halved, epsilon: int, releases: int) -> dict[str, list[list[float]]]:
    """The shares of several releases: of the half that was asked, and of the other."""
    table = Table(one.domain, dict(zip(one.domain.names, one.asked.T, strict=True)))
    asked = DetectorProfile(columns=one.domain.names, epsilon=epsilon)
    found: dict[str, list[list[float]]] = {}
    for _ in range(releases):
        value = asked.answer(table, secure()).value
        found.setdefault("asked", []).append(flagged(value, one.asked))
        found.setdefault("held", []).append(flagged(value, one.held))
    return found


def main() -> None:
    """Measure every set and print the figures over all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    folder = os.environ.get("PRIVOD_DATA")
    if not folder:
        sys.exit("Set PRIVOD_DATA to the folder of data sets.")
    warnings.simplefilter("ignore")
    epsilons, releases = (EPSILONS[:1], 2) if quick else (EPSILONS, RELEASES)
    shares: dict[str, list[list[list[float]]]] = {}
    n_sets = 0
    for one in islice(all_sets(Path(folder), quick=quick), 1 if given.smoke else None):
        n_sets += 1
        for epsilon in epsilons:
            times = releases if epsilon == 1 else 1
            for name, found in measured(one, epsilon, times).items():
                shares.setdefault(f"detector_eps{epsilon}_{name}", []).append(found)
                shown = " ".join(f"{100 * share:.1f}" for share in np.median(found, axis=0))
                label = f"{one.name} {one.asked.shape} detector eps {epsilon} {name}"
                print(f"{label}: {shown} %", flush=True)
    print(f"figure sets {n_sets}")
    for name, every in shares.items():
        medians = np.array([np.median(found, axis=0) for found in every])
        releases_of_all = np.concatenate([np.array(found) for found in every])
        for place, target in enumerate(TARGETS):
            own = f"{name}_at_{target:g}"
            print(f"figure {own}_median {100 * np.median(medians[:, place]):.3g}")
            print(f"figure {own}_least {100 * medians[:, place].min():.3g}")
            print(f"figure {own}_most {100 * medians[:, place].max():.3g}")
            ratio = releases_of_all[:, place] / target
            print(f"figure {own}_within_2 {np.mean((ratio > 0.5) & (ratio < 2)):.3g}")


if __name__ == "__main__":
    main()
