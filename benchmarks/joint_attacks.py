"""What does the aggregator of a vertical run see, and what do dishonest participants learn?

Real transcripts of runs in one process, attacked with more than an attacker has: it is told every
party's slab of every record it sees, in order (which tag sums show with some work), and which slab
belongs to whom. What is left for it is to link a record of one table to the same record in another.

    PRIVOD_DATA=folder python scripts/run_benchmark.py benchmarks/joint_attacks.py  # some minutes
    python benchmarks/joint_attacks.py --quick                # a generated set, below a minute

Every table has keys of its own, so tables that do not overlap are fresh trials of an attack: what
is judged is the mean over trials, with a bound of 99.9 % confidence (`Measured`). Whether a
correlation is more than luck is judged by moving the truth around: orders are uniform if the
protocol is right, so the moved truth does as well as the real one.

docs/leakage.md quotes the figures. tests/test_vertical_attacks.py holds the limits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from threading import local
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.stats import rankdata, t
from sklearn.decomposition import PCA, FastICA
from sklearn.linear_model import RidgeCV

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.errors import PrivodError
from privod.joint import vertical as joint_vertical
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.heavy import bin_sizes
from privod.outliers.hashing.outliers import crowd_limit

vertical: Any = joint_vertical  # its insides are watched while it runs
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FAR_FRACTION = 0.998
ROWS = 20_000
GROUP = 2  # tables that one trial of putting tables together has, unless told
SHUFFLES = 49  # cyclic shifts of the truth, beside which a correlation is judged
CONFIDENCE = 0.999
RANKED = 1000  # records that are looked for in the other table where that is slow
KNOWN = 400  # records whose values and places the attacker knows
QUERY_CROWD = 20  # known rows for every row that is asked about
QUERY_RADIUS = 0.4  # of the range of the middle half of the column that is asked about
SETS = ("miniboone_signal", "credit_fraud", "kdd99_10percent")


@dataclass
class Transcript:
    """One run: what the aggregator received, and, to judge attacks, what lies behind it.

    Attributes
    ----------
    sums : list of uint64 array
        The tag sums of every table, as they arrived.
    orders : list of int64 array
        Place p of table t holds row `orders[t][p]`; hidden from the aggregator.
    codes : dict of str to list of int64 array of shape (n, hashes)
        Every party's slabs of every table, by row.
    suspects : int64 array
        The answer.
    """

    sums: list[NDArray[np.uint64]] = field(default_factory=list)
    orders: list[Ints] = field(default_factory=list)
    codes: dict[str, list[Ints]] = field(default_factory=dict)
    suspects: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def seen(self, party: str, table: int) -> Ints:
        """A party's slabs in the order in which the aggregator has the records."""
        return self.codes[party][table][self.orders[table]]


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


def split(points: Floats, widths: tuple[int, ...]) -> dict[str, Table]:
    """Deal the columns to parties."""
    top = float(np.abs(points).max()) + 1
    starts = np.cumsum((0, *widths))
    return {
        f"p{place}": Table(
            Domain(tuple(Numeric(f"x{at}", -top, top, fill=0.0) for at in range(low, high))),
            {f"x{at}": points[:, at] for at in range(low, high)},
        )
        for place, (low, high) in enumerate(pairwise(starts.tolist()))
    }


def question(points: Floats, radius: float, n_tables: int) -> JointOutliers:
    """The question that is attacked."""
    return JointOutliers(
        partition="vertical",
        radius=radius,
        far_fraction=FAR_FRACTION,
        columns=tuple(f"x{at}" for at in range(points.shape[1])),
        n_tables=n_tables,
        narrow_parties=True,
    )


@contextmanager
def recording(kept: Transcript) -> Iterator[None]:
    """Write a run's transcript while it goes on."""
    here = local()
    draw, tags, order, sizes = (
        vertical.draw_family,
        vertical.own_tags,
        vertical.permutation,
        vertical.bin_sizes,
    )

    def drawn(*arguments: Any, **named: Any) -> Any:
        here.family = draw(*arguments, **named)
        return here.family

    def tagged(*arguments: Any) -> Any:
        made = tags(*arguments)
        name, points = arguments[4].name, arguments[2]
        family = here.family
        places = family.directions @ (points - family.origin).T.astype(np.float32)
        codes = np.floor(places + family.offsets[:, None]).astype(np.int64)
        for lines in codes.reshape(len(made), -1, len(points)):
            kept.codes.setdefault(name, []).append(lines.T)
        if name == "p0":
            kept.orders += here.orders
        here.orders = []
        return made

    def ordered(key: bytes, n: int) -> Any:
        found = order(key, n)
        here.orders = [*getattr(here, "orders", []), found]
        return found

    def sized(keys: NDArray[np.uint64]) -> Any:
        kept.sums.append(keys.copy())
        return sizes(keys)

    with (
        patch.object(vertical, "draw_family", drawn),
        patch.object(vertical, "own_tags", tagged),
        patch.object(vertical, "permutation", ordered),
        patch.object(vertical, "bin_sizes", sized),
    ):
        yield


def transcript(points: Floats, widths: tuple[int, ...], radius: float, n_tables: int) -> Transcript:
    """Run the protocol and keep what was seen."""
    kept = Transcript()
    tables = split(points, widths)
    with recording(kept):
        answers = rehearse(question(points, radius, n_tables), tables).answers
    kept.suspects = answers["p0"].rows
    return kept


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
    pairs = [(at, at + 1) for at in range(0, len(kept.sums) - 1, 2)]
    return Measured(tuple(_linked(kept, *pair, rows, ranks_too=ranks_too) for pair in pairs))


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


def generated(n: int = 6000, d: int = 12) -> Floats:
    """Independent columns that are not Gaussian, with a halo: what ICA likes best."""
    points = np.random.default_rng(3).laplace(size=(n, d))
    points[::50] *= 3
    return points


def real(name: str, n: int = ROWS) -> Floats:
    """Some rows of a data set, its numeric columns scaled."""
    frame = (
        data_frame(name).to_pandas().drop(columns=["label", "emmott_difficulty"], errors="ignore")
    )
    points = frame.select_dtypes("number").to_numpy(np.float64)
    rows = np.random.default_rng(0).permutation(len(points))[:n]
    points = points[rows]
    spread = points.std(axis=0)
    return np.ascontiguousarray(points[:, spread > 0] / spread[spread > 0])


def radius_for(points: Floats) -> float:
    """Twice the distance within which 99 of 100 records have their crowd."""
    limit = crowd_limit(FAR_FRACTION, len(points))
    sample = points[np.random.default_rng(1).choice(len(points), 100, replace=False)]
    near = [
        np.partition(np.linalg.norm(points - record, axis=1), limit)[limit] for record in sample
    ]
    return 2 * float(np.quantile(near, 0.99))


def thirds(d: int) -> tuple[int, ...]:
    """Three wide parties."""
    return tuple(len(part) for part in np.array_split(np.arange(d), 3))


def outlying(points: Floats, radius: float) -> NDArray[np.bool_]:
    """Which records are outliers, exactly."""
    limit = crowd_limit(FAR_FRACTION, len(points))
    found: NDArray[np.bool_] = crowds(points, radius, cap=limit + 1) <= limit
    return found


def by_party(points: Floats, widths: tuple[int, ...]) -> dict[str, Floats]:
    """Every party's columns."""
    parts = np.split(points, np.cumsum(widths)[:-1], axis=1)
    return {f"p{place}": part for place, part in enumerate(parts)}


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


def main() -> None:
    """Attack and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a generated set only")
    quick = parser.parse_args().quick
    sets: dict[str, Floats] = {"generated": generated() if quick else generated(ROWS)}
    for name in () if quick else SETS:
        try:
            sets[name] = real(name)
        except PrivodError as problem:
            print(f"left out {name}: {problem}")
    for name, points in sets.items():
        for key, value in attack(points, 12 if quick else 24).items():
            print(f"figure {name}_{key} {value:.4g}", flush=True)


if __name__ == "__main__":
    main()
