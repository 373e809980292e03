"""What does the aggregator of a vertical run see, and what do dishonest participants learn?

Real transcripts of runs in one process, attacked with more than an attacker has: it is told every
party's slab of every record it sees, in order (which tag sums show with some work), and which slab
belongs to whom. What is left for it is to link a record of one table to the same record in another.

    PRIVOD_DATA=folder python benchmarks/joint_attacks.py     # three real sets, a few minutes
    python benchmarks/joint_attacks.py --quick                # a generated set

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
from scipy.stats import rankdata
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
ROWS = 12_000
LINKED = 3000  # records that are looked for in the other table
KNOWN = 400  # records whose values and places the attacker knows
QUERY_CROWD = 20  # known rows for every row that is asked about
QUERY_RADIUS = 0.5  # deviations of the column that a dishonest party asks about
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


def by_place(kept: Transcript, party: str, columns: Floats) -> tuple[float, float]:
    """Put tables together by place: the best correlation (ICA) and the error with known records.

    This attack gave the columns when rows kept their places. The error is in standard deviations; 1
    is what guessing the mean gives.
    """
    tables = range(len(kept.sums))
    views = np.hstack([kept.seen(party, table) for table in tables]).astype(np.float64)
    n_sources = min(columns.shape[1], views.shape[1])
    found = PCA(n_sources, whiten=True, random_state=0).fit_transform(views)
    found = np.hstack([found, _ica(found)])
    together = np.abs(np.corrcoef(found.T, columns.T)[: found.shape[1], found.shape[1] :])
    known = np.arange(len(views)) < KNOWN
    fitted = RidgeCV(np.logspace(0, 8, 9)).fit(views[known], columns[known])
    missed = columns[~known] - fitted.predict(views[~known])
    errors = np.sqrt((missed**2).mean(axis=0)) / columns[~known].std(axis=0)
    return float(together.max()), float(errors.min())


def _ica(whitened: Floats) -> Floats:
    with np.errstate(all="ignore"):
        try:
            found: Floats = FastICA(whiten=False, random_state=0, tol=1e-2).fit_transform(whitened)
        except Warning:
            return whitened
    return found


def linked(
    kept: Transcript, first: int, second: int, rows: NDArray[np.bool_], *, ranks_too: bool
) -> float:
    """Link two tables: how many of the records `rows` have themselves as the nearest candidate?

    Records are compared by the sizes of their group and of each party's class; with `ranks_too`
    also by their rank along each party's first slab, in the best of all choices of signs, which no
    real attacker can make.
    """
    parties = sorted(kept.codes)
    best = 0.0
    sizes = [_sizes(kept, table) for table in (first, second)]
    ranks = [_ranks(kept, table) for table in (first, second)]
    mine = np.flatnonzero(rows[kept.orders[first]])[:LINKED]
    ties = np.random.default_rng(4)
    turns = list(product((1.0, -1.0), repeat=min(len(parties), 3)))
    tried = [(1.0, each) for each in turns] if ranks_too else [(0.0, turns[0])]
    for weight, signs in tried:
        turned = ranks[1].copy()
        turned[:, : len(signs)] *= signs
        left = np.hstack([sizes[0], weight * ranks[0]])
        right = np.hstack([sizes[1], weight * turned])
        right += 1e-6 * ties.normal(size=right.shape)  # of equal candidates, any
        guess = KDTree(right).query(left[mine], workers=1)[1]
        right_ones = kept.orders[second][guess] == kept.orders[first][mine]
        best = max(best, float(right_ones.mean()))
    return best


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


def crowd_query(points: Floats, radius: float, n_tables: int, victim: int) -> float:
    """A dishonest party asks whether chosen rows resemble a crowd; accuracy on a one-column party.

    Of three parties the second holds that one column, the others have little to say. The third
    gives one tag to a few rows that it asks about and to a crowd that it knows to be above the
    median, and so on with further rows and crowds; every other row gets a tag of its own. A row
    that is no suspect lies where its crowd does.
    """
    n = len(points)
    column = points[:, victim]
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


def attack(points: Floats, n_tables: int = 50) -> dict[str, float]:
    """Everything on one set, as named figures."""
    radius = radius_for(points)
    limit = crowd_limit(FAR_FRACTION, len(points))
    outlying = crowds(points, radius, cap=limit + 1) <= limit
    widths = thirds(points.shape[1])
    kept = transcript(points, widths, radius, n_tables)
    found: dict[str, float] = {}
    starts = np.cumsum((0, *widths))
    judged = [by_place(kept, f"p{at}", points[:, starts[at] : starts[at + 1]]) for at in range(3)]
    found["wide_correlation"] = max(one for one, _ in judged)
    found["wide_error"] = min(one for _, one in judged)
    for group, rows in (("inliers", ~outlying), ("outliers", outlying)):
        for label, ranks_too in (("by_sizes", False), ("by_ranks", True)):
            found[f"{group}_linked_{label}"] = linked(kept, 0, 1, rows, ranks_too=ranks_too)
    narrow = transcript(points[:, :6], (1, 2, 3), radius_for(points[:, :6]), n_tables)
    found["one_column_slabs"] = slab_correlation(narrow, "p0", points[:, 0])
    changed, groups = planted(points, radius, range(2, 7))
    kept = transcript(changed, widths, radius, n_tables)
    for size, members in groups.items():
        found[f"group_of_{size}_told"] = group_linked(kept, members)
    found["crowd_query"] = crowd_query(points, QUERY_RADIUS, n_tables, 0)
    return found


def main() -> None:
    """Attack and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a generated set only")
    quick = parser.parse_args().quick
    sets: dict[str, Floats] = {"generated": generated()}
    for name in () if quick else SETS:
        try:
            sets[name] = real(name)
        except PrivodError as problem:
            print(f"left out {name}: {problem}")
    for name, points in sets.items():
        for key, value in attack(points, 20 if quick else 50).items():
            print(f"figure {name}_{key} {value:.4g}", flush=True)


if __name__ == "__main__":
    main()
