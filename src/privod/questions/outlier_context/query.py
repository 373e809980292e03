"""Release groups in which persons stand out, in private for all others [PCOR].

The persons are public, and so is every question about them; protected are the others. The contexts
of each person are private choices among matching ones, which share one epsilon; the size of a
chosen group may be bought beside it. Proof in docs/proofs/outlier_context.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, get_args

import numpy as np

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Choices, Context, ContextSpace
from privod.outliers.contexts.intervals import Ordered
from privod.privacy import Cost, Guarantee, Number, SameContexts, Zcdp, positive
from privod.privacy.loss import as_exact
from privod.query.checks import ExactNumber, column_names, finite_number, whole_number
from privod.query.frames import of_records
from privod.query.likeness import checked_entries, end_of
from privod.query.memory import context_bytes
from privod.query.preview import CERTAINTY, Preview
from privod.query.query import Query, Release, canonical_json
from privod.questions.outlier_context.choosing import GroupChoice
from privod.questions.outlier_context.persons import record_text
from privod.questions.outlier_context.search import MOST_VISITS, Sampler
from privod.questions.outlier_context.utility import context_utility

MOST_PERSONS = 100
MOST_GROUPS = 100
MOST_NAMED = 3  # persons that a sentence speaks of
LONGEST_EXAMPLE = 62  # values of the shortest attribute of an example
EXAMPLE_VALUES = 12  # of all attributes of an example, so that it is answered at once


def _share(value: Number, name: str) -> Fraction:
    share = as_exact(value, name)
    if not 0 <= share < 1:
        raise InvalidParameter(name, "must be at least 0 and below 1", value, "Try 0.2.")
    return share


@dataclass(frozen=True)
class PersonGroups:
    """The groups told for one person, in the order they were chosen, and their noisy sizes."""

    groups: tuple[Context, ...]
    sizes: tuple[int, ...] = ()
    """How many belong to each group, the person included, with noise; () where not bought."""


@dataclass(frozen=True, kw_only=True)
class OutlierContext(Query[tuple[PersonGroups, ...]]):
    """For each person you name, groups of the population in which that person stands out.

    Guarantee
    ---------
    Weaker than differential privacy: every other record is protected whose presence leaves, for
    each of these persons, the set of groups in which that person stands out as it is. A record on
    which such a set hangs is not protected: an answer may tell exactly whether it is in the data,
    whatever epsilon is. Nor are the persons asked about. That no group was found is told, too.

    Parameters
    ----------
    group_columns : tuple of str
        The columns that groups are formed by: categorical ones, and numeric ones that have cuts.
    persons : tuple of (str, int or float, ...)
        A row for each person: the value in each of the group columns, then the value in `column`.
        100 persons at most.
    column : str
        The numeric column in which the persons may stand out.
    epsilon : number
        The privacy loss of the whole answer, greater than 0.
    cuts : tuple of (str, number, ...)
        A row for each numeric group column: its name, and where one interval ends and the next
        one begins. Groups take in ranges of these intervals, 62 at most.
    n_groups : int
        How many groups are told for each person, from 1 to 100; fewer where fewer are found.
    size_share : number
        Which share of epsilon buys the noisy sizes of the groups; 0 tells no sizes.
    detector : str
        What standing out means: lof(n_neighbors=20, threshold=1.5), grubbs(alpha=0.05),
        histogram(share=0.0025), or the name of a plugged-in one.
    utility : str
        What makes a group a good answer: population (the larger the better), overlap (the more it
        shares with `start` the better), or the name of a plugged-in one.
    sampler : str
        Among which groups the answers are chosen: direct (all that match), uniform (some drawn at
        random), random-walk, dfs or bfs (some found by a search from `start`). auto is direct while
        there are at most 2**26 groups of all persons (fewer where a detector takes long: more than
        22 neighbors, a share above 0.005, a plugged-in function), else bfs.
    start : tuple of (str, str or number, ...)
        Where a search begins and what an overlap is with: rows of a column and the values chosen
        in it; of a column with cuts, the two ends of a range. A column that is not named keeps all
        values. Every person must belong to it.
    n_starts : int
        From how many groups a search begins: `start` or the first match after it, then matches as
        far from these as can be. More than one reaches groups that no search from one gets to.
    max_visits : int
        How many groups a search visits for each person, from 1 to 10000; direct needs none. Times
        the number of values of all group columns it is at most 2**18.
    """

    name: ClassVar[str] = "outlier-context"
    column_kinds: ClassVar[dict[str, Any]] = {"column": Numeric}
    question: ClassVar[str] = "In which groups is this person unusual?"
    goal: ClassVar[str] = "person"

    group_columns: tuple[str, ...]
    persons: tuple[tuple[str | int | float, ...], ...]
    column: str
    epsilon: ExactNumber = ExactNumber(positive)
    cuts: tuple[tuple[str | float, ...], ...] = ()
    n_groups: int = 1
    size_share: ExactNumber = ExactNumber(_share, Fraction(0))
    detector: str = "lof(n_neighbors=20, threshold=1.5)"
    utility: str = "population"
    sampler: Sampler = "auto"
    start: tuple[tuple[str | int | float, ...], ...] = ()
    n_starts: int = 1
    max_visits: int = 50

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_columns", column_names(self.group_columns))
        object.__setattr__(self, "persons", self._read_persons())
        cuts = self._read_rows(self.cuts, "cuts", "(('age', 18, 40, 65),)")
        numbers = ((row[0], *(finite_number(cut, "cuts") for cut in row[1:])) for row in cuts)
        object.__setattr__(self, "cuts", tuple(numbers))
        start = self._read_rows(self.start, "start", "(('job', 'Lawyer', 'CEO'),)")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "detector", str(detectors.detector(self.detector)))
        if not isinstance(self.column, str) or self.column in self.group_columns:
            way_out = "Name a numeric column beside the group columns."
            raise InvalidParameter("column", "must name another column", self.column, way_out)
        whole_number(self.n_groups, "n_groups", at_least=1, at_most=MOST_GROUPS)
        whole_number(self.max_visits, "max_visits", at_least=1, at_most=MOST_VISITS)
        if self.sampler not in get_args(Sampler):
            rule = f"must be one of {', '.join(get_args(Sampler))}"
            raise InvalidParameter("sampler", rule, self.sampler, "Try 'auto'.")
        whole_number(self.n_starts, "n_starts", at_least=1, at_most=self.max_visits)
        if self.sampler in ("uniform", "random-walk", "dfs", "bfs"):
            whole_number(self.n_groups, "n_groups", at_least=1, at_most=self.max_visits)
        self.guarantee()  # refuses an epsilon that is out of reach

    @cached_property
    def size_noise(self) -> DiscreteLaplace | None:
        """The noise of each size; a record may belong to every group that is told."""
        if not self.size_share:
            return None
        return DiscreteLaplace.for_loss(self.epsilon * self.size_share, self._n_told)

    @property
    def _n_told(self) -> int:
        return len(self.persons) * self.n_groups

    @cached_property
    def _choosing(self) -> GroupChoice:
        """The choices for one person: each person gets the same part of what sizes leave."""
        return GroupChoice(
            self.detector,
            context_utility(self.utility),
            self.sampler,
            self.max_visits,
            self.epsilon * (1 - self.size_share) / len(self.persons),
            self.n_groups,
            len(self.persons),
            self.n_starts,
        )

    def guarantee(self) -> Guarantee:
        loss = self._choosing.loss() * len(self.persons)
        if self.size_noise is not None:
            loss += self.size_noise.loss(self._n_told)
        adjacency = SameContexts(self.detector, self.column, self._persons_text())
        return Guarantee(loss, adjacency)

    def cost(self) -> Cost:
        rho = len(self.persons) * self._choosing.zcdp().rho
        if self.size_noise is not None:
            rho += self._n_told * Zcdp.of_loss(self.size_noise.loss(1)).rho
        return Cost(self.guarantee().loss, Zcdp(rho))

    def not_protected(self) -> str:
        return (
            "A record whose presence changes in which groups one of these persons stands out is not"
            " protected: this answer may tell exactly whether it is in the data, whatever epsilon"
            " is. The more persons are asked about, the more such records there are."
        )

    def preview(self, domain: Domain) -> Preview:
        """The largest shortfall of any person's groups, and how far off bought sizes are."""
        shown = [self._choosing.preview(self.space(domain, row)) for row in self.persons]
        worst = max(shown, key=lambda one: one.margin or 0)
        if self.size_noise is None:
            return worst
        margin = self.size_noise.quantile(CERTAINTY)
        sizes = f"Its size will have a margin of ± {margin} (95 % confidence)."
        return replace(worst, words=f"{worst.words} {sizes}")

    def check(self, domain: Domain) -> None:
        (column,) = domain.numeric((self.column,))
        detectors.refuse_too_wide(column)
        for row in self.persons:
            value = row[-1]
            if not isinstance(value, float) or not column.low <= value <= column.high:
                rule = f"must end with a number from {column.low:g} to {column.high:g}"
                way_out = f"Give each person's {self.column} as it is declared."
                raise InvalidParameter("persons", rule, value, way_out)
            space = self.space(domain, row)
            self._start(space)
            self._choosing.check(space, column)

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        return context_bytes(records, len(self.group_columns) + 1)

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[PersonGroups, ...]]:
        told = tuple(self._groups_of(row, table, randomness) for row in self.persons)
        return self.release(told, randomness)

    def sentence(self, value: tuple[PersonGroups, ...]) -> str:
        pairs = list(zip(self.persons, value, strict=True))
        parts = [self._about(row, found) for row, found in pairs[:MOST_NAMED]]
        if len(pairs) > MOST_NAMED:
            parts.append(f"So much for {MOST_NAMED} of {len(pairs)} persons.")
        return " ".join(parts)

    def table(self, value: tuple[PersonGroups, ...]) -> dict[str, list[Any]]:
        """A row for each group, and one without a group for a person who has none."""
        rows: list[tuple[tuple[Any, ...], str | None, int | None]] = []
        for row, found in zip(self.persons, value, strict=True):
            sizes = found.sizes or (None,) * len(found.groups)
            told = zip(found.groups, sizes, strict=True)
            rows += [(row, group.in_words(), size) for group, size in told] or [(row, None, None)]
        told_of: dict[str, list[Any]] = {"stands out in": [group for _, group, _ in rows]}
        if self.size_noise is not None:
            told_of["noisy size"] = [size for _, _, size in rows]
        return of_records((*self.group_columns, self.column), [row for row, _, _ in rows], told_of)

    def value_to_json(self, value: tuple[PersonGroups, ...]) -> Any:
        return [
            {"groups": [group.to_json() for group in one.groups], "sizes": list(one.sizes)}
            for one in value
        ]

    def value_from_json(self, data: Any) -> tuple[PersonGroups, ...]:
        return tuple(
            PersonGroups(
                tuple(Context.from_json(group) for group in one["groups"]),
                tuple(int(size) for size in one["sizes"]),
            )
            for one in data
        )

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = [one for one in domain.numeric() if one.high - one.low <= detectors.WIDEST]
        if not columns:
            return ()
        column, *others = columns
        value = column.low + 0.75 * _width(column)
        attributes: list[Categorical] = []
        for one in sorted(domain.categorical(), key=lambda one: len(one.values)):
            values = sum(len(other.values) for other in (*attributes, one))
            if len(one.values) <= LONGEST_EXAMPLE and (not attributes or values <= EXAMPLE_VALUES):
                attributes.append(one)
        found: list[Self] = []
        if attributes:
            largest = cls(
                group_columns=tuple(one.name for one in attributes),
                persons=((*(one.values[-1] for one in attributes), value),),
                column=column.name,
                epsilon="0.5",
                sampler="auto" if len(attributes[0].values) <= EXAMPLE_VALUES else "bfs",
            )
            start = ((attributes[0].name, attributes[0].values[-1]),)
            asked: dict[str, Any] = {"sampler": "bfs", "start": start, "max_visits": 10}
            found += [largest, replace(largest, detector="grubbs", utility="overlap", **asked)]
        small = [one for one in attributes if len(one.values) <= EXAMPLE_VALUES]
        groups: list[Categorical | Numeric] = [*small[:1], *others[:1]]
        if groups:
            found.append(
                cls(
                    group_columns=tuple(one.name for one in groups),
                    persons=tuple(
                        dict.fromkeys(
                            (*(end_of(one, last=last) for one in groups), value) for last in (1, 0)
                        )
                    ),
                    column=column.name,
                    epsilon="1",
                    cuts=tuple(_quarters(one) for one in groups if isinstance(one, Numeric)),
                    n_groups=2,
                    size_share="1/2",
                    detector="grubbs(alpha=0.05)",
                )
            )
        return tuple(found)

    def _groups_of(
        self, row: tuple[str | int | float, ...], table: Table, randomness: Randomness
    ) -> PersonGroups:
        space = self.space(table.domain, row)
        value = float(row[-1])
        chosen, sizes = self._choosing.choose(
            table, space, self.column, value, self._start(space), randomness
        )
        groups = tuple(space.context(one) for one in chosen)
        if self.size_noise is None:
            return PersonGroups(groups)
        padded = np.zeros(self.n_groups, dtype=np.int64)  # as many draws, however many were found
        padded[: len(groups)] = sizes
        noisy = self.size_noise.add_to(padded, randomness)
        return PersonGroups(groups, tuple(noisy[: len(groups)].tolist()))

    def space(self, domain: Domain, row: tuple[str | int | float, ...]) -> ContextSpace:
        """The contexts of a person."""
        cuts = {str(one[0]): tuple(float(cut) for cut in one[1:]) for one in self.cuts}
        return ContextSpace.around(domain, dict(zip(self.group_columns, row, strict=False)), cuts)

    def _start(self, space: ContextSpace) -> Choices:
        """The start as choices; of ordered values, the run between those named."""
        columns = {column.name: column for column in space.columns}
        chosen: dict[str, tuple[Any, ...]] = {}
        for name, *values in self.start:
            column = columns[str(name)]
            if isinstance(column, Ordered):
                places = [column.position(finite_number(value, "start")) for value in values]
                chosen[column.name] = column.values[min(places) : max(places) + 1]
            else:
                chosen[column.name] = tuple(values)
        return space.choices(Context.of(space.attributes, chosen))

    def _persons_text(self) -> str:
        """Which persons the contexts are of, and how numbers were cut, as a stable text."""
        texts = []
        for row in self.persons:
            text = record_text(list(zip(self.group_columns, row, strict=False)), float(row[-1]))
            texts.append(text)
        if len(texts) == 1 and not self.cuts:
            return texts[0]
        return canonical_json({"persons": sorted(texts), "cuts": sorted(map(list, self.cuts))})

    def _about(self, row: tuple[str | int | float, ...], found: PersonGroups) -> str:
        listed = zip(self.group_columns, row, strict=False)
        who = ", ".join(f"{name} {_text(category)}" for name, category in listed)
        person = f"A person with {who} and {self.column} {_text(row[-1])}"
        if not found.groups:
            return f"{person} was found to stand out by {self.column} in no group looked at."
        words = [group.in_words() for group in found.groups]
        noise = self.size_noise
        if noise is not None:
            margin = noise.quantile(0.95)
            words = [
                f"{group} ({size} ± {margin} records, 95 % confidence)"
                for group, size in zip(words, found.sizes, strict=True)
            ]
        groups = "this group" if len(words) == 1 else "these groups"
        return f"{person} stands out by {self.column} in {groups}: {'; '.join(words)}."

    def _read_persons(self) -> tuple[tuple[str | int | float, ...], ...]:
        width = len(self.group_columns) + 1
        rows = checked_entries(self.persons, width, "persons", MOST_PERSONS)
        found = tuple((*groups, finite_number(value, "persons")) for *groups, value in rows)
        if len(set(found)) != len(found):
            raise InvalidParameter("persons", "must differ", len(found), "Name each one once.")
        return found

    def _read_rows(self, rows: Any, name: str, example: str) -> tuple[tuple[Any, ...], ...]:
        """Rows that begin with a group column."""
        way_out = f"Write {example}."
        if not isinstance(rows, list | tuple) or not all(
            isinstance(row, list | tuple)
            and len(row) >= 2
            and all(isinstance(one, str | int | float) for one in row)
            for row in rows
        ):
            raise InvalidParameter(name, "must each be a column and values of it", rows, way_out)
        columns = [row[0] for row in rows]
        if len(set(columns)) != len(columns) or not set(columns) <= set(self.group_columns):
            raise InvalidParameter(name, "must name group columns, each once", columns, way_out)
        return tuple(tuple(row) for row in rows)


def _text(value: str | float) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _width(column: Numeric) -> float:
    return column.high - column.low


def _quarters(column: Numeric) -> tuple[str | float, ...]:
    """A numeric column cut into four, for examples."""
    cuts = (finite_number(column.low + part * _width(column) / 4) for part in (1, 2, 3))
    return (column.name, *cuts)
