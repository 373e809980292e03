"""Release a context in which a person's record stands out, in private for all others [PCOR].

The record is public, and so is every question about it; protected are the others. The answer is a
private choice among matching contexts; proof in docs/proofs/outlier_context.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, get_args

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Choices, Context, ContextSpace
from privod.privacy import Cost, Guarantee, SameContexts, positive
from privod.query.checks import ExactNumber, finite_number, whole_number
from privod.query.memory import context_bytes
from privod.query.preview import Preview
from privod.query.query import Query, Release
from privod.questions.outlier_context.choosing import GroupChoice
from privod.questions.outlier_context.persons import Category, record_text
from privod.questions.outlier_context.search import MOST_VISITS, Sampler
from privod.questions.outlier_context.utility import ContextUtility, context_utility

__all__ = ["OutlierContext"]

LONGEST_EXAMPLE = 62  # values of the shortest attribute of an example
EXAMPLE_VALUES = 12  # of all attributes of an example, so that it is answered at once


@dataclass(frozen=True, kw_only=True)
class OutlierContext(Query[Context | None]):
    """In which group of the population does this person stand out?

    Guarantee
    ---------
    Weaker than differential privacy: every other record is protected whose presence leaves
    the set of groups in which this person stands out as it is. A record on which that set hangs is
    not protected: an answer may tell exactly whether it is in the data, whatever epsilon is. Nor is
    the person asked about. That no group was found is told, too.

    Parameters
    ----------
    record : tuple of (str, str or int)
        The person's attributes: pairs of a categorical column and the person's value in it. Groups
        are formed by these columns.
    column : str
        The numeric column in which the person may stand out.
    value : float
        The person's value in that column.
    epsilon : number
        The privacy loss of the whole answer, greater than 0.
    detector : str
        What standing out means: lof(n_neighbors=20, threshold=1.5), grubbs(alpha=0.05),
        histogram(share=0.0025), or the name of a plugged-in one.
    utility : str
        What makes a group a good answer: population (the larger the better), overlap (the more it
        shares with `start` the better), or the name of a plugged-in one.
    sampler : str
        Among which groups the answer is chosen: direct (all that match), uniform (some drawn at
        random), random-walk, dfs or bfs (some found by a search from `start`). auto is direct while
        there are at most 2**26 groups (fewer where a detector takes long: more than 22
        neighbors, a share above 0.005, a plugged-in function), else bfs.
    start : tuple of (str, str or int, ...)
        Where a search begins and what an overlap is with: rows of a column and the values chosen
        in it. A column that is not named keeps all values. The person must belong to it.
    max_visits : int
        How many groups a search visits, from 1 to 10000; direct needs none. Times the number of
        values of all attributes it is at most 2**18.
    """

    name: ClassVar[str] = "outlier-context-1"
    column_kinds: ClassVar[dict[str, Any]] = {"column": Numeric}
    question: ClassVar[str] = "In which group of the population does this person stand out?"

    record: tuple[tuple[str, Category], ...]
    column: str
    value: float
    epsilon: ExactNumber = ExactNumber(positive)
    detector: str = "lof(n_neighbors=20, threshold=1.5)"
    utility: str = "population"
    sampler: Sampler = "auto"
    start: tuple[tuple[Category, ...], ...] = ()
    max_visits: int = 50

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", _pairs(self.record))
        object.__setattr__(self, "start", _rows(self.start))
        object.__setattr__(self, "value", finite_number(self.value))
        object.__setattr__(self, "detector", str(detectors.detector(self.detector)))
        if not isinstance(self.column, str) or self.column in dict(self.record):
            way_out = "Name a numeric column, and attributes beside it."
            raise InvalidParameter("column", "must name another column", self.column, way_out)
        if self.sampler not in get_args(Sampler):
            rule = f"must be one of {', '.join(get_args(Sampler))}"
            raise InvalidParameter("sampler", rule, self.sampler, "Try 'auto'.")
        if whole_number(self.max_visits, "max_visits", at_least=1) > MOST_VISITS:
            rule = f"must be at most {MOST_VISITS}"
            raise InvalidParameter("max_visits", rule, self.max_visits, "Try 100.")
        self._choosing.mechanism(self.sampler)  # refuses an epsilon that is out of reach

    @property
    def _utility(self) -> ContextUtility:
        return context_utility(self.utility)

    @property
    def _choosing(self) -> GroupChoice:
        return GroupChoice(
            self.detector, self._utility, self.sampler, self.max_visits, self.epsilon
        )

    def guarantee(self) -> Guarantee:
        record = record_text(self.record, self.value)
        adjacency = SameContexts(self.detector, self.column, record)
        return Guarantee(self._choosing.loss(), adjacency)

    def cost(self) -> Cost:
        return Cost(self.guarantee().loss, self._choosing.zcdp())

    def not_protected(self) -> str:
        return (
            "A record whose presence changes in which groups this person stands out is not"
            " protected: this answer may tell exactly whether it is in the data, whatever epsilon"
            " is. The more often single records decide, the more of them there are."
        )

    def preview(self, domain: Domain) -> Preview:
        return self._choosing.preview(self._space(domain))

    def check(self, domain: Domain) -> None:
        (column,) = domain.numeric((self.column,))
        if not column.low <= self.value <= column.high:
            rule = f"must lie in the range of {self.column!r}, {column.low:g} to {column.high:g}"
            raise InvalidParameter("value", rule, self.value, "Give the value as it is declared.")
        detectors.refuse_too_wide(column)
        space = self._space(domain)
        self._start(space)
        self._choosing.check(space, column)

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        return context_bytes(records, len(self.record) + 1)

    def answer(self, table: Table, randomness: Randomness) -> Release[Context | None]:
        space = self._space(table.domain)
        chosen, _ = self._choosing.choose(
            table, space, self.column, self.value, self._start(space), randomness
        )
        return self.release(space.context(chosen[0]) if chosen else None, randomness)

    def sentence(self, value: Context | None) -> str:
        who = ", ".join(f"{name} {category}" for name, category in self.record)
        person = f" person with {who} and {self.column} {self.value:.10g}"
        if value is None:
            return f"A{person} was found to stand out by {self.column} in no group looked at."
        group = f"by {self.column} in this group: {value.in_words()}"
        return f"A{person} stands out {group}."

    def table(self, value: Context | None) -> dict[str, list[Any]]:
        person: dict[str, list[Any]] = {name: [category] for name, category in self.record}
        group = None if value is None else value.in_words()
        return {**person, self.column: [self.value], "stands out in": [group]}

    def value_to_json(self, value: Context | None) -> Any:
        return None if value is None else value.to_json()

    def value_from_json(self, data: Any) -> Context | None:
        return None if data is None else Context.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        attributes: list[Categorical] = []
        for one in sorted(domain.categorical(), key=lambda one: len(one.values)):
            values = sum(len(other.values) for other in (*attributes, one))
            if len(one.values) <= LONGEST_EXAMPLE and (not attributes or values <= EXAMPLE_VALUES):
                attributes.append(one)
        columns = [one for one in domain.numeric() if one.high - one.low <= detectors.WIDEST]
        if not attributes or not columns:
            return ()
        column = columns[0]
        largest = cls(
            record=tuple((attribute.name, attribute.values[-1]) for attribute in attributes),
            column=column.name,
            value=column.low + 0.75 * (column.high - column.low),
            epsilon="0.5",
            sampler="auto" if len(attributes[0].values) <= EXAMPLE_VALUES else "bfs",
        )
        close = replace(
            largest,
            detector="grubbs",
            utility="overlap",
            sampler="bfs",
            start=((attributes[0].name, attributes[0].values[-1]),),
            max_visits=10,
        )
        return (largest, close)

    def _space(self, domain: Domain) -> ContextSpace:
        return ContextSpace.around(domain, dict(self.record))

    def _start(self, space: ContextSpace) -> Choices:
        chosen = {str(row[0]): row[1:] for row in self.start}
        return space.choices(Context.of(space.attributes, chosen))


def _pairs(record: Any) -> tuple[tuple[str, Category], ...]:
    pairs = tuple(record.items()) if isinstance(record, Mapping) else _rows(record)
    way_out = "Write (('job', 'Lawyer'), ('city', 'Toronto'))."
    if not pairs or not all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise InvalidParameter("record", "must be pairs of column and value", record, way_out)
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidParameter("record", "must name each column once", record, way_out)
    return pairs


def _rows(rows: Any) -> tuple[tuple[Any, ...], ...]:
    way_out = "Write (('job', 'Lawyer', 'CEO'), ('city', 'Toronto'))."
    if not isinstance(rows, list | tuple) or not all(
        isinstance(row, list | tuple)
        and len(row) >= 2
        and all(isinstance(item, str | int) for item in row)
        for row in rows
    ):
        raise InvalidParameter("rows", "must each be a column and values of it", rows, way_out)
    if len({row[0] for row in rows}) != len(rows):
        raise InvalidParameter("rows", "must name each column once", rows, way_out)
    return tuple(tuple(row) for row in rows)
