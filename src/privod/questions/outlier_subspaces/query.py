"""In which columns do the outliers show? The column sets with most outliers [Okada 2015].

The utility of a set is its outlier count divided by the global bound for its size, in public steps.
The paper's Algorithm 3 draws with exp(epsilon u), which costs twice what it says; here the scale
follows from the true loss. Proofs in docs/proofs/outlier_subspaces.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import ExponentialMechanism, PermuteAndFlip, Randomness, Top
from privod.privacy import AddRemove, Cost, Guarantee, Statement, positive
from privod.privacy.loss import as_exact
from privod.progress import track
from privod.query.checks import (
    MOST_AXES,
    ExactNumber,
    checked_radius,
    column_names,
    numeric_columns,
    pairs_work,
    usual_pairs_work,
    whole_number,
)
from privod.query.crowd_bounds import LEAST_DELTA, count_credits, count_outliers, count_sensitivity
from privod.query.crowd_count import CrowdQuestion
from privod.query.distances import EXAMPLE_RADIUS, Distances
from privod.query.memory import cover_bytes, crowd_bytes
from privod.query.preview import Preview
from privod.query.query import Release
from privod.questions.outlier_count.query import OutlierCount
from privod.texts import listed
from privod.threads import available_threads, thread_pool

MOST_STEPS = 2**20  # that a utility of 1, the most one change can bring, is cut into
LEAST_LOSS = Fraction(1, 2**19)  # of one choice: with all steps its scale is 2^40, the largest
LARGEST_LOSS = 10**9
UNSURE = 0.05
MOST_CANDIDATES = 20_000
CANDIDATE_BYTES = 1 << 12  # its names, its count and its share in the choice
ALONE_BELOW = 20_000  # records times sets below which threads cost more than they bring


@dataclass(frozen=True)
class FoundSubspaces:
    """The chosen column sets, the likeliest fullest first, and their noisy counts if bought."""

    subspaces: tuple[tuple[str, ...], ...]
    n_candidates: int
    counts: tuple[int, ...] = ()
    margins: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OutlierSubspaces(CrowdQuestion[FoundSubspaces]):
    """By noisy counts, the column sets with the most outliers and, if asked for, how many each has.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The sets are chosen
    one after the other by an exact random choice; counts in them, if asked for, are noisy as in
    the outlier count. Both together cost epsilon, however many sets compete. With a delta, the
    counts may have noise whose guarantee needs one, if that is smaller.

    Parameters
    ----------
    radius_per_column : float
        How near records must be in a set of one column; in a set of d columns the radius is this
        times the square root of d, so that sets of different size can be compared. Distances are
        Euclidean, after scaling.
    epsilon : number
        The privacy loss of everything together, greater than 0.
    n_subspaces : int
        How many column sets are chosen.
    size : int
        How many columns a set has; at most as many as there are.
    smaller_too : bool
        Whether sets of fewer columns compete too.
    columns : tuple of str
        The numeric columns that sets are made of; none named means all of them.
    candidates : tuple of tuple of str
        The competing sets themselves; none given means all that size and columns allow.
    count_share : number
        The share of epsilon that buys a count in each set found, from 0 (no counts) to below 1.
    choice : str
        narrow: permute-and-flip with the least noise that is proved to be enough; or exponential,
        the paper's, with the noise for counts that rise as far as they fall. That is never better
        at equal cost.
    delta : number
        A probability that is added to the bound of epsilon, for all counts together; 0 where none
        are bought.
    """

    name: ClassVar[str] = "outlier-subspaces"
    value_class: ClassVar[Any] = FoundSubspaces
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "In which columns are the most outliers?"
    goal: ClassVar[str] = "find"

    radius_per_column: float
    epsilon: ExactNumber = ExactNumber(positive)
    n_subspaces: int = 1
    size: int = 1
    smaller_too: bool = False
    candidates: tuple[tuple[str, ...], ...] = ()
    count_share: ExactNumber = ExactNumber(as_exact, Fraction(0))
    choice: Literal["narrow", "exponential"] = "narrow"
    delta: ExactNumber = ExactNumber(as_exact, Fraction(0))

    def __post_init__(self) -> None:
        radius = checked_radius(self.radius_per_column, "radius_per_column")
        object.__setattr__(self, "radius_per_column", radius)
        super().__post_init__()
        sets = tuple(tuple(sorted(column_names(some))) for some in self.candidates)
        object.__setattr__(self, "candidates", sets)
        whole_number(self.n_subspaces, "n_subspaces", at_least=1)
        whole_number(self.size, "size", at_least=1, at_most=MOST_AXES)
        if len(set(sets)) != len(sets):
            raise InvalidParameter("candidates", "must be different", len(sets), "Name each once.")
        if any(len(some) > MOST_AXES for some in sets):
            rule = f"must have at most {MOST_AXES} columns each"
            raise InvalidParameter("candidates", rule, len(max(sets, key=len)), "Name fewer.")
        if self.choice not in ("narrow", "exponential"):
            rule = "must be narrow or exponential"
            raise InvalidParameter("choice", rule, self.choice, "Try 'narrow'.")
        if not 0 <= self.count_share < 1:
            rule = "must be from 0 to below 1"
            raise InvalidParameter("count_share", rule, self.count_share, "Try 0.5.")
        if self.delta and not LEAST_DELTA * self.n_subspaces <= self.delta <= Fraction(1, 2):
            rule = "must be 0, or lie between 10^-60 a set and 1/2"
            raise InvalidParameter("delta", rule, self.delta, "Try 1e-6.")
        if self.delta and not self.count_share:
            rule = "must be 0 where no counts are bought: the choice never fails"
            raise InvalidParameter("delta", rule, self.delta, "Leave it out, or buy counts.")
        if not LEAST_LOSS <= self._loss_of_a_choice <= LARGEST_LOSS:
            rule = "must leave a loss between 1/2^19 and 10^9 to each choice"
            raise InvalidParameter("epsilon", rule, str(self.epsilon), "Try 1.")

    @property
    def steps(self) -> int:
        """Into how many steps a utility of 1 is cut: no change moves one by more.

        As many as make all utilities whole, if that is few enough; the rest is rounded down.
        """
        bounds = {self._sensitivity(size) for size in self._sizes()}
        return min(math.lcm(*bounds), MOST_STEPS)

    @property
    def changed_by(self) -> Fraction:
        """By how many steps one change moves utilities at most, each up or down from their middle.

        A choice depends on differences alone: all may move together. A record that joins takes no
        more than `steps` from a utility, and adds one outlier at most, itself.
        """
        if self.choice != "narrow" or self.adjacency != AddRemove():
            return Fraction(self.steps)
        least = min(self._sensitivity(size) for size in self._sizes())
        return Fraction(self.steps + -(-self.steps // least), 2)

    @property
    def selection(self) -> Top:
        """How the sets are chosen, by utilities in steps."""
        kind = ExponentialMechanism if self.choice == "exponential" else PermuteAndFlip
        return Top(self.n_subspaces, kind.for_loss(self._loss_of_a_choice, self.changed_by))

    def radius_in(self, size: int) -> float:
        """The radius in a set of so many columns."""
        return self.radius_per_column * math.sqrt(size)

    def counting(self, columns: tuple[str, ...]) -> OutlierCount:
        """How the outliers of a set found are counted."""
        each = self.count_share * self.epsilon / self.n_subspaces
        return OutlierCount(
            radius=self.radius_in(len(columns)),
            max_crowd=self.max_crowd,
            epsilon=each,
            delta=self.delta / self.n_subspaces,
            columns=columns,
            adjacency=self.adjacency,
            scale=self.scale,
            weights=self._weights_of(columns),
            where=self.where,  # how many meet it is private: no noise may follow from that
        )

    def guarantee(self) -> Guarantee:
        loss = self.selection.loss(self.changed_by)
        if self.count_share:
            loss = loss + self.counting(()).guarantee().loss * self.n_subspaces
        return Guarantee(loss, self.adjacency)

    def cost(self) -> Cost:
        concentrated = self.selection.zcdp(self.changed_by)
        if self.count_share:
            counted = self.counting(()).cost().zcdp
            concentrated = sum([counted] * self.n_subspaces, concentrated)
        return Cost(self.guarantee().loss, concentrated)

    def also(self, domain: Domain) -> tuple[Statement, ...]:
        """Under Replace, what is lost under AddRemove: each utility moves by fewer steps."""
        if self.adjacency == AddRemove():
            return ()
        changed = max(self._steps_changed(size) for size in self._sizes())
        statement = Statement(
            Cost(self.selection.loss(changed), self.selection.zcdp(changed)), AddRemove()
        )
        if not self.count_share:
            return (statement,)
        counted = self.counting(()).also(domain)
        if not counted:
            return ()
        (one,) = counted
        loss = statement.cost.loss + one.cost.loss * self.n_subspaces
        zcdp = sum([one.cost.zcdp] * self.n_subspaces, statement.cost.zcdp)
        return (Statement(Cost(loss, zcdp), AddRemove()),)

    def _steps_changed(self, size: int) -> int:
        """By how many steps one record more or less moves a utility, rounding included."""
        change = count_sensitivity(self.max_crowd, size, AddRemove()) * self.steps
        return -(-change // self._sensitivity(size))

    def preview(self, domain: Domain) -> Preview:
        n_columns = len(numeric_columns(domain, self.columns))
        number = self._number_of_candidates(n_columns)
        missing, words = 0, "Every competing set will be named."
        if number > self.n_subspaces:
            missing = max(self.surely_missing(size, number) for size in self._sizes())
            words = (
                f"No set left out will have {missing} more outliers than a set named of its size"
                " (95 % confidence, for the worst data)."
            )
        chosen = Preview("the choice", missing, loose=missing > 0, words=words)
        if not self.count_share:
            return chosen
        pool = numeric_columns(domain, self.columns)[: self.size]
        widest = max(self.candidates, key=len) if self.candidates else pool
        counted = replace(self.counting(widest), where=()).preview(domain)  # said once, of all
        told = replace(chosen, words=f"{words} Of each count: {counted.sentence()}")
        if counted.margin is not None:
            return replace(told, margin=max(missing, counted.margin))
        least, deviation = max(missing, counted.least_margin or 0), counted.least_deviation
        return replace(told, margin=None, least_margin=least, least_deviation=deviation)

    def check(self, domain: Domain) -> None:
        n_columns = len(numeric_columns(domain, self.columns))
        if not self.candidates and self.size > n_columns:
            rule = f"must be at most the number of columns, {n_columns}"
            raise InvalidParameter("size", rule, self.size, "Try 1.")
        number = self._number_of_candidates(n_columns)
        if number > MOST_CANDIDATES:
            rule = f"must leave at most {MOST_CANDIDATES} competing sets"
            raise InvalidParameter("size", rule, number, "Use smaller sets or fewer columns.")
        if self.n_subspaces > number:
            rule = f"must be at most the number of competing sets, {number}"
            raise InvalidParameter("n_subspaces", rule, self.n_subspaces, "Choose fewer.")
        sets = list(self._sets(domain))
        if self.weights and not {name for some in sets for name in some} <= set(self.columns):
            rule = "must be one for each column that a candidate holds"
            raise InvalidParameter("weights", rule, self.weights, "Name all of them in columns.")
        for size in self._sizes():
            self._distances(domain, next(some for some in sets if len(some) == size))
        if self.count_share:
            widest = max(sets, key=len)
            self.counting(widest).check(domain)

    def work(self, domain: Domain, records: int) -> int:
        n_columns = len(numeric_columns(domain, self.columns))
        widest = min(max(self._sizes()), len(domain.columns))
        return self._number_of_candidates(n_columns) * pairs_work(records, widest)

    def usual_work(self, domain: Domain, records: int) -> int:
        n_columns = len(numeric_columns(domain, self.columns))
        widest = min(max(self._sizes()), len(domain.columns))
        return self._number_of_candidates(n_columns) * usual_pairs_work(records, widest)

    def most_bytes(self, domain: Domain, records: int) -> int:
        widest = min(max(self._sizes()), len(domain.columns))
        counted = crowd_bytes(records, widest)  # by each thread, a set of columns at a time
        covered = max(cover_bytes(records, n_axes) for n_axes in range(1, widest + 1))
        candidates = CANDIDATE_BYTES * self._number_of_candidates(len(domain.columns))
        return available_threads() * counted + covered + candidates

    def held_per_record(self, domain: Domain) -> int:
        """Outliers are counted by parts of space; counts bought besides may hold points."""
        if not self.count_share:
            return 0
        of_each_size = {len(some): some for some in self._sets(domain)}
        return max(self.counting(some).held_per_record(domain) for some in of_each_size.values())

    def answer(self, table: Table, randomness: Randomness) -> Release[FoundSubspaces]:
        sets = list(self._sets(table.domain))
        utilities = self.utilities(sets, self.true_counts(table, sets))
        places = self.selection.choose(utilities, randomness, sets)
        chosen = tuple(sets[place] for place in places)
        counts, margins = [], []
        for some in chosen if self.count_share else ():
            counting = self.counting(some)
            found = counting.answer(table, randomness).value
            counts.append(found.count)
            margins.append(counting.margin(found))
        value = FoundSubspaces(chosen, len(sets), tuple(counts), tuple(margins))
        return self.release(value, randomness)

    def utilities(self, sets: list[tuple[str, ...]], counts: list[int]) -> NDArray[np.int64]:
        """What each set is worth, in steps; not private."""
        steps = self.steps
        worth = [
            count * steps // self._sensitivity(len(some))  # exact where the bound divides the steps
            for some, count in zip(sets, counts, strict=True)
        ]
        return np.array(worth, dtype=np.int64)

    def true_counts(self, table: Table, sets: list[tuple[str, ...]]) -> list[int]:
        """The outliers of every set, counted on all processors; not private."""

        def count(some: tuple[str, ...]) -> int:
            over, radius = self._distances(table.domain, some), self.radius_in(len(some))
            if table.most_records is not None:  # by parts of space, which are counted in threads
                return count_credits(table, over, radius, self.max_crowd)
            return count_outliers(over.points(table), radius, self.max_crowd, threads=1)

        # How many rows there are may be private: the same steps are reported on both ways.
        if table.most_records is not None or len(sets) * len(table) < ALONE_BELOW:
            return list(track(map(count, sets), "column sets", total=len(sets)))
        with thread_pool() as pool:
            return list(track(pool.map(count, sets), "column sets", total=len(sets)))

    def chance_at_most(self, missing: int, size: int) -> float:
        """How likely at most a set with so many outliers below the best of its size is taken."""
        gap = (missing * self.steps) // self._sensitivity(size)
        return self.selection.choice.chance_at_most(gap)

    def surely_missing(self, size: int, n_candidates: int) -> int:
        """No set left out has this many outliers more than a chosen one of its size: 95 % sure."""
        gap = self.selection.choice.surely_within(n_candidates, UNSURE / self.n_subspaces)
        sensitivity = self._sensitivity(size)
        rounded = 1 if self.steps % sensitivity else 0  # utilities that are not whole lose a step
        return math.ceil((gap + rounded) * sensitivity / self.steps)

    def sentence(self, value: FoundSubspaces) -> str:
        named = [listed(some) for some in value.subspaces]
        if value.counts:
            counted = zip(named, value.counts, value.margins, strict=True)
            named = [f"{name} ({count:,} ± {within:,})" for name, count, within in counted]
        many = "The column set" if len(named) == 1 else f"The {len(named)} column sets"
        text = f"{many} chosen for the most outliers: {'; '.join(named)}."
        if value.n_candidates == len(named):
            return f"{text} There was no other candidate."
        text += f" No other of the {value.n_candidates:,} candidates has"
        if len(self._sizes()) == 1:
            size = len(value.subspaces[0])
            more = self.surely_missing(size, value.n_candidates)
            return f"{text} {more:,} more of them (95 % confidence)."
        each = [
            f"{self.surely_missing(size, value.n_candidates):,} more ({columns_in_words(size)})"
            for size in sorted({len(some) for some in value.subspaces})
        ]
        return (
            f"{text}, against one named of as many columns, {' or '.join(each)} (95 % confidence)."
        )

    def table(self, value: FoundSubspaces) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {"columns": [" ".join(some) for some in value.subspaces]}
        if value.counts:
            found["count"] = list(value.counts)
            found["margin"] = list(value.margins)
        return found

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:5]
        if len(columns) < 2:
            return ()
        asked: dict[str, Any] = {
            "radius_per_column": EXAMPLE_RADIUS,
            "scale": "range",
            "max_crowd": 3,
            "columns": columns,
        }
        with_counts = cls(
            epsilon=4, n_subspaces=2, size=2, smaller_too=True, count_share="0.5", **asked
        )
        return (cls(epsilon=2, **asked), with_counts)

    @property
    def _loss_of_a_choice(self) -> Fraction:
        return (1 - self.count_share) * self.epsilon / self.n_subspaces

    def _sensitivity(self, size: int) -> int:
        return count_sensitivity(self.max_crowd, size, self.adjacency)

    def _weights_of(self, some: tuple[str, ...]) -> tuple[float, ...]:
        if not self.weights:
            return ()
        counted = dict(zip(self.columns, self.weights, strict=True))
        return tuple(counted[name] for name in some)

    def _distances(self, domain: Domain, some: tuple[str, ...]) -> Distances:
        return Distances.over(domain, some, self.scale, self._weights_of(some))

    def _sizes(self) -> set[int]:
        """How many columns a competing set can have."""
        if self.candidates:
            return {len(some) for some in self.candidates}
        return set(range(1 if self.smaller_too else self.size, self.size + 1))

    def _number_of_candidates(self, n_columns: int) -> int:
        if self.candidates:
            return len(self.candidates)
        return sum(math.comb(n_columns, size) for size in self._sizes())

    def _sets(self, domain: Domain) -> Iterator[tuple[str, ...]]:
        if self.candidates:
            for some in self.candidates:
                yield numeric_columns(domain, some)
            return
        pool = numeric_columns(domain, self.columns)
        for size in sorted(self._sizes()):
            yield from combinations(pool, size)


def columns_in_words(size: int) -> str:
    """How many columns, for sentences."""
    return "1 column" if size == 1 else f"{size} columns"
