"""Transcripts of vertical runs in one process, and the data they are made of: what is attacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import local
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.data.examples import data_frame
from privod.joint import vertical as joint_vertical
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit

vertical: Any = joint_vertical  # its insides are watched while it runs
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FAR_FRACTION = 0.998
ROWS = 20_000


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
        Every party's slabs of every table, by row; their directions are hidden from the aggregator.
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
