"""Release a context in which a person's record stands out, in private for all others [PCOR].

The record is public, and so is every question about it; protected are the others. The answer is a
private choice among matching contexts; proof in docs/proofs/outlier_context.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, get_args

import numpy as np

from privod.data import Categorical, Domain, Table
from privod.data.fineness import rounded
from privod.errors import InvalidParameter
from privod.mechanisms import ExponentialMechanism, Randomness
from privod.mechanisms.selection import LARGEST_UTILITY
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import MOST_VALUES, Choices, Context, ContextSpace
from privod.outliers.contexts.detectors import BuiltIn
from privod.outliers.contexts.matching import RecordView, look_from
from privod.privacy import Cost, Guarantee, SameContexts, Zcdp, positive
from privod.queries.checks import ExactNumber, whole_number
from privod.queries.outlier_context import search
from privod.queries.outlier_context.search import Candidates, Sampler
from privod.queries.outlier_context.utility import OVERLAP, ContextUtility, context_utility
from privod.queries.query import Query, Release, canonical_json

__all__ = ["OutlierContext"]

Category = str | int

MOST_CONTEXTS = 2**26  # that a direct choice weighs: 256 MB of utilities, and minutes
MOST_CONTEXTS_PLUGGED_IN = 2**16  # where each needs a call of somebody's function
MOST_PROBES = 2**14
MOST_PROBES_PLUGGED_IN = 2**8
MOST_VISITS = 10_000
MOST_JUDGED = 2**18  # contexts that a search looks at: each is held, and summed from all cells
MOST_JUDGED_PLUGGED_IN = 2**16
MOST_STEPS = 2**35  # of a detector in all contexts that are looked at: some minutes
LARGEST = sys.float_info.max
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
    tells_none : bool
        Must be set: an answer is a group in which the person stands out, or that none was found.
        (Answers of an earlier version hid that none was found behind some other group.)
    """

    name: ClassVar[str] = "outlier-context-1"
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
    tells_none: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", _pairs(self.record))
        object.__setattr__(self, "start", _rows(self.start))
        object.__setattr__(self, "value", _number(self.value))
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
        if not isinstance(self.tells_none, bool):
            raise InvalidParameter("tells_none", "must be yes or no", self.tells_none, "Try no.")
        self._choice(self.sampler)  # refuses an epsilon that is out of reach

    @property
    def _utility(self) -> ContextUtility:
        return context_utility(self.utility)

    def _draws(self, sampler: Sampler) -> int:
        """How many private choices an answer takes: one, or one per visit and a final one."""
        return self.max_visits + 1 if sampler in ("dfs", "bfs") else 1

    def _choice(self, sampler: Sampler) -> ExponentialMechanism:
        step_epsilon = self.epsilon / self._draws(sampler)
        utility = self._utility
        return ExponentialMechanism.for_loss(
            step_epsilon, utility.sensitivity, monotone=utility.monotone
        )

    def guarantee(self) -> Guarantee:
        # Whatever auto comes to mean in a domain, its draws together lose the same.
        step = self._choice(self.sampler).loss(self._utility.sensitivity)
        record = canonical_json([[list(pair) for pair in sorted(self.record)], self.value])
        adjacency = SameContexts(self.detector, self.column, record, self.tells_none)
        return Guarantee(step * self._draws(self.sampler), adjacency)

    def cost(self) -> Cost:
        # One choice of all epsilon costs the most, so auto is charged for that.
        draws = self._draws(self.sampler)
        step = self._choice(self.sampler).zcdp(self._utility.sensitivity)
        return Cost(self.guarantee().loss, Zcdp(draws * step.rho))

    def not_protected(self) -> str:
        return (
            "A record whose presence changes in which groups this person stands out is not"
            " protected: this answer may tell exactly whether it is in the data, whatever epsilon"
            " is. The more often single records decide, the more of them there are."
        )

    def check(self, domain: Domain) -> None:
        if not self.tells_none:
            rule = "must be set: no answer may name a group in which the person is ordinary"
            raise InvalidParameter("tells_none", rule, self.tells_none, "Leave it out.")
        (column,) = domain.numeric((self.column,))
        if not column.low <= self.value <= column.high:
            rule = f"must lie in the range of {self.column!r}, {column.low:g} to {column.high:g}"
            raise InvalidParameter("value", rule, self.value, "Give the value as it is declared.")
        detectors.refuse_too_wide(column)
        space = self._space(domain)
        self._start(space)
        sampler = self._sampler_in(space)
        if sampler == "direct" and space.n_contexts > self._most_contexts:
            rule = f"direct weighs at most {self._most_contexts} groups with this detector"
            way_out = "Use sampler='bfs', fewer attributes, or coarser ones."
            raise InvalidParameter("sampler", rule, space.n_contexts, way_out)
        if sampler in ("random-walk", "dfs", "bfs"):
            connected = max(1, space.most_connected)  # groups that are looked at, for each visited
            most = self._most_judged // connected
            if self.max_visits > most:
                rule = f"must be at most {most} with {connected} groups to look at from each"
                way_out = "Visit fewer, use sampler='uniform', or fewer attributes."
                raise InvalidParameter("max_visits", rule, self.max_visits, way_out)

    def answer(self, table: Table, randomness: Randomness) -> Release[Context | None]:
        space = self._space(table.domain)
        start = self._start(space)
        sampler = self._sampler_in(space)
        view = look_from(
            table,
            space,
            self.column,
            self.value,
            detectors.detector(self.detector),
            overlap_with=space.context(start) if self._utility == OVERLAP else None,
        )
        choice = self._choice(sampler)
        if sampler == "direct":
            chosen = self._directly(view, choice, randomness)
        else:
            chosen = self._searching(view, sampler, start, choice, randomness)
        return self.release(None if chosen is None else space.context(chosen), randomness)

    def sentence(self, value: Context | None) -> str:
        who = ", ".join(f"{name} {category}" for name, category in self.record)
        person = f" person with {who} and {self.column} {self.value:.10g}"
        if value is None:
            return f"A{person} was found to stand out by {self.column} in no group looked at."
        group = f"by {self.column} in this group: {value.in_words()}"
        if self.tells_none:
            return f"A{person} stands out {group}."
        return f"If a{person} stands out anywhere, then perhaps {group}."

    def value_to_json(self, value: Context | None) -> Any:
        return None if value is None else value.to_json()

    def value_from_json(self, data: Any) -> Context | None:
        return None if data is None else Context.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        attributes: list[Categorical] = []
        for one in sorted(domain.categorical(), key=lambda one: len(one.values)):
            values = sum(len(other.values) for other in (*attributes, one))
            if len(one.values) <= MOST_VALUES and (not attributes or values <= EXAMPLE_VALUES):
                attributes.append(one)
        columns = [one for one in domain.numeric() if one.high - one.low <= detectors.WIDEST]
        if not attributes or not columns:
            return ()
        column = columns[0]
        largest = cls(
            record=tuple((attribute.name, attribute.values[0]) for attribute in attributes),
            column=column.name,
            value=column.low + 0.75 * (column.high - column.low),
            epsilon="0.5",
            sampler="auto" if len(attributes[0].values) <= EXAMPLE_VALUES else "bfs",
            tells_none=True,  # what a person can be admitted with
        )
        close = replace(
            largest,
            detector="grubbs",
            utility="overlap",
            sampler="bfs",
            start=((attributes[0].name, attributes[0].values[0]),),
            max_visits=10,
        )
        return (largest, close)

    @property
    def _plugged_in(self) -> bool:
        known = isinstance(detectors.detector(self.detector), BuiltIn)
        return not known or self._utility.function is not None

    @property
    def _most_contexts(self) -> int:
        """How many groups a direct choice may weigh."""
        most = MOST_CONTEXTS_PLUGGED_IN if self._plugged_in else MOST_CONTEXTS
        return min(most, MOST_STEPS // self._steps)

    @property
    def _most_judged(self) -> int:
        """How many groups a search may look at."""
        most = MOST_JUDGED_PLUGGED_IN if self._plugged_in else MOST_JUDGED
        return min(most, MOST_STEPS // self._steps)

    @property
    def _steps(self) -> int:
        known = detectors.detector(self.detector)
        return known.steps if isinstance(known, BuiltIn) else 1

    def _sampler_in(self, space: ContextSpace) -> Sampler:
        """What auto comes to mean, by public numbers alone."""
        if self.sampler != "auto":
            return self.sampler
        return "direct" if space.n_contexts <= self._most_contexts else "bfs"

    def _space(self, domain: Domain) -> ContextSpace:
        return ContextSpace.around(domain, dict(self.record))

    def _start(self, space: ContextSpace) -> Choices:
        chosen = {str(row[0]): row[1:] for row in self.start}
        return space.choices(Context.of(space.attributes, chosen))

    def _worth(self, view: RecordView, context: Choices) -> int:
        """A plugged-in utility of a context, kept where a choice can weigh it whatever the rows."""
        assert self._utility.function is not None  # noqa: S101 - asked of plugged-in ones only
        values = np.sort(np.append(view.values[view.members(context)], view.value))
        worth = self._utility.function(view.space.context(context), values)
        return int(max(-LARGEST_UTILITY, min(LARGEST_UTILITY, worth)))

    def _directly(
        self, view: RecordView, choice: ExponentialMechanism, randomness: Randomness
    ) -> Choices | None:
        """Choose among all matching contexts; None if there are none.

        Where none matches a choice is made all the same, among all, and dropped: the work tells
        nothing.
        """
        utilities = view.scan()
        found = bool((utilities >= 0).any())
        if self._utility.function is None:
            weighed = utilities if found else np.zeros_like(utilities)
            number = search.choose_by_number(weighed, choice, randomness)
            return view.space.numbered(number) if found else None
        # A function of somebody's own sees every context, whichever match.
        contexts = [view.space.numbered(number) for number in range(len(utilities))]
        worths = [self._worth(view, context) for context in contexts]
        among = np.flatnonzero(utilities >= 0) if found else np.arange(len(utilities))
        chosen = choice.choose([worths[place] for place in among], randomness)
        return contexts[among[chosen]] if found else None

    def _searching(
        self,
        view: RecordView,
        sampler: Sampler,
        start: Choices,
        choice: ExponentialMechanism,
        randomness: Randomness,
    ) -> Choices | None:
        """Choose among the matching contexts that a search finds; None if it finds none."""
        worth = partial(self._worth, view) if self._utility.function is not None else None
        most_probes = MOST_PROBES_PLUGGED_IN if self._plugged_in else MOST_PROBES
        pool = Candidates(view, worth)
        found = search.candidates(
            sampler, pool, start, self.max_visits, most_probes, choice, randomness
        )
        most = search.most_judged(sampler, view.space, self.max_visits, most_probes)
        search.judge_up_to(pool, most)  # so that every search costs the same
        return pool.choose(found, choice, randomness) if found else None


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
        and all(isinstance(item, str | int) and not isinstance(item, bool) for item in row)
        for row in rows
    ):
        raise InvalidParameter("rows", "must each be a column and values of it", rows, way_out)
    if len({row[0] for row in rows}) != len(rows):
        raise InvalidParameter("rows", "must name each column once", rows, way_out)
    return tuple(tuple(row) for row in rows)


def _number(value: Any) -> float:
    """A number as a table would hold it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise InvalidParameter("value", "must be a finite number", value, "Try 1.5.")
    return float(rounded(value))
