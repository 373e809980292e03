"""How fast are exact noise and exact choices, beside OpenDP's in the same run?

Run `python benchmarks/race_noise.py` (about five minutes), or with `--quick` (under a minute). Both
sides are exact and take their bits from a cryptographic source. A figure is the median time of a
whole call from Python, an array of counts or utilities in, the answer out; the tables of a scale
are built beforehand, once, in a few milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from privod.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PermuteAndFlip,
    Top,
    secure,
)
from privod.mechanisms.sparse import count_reaching

Action = Callable[[], object]

SELECTION_SCALE = 2  # of a choice with epsilon 1 and sensitivity 1
N_TOP = 10


def medians(actions: list[Action], repeats: int) -> list[float]:
    """Seconds of each action: the median of some runs, taken in turn so that all see one load."""
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for taken, action in zip(seconds, actions, strict=True):
            start = time.perf_counter()
            action()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def race_noise(n_counts: int, n_theirs: int) -> None:
    """Add noise at several scales; OpenDP may draw fewer, its cost per draw is constant."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    ratios = []
    for scale in (Fraction(1), Fraction(3), Fraction(10), Fraction(1, 7), Fraction(10**9)):
        noise, source = DiscreteLaplace(scale), secure()
        theirs = space >> dp.m.then_laplace(scale=float(scale))
        counts = np.zeros(n_counts, dtype=np.int64)
        few = np.zeros(n_theirs, dtype=np.int64)
        noise.draw(1, source)  # builds the tables of this scale, once
        ours_seconds, theirs_seconds = (
            medians([lambda n=noise, c=counts, s=source: n.add_to(c, s)], 5)[0],  # type: ignore[misc]
            medians([lambda t=theirs, c=few: t(c)], 1)[0],  # type: ignore[misc]
        )
        ours_ns, theirs_ns = ours_seconds / n_counts * 1e9, theirs_seconds / n_theirs * 1e9
        ratios.append(theirs_ns / ours_ns)
        name = str(scale).replace("/", "_")
        figure(f"laplace_scale_{name}_ns", ours_ns)
        figure(f"laplace_scale_{name}_opendp_ns", theirs_ns)
    figure("laplace_smallest_ratio", min(ratios))


def race_gaussian(n_counts: int, n_theirs: int) -> None:
    """The same with discrete Gaussian noise, and beside our own Laplace noise of that scale."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    ratios, beside = [], []
    for sigma in (Fraction(1), Fraction(3), Fraction(30), Fraction(1000), Fraction(10**9)):
        noise, laplace, source = DiscreteGaussian(sigma**2), DiscreteLaplace(sigma), secure()
        theirs = space >> dp.m.then_gaussian(scale=float(sigma))
        counts = np.zeros(n_counts, dtype=np.int64)
        few = np.zeros(n_theirs, dtype=np.int64)
        noise.draw(1, source)
        laplace.draw(1, source)
        ours: list[Action] = [
            lambda n=noise, c=counts, s=source: n.add_to(c, s),  # type: ignore[misc]
            lambda n=laplace, c=counts, s=source: n.add_to(c, s),  # type: ignore[misc]
        ]
        gaussian_seconds, laplace_seconds = medians(ours, 5)
        theirs_seconds = medians([lambda t=theirs, c=few: t(c)], 1)[0]  # type: ignore[misc]
        ours_ns, theirs_ns = gaussian_seconds / n_counts * 1e9, theirs_seconds / n_theirs * 1e9
        ratios.append(theirs_ns / ours_ns)
        beside.append(gaussian_seconds / laplace_seconds)
        figure(f"gaussian_sigma_{sigma}_ns", ours_ns)
        figure(f"gaussian_sigma_{sigma}_opendp_ns", theirs_ns)
    figure("gaussian_smallest_ratio", min(ratios))
    figure("gaussian_time_per_laplace_time_most", max(beside))


def race_selection(n: int, repeats: int, slow_repeats: int) -> None:
    """Choose among candidates with uniform utilities, and with one that dominates."""
    uniform = np.random.default_rng(0).integers(0, 100, n)
    dominant = np.zeros(n, dtype=np.int64)
    dominant[n // 2] = 1000
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    scale, source = Fraction(SELECTION_SCALE), secure()
    pairs = {
        "permute_and_flip": (PermuteAndFlip(scale), dp.max_divergence()),
        "exponential": (ExponentialMechanism(scale), dp.zero_concentrated_divergence()),
    }
    rounds: list[tuple[str, NDArray[np.int64], int]] = [
        ("uniform", uniform, repeats),
        ("dominant", dominant, slow_repeats),
    ]
    for name, (choice, measure) in pairs.items():
        theirs = space >> dp.m.then_noisy_max(measure, scale=float(SELECTION_SCALE))
        theirs_top = space >> dp.m.then_noisy_top_k(measure, k=N_TOP, scale=float(SELECTION_SCALE))
        for case, utilities, times in rounds:
            one: list[Action] = [
                lambda c=choice, u=utilities: c.choose(u, source),  # type: ignore[misc]
                lambda t=theirs, u=utilities: t(u),  # type: ignore[misc]
            ]
            several: list[Action] = [
                lambda c=choice, u=utilities: Top(N_TOP, c).choose(u, source),  # type: ignore[misc]
                lambda t=theirs_top, u=utilities: t(u),  # type: ignore[misc]
            ]
            for label, actions in (("", one), (f"_top{N_TOP}", several)):
                if label and case == "dominant":
                    continue  # says nothing new and takes OpenDP long
                ours, opendp = medians(actions, times)
                figure(f"{name}{label}_{case}_ms", ours * 1e3)
                figure(f"{name}{label}_{case}_opendp_ms", opendp * 1e3)


def time_rare(repeats: int) -> None:
    """Count, among 10^12 empty cells, those that reach 16: 82 270 are expected."""
    noise, source = DiscreteLaplace(Fraction(1)), secure()
    actions: list[Action] = [lambda: count_reaching(noise, 16, 10**12, source)]
    figure("count_reaching_82270_of_1e12_ms", medians(actions, repeats)[0] * 1e3)


def figure(name: str, value: float) -> None:
    FIGURES[name] = value
    print(f"{name:45s} {value:12.3f}", flush=True)


FIGURES: dict[str, float] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws, under a minute")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    quick = given.quick or given.smoke
    ours, theirs, choices = (1000, 1000, 1000) if given.smoke else (10**6, 20_000, 10**5)
    if not quick:
        theirs = choices = 10**6
    dp.enable_features("contrib")
    race_noise(ours, theirs)
    race_gaussian(ours, theirs)
    race_selection(choices, 5, 1 if quick else 3)
    time_rare(3)
    print()
    for name, value in FIGURES.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
