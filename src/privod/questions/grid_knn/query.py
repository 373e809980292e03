"""Release a noisy grid that scores new records against private ones [Rauch 2021].

Every count of a uniform grid, the empty cells' too, gets noise once; all else is post-processing
(`NoisyGrid`). A grid of many cells keeps only those whose noisy count reaches a public threshold,
and buys the number of records with a fiftieth of epsilon. Proof in docs/proofs/grid_knn.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, ClassVar, Literal, Self

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.data.folding import SomeRows
from privod.engines.size import IN_MEMORY
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.law import Law, Lost, Unlike
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.sparse import count_reaching, distinct, not_taken
from privod.outliers.grid.folds import OccupiedCells
from privod.outliers.grid.grid import MOST_CELLS_PER_AXIS, Grid
from privod.privacy import AddRemove, Adjacency, Cost, Guarantee, Statement, positive
from privod.query.checks import LARGEST_COUNT, ExactNumber, whole_number
from privod.query.count_query import (
    MOST_EXPECTED,
    TOTAL_SHARE,
    CountNoise,
    CountQuery,
    NoiseName,
    NoisyTotal,
    chance,
    told_of_epsilon,
    uniform_cells,
)
from privod.query.memory import folding_bytes, sparse_cells_bytes
from privod.query.preview import CERTAINTY, FEW, Preview, of_counts
from privod.query.query import Release
from privod.query.release_file import LARGEST_SUM
from privod.questions.grid_knn.release import NoisyGrid

MOST_HELD_CELLS = 10_000_000  # 80 megabytes of counts
VALUES_AT_ONCE = 1 << 26  # 512 MB of keys, counts and cells, of rows that are not in memory
FEW_CELLS = 1 << 18  # are counted one by one: 2 MB of counts, in less time than keys are sorted
CELLS_AT_ONCE = 1 << 16  # that get their noise at a time, drawn for so many however few there are
MOST_FALSE_CELLS = 1_000_000
SELDOM_MORE = 1000
LEAST_SAID = 0.02  # of the records hidden in noise that a sentence mentions
ROUNDING = 1e-9  # of logarithms, so that a choice at the limit is not refused
FALSE_CELLS_PER_RECORD = 0.01  # empty cells that may pass the automatic threshold
MANY_CELLS = 4  # to an expected record, past which they are dropped automatically ...
MANY_RECORDS = 1000  # ... if this many times the threshold are expected: then crowds pass it

Listed = Callable[[], Iterable[OccupiedCells]]
"""Lists the occupied cells, ascending, in parts, as often as it is called."""


@dataclass(frozen=True, kw_only=True)
class GridKnn(CountQuery[NoisyGrid]):
    """A noisy grid of the records: it scores new records by how far their neighbors are.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). Each count, empty
    cells included, gets one draw of exact discrete Laplace noise; scoring costs nothing more. If
    cells are dropped, a fiftieth of epsilon buys the number of records.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns that span the grid.
    epsilon : number
        The privacy loss of the whole grid, greater than 0.
    cells_per_axis : int, optional
        Into how many equal intervals each column's range is cut, at least 2. None: chosen from
        `expected_records`, `epsilon` and the number of columns [Su 2016].
    expected_records : int
        A public guess of the number of records, at least 1; steers the two automatic choices.
    drop_below : int or "auto", optional
        Drop the cells whose noisy count stays below this, at least 1. None: drop none. "auto":
        the threshold that about one empty cell per hundred expected records passes, if there are
        more than four cells to an expected record and a thousand times as many of these as the
        threshold, or more than ten million cells; otherwise drop none.
    """

    name: ClassVar[str] = "grid-knn"
    value_class: ClassVar[Any] = NoisyGrid
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "How far is a new record from the data?"
    goal: ClassVar[str] = "score"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    cells_per_axis: int | None = None
    expected_records: int = 1000
    drop_below: int | Literal["auto"] | None = "auto"
    noise: NoiseName = "laplace"
    delta: ExactNumber = ExactNumber(chance, Fraction(0))
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.expected_records, "expected_records", at_least=1)
        if self.cells_per_axis is not None:
            most = MOST_CELLS_PER_AXIS  # before powers are taken of it
            whole_number(self.cells_per_axis, "cells_per_axis", at_least=2, at_most=most)
        if isinstance(self.drop_below, str):
            if self.drop_below != "auto":
                rule = 'must be a whole number, "auto" or None'
                raise InvalidParameter("drop_below", rule, self.drop_below, 'Try "auto".')
        elif self.drop_below is not None:
            whole_number(self.drop_below, "drop_below", at_least=1, at_most=LARGEST_COUNT)
        # An epsilon too small or too large for the noise, or for a part of it, is refused here.
        self.laplace_noise  # noqa: B018
        if self.chosen_noise == "gaussian" and self.threshold is not None:
            rule = "must be None or auto with gaussian noise"
            raise InvalidParameter("drop_below", rule, self.drop_below, "Try noise 'laplace'.")
        with told_of_epsilon(self.epsilon, "the fiftieth of it that counts all records"):
            self.guarantee()

    @property
    def n_histograms(self) -> int:
        return 1

    @property
    def n_cells(self) -> int:
        """How many cells there are, kept or dropped."""
        return int(self._cells_per_axis ** len(self.columns))

    @cached_property
    def threshold(self) -> int | None:
        """The noisy count that a cell must reach to be kept; None: all are kept."""
        if self.drop_below != "auto":
            return self.drop_below
        if self.chosen_noise == "gaussian":  # sparse noise is drawn by the Laplace law alone
            return None
        least, n_cells, guess = self.automatic_threshold, self.n_cells, self.expected_records
        worth_it = n_cells > MANY_CELLS * guess and guess >= MANY_RECORDS * least
        return least if worth_it or n_cells > MOST_HELD_CELLS else None

    @cached_property
    def automatic_threshold(self) -> int:
        """The threshold that about one empty cell per hundred expected records passes."""
        guess = min(self.expected_records, MOST_EXPECTED)
        allowed = min(max(1.0, guess * FALSE_CELLS_PER_RECORD), MOST_FALSE_CELLS)
        scale = float(self._noise_of_kept.scale)
        excess = math.log(self.n_cells) - math.log(allowed) + _log_reaching(0, scale)
        return max(1, math.ceil(excess * scale))

    @cached_property
    def count_noise(self) -> CountNoise:
        return super().count_noise if self.threshold is None else self._noise_of_kept

    @cached_property
    def noise_of_total(self) -> DiscreteLaplace:
        """The noise of the bought number of records, which one record changes by one."""
        return DiscreteLaplace.for_loss(self.epsilon * TOTAL_SHARE, 1)

    def guarantee(self) -> Guarantee:
        if self.threshold is None:
            return super().guarantee()
        return super().guarantee() + Guarantee(self.noise_of_total.loss(1), self.adjacency)

    def also(self, domain: Domain) -> tuple[Statement, ...]:
        if self.threshold is None or self.adjacency == AddRemove():
            return super().also(domain)
        lost = self._noise_of_kept.loss(1) + self.noise_of_total.loss(1)
        return (Statement(Cost.of_loss(lost), AddRemove()),)

    def within(self, accounting: str, delta: Fraction = Fraction(0)) -> Self:
        # Cells are dropped by the Laplace law alone, however budgets count.
        if self.noise == "auto" and accounting == "zcdp":
            plain = replace(self, noise="laplace", delta=Fraction(0))
            if plain.threshold is not None:
                return plain
        return super().within(accounting, delta)

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        about = "each count that is kept"
        if self.threshold is None:
            return of_counts(self.count_noise, self.n_cells, about)
        noise, share = self._noise_of_kept, max(FEW, 1 / self.n_cells)
        margin = margin_of_kept(noise, self.threshold)
        words = f"{_kept_in_words(noise, self.threshold)}."
        return Preview(about, margin, typical_share=share, words=words)

    def check(self, domain: Domain) -> None:
        self.grid(domain)
        threshold, noise = self.threshold, self.count_noise
        scale = float(noise.scale) if isinstance(noise, DiscreteLaplace) else noise.sigma
        kept = math.log(self.n_cells)
        if threshold is None:
            if self.n_cells > MOST_HELD_CELLS:
                rule = f"must drop some of more than {MOST_HELD_CELLS} cells"
                raise InvalidParameter("drop_below", rule, None, 'Try "auto", or fewer cells.')
        else:
            kept += _log_reaching(threshold, scale)
            if kept > math.log(MOST_FALSE_CELLS) + ROUNDING:
                rule = f"must let about {MOST_FALSE_CELLS} empty cells pass at most"
                way_out = f'Try {self.automatic_threshold}, "auto", or more epsilon.'
                raise InvalidParameter("drop_below", rule, self.drop_below, way_out)
        if kept + math.log((threshold or 0) + scale) > math.log(LARGEST_SUM) - 1:
            rule = "must be larger for so many cells, or their noise adds up past 64 bits"
            raise InvalidParameter("epsilon", rule, self.epsilon, "Try 1.")

    def grid(self, domain: Domain) -> Grid:
        """The cells, from public knowledge alone."""
        return Grid(domain.numeric(self.columns), self._cells_per_axis)

    def n_numbers(self, domain: Domain) -> int:  # noqa: ARG002 - cells are all there is
        return self.n_cells if self.threshold is None else 0

    def most_numbers(self, domain: Domain, records: int) -> int:
        if self.threshold is None:
            return self.n_numbers(domain)
        return self._most_kept(records) * (len(self.columns) + 1)

    def most_bytes(self, domain: Domain, records: int) -> int:
        if self.threshold is None:
            return super().most_bytes(domain, records)
        n_axes, n_words = len(self.columns), self.grid(domain).listing().n_words
        few = sparse_cells_bytes(min(records, IN_MEMORY), self._most_kept(records), n_axes, n_words)
        numbers = self.most_numbers(domain, records)
        return few + VALUES_AT_ONCE * 8 * 2 + folding_bytes(n_axes, numbers)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        if self.threshold is None:
            return 0
        share_kept = min(1.0, 2 / (self.threshold or 1) + self._likely_lifted)  # at most, about
        # Each kept cell is held with its count, twice while they are sorted.
        return math.ceil(2 * share_kept * (len(self.columns) + 1))

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyGrid]:
        grid = self.grid(table.domain)
        threshold = self.threshold
        kept, records = None, None
        if threshold is None:
            counts = self.count_noise.add_to(table.fold(grid.counting()), randomness)
        else:
            noisy = self.noise_of_total.add_to(np.array([len(table)]), randomness)
            records = NoisyTotal(int(noisy[0]), MergedNoise.of(self.noise_of_total))
            law = Kept(self._noise_of_kept, threshold, grid, table.most_records)
            kept, counts = randomness.draw(law, _occupied(table, grid))
        value = NoisyGrid(
            grid,
            counts,
            kept,
            threshold,
            self.guarantee(),
            randomness.seeded,
            MergedNoise.of(self.count_noise),
            records,
        )
        return self.release(value, randomness)

    def sentence(self, value: NoisyGrid) -> str:
        grid = value.grid
        names = ", ".join(column.name for column in value.columns[:4])
        names += ", ..." if grid.n_axes > 4 else ""
        if value.drop_below is None:
            kept = f"all {grid.n_cells:,} noisy cells"
        else:
            least = f"whose noisy count is at least {value.drop_below:,}"
            kept = f"the {len(value.counts):,} of {_rounded(grid.n_cells)} cells {least}"
        total = f"about {max(value.total, 0):,} records in all"
        if value.records is not None:
            total += f" (± {value.records.noise.quantile(0.95):,})"
        hidden = ""
        if value.hidden_share >= LEAST_SAID:
            hidden = (
                f" About {100 * value.hidden_share:.0f} % of the records cannot be told from noise."
                " A threshold for a smaller share is a guess."
            )
        return (
            f"A grid over {names} holds {kept}, {total}{_certainty(value)}. Scoring new records"
            f" against it costs nothing more.{hidden}"
        )

    def table(self, value: NoisyGrid) -> dict[str, list[Any]]:
        grid = value.grid
        cells = grid.cells_at(range(grid.n_cells)) if value.cells is None else value.cells
        found: dict[str, list[Any]] = {}
        for column, places in zip(grid.columns, cells.T.tolist(), strict=True):
            cuts = np.linspace(column.low, column.high, grid.cells_per_axis + 1).tolist()
            found[f"{column.name} from"] = [cuts[place] for place in places]
            found[f"{column.name} to"] = [cuts[place + 1] for place in places]
        return {**found, "noisy count": value.counts.tolist()}

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names
        if not columns:
            return ()
        return (cls(columns=columns[:2], epsilon="0.5"),)

    @property
    def _cells_per_axis(self) -> int:
        if self.cells_per_axis is not None:
            return self.cells_per_axis
        epsilon, n_axes = float(self.epsilon), len(self.columns)
        per_axis = uniform_cells(self.expected_records, epsilon, n_axes)
        return min(MOST_CELLS_PER_AXIS, max(2, round(per_axis)))

    @property
    def _likely_lifted(self) -> float:
        """The probability that noise alone reaches half the threshold."""
        least = self.threshold or 1
        return math.exp(_log_reaching(least // 2, float(self._noise_of_kept.scale)))

    def _most_kept(self, records: int) -> int:
        """At most how many cells are kept, but for a probability below e^-300.

        Those that noise decides about are independent; their number passes twice its mean and a
        thousand as rarely [Chernoff].
        """
        least = self.threshold or 1
        false = self.n_cells * math.exp(_log_reaching(least, float(self._noise_of_kept.scale)))
        surely, lifted = 2 * records / least, records * self._likely_lifted
        by_records = min(records, surely + 2 * lifted + SELDOM_MORE)
        return math.ceil(min(self.n_cells, by_records + 2 * false + SELDOM_MORE))

    @cached_property
    def _noise_of_kept(self) -> DiscreteLaplace:
        share = self.epsilon * (1 - TOTAL_SHARE)
        return DiscreteLaplace.for_loss(share, self._counts_changed)


@dataclass(frozen=True)
class Kept(Law):
    """The cells that reach a threshold with noise, as if no cell had been skipped.

    Given are the occupied cells. Of all cells, as if they were empty, it is drawn how many pass,
    which, and with what counts; this counts for those that are empty. The occupied ones get noise
    and are filtered [Cormode 2012; docs/proofs/grid_knn.md, Theorem 2]. How much is drawn follows
    from public numbers and the noise, but for a power of two where no size was declared.
    """

    noise: DiscreteLaplace
    threshold: int
    grid: Grid
    most_records: int | None

    def sample(self, given: Listed, bits: Randomness) -> OccupiedCells:
        noise, grid, threshold = self.noise, self.grid, self.threshold
        n_passing = count_reaching(noise, threshold, grid.n_cells, bits)
        drawn = distinct(n_passing, grid.n_cells, bits)
        values = noise.draw_reaching(threshold, n_passing, bits)
        empty = not_taken(drawn, (grid.indices_of(some.cells) for some in given()))
        kept = [OccupiedCells(grid.cells_at(drawn)[empty], values[empty])]
        draws = partial(_n_draws, grid.n_cells, self.most_records)
        for some in _with_noise(_at_once(given()), noise, draws, bits):
            stay = some.counts >= threshold
            kept.append(OccupiedCells(some.cells[stay], some.counts[stay]))
        cells = np.concatenate([some.cells for some in kept])
        counts = np.concatenate([some.counts for some in kept])
        order = np.lexsort(cells.T[::-1])
        return OccupiedCells(cells[order], counts[order])

    def seen(self, given: Listed) -> dict[tuple[int, ...], int]:
        """The counts of the occupied cells, by cell."""
        return {
            tuple(cell): count
            for some in given()
            for cell, count in zip(some.cells.tolist(), some.counts.tolist(), strict=True)
        }

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        """What all noisy counts would lose: those kept are computed of them."""
        if self != other:
            raise Unlike("Cells are kept by another rule.")
        cells = seen.keys() | other_seen.keys()
        changed = sum(abs(seen.get(cell, 0) - other_seen.get(cell, 0)) for cell in cells)
        return Lost.pure(changed / self.noise.scale)


def _occupied(table: Table, grid: Grid) -> Listed:
    """The occupied cells; of rows that are not in memory range by range, read again each time.

    How many ranges there are follows from the declared size: at worst every record has a cell.
    """
    if grid.n_cells <= FEW_CELLS:
        few = grid.occupied_of(table.fold(grid.counting()))
        return lambda: [few]
    listing = grid.listing()
    if table.held_in_memory or table.most_records is None:
        every = listing.cells(table.fold(listing))
        return lambda: [every]
    each = 2 * (listing.n_words + 1) + grid.n_axes  # keys and counts while sorted, then cells
    n_ranges = -(-table.most_records * each // VALUES_AT_ONCE)
    some = table.fold(SomeRows(listing.numbers, (), attrgetter("numbers")))
    ranges = listing.ranges(some, n_ranges)
    return lambda: (one.cells(table.fold(one)) for one in ranges)


def _at_once(parts: Iterable[OccupiedCells]) -> Iterator[OccupiedCells]:
    """The same cells, so many at a time however they come, and fewer, or none, at the end."""
    rest: OccupiedCells | None = None
    for part in parts:
        if rest is not None:
            part = OccupiedCells(
                np.concatenate([rest.cells, part.cells]), np.concatenate([rest.counts, part.counts])
            )
        whole = len(part.counts) // CELLS_AT_ONCE * CELLS_AT_ONCE
        for start in range(0, whole, CELLS_AT_ONCE):
            some = slice(start, start + CELLS_AT_ONCE)
            yield OccupiedCells(part.cells[some], part.counts[some])
        rest = OccupiedCells(part.cells[whole:], part.counts[whole:])
    if rest is not None:
        yield rest


def _with_noise(
    blocks: Iterable[OccupiedCells],
    noise: DiscreteLaplace,
    n_draws: Callable[[int], int],
    randomness: Randomness,
) -> Iterator[OccupiedCells]:
    """The same cells with noise; `n_draws` says how often it is drawn for so many cells."""
    n_drawn = n_occupied = 0
    for some in blocks:
        n_here = len(some.counts)
        n_occupied += n_here
        n_wanted = n_drawn + n_here if n_here == CELLS_AT_ONCE else n_draws(n_occupied)
        counts = np.zeros(min(CELLS_AT_ONCE, n_wanted - n_drawn), dtype=np.int64)
        counts[:n_here] = some.counts
        n_drawn += len(counts)
        yield OccupiedCells(some.cells, noise.add_to(counts, randomness)[:n_here])
    while n_drawn < n_wanted:  # the rest is for nobody
        n_drawn += len(noise.draw(min(CELLS_AT_ONCE, n_wanted - n_drawn), randomness))


def _n_draws(n_cells: int, most_records: int | None, n_occupied: int) -> int:
    """How often noise is drawn for occupied cells: as often as there may be any.

    Where no most was declared, for the next power of two.
    """
    if most_records is None:
        most_records = 1 << max(n_occupied - 1, CELLS_AT_ONCE - 1).bit_length()
    return min(n_cells, most_records)


def _log_reaching(threshold: int, scale: float) -> float:
    """ln P(noise >= threshold) = -threshold / scale - ln(1 + e^(-1/scale)), threshold >= 0."""
    return -threshold / scale - math.log1p(math.exp(-1 / scale))


def margin_of_kept(noise: DiscreteLaplace, threshold: int) -> int:
    """What a count is right to within with 95 % certainty, given that it reached the threshold.

    It holds for a cell of any number of records, none included, by docs/proofs/grid_knn.md.
    """
    excess = math.ceil(float(noise.scale) * math.log(1 / (1 - CERTAINTY)))
    return max(threshold - 1 + excess, noise.quantile(1 - (1 - CERTAINTY) / 2))


def _kept_in_words(noise: DiscreteLaplace, threshold: int) -> str:
    margin, kept = noise.quantile(CERTAINTY), margin_of_kept(noise, threshold)
    return (
        f"A cell of {threshold + margin:,} records or more is kept, with a margin of ± {margin:,}"
        " (95 % confidence). The count of a smaller cell that is kept tends to be too high, with a"
        f" margin of ± {kept:,} (95 % confidence)"
    )


def _certainty(value: NoisyGrid) -> str:
    """How far off the counts of a release may be, as the end of a sentence."""
    margin, single = value.noise.quantile(CERTAINTY), value.noise.single
    if value.drop_below is None:
        return f". Each count has a margin of ± {margin:,} (95 % confidence)"
    if isinstance(single, DiscreteLaplace):
        return f". {_kept_in_words(single, value.drop_below)}"
    return (
        f". The noise of a count stays within ± {margin:,} (95 % confidence). Counts that are kept"
        " tend to be too high where cells hold few records, and lack what merged parts dropped"
    )


def _rounded(count: int) -> str:
    """A large number for humans: exact while it is short, else its power of ten."""
    return f"{count:,}" if count < 10**7 else f"about 10^{math.log10(count):.0f}"
