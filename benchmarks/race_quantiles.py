"""How far off, in ranks, are nine private deciles? Against separate ones, OpenDP's and a tree.

Run `python benchmarks/race_quantiles.py` (two minutes), or with `--quick` (under a minute) or
`--smoke` (seconds). Made-up data of 10,000 records at epsilon 1 in all. Ours includes intervals;
the others release none. Separate quantiles and OpenDP's get a ninth of epsilon each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from privod.data import Domain, Numeric, Table
from privod.mechanisms import DiscreteLaplace, ExponentialMechanism, secure
from privod.questions.quantiles.lattice import Lattice
from privod.questions.quantiles.query import DECILES, Quantiles, _worth

Floats = NDArray[np.float64]
LOW, HIGH = 0.0, 1000.0
COLUMN = Numeric("x", LOW, HIGH)
FANOUT, HEIGHT = 16, 4  # of the tree: 65,536 leaves
CANDIDATES = 1 << 12  # of OpenDP's quantiles: equally spaced values
FEW = 1 << 5  # of them with `--smoke`: it takes a second to build a mechanism of many


def made_up(n: int) -> dict[str, Floats]:
    """Numbers of four shapes within the range."""
    chance = np.random.default_rng(7)
    return {
        "uniform": chance.uniform(LOW, HIGH, n),
        "normal": np.clip(chance.normal(500, 100, n), LOW, HIGH),
        "lognormal": np.clip(chance.lognormal(4, 1, n), LOW, HIGH),
        "two crowds": np.clip(
            np.where(chance.random(n) < 0.7, chance.normal(100, 5, n), chance.normal(800, 50, n)),
            LOW,
            HIGH,
        ),
    }


def separate(table: Table, _values: Floats) -> list[float]:
    """Nine choices by the same mechanism, each at a ninth of epsilon, and no intervals."""
    lattice = Lattice(COLUMN)
    below = np.concatenate([[0], lattice.counts(table).cumsum()])
    found = []
    for share in DECILES:
        changed = max(share.numerator, share.denominator - share.numerator)
        choice = ExponentialMechanism.for_loss(Fraction(1, 9), changed)
        found.append(lattice.value(choice.choose(_worth(below, share), secure())))
    return found


def together(table: Table, _values: Floats) -> list[float]:
    """Ours: all at once, intervals included."""
    return list(Quantiles(columns=("x",), epsilon=1).answer(table, secure()).value.values[0])


def tree(_table: Table, values: Floats) -> list[float]:
    """A tree of noisy counts, an equal part of epsilon at each level, walked down by rank."""
    leaves = FANOUT**HEIGHT
    places = np.minimum((values - LOW) / (HIGH - LOW) * leaves, leaves - 1).astype(np.int64)
    noise = DiscreteLaplace.for_loss(Fraction(1, HEIGHT), 1)
    levels = [
        noise.add_to(
            np.bincount(places // FANOUT ** (HEIGHT - depth), minlength=FANOUT**depth), secure()
        )
        for depth in range(1, HEIGHT + 1)
    ]
    found = []
    for share in DECILES:
        node, rest = 0, float(share)
        for counts in levels:
            own = np.maximum(counts[node * FANOUT : (node + 1) * FANOUT], 0).astype(float)
            upto = own.cumsum() / max(own.sum(), 1)
            child = min(int(np.searchsorted(upto, rest)), FANOUT - 1)
            before = upto[child - 1] if child else 0.0
            rest = float(np.clip((rest - before) / max(upto[child] - before, 1e-12), 0, 1))
            node = node * FANOUT + child
        found.append(LOW + (node + rest) * (HIGH - LOW) / leaves)
    return found


def opendp(candidates: int) -> Callable[[Table, Floats], list[float]] | None:
    """OpenDP's own quantiles at a ninth each; None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    spaced = np.linspace(LOW, HIGH, candidates).tolist()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()

    def made(share: float) -> Any:
        def build(scale: float) -> Any:
            return dp.m.make_private_quantile(
                *space, dp.max_divergence(), candidates=spaced, alpha=share, scale=scale
            )

        scale = dp.binary_search(lambda scale: build(scale).map(1) <= 1 / 9, bounds=(1e-3, 1e9))
        return build(scale)

    ready = [made(float(share)) for share in DECILES]
    return lambda _table, values: [float(one(values.tolist())) for one in ready]


def rank_error(found: list[float], ordered: Floats) -> float:
    """The mean distance of ranks, 0 where the value is shared by the wanted rank."""
    wanted = np.array([float(share) for share in DECILES]) * len(ordered)
    first, last = np.searchsorted(ordered, found), np.searchsorted(ordered, found, "right")
    return float(np.maximum(np.maximum(first - wanted, wanted - last), 0).mean())


def main() -> None:
    """Run all on all shapes, and print means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    n, runs = (500, 1) if asked.smoke else (10_000, 15 if asked.quick else 60)
    ways: dict[str, Any] = {"ours": together, "separate": separate, "tree": tree}
    theirs = opendp(FEW if asked.smoke else CANDIDATES)
    if theirs is not None:
        ways["opendp"] = theirs
    errors: dict[str, list[float]] = {name: [] for name in ways}
    for shape, values in made_up(n).items():
        table, ordered = Table(Domain((COLUMN,)), {"x": values}), np.sort(values)
        for name, way in ways.items():
            found = [rank_error(way(table, values), ordered) for _ in range(runs)]
            errors[name] += found
            print(f"{shape:12} {name:10} mean rank error {np.mean(found):8.1f}")
    for name, found in errors.items():
        print(f"figure quantiles_rank_error_{name} {np.mean(found):.2f}")
    share = np.mean(errors["ours"]) / np.mean(errors["separate"])
    print(f"figure quantiles_share_of_separate {share:.3f}")


if __name__ == "__main__":
    main()
