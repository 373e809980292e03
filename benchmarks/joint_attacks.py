"""What does the aggregator of a vertical run see, and what do dishonest participants learn?

Real transcripts of runs in one process, attacked with more than an attacker has: it is told every
party's slab of every record it sees, in order (which tag sums show with some work), and which slab
belongs to whom. What is left for it is to link a record of one table to the same record in another.
How many anybody at all could link, knowing every value and every hash and only the orders not, is
counted as well (`linkable`): no attack on two tables can do better.

    PRIVOD_DATA=folder python -m scripts.run_benchmark benchmarks/joint_attacks.py  # some minutes
    python -m scripts.run_benchmark benchmarks/joint_attacks.py --quick             # below a minute

Every table has keys of its own, so tables that do not overlap are fresh trials of an attack: what
is judged is the mean over trials, with a bound of 99.9 % confidence (`Measured`). Whether a
correlation is more than luck is judged by moving the truth around: orders are uniform if the
protocol is right, so the moved truth does as well as the real one.

docs/leakage.md quotes the figures. tests/test_vertical_attacks.py holds the limits.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from benchmarks._joint_transcripts import (
    FAR_FRACTION,
    ROWS,
    Floats,
    Ints,
    Transcript,
    by_party,
    generated,
    outlying,
    question,
    radius_for,
    real,
    split,
    thirds,
    transcript,
    vertical,
)
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.stats import rankdata, t
from sklearn.decomposition import PCA, FastICA
from sklearn.linear_model import RidgeCV

from privod.errors import PrivodError
from privod.joint.run import rehearse
from privod.outliers.hashing.heavy import bin_sizes
from privod.outliers.hashing.outliers import crowd_limit

GROUP = 2  # tables that one trial of putting tables together has, unless told
SHUFFLES = 49  # cyclic shifts of the truth, beside which a correlation is judged
CONFIDENCE = 0.999
RANKED = 1000  # records that are looked for in the other table where that is slow
KNOWN = 400  # records whose values and places the attacker knows
QUERY_CROWD = 20  # known rows for every row that is asked about
QUERY_RADIUS = 0.4  # of the range of the middle half of the column that is asked about
SETS = ("miniboone_signal", "credit_fraud", "kdd99_10percent")
SIZED, SIZES = "kdd99_10percent", (6000, 8000, 32_000)  # where most are linked: of how many rows?


@dataclass(frozen=True)
class Measured:
    """A figure of several independent trials; bounds by Student's t, one-sided."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the trials."""
        return float(np.mean(self.values))

    @property
    def margin(self) -> float:
        """How far the truth may lie from the mean, on one side, with `CONFIDENCE`."""
        n = len(self.values)
        spread = float(np.std(self.values, ddof=1))
        return float(t.ppf(CONFIDENCE, n - 1) * spread / np.sqrt(n))

    @property
    def at_most(self) -> float:
        """The truth lies below this."""
        return self.mean + self.margin

    @property
    def at_least(self) -> float:
        """The truth lies above this."""
        return self.mean - self.margin


@dataclass(frozen=True)
class Together:
    """What putting tables together by place gave, trial by trial.

    Attributes
    ----------
    correlation : Measured
        The best rank correlation of anything found with a column.
    luck : Measured
        The share of shifted truths whose best correlation is as high; one half on average if
        places say nothing, near 0 if they do.
    error : Measured
        With known records, in standard deviations; 1 is what guessing the mean gives.
    """

    correlation: Measured
    luck: Measured
    error: Measured


def by_place(kept: Transcript, columns: dict[str, Floats], group: int = GROUP) -> Together:
    """Put tables together by place, a few at a time, against every party's columns.

    This attack gave the columns when rows kept their places.
    """
    generator = np.random.default_rng(6)
    correlations, lucks, errors = [], [], []
    groups = [range(at, at + group) for at in range(0, len(kept.sums) - group + 1, group)]
    for (party, truth), tables in product(columns.items(), groups):
        views = np.hstack([kept.seen(party, table) for table in tables]).astype(np.float64)
        n_sources = min(truth.shape[1], views.shape[1])
        found = PCA(n_sources, whiten=True, random_state=0).fit_transform(views)
        found = _unit(np.hstack([views, found, _ica(found)]))
        hidden = _unit(truth)
        best = _best(found, hidden)
        shifts = generator.integers(1, len(hidden), SHUFFLES)  # a group, so the test is exact
        luck = [_best(found, np.roll(hidden, shift, axis=0)) for shift in shifts]
        lucks.append((1 + sum(one >= best for one in luck)) / (1 + SHUFFLES))
        correlations.append(_best(_unit(rankdata(found, axis=0)), _unit(rankdata(truth, axis=0))))
        known = np.arange(len(views)) < KNOWN
        fitted = RidgeCV(np.logspace(0, 8, 9)).fit(views[known], truth[known])
        missed = truth[~known] - fitted.predict(views[~known])
        spread = truth[~known].std(axis=0)
        errors.append(float((np.sqrt((missed**2).mean(axis=0)) / spread).min()))
    return Together(Measured(tuple(correlations)), Measured(tuple(lucks)), Measured(tuple(errors)))


def _unit(columns: Floats) -> Floats:
    centered = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centered, axis=0)
    kept: Floats = centered[:, norms > 0] / norms[norms > 0]
    return kept


def _best(found: Floats, truth: Floats) -> float:
    return float(np.abs(found.T @ truth).max())


def _ica(whitened: Floats) -> Floats:
    with np.errstate(all="ignore"):
        try:
            found: Floats = FastICA(
                whiten=False, random_state=0, tol=1e-2, max_iter=50
            ).fit_transform(whitened)
        except Warning:
            return whitened
    return found


def linked(kept: Transcript, rows: NDArray[np.bool_], *, ranks_too: bool) -> Measured:
    """Link pairs of tables: which share of the records `rows` have themselves as nearest candidate?

    Records are compared by the sizes of their group and of each party's class; with `ranks_too`
    also by their rank along each party's first slab, in the best of all choices of signs, which no
    real attacker can make.
    """
    return Measured(tuple(_linked(kept, *pair, rows, ranks_too=ranks_too) for pair in _pairs(kept)))


def linkable(kept: Transcript, rows: NDArray[np.bool_]) -> Measured:
    """Which share of the records `rows` can anybody link, who knows everything but the orders?

    Records of one group look the same. Whoever sees a record of group x in the first table names
    one place of a group y in the second: right for as many records as x and y share, each with a
    chance of one in the size of y. The best choice of y for every x is the most there is.
    """
    return Measured(tuple(_linkable(kept, *pair, rows) for pair in _pairs(kept)))


def _linkable(kept: Transcript, first: int, second: int, rows: NDArray[np.bool_]) -> float:
    left, right = (kept.sums[at][np.argsort(kept.orders[at])] for at in (first, second))
    _, x = np.unique(left, return_inverse=True)
    _, y, sizes = np.unique(right, return_inverse=True, return_counts=True)
    shared, counts = np.unique(x[rows] * len(sizes) + y[rows], return_counts=True)
    best = np.zeros(len(left))
    np.maximum.at(best, shared // len(sizes), counts / sizes[shared % len(sizes)])
    return float(best.sum() / rows.sum())


def _pairs(kept: Transcript) -> list[tuple[int, int]]:
    """Tables of which none is in two pairs."""
    return [(at, at + 1) for at in range(0, len(kept.sums) - 1, 2)]


def _linked(
    kept: Transcript, first: int, second: int, rows: NDArray[np.bool_], *, ranks_too: bool
) -> float:
    parties = sorted(kept.codes)
    best = 0.0
    sizes = [_sizes(kept, table) for table in (first, second)]
    ranks = [_ranks(kept, table) for table in (first, second)]
    mine = np.flatnonzero(rows[kept.orders[first]])
    again = np.argsort(kept.orders[second])[kept.orders[first]]  # its place in the second table
    turns = list(product((1.0, -1.0), repeat=min(len(parties), 3)))
    tried = [(1.0, each) for each in turns] if ranks_too else [(0.0, turns[0])]
    if ranks_too:
        mine = mine[:RANKED]  # places are in no order
    for weight, signs in tried:
        turned = ranks[1].copy()
        turned[:, : len(signs)] *= signs
        left = np.hstack([sizes[0], weight * ranks[0]]) if weight else sizes[0]
        right = np.hstack([sizes[1], weight * turned]) if weight else sizes[1]
        best = max(best, _own_nearest(left[mine], right, again[mine]))
    return best


def _own_nearest(left: Floats, right: Floats, own: Ints) -> float:
    """The chance that a record's nearest candidate, any of equal ones, is its own."""
    asked, which = np.unique(left, axis=0, return_inverse=True)
    offered, sort, sizes = np.unique(right, axis=0, return_inverse=True, return_counts=True)
    nearest = KDTree(offered).query(asked, workers=1)[1][which.reshape(-1)]
    return float(((sort.reshape(-1)[own] == nearest) / sizes[nearest]).mean())


def _sizes(kept: Transcript, table: int) -> Floats:
    features = [np.log(bin_sizes(kept.sums[table]))]
    for party in sorted(kept.codes):
        codes = kept.seen(party, table)
        joined = codes[:, 0] * 1_000_003 + codes[:, -1]
        features.append(np.log(bin_sizes(joined.astype(np.uint64))))
    return np.column_stack(features)


def _ranks(kept: Transcript, table: int) -> Floats:
    found = [rankdata(kept.seen(party, table)[:, 0]) for party in sorted(kept.codes)]
    ranks = np.column_stack(found)
    centered: Floats = 2 * ranks / len(ranks) - 1
    return centered


def slab_correlation(kept: Transcript, party: str, column: Floats) -> float:
    """How well one table's slabs show a column, place by place, of nameless records."""
    found = []
    for table in range(len(kept.sums)):
        codes = kept.seen(party, table)
        codes = codes[:, codes.std(axis=0) > 0]
        if codes.shape[1]:
            together = np.corrcoef(codes.T, column[kept.orders[table]])
            found.append(np.abs(together[:-1, -1]).max())
    return float(np.median(found))


def planted(points: Floats, radius: float, sizes: range) -> tuple[Floats, dict[int, Ints]]:
    """Give groups of these sizes a rare value of their own, far from everybody."""
    changed = points.copy()
    groups = {}
    generator = np.random.default_rng(5)
    at = 0
    for size in sizes:
        rows = np.arange(at, at + size)
        place = generator.normal(size=points.shape[1])
        changed[rows] = points[rows] * 0.01 + 30 * radius * place / np.linalg.norm(place)
        groups[size] = rows
        at += size
    return changed, groups


def group_linked(kept: Transcript, rows: Ints) -> float:
    """Is a group of this size the only one that returns? Share of tables in which it can be told.

    The attacker looks for a group of exactly this size whose members are alone in each
    party's class.
    """
    told = 0
    for table, sums in enumerate(kept.sums):
        sizes = bin_sizes(sums)
        here = np.isin(kept.orders[table], rows)
        candidates = sizes == len(rows)
        for party in kept.codes:
            codes = kept.seen(party, table)
            joined = (codes[:, 0] * 1_000_003 + codes[:, -1]).astype(np.uint64)
            candidates &= bin_sizes(joined) == len(rows)
        told += bool(candidates.any() and (candidates == here).all())
    return told / len(kept.sums)


def crowd_query(points: Floats, n_tables: int) -> float:
    """A dishonest party asks whether chosen rows resemble a crowd; accuracy on a one-column party.

    Of three parties the second holds that one column, the others have little to say. The third
    gives one tag to a few rows that it asks about and to a crowd that it knows to be above the
    median, and so on with further rows and crowds; every other row gets a tag of its own. A row
    that is no suspect lies where its crowd does. The column is the one whose median halves it
    best, the radius a part of its inner spread: a few extreme values would make every row near.
    """
    n = len(points)
    halves = (points > np.median(points, axis=0)).mean(axis=0)
    column = points[:, np.abs(halves - 0.5).argmin()]
    low, high = np.quantile(column, [0.25, 0.75])
    radius = QUERY_RADIUS * float(high - low)
    above = column > np.median(column)
    order = np.random.default_rng(2).permutation(n)
    known = order[above[order]][: n // 4]
    few = crowd_limit(FAR_FRACTION, n) // 2
    n_crowds = len(known) // (QUERY_CROWD * few)
    asked = np.setdiff1d(order, known)
    asked = np.concatenate([asked[above[asked]][::2], asked[~above[asked]]])
    asked = np.random.default_rng(3).permutation(asked)[: n_crowds * few]
    flat = np.column_stack([np.zeros(n), column, np.zeros(n)])  # the others' columns say nothing
    plain = vertical.own_tags

    def tags(*arguments: Any) -> NDArray[np.uint64]:
        made = plain(*arguments)
        if arguments[4].name != "p2":
            return np.asarray(made, np.uint64)
        drawn = np.random.default_rng(len(made))
        own = drawn.integers(2**32, 2**63, made.shape, dtype=np.uint64)
        own[:, known] = np.arange(len(known)) % n_crowds
        own[:, asked] = np.arange(len(asked)) % n_crowds
        return np.asarray(own, np.uint64)

    with patch.object(vertical, "own_tags", tags):
        tables = split(flat, (1, 1, 1))
        answers = rehearse(question(flat, radius, n_tables), tables).answers
    inside = ~np.isin(asked, answers["p0"].rows)
    return float((inside == above[asked]).mean())


def attack(points: Floats, n_tables: int = 24) -> dict[str, float]:
    """Everything on one set, as named figures."""
    radius = radius_for(points)
    strange = outlying(points, radius)
    widths = thirds(points.shape[1])
    kept = transcript(points, widths, radius, n_tables)
    together = by_place(kept, by_party(points, widths))
    measured = {
        "wide_correlation": together.correlation,
        "wide_luck": together.luck,
        "wide_error": together.error,
    }
    for group, rows in (("inliers", ~strange), ("outliers", strange)):
        for label, ranks_too in (("by_sizes", False), ("by_ranks", True)):
            measured[f"{group}_linked_{label}"] = linked(kept, rows, ranks_too=ranks_too)
        measured[f"{group}_linkable"] = linkable(kept, rows)
    found: dict[str, float] = {}
    for name, figure in measured.items():
        unit = 1000 if name.startswith("inliers") else 1  # of these few are linked: per thousand
        found |= {name: unit * figure.mean, f"{name}_margin": unit * figure.margin}
    narrow = transcript(points[:, :6], (1, 2, 3), radius_for(points[:, :6]), n_tables)
    found["one_column_slabs"] = slab_correlation(narrow, "p0", points[:, 0])
    changed, groups = planted(points, radius, range(2, 7))
    kept = transcript(changed, widths, radius, n_tables)
    told = [group_linked(kept, members) for members in groups.values()]
    found |= {"groups_told_least": min(told), "groups_told_most": max(told)}
    found["crowd_query"] = crowd_query(points, n_tables)
    return found


def linked_of(points: Floats, n_tables: int = 24) -> float:
    """How many inliers of a set are linked to the next table by group sizes."""
    radius = radius_for(points)
    inliers = ~outlying(points, radius)
    kept = transcript(points, thirds(points.shape[1]), radius, n_tables)
    return float(inliers.sum()) * linked(kept, inliers, ranks_too=False).mean


def main() -> None:
    """Attack and print."""
    every = ("generated", *SETS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small generated set only")
    parser.add_argument("--sets", choices=every, nargs="+", default=every, help="some of them")
    given = parser.parse_args()
    if given.quick:
        given.sets = every[:1]
    for name in given.sets:
        try:
            points = real(name) if name in SETS else generated(6000 if given.quick else ROWS)
        except PrivodError as problem:
            print(f"left out {name}: {problem}")
            continue
        for key, value in attack(points, 12 if given.quick else 24).items():
            print(f"figure {name}_{key} {value:.4g}", flush=True)
        for rows in SIZES if name == SIZED and not given.quick else ():
            print(f"figure {name}_inliers_linked_of_{rows} {linked_of(real(name, rows)):.4g}")


if __name__ == "__main__":
    main()
