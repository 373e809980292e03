"""In which contexts does a record stand out: all of them, exactly, or any list of them [PCOR].

Not private. What is known here about the rows leaves only through a mechanism, or stays with the
owner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Floats, Ints
from privod.data.table import Table
from privod.outliers.contexts.contexts import Choices, Context, ContextSpace
from privod.outliers.contexts.detectors import BuiltIn, Detector
from privod.outliers.contexts.kernels.decide import EVERYTHING, Rule
from privod.outliers.contexts.kernels.judge import (
    HIGH,
    LOW,
    SQUARES,
    TOTAL,
    WEIGHT,
    Cells,
    Side,
    judge_contexts,
)
from privod.outliers.contexts.kernels.scan import NO_MATCH, Menus, scan_contexts
from privod.outliers.contexts.packed import Packed, chosen_bits, pack, unpack
from privod.progress import track
from privod.threads import in_threads, thread_pool

INNER_BITS = 10  # a block of contexts shares its lists; its sums stay in the nearest cache
STEPS = 200  # of the progress bar
JUDGED_AT_ONCE = 1 << 9  # contexts, each with a byte for every value; worth a thread
MOST_POSSIBLE = 1 << 16  # cells, occupied or not, that are listed to number the occupied
SMALLEST_STEP = 1 << 12  # contexts; a thread is not worth its while for fewer


class Judged(NamedTuple):
    """Of each context: whether the record stands out in it, its utility, its population."""

    matches: NDArray[np.bool_]
    utilities: Ints
    sizes: Ints


@dataclass(frozen=True, repr=False)
class RecordView:
    """The rows of a table as one record sees them: by cell, and by distance from its value."""

    space: ContextSpace
    detector: Detector
    value: float
    codes: NDArray[np.uint16]
    """Of the other records, shape (attributes, n), as `ContextSpace` has them inside."""
    values: Floats
    rows: Ints
    """Which row of the table each of the others is."""
    cells: Cells
    cell_of: NDArray[np.int32]
    below: Side
    above: Side
    rule: Rule | None
    own_row: int | None
    """The row equal to the record that was taken out of the others, if there is one."""

    @property
    def present(self) -> bool:
        """Whether a row equals the record."""
        return self.own_row is not None

    def __len__(self) -> int:
        return len(self.values)

    def scan(self) -> NDArray[np.int32]:
        """The utility of every context, by number; NO_MATCH where the record does not stand out."""
        space = self.space
        found = np.empty(space.n_contexts, np.int32)
        inner_bits = min(space.free_bits[-1], INNER_BITS) if space.runs[-1] is None else 0
        menus = _menus(space)
        blocks = self.space.n_contexts >> inner_bits
        step = max(1, -(-blocks // STEPS), SMALLEST_STEP >> inner_bits)
        firsts = range(0, blocks, step)

        def one(first: int) -> None:
            stop = min(first + step, blocks)
            numbers = slice(first << inner_bits, stop << inner_bits)
            part = found[numbers]
            if self.rule is None:
                each = range(numbers.start, numbers.stop)
                judged = self.judge([self.space.numbered(number) for number in each])
                part[:] = np.where(judged.matches, judged.utilities, NO_MATCH)
            else:
                scan_contexts(
                    first, stop, space.free_bits[-1] + 1, menus, inner_bits, self.cells,
                    self.below, self.above, self.rule, part,
                )  # fmt: skip

        if len(firsts) == 1:
            one(0)
            return found
        with thread_pool() as pool:
            for _ in track(pool.map(one, firsts), "judging contexts", len(firsts)):
                pass
        return found

    def judge(self, contexts: Sequence[Choices]) -> Judged:
        """Judge these contexts."""
        return self.judge_packed(pack(self.space, contexts))

    def judge_packed(self, contexts: Packed) -> Judged:
        """Judge contexts given as rows of bytes."""
        n = len(contexts)
        judged = Judged(np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n, np.int64))
        rule = self.rule or Rule(EVERYTHING, self.value, 1, 0.0, np.zeros(0), 0)

        def one(piece: int) -> None:
            part = slice(piece * JUDGED_AT_ONCE, (piece + 1) * JUDGED_AT_ONCE)
            chosen, starts = chosen_bits(self.space, contexts[part])
            told = (judged.matches[part], judged.utilities[part], judged.sizes[part])
            judge_contexts(chosen, starts, self.cells, self.below, self.above, rule, *told)

        in_threads(one, -(-n // JUDGED_AT_ONCE))
        if self.rule is None:
            for place, row in enumerate(contexts):
                others = self.values[self.members(unpack(self.space, row))]
                judged.matches[place] = self.detector.stands_out(others, self.value)
        return judged

    def without(self, rows: Ints) -> RecordView:
        """What the record sees when these rows of the table are gone: a view of fewer others."""
        kept = ~np.isin(self.rows, rows)
        own_row = self.own_row
        if own_row is not None and own_row in rows:
            same = np.flatnonzero(kept & (self.values == self.value) & (self.codes == 0).all(0))
            kept[same[:1]] = False
            own_row = int(self.rows[same[0]]) if len(same) else None
        codes, values = np.ascontiguousarray(self.codes[:, kept]), self.values[kept]
        cell_of = self.cell_of[kept]
        shared = self.cells.counts[:, WEIGHT] > 0
        cells = _summed(self.cells.codes, cell_of, values, self.value, shared)
        rule = None if self.rule is None else _rule(self.detector, self.value, len(values))
        below, above = _sides(codes, values, cell_of, self.value, rule)
        return replace(
            self,
            codes=codes,
            values=values,
            rows=self.rows[kept],
            cells=cells,
            cell_of=cell_of,
            below=below,
            above=above,
            rule=rule,
            own_row=own_row,
        )

    def members(self, context: Choices) -> NDArray[np.bool_]:
        """Which of the other records belong to the context."""
        inside = np.ones(len(self), dtype=bool)
        for place, choice in enumerate(context):
            inside &= self.space.chosen_codes(place, choice)[self.codes[place]]
        return inside


def _menus(space: ContextSpace) -> Menus:
    """What can be chosen in each attribute, for the compiled scan."""
    longest = max(len(runs or ()) for runs in space.runs)
    runs = np.zeros((len(space.runs), max(1, longest)), np.int64)
    for place, listed in enumerate(space.runs):
        runs[place, : len(listed or ())] = listed or ()
    ordered = np.array([listed is not None for listed in space.runs])
    return Menus(np.array(space.n_choices, np.int64), ordered, runs)


def look_from(
    table: Table,
    space: ContextSpace,
    column: str,
    value: float,
    detector: Detector,
    overlap_with: Context | None = None,
) -> RecordView:
    """See the table from a record; one row equal to it is taken as the record, if there is one.

    The utility of a context is its population, the record included; with `overlap_with`, how many
    of them belong to that context as well.
    """
    codes = space.codes(table)
    value = float(value)  # a rule of whole numbers would be another kind to the compiled loops
    values = table.numbers((column,))[:, 0]
    same = np.flatnonzero((values == value) & (codes == 0).all(axis=1))
    keep = np.ones(len(values), dtype=bool)
    keep[same[:1]] = False
    # Sums of floats must not depend on the order of rows, so they are added in ascending order.
    others = np.flatnonzero(keep)
    order = others[np.argsort(values[others])]
    codes, values = np.ascontiguousarray(codes[order].T), values[order]
    cells, cell_of = _cells(codes, values, value, space, overlap_with)
    rule = _rule(detector, value, len(values))
    below, above = _sides(codes, values, cell_of, value, rule)
    own_row = int(same[0]) if len(same) else None
    return RecordView(
        space, detector, value, codes, values, order, cells, cell_of, below, above, rule, own_row
    )


def _rule(detector: Detector, value: float, n_others: int) -> Rule | None:
    return detector.rule(value, n_others) if isinstance(detector, BuiltIn) else None


def _cells(
    codes: NDArray[np.uint16],
    values: Floats,
    value: float,
    space: ContextSpace,
    overlap_with: Context | None,
) -> tuple[Cells, NDArray[np.int32]]:
    """Sum the others by cell, cells in lexicographic order, values in ascending order."""
    cell_of = _ranked(codes, [bits + 1 for bits in space.free_bits])
    n_cells = int(cell_of.max(initial=-1)) + 1
    listed = np.zeros((len(codes), n_cells), np.uint16)
    listed[:, cell_of] = codes
    shared = np.ones(n_cells, dtype=bool)
    if overlap_with is not None:
        for level, choice in enumerate(space.choices(overlap_with)):
            shared &= space.chosen_codes(level, choice)[listed[level]]
    small = cell_of.astype(np.int32)
    return _summed(listed, small, values, value, shared), small


def _ranked(codes: NDArray[np.uint16], n_codes: list[int]) -> Ints:
    """The place of each record's codes among all that occur, in lexicographic order."""
    ranks = np.zeros(codes.shape[1], np.int64)
    if math.prod(n_codes) <= MOST_POSSIBLE:
        for level, n in zip(codes, n_codes, strict=True):
            ranks = ranks * n + level
        occurs = np.zeros(math.prod(n_codes), np.int64)
        occurs[ranks] = 1
        return (np.cumsum(occurs) - 1)[ranks]
    for level, n in zip(codes, n_codes, strict=True):
        _, ranks = np.unique(ranks * n + level, return_inverse=True)
    return ranks


def _summed(
    listed: NDArray[np.uint16],
    cell_of: NDArray[np.int32],
    values: Floats,
    value: float,
    shared: NDArray[np.bool_],
) -> Cells:
    """Sums of the others in each cell; one that holds nobody adds nothing to any context."""
    n_cells = len(shared)
    counts = np.bincount(cell_of, minlength=n_cells).astype(np.int64)
    deviations = values - value
    sums = np.empty((n_cells, 4))
    sums[:, TOTAL] = np.bincount(cell_of, deviations, n_cells)  # adds in the order of the values
    sums[:, SQUARES] = np.bincount(cell_of, deviations * deviations, n_cells)
    sums[:, LOW], sums[:, HIGH] = np.inf, -np.inf
    np.minimum.at(sums[:, LOW], cell_of, values)
    np.maximum.at(sums[:, HIGH], cell_of, values)
    return Cells(listed, np.stack((counts, np.where(shared, counts, 0)), axis=1), sums)


def _sides(
    codes: NDArray[np.uint16],
    values: Floats,
    cell_of: NDArray[np.int32],
    value: float,
    rule: Rule | None,
) -> tuple[Side, Side]:
    """The others below the value (or equal to it) and above, as far as the rule looks."""
    reach = 0 if rule is None else rule.reach
    split = int(np.searchsorted(values, value, side="right"))
    return (
        _side(codes[:, :split][:, ::-1], values[:split][::-1], cell_of[:split][::-1], reach),
        _side(codes[:, split:], values[split:], cell_of[split:], reach),
    )


def _side(
    codes: NDArray[np.uint16], values: Floats, cell_of: NDArray[np.int32], reach: int
) -> Side:
    """One side of the value, nearest first, with at most `reach` records of each cell.

    A context that contains a cell contains all of it, so it never looks past its first `reach`.
    """
    near = np.zeros(len(values), dtype=bool)
    if reach:
        in_each = np.bincount(cell_of)
        # numpy sorts 16 bits by counting, in a single pass
        by_cell = np.argsort(
            cell_of.astype(np.uint16) if len(in_each) <= 1 << 16 else cell_of, kind="stable"
        )
        first = np.cumsum(in_each) - in_each
        rank = np.arange(len(values)) - first[cell_of[by_cell]]
        near[by_cell[rank < reach]] = True
    codes = np.ascontiguousarray(codes[:, near])
    settled = np.full(codes.shape[1], -1, np.int8)
    for level, own in enumerate(codes):
        settled[own != 0] = level
    return Side(
        np.ascontiguousarray(values[near]), codes, np.ascontiguousarray(cell_of[near]), settled
    )
