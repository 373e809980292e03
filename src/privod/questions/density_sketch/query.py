"""Release a sketch of where records lie densely, at any number of columns, to score new records.

Every record is counted in one bin of each of some keyed tables, at several bandwidths; the counts
get noise once [RACE, Coleman and Shrivastava 2020; privately, Coleman and Shrivastava 2021]. The
mean count of a new record's bins estimates how densely records lie around it. Proof in
docs/proofs/density_sketch.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Adjacency, Guarantee, positive
from privod.query.checks import ExactNumber
from privod.query.count_query import CountQuery, NoiseName, chance
from privod.query.preview import Preview, of_counts
from privod.query.query import Release
from privod.questions.density_sketch.hashing import (
    LEAST_WIDTH,
    MOST_TABLES,
    MOST_WIDTH,
    VALUES,
    Hashing,
)
from privod.questions.density_sketch.release import NoisySketch
from privod.threads import available_threads

NANOSECONDS_A_HASH = 2  # of one row, for each axis and for rounding and mixing


@dataclass(frozen=True, kw_only=True)
class DensitySketch(CountQuery[NoisySketch]):
    """Noisy counts of hashed bins, to score new records by how few records lie around them.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Each count, empty
    bins included, gets noise once; the loss covers all tables together, and scoring costs nothing.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns.
    epsilon : number
        The privacy loss of all tables together, greater than 0.
    n_tables : int
        How many tables there are for each bandwidth, at least 1.
    bandwidths : tuple of float
        How far is near, in shares of the diagonal of the ranges; one or more.
    hashes_per_table : int
        Onto how many directions a table projects, at least 1: the more, the nearer is near.
    bins : int
        How many bins each table has, a power of two.
    key : int
        Chooses the directions; public, and the same for sketches that are to be merged.
    noise : str
        One of laplace, gaussian, auto; auto takes the smaller one, by the other parameters alone,
        and in a budget that is counted by zcdp the one that is smaller for the same rho.
    delta : number
        The probability that the guarantee may fail; 0 allows laplace noise only.
    adjacency : AddRemove or Replace
        Which two data sets must look alike.
    """

    name: ClassVar[str] = "density-sketch"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How densely do the records lie around a new one?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    n_tables: int = 10
    bandwidths: tuple[float, ...] = (0.1, 0.4)
    hashes_per_table: int = 2
    bins: int = 256
    key: int = 0
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.bandwidths
        listed = isinstance(given, tuple | list) and 0 < len(given) <= MOST_TABLES
        if not listed or not all(_is_width(each) for each in given):
            rule = f"must be numbers from {LEAST_WIDTH:g} to {MOST_WIDTH:g}, shares of the diagonal"
            raise InvalidParameter("bandwidths", rule, given, "Try 0.1 and 0.4.")
        object.__setattr__(self, "bandwidths", tuple(map(float, given)))
        self._hashing(())  # refuses what cannot be hashed by
        self.guarantee()

    @property
    def n_histograms(self) -> int:
        return self.n_tables * len(self.bandwidths)

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        shown = of_counts(self.count_noise, self.bins * self.n_histograms)
        return replace(shown, typical_share=1 / self.bins)

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002 - every bin has a count
        return self.n_tables * len(self.bandwidths) * self.bins

    def work(self, domain: Domain, records: int) -> int:
        hashes = self.n_histograms * self.hashes_per_table
        hashing = NANOSECONDS_A_HASH * records * hashes * (len(self.columns) + 4)
        return super().work(domain, records) + hashing

    def most_bytes(self, domain: Domain, records: int) -> int:
        # Six arrays of the hashes of as many rows as are hashed at a time, at least of one.
        hashes = self.n_histograms * (self.hashes_per_table + 1)
        hashed = available_threads() * max(2 * VALUES, hashes) * 6 * 8
        return super().most_bytes(domain, records) + hashed

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisySketch]:
        noise = self.count_noise
        counts = noise.add_to(self.counts_before_noise(table), randomness)
        promise, seeded = self.guarantee(), randomness.seeded
        value = self.value_of(table.domain, counts, MergedNoise.of(noise), promise, seeded=seeded)
        return self.release(value, randomness)

    def counts_before_noise(self, table: Table) -> NDArray[np.int64]:
        return table.fold(self._hashing(table.domain.numeric(self.columns)))

    def value_of(
        self,
        domain: Domain,
        counts: NDArray[np.int64],
        noise: MergedNoise,
        promise: Guarantee,
        *,
        seeded: bool,
    ) -> NoisySketch:
        hashing = self._hashing(domain.numeric(self.columns))
        return NoisySketch(hashing, counts, noise, promise, seeded)

    def sentence(self, value: NoisySketch) -> str:
        return (
            f"A sketch of {len(self.columns)} columns in {value.hashing.all_tables} tables stands"
            f" for about {max(0, value.total)} records, each count right to within"
            f" {value.noise.quantile(0.95)} with 95 % certainty. New records can now be scored"
            " against it without further loss."
        )

    def table(self, value: NoisySketch) -> dict[str, list[Any]]:
        tables, bins = np.indices(value.counts.shape) + 1
        return {
            "table": tables.ravel().tolist(),
            "bin": bins.ravel().tolist(),
            "noisy count": value.counts.ravel().tolist(),
        }

    def value_to_json(self, value: NoisySketch) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisySketch:
        return NoisySketch.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:8]
        return (cls(columns=columns, epsilon=1),) if columns else ()

    def _hashing(self, columns: Any) -> Hashing:
        return Hashing(
            columns, self.n_tables, self.bandwidths, self.hashes_per_table, self.bins, self.key
        )


def _is_width(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and LEAST_WIDTH <= value <= MOST_WIDTH
