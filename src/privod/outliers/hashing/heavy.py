"""Which records share a bin with more than a crowd? The counts-only rule of joint runs.

An outlier has at most `max_crowd` records within the radius, so its bin holds more only if records
from beyond the radius fall into it. An ordinary record's bin does in most tables. A record whose
bin is heavy in few tables is a suspect. The rule needs bin counts alone: no list of neighbors, no
bin that is shared twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr

from privod.errors import InvalidParameter
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.plan import collision_probability

__all__ = ["MODEL_SHARE", "CloudModel", "HashedCloud", "HeavyOdds", "Threshold", "bin_sizes"]
__all__ += ["bucket_width_for"]

FAR_MATCH = 0.05  # of all tables are shared by two records exactly one radius apart
MODEL_RECORDS = 10_000  # enough for fifty outliers
MODEL_TABLES = 100  # from which a record's chance to be in a heavy bin is taken
MODEL_SHARE = 0.005  # of the model's records are outlying
MODEL_CROWD = 12  # the smallest crowd that still has a shape; smaller ones get more records
MODEL_COLUMNS = 6  # independent directions; real tables seldom have more that matter
MOST_MODEL_RECORDS = 60_000
SAMPLE = 1000  # records of the model whose neighbors decide its radius


def bin_sizes(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for every record of one table how many records have its key, itself included."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(first, len(keys)))
    sizes = np.empty(len(keys), np.int64)
    sizes[order] = np.repeat(counts, counts)
    return sizes


def bucket_width_for(n_hashes: int, radius: float, far_match: float = FAR_MATCH) -> float:
    """Return the width at which two records one radius apart share a table this often."""
    from scipy.optimize import brentq  # takes a while to import, and only who plans needs it

    wanted = far_match ** (1 / n_hashes)
    ratio = brentq(lambda width: collision_probability(1.0, width) - wanted, 1e-6, 1e6)
    return float(ratio) * radius


@dataclass(frozen=True)
class Threshold:
    """A record that is heavy in at most `most_heavy` of `n_tables` is a suspect.

    Attributes
    ----------
    n_tables, most_heavy : int
        The rule.
    found : float
        The share of the model's outliers that it suspects.
    precision : float
        The share of the model's suspects that are outliers.
    suspects : float
        The share of the model's records that it suspects.
    """

    n_tables: int
    most_heavy: int
    found: float
    precision: float
    suspects: float


@dataclass(frozen=True, eq=False)
class HeavyOdds:
    """Every model record's chance to be in a heavy bin of a table, and whether it is outlying."""

    chances: NDArray[np.float64]
    outlying: NDArray[np.bool_]

    def threshold(self, n_tables: int, find: float) -> Threshold:
        """Return the strictest rule that suspects the share `find` of the outliers.

        Tables are independent, so a record with chance q is heavy in Bin(n_tables, q) of them and
        the tail is exact.
        """
        chances = self.chances[self.outlying]
        below, most = -1, n_tables  # the last threshold suspects everybody
        while most - below > 1:
            middle = (below + most) // 2
            if bdtr(middle, n_tables, chances).mean() >= find:
                most = middle
            else:
                below = middle
        suspected = bdtr(most, n_tables, self.chances)
        right, every = float((suspected * self.outlying).mean()), float(suspected.mean())
        found = float(suspected[self.outlying].mean())
        return Threshold(n_tables, most, found, right / max(every, 1e-300), every)


@dataclass(frozen=True, eq=False)
class HashedCloud:
    """A model in its bins.

    Attributes
    ----------
    above : array of int
        For each table and record, by how much its bin is above a crowd.
    outlying : array of bool
        Whether a record is outlying.
    scale : float
        How many records it has for each of the joint data.
    """

    above: NDArray[np.int32]
    outlying: NDArray[np.bool_]
    scale: float

    def odds(self, noise_deviation: float) -> HeavyOdds:
        """The chances where noise of this deviation is added to the counts of the joint data."""
        deviation = noise_deviation * self.scale
        chances = np.zeros(len(self.outlying))
        for above in self.above:
            chances += ndtr((above - 0.5) / deviation) if deviation else above > 0
        return HeavyOdds(chances / len(self.above), self.outlying)


@dataclass(frozen=True)
class CloudModel:
    """Public made-up data with a question's proportions: one Gaussian cloud with some outliers.

    Nothing in it comes from rows. It has the question's share of crowds, its parties' shares of the
    columns, and as many independent directions as tables of the kind usually have.

    Parameters
    ----------
    n_records, max_crowd : int
        Of the joint data.
    widths : tuple of int
        How many columns every holder of hashes has; one holder if hashes go over all columns.
    n_columns : int
        Independent directions of the cloud.
    """

    n_records: int
    max_crowd: int
    widths: tuple[int, ...]
    n_columns: int = MODEL_COLUMNS

    def hashed(self, n_hashes: int) -> HashedCloud:
        """Hash the model with `n_hashes` per holder and table."""
        size, limit = self._scaled()
        d = min(self.n_columns, sum(self.widths))
        generator = np.random.default_rng(0)  # made-up data: nothing secret, alike everywhere
        cloud = generator.normal(size=(size, d))
        radius = _radius(cloud, limit, generator)
        outlying = crowds(cloud, radius, cap=limit + 1) <= limit
        turned = np.linalg.qr(generator.normal(size=(sum(self.widths), d)))[0]  # d columns to all
        parts = np.split(turned, np.cumsum(self.widths)[:-1])
        width = bucket_width_for(n_hashes * len(parts), radius)
        above = np.empty((MODEL_TABLES, size), np.int32)
        for table in above:
            keys = np.zeros(size, np.uint64)
            for part in parts:
                own = width * np.sqrt(len(part) / sum(self.widths))
                directions = generator.normal(size=(n_hashes, len(part))) @ part
                offsets = generator.uniform(size=n_hashes)
                codes = np.floor(cloud @ directions.T / own + offsets).astype(np.int64)
                for column in codes.T:
                    odd = np.uint64(generator.integers(0, 2**63)) | np.uint64(1)
                    keys += column.astype(np.uint64) * odd
            table[:] = bin_sizes(keys) - limit
        return HashedCloud(above, outlying, size / self.n_records)

    def _scaled(self) -> tuple[int, int]:
        """How many records the model has, and how many of them are a crowd."""
        if self.max_crowd < 1:
            raise InvalidParameter(
                "far_fraction",
                "must leave a crowd of at least 1 among the records of all parties",
                f"a crowd of {self.max_crowd}",
                "Use a smaller far_fraction.",
            )
        wanted = MODEL_CROWD * self.n_records // self.max_crowd
        size = min(self.n_records, max(MODEL_RECORDS, wanted), MOST_MODEL_RECORDS)
        return size, max(1, round(self.max_crowd * (size / self.n_records)))


def _radius(cloud: NDArray[np.float64], limit: int, generator: np.random.Generator) -> float:
    """The radius at which the model's share of the records is outlying."""
    from scipy.spatial import KDTree  # takes a while to import, and only who plans needs it

    rows = generator.choice(len(cloud), min(SAMPLE, len(cloud)), replace=False)
    last = min(limit, len(cloud) - 1) + 1  # itself is the first
    nearest = KDTree(cloud).query(cloud[rows], k=[last])[0]
    return float(np.quantile(nearest, 1 - MODEL_SHARE))
