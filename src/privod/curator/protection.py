"""Count whom narrow guarantees protect among the rows, for their owner alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Ints
from privod.data import Domain, Table
from privod.data.mock import mock_table
from privod.errors import InvalidParameter, PrivodError, Unavailable
from privod.ledger.admissions import admitted
from privod.ledger.chain import budgets_of
from privod.ledger.database import Connection
from privod.ledger.prices import check_meaning
from privod.ledger.store import DataSet
from privod.mechanisms import secure
from privod.outliers.contexts.detectors import detector
from privod.outliers.contexts.for_owner import contexts_moved, rows_alike
from privod.outliers.crowds.distance import crowds
from privod.privacy import (
    Adjacency,
    AdmittedContexts,
    BetweenTails,
    CrowdAdjacency,
    InAlikeCrowd,
    InCrowd,
    SameContexts,
)
from privod.query.likeness import Likeness
from privod.questions.outlier_context.persons import persons_in

FOR_OWNER = (
    "NOT PRIVATE, for the owner alone. If you decide by these figures whether to open an allowance,"
    " that decision tells something about the rows."
)
TRIED = 4  # made-up rows that a guarantee is tried on
SAMPLE = 100  # records taken out one by one where all would take too long


@dataclass(frozen=True)
class Protection:
    """How many of the records, or of a random sample of them, some promises protect.

    Who is protected is protected by each of the promises. Where persons may have several records,
    `records` counts persons. `alike` are those with the very attributes of a person asked about; 0
    where no promise is about a person's contexts.
    """

    promises: tuple[str, ...]
    records: int
    examined: int
    protected: int
    alike: int = 0
    alike_protected: int = 0

    def sentences(self) -> tuple[str, ...]:
        """The figures in words."""
        if not self.examined:
            return (*self.promises, "There are no records.")
        share = _percent(self.protected, self.examined)
        if self.examined == self.records:
            told = (
                f"{self.protected:,} of {self.records:,} records are protected ({share} %);"
                f" {self.records - self.protected:,} are not."
            )
        else:
            low, high = _interval(self.protected, self.examined)
            told = (
                f"{self.protected:,} of {self.examined:,} records chosen at random are protected"
                f" ({share} %): between {100 * low:.1f} % and {100 * high:.1f} % of all"
                f" {self.records:,} (95 % confidence)."
            )
        if not self.alike:
            return (*self.promises, told)
        near = _percent(self.alike_protected, self.alike)
        alike = (
            f"Of {self.alike:,} records with the same attributes as a person asked about,"
            f" {self.alike_protected:,} are protected ({near} %)."
        )
        return (*self.promises, told, alike)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"private": False, **vars(self), "promises": list(self.promises)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        figures = {key: value for key, value in data.items() if key not in ("private", "promises")}
        return cls(tuple(data["promises"]), **figures)


def crowd_figures(reports: Any, of: str, adjacency: Adjacency) -> tuple[str, ...]:
    """How many records a crowd protects, in words: an owner reads it before opening."""
    if not isinstance(adjacency, CrowdAdjacency):
        return ()
    found = reports.who_is_protected(of, adjacency)
    return (FOR_OWNER, *(sentence for one in found for sentence in one.sentences()))


def check_narrow(adjacencies: Sequence[Adjacency]) -> None:
    """Raise `InvalidParameter` unless it can be counted whom each of them protects."""
    for adjacency in adjacencies:
        if not isinstance(adjacency, CrowdAdjacency | SameContexts):
            rule = "must be in-crowd, in-alike-crowd, between-tails or same-contexts"
            way_out = "Give a crowd, or same-contexts for each admitted person."
            raise InvalidParameter("adjacencies", rule, adjacency.name, way_out)


def narrow_groups(
    connection: Connection, dataset: DataSet, adjacency: Adjacency | None
) -> list[list[Adjacency]]:
    """Each narrow promise that is open, and one that is thought of; if several, all of them too."""
    budgets, persons = budgets_of(connection, dataset.root), admitted(connection, dataset.root)
    opened = [one.adjacency for one in budgets if one.role != "main" and one.closed is None]
    narrow: list[Adjacency] = []
    for one in dict.fromkeys([*opened, *([] if adjacency is None else [adjacency])]):
        narrow += persons if isinstance(one, AdmittedContexts) else [one]
    for one in narrow:
        check_meaning(one, dataset.domain)
    check_narrow(narrow)
    return [[one] for one in narrow] + ([narrow] if len(narrow) > 1 else [])


def try_report(domain: Domain, adjacencies: Sequence[Adjacency]) -> None:
    """Refuse guarantees that the report could not read: once entered, it never could again.

    Each is tried on a few made-up rows. A report that is refused in words, as one over too many
    contexts is, can be read.
    """
    rows = mock_table(domain, TRIED)
    for adjacency in adjacencies:
        try:
            if isinstance(adjacency, SameContexts):
                for person in persons_in(adjacency.record):
                    person.space(rows.domain)
            with suppress(PrivodError):
                who_is_protected(rows, [adjacency], sample=1)
        except PrivodError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            rule, way_out = "must be one that the owner's report can read", "Check its numbers."
            raise InvalidParameter("adjacency", rule, adjacency.name, way_out) from None


def who_is_protected(
    table: Table, adjacencies: Sequence[Adjacency], *, sample: int = SAMPLE
) -> Protection:
    """Count the records that all of these narrow adjacencies protect. NOT private."""
    check_narrow(adjacencies)
    unit_of = np.arange(len(table))
    if table.domain.max_rows_per_person > 1:
        whose = table.columns().get(str(table.domain.person))
        if whose is None:
            raise Unavailable("Whose rows are whose is not kept, so persons cannot be counted.")
        unit_of = np.unique(np.asarray(whose), return_inverse=True)[1]
    units = int(unit_of.max(initial=-1)) + 1
    contexts = [one for one in adjacencies if isinstance(one, SameContexts)]
    likenesses = [one for one in adjacencies if isinstance(one, InAlikeCrowd)]
    in_crowds = np.ones(units, dtype=bool)
    for adjacency in adjacencies:
        if isinstance(adjacency, InCrowd):
            in_crowds[unit_of[~_in_crowd(table, adjacency)]] = False
        if isinstance(adjacency, BetweenTails):
            in_crowds[unit_of[~_between_tails(table, adjacency)]] = False
    promises = tuple(f"{one.protected}." for one in adjacencies)
    if not contexts and not likenesses:
        return Protection(promises, units, units, int(in_crowds.sum()))

    def count(chosen: Ints) -> int:
        groups = [np.flatnonzero(unit_of == unit) for unit in chosen]
        still = in_crowds[chosen]
        for likeness in likenesses:
            still = still & _among_alike(table, likeness, groups)
        for adjacency in contexts:
            still = still & ~_moved(table, adjacency, groups)
        return int(still.sum())

    chosen = _sampled(np.arange(units), sample)
    alike = np.zeros(len(table), dtype=bool)
    for adjacency in contexts:
        for person in persons_in(adjacency.record):
            alike |= rows_alike(table, person.space(table.domain))
    others = _sampled(np.unique(unit_of[alike]), sample)
    figures = (len(chosen), count(chosen), len(others), count(others))
    return Protection(promises, units, *figures)


def _in_crowd(table: Table, adjacency: InCrowd) -> NDArray[np.bool_]:
    """Which rows have that many within the radius, themselves included."""
    domain, names = table.domain, adjacency.columns
    if all(name in domain.numeric_names for name in names):
        points = table.numbers(names)
        return np.asarray(crowds(points, adjacency.radius, cap=adjacency.crowd) >= adjacency.crowd)
    alike = np.zeros(len(table), np.int64)  # categories: only equal records are near
    for name in names:
        values = (table.numbers((name,)) if name in domain.numeric_names else table.codes((name,)))[
            :, 0
        ]
        _, codes = np.unique(values, return_inverse=True)
        _, alike = np.unique(alike * (len(table) + 1) + codes, return_inverse=True)
    return np.asarray(np.bincount(alike)[alike] >= adjacency.crowd)


def _between_tails(table: Table, adjacency: BetweenTails) -> NDArray[np.bool_]:
    """Which rows have that many at or beyond them on either side of every column."""
    inside = np.ones(len(table), dtype=bool)
    for values in table.numbers(adjacency.columns).T:
        ordered = np.sort(values)
        up = len(values) - np.searchsorted(ordered, values, side="left")
        down = np.searchsorted(ordered, values, side="right")
        inside &= np.minimum(up, down) >= adjacency.crowd
    return inside


def _among_alike(
    table: Table, adjacency: InAlikeCrowd, groups: Sequence[Ints]
) -> NDArray[np.bool_]:
    """Whether all rows of each group have that many alike, themselves included."""
    like = Likeness(
        adjacency.columns, adjacency.max_distance, adjacency.tolerances, adjacency.weights
    )
    held = like.held(table)

    def protected(row: int) -> bool:
        return int(like.near(held, held.row(row)).sum()) >= adjacency.crowd

    return np.array([all(protected(row) for row in rows) for rows in groups], dtype=bool)


def _moved(table: Table, adjacency: SameContexts, groups: Sequence[Ints]) -> NDArray[np.bool_]:
    """Whether each group of rows, taken out, changes the contexts of a person asked about."""
    rule, column = detector(adjacency.detector), adjacency.column
    moved = np.zeros(len(groups), dtype=bool)
    for person in persons_in(adjacency.record):
        space = person.space(table.domain)
        moved |= contexts_moved(table, space, column, person.value, rule, groups)
    return moved


def _sampled(units: Ints, size: int) -> Ints:
    """So many of them, each as likely as any other."""
    if len(units) <= size:
        return units
    return units[np.argsort(secure().words(len(units)), kind="stable")[:size]]


def _percent(part: int, whole: int) -> float:
    """A share rounded down: one that is not protected never reads as none."""
    return 1000 * part // whole / 10


def _interval(hits: int, tries: int) -> tuple[float, float]:
    """Between what shares the true one lies [Clopper and Pearson 1934], 95 %."""
    from scipy.special import betaincinv  # takes a while to import, and only this needs it

    low = float(betaincinv(hits, tries - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, tries - hits, 0.975)) if hits < tries else 1.0
    return low, high
