"""Private choices among the contexts in which one record stands out [PCOR, Algorithms 1 to 5].

What a question about contexts pays for: how many choices it takes, how sharp each is, among which
contexts it is made, and how much work that may be. Proof in docs/proofs/outlier_context.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privod.data import Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import ExponentialMechanism, Randomness
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Choices, ContextSpace
from privod.outliers.contexts.detectors import BuiltIn, PluggedIn
from privod.outliers.contexts.kernels.scan import NO_MATCH
from privod.outliers.contexts.matching import RecordView, look_from
from privod.privacy import Loss, Zcdp
from privod.query.preview import Preview, of_choice
from privod.questions.outlier_context import search
from privod.questions.outlier_context.search import Candidates, Sampler
from privod.questions.outlier_context.utility import OVERLAP, POPULATION, ContextUtility

USUAL_GROUP = 0.25  # of the records: about what a group of half of the values of two columns holds
MOST_CONTEXTS = 2**26  # that a direct choice weighs: 256 MB of utilities, and minutes
MOST_CONTEXTS_PLUGGED_IN = 2**16  # where each needs a call of somebody's function
MOST_PROBES = 2**14
MOST_PROBES_PLUGGED_IN = 2**8
MOST_JUDGED = 2**18  # contexts that a search looks at: each is held, and summed from all cells
MOST_JUDGED_PLUGGED_IN = 2**16
MOST_STEPS = 2**35  # of a detector in all contexts that are looked at: some minutes


@dataclass(frozen=True)
class GroupChoice:
    """How some contexts of one record are chosen, one after another, and what that loses.

    All choices together lose `epsilon`. The `n_records` of one answer share the limits on work.
    """

    detector: str
    utility: ContextUtility
    sampler: Sampler
    max_visits: int
    epsilon: Fraction
    n_groups: int = 1
    n_records: int = 1
    n_starts: int = 1

    def draws(self, sampler: Sampler) -> int:
        """How many private choices it takes: one per context told, and one per visit before."""
        visits = self.max_visits if sampler in ("dfs", "bfs") else 0
        return visits + self.n_groups

    def mechanism(self, sampler: Sampler) -> ExponentialMechanism:
        """The law of one of these choices."""
        step_epsilon = self.epsilon / self.draws(sampler)
        sensitivity, monotone = self.utility.sensitivity, self.utility.monotone
        return ExponentialMechanism.for_loss(step_epsilon, sensitivity, monotone=monotone)

    def loss(self) -> Loss:
        """What all choices lose; the same whatever auto comes to mean."""
        step = self.mechanism(self.sampler).loss(self.utility.sensitivity)
        return step * self.draws(self.sampler)

    def zcdp(self) -> Zcdp:
        """The same in the concentrated sense; auto is charged for the fewest, sharpest choices."""
        step = self.mechanism(self.sampler).zcdp(self.utility.sensitivity)
        return Zcdp(self.draws(self.sampler) * step.rho)

    def preview(self, space: ContextSpace) -> Preview:
        """How far a context told falls short of the best one left to choose, by public numbers."""
        sampler = self.sampler_in(space)
        direct = sampler == "direct"
        n_candidates = space.n_contexts if direct else min(self.max_visits, space.n_contexts)
        short = of_choice(self.mechanism(sampler), n_candidates)
        if self.utility == POPULATION:
            says = f"hold at most {short} records fewer than the largest"
        elif self.utility == OVERLAP:
            says = f"share at most {short} records fewer with the start than the best"
        else:
            says = f"be worth at most {short} less, by {self.utility.name}, than the best"
        among = "in which the person stands out" if direct else "that the search finds"
        if self.n_groups > 1:  # none is told twice, and the second largest may be far smaller
            among += ", not counting groups told before it"
        words = f"A group told will {says} one {among} (95 % confidence)."
        return Preview("the choice", short, typical_share=USUAL_GROUP, loose=True, words=words)

    def sampler_in(self, space: ContextSpace) -> Sampler:
        """What auto comes to mean, by public numbers alone."""
        if self.sampler != "auto":
            return self.sampler
        return "direct" if self.n_records * space.n_contexts <= self._most_contexts else "bfs"

    def check(self, space: ContextSpace, column: Numeric) -> None:
        """Refuse what would take hours, and functions of somebody's own that fail."""
        sampler = self.sampler_in(space)
        n_weighed = self.n_records * space.n_contexts
        if sampler == "direct" and n_weighed > self._most_contexts:
            rule = f"direct weighs at most {self._most_contexts} groups with this detector"
            way_out = "Use sampler='bfs', fewer attributes, or coarser ones."
            raise InvalidParameter("sampler", rule, n_weighed, way_out)
        if sampler in ("random-walk", "dfs", "bfs"):
            # groups that are looked at, for each visited
            connected = self.n_records * max(1, space.most_connected)
            most = MOST_JUDGED_PLUGGED_IN if self._plugged_in else MOST_JUDGED
            most = min(most, MOST_STEPS // self._steps) // connected
            if self.max_visits > most:
                rule = f"must be at most {most} with {connected} groups to look at from each"
                way_out = "Visit fewer, use sampler='uniform', or fewer attributes."
                raise InvalidParameter("max_visits", rule, self.max_visits, way_out)
        judge = detectors.detector(self.detector)
        if isinstance(judge, PluggedIn):
            judge.try_out(column)
        self.utility.try_out(space, column)

    def choose(
        self,
        table: Table,
        space: ContextSpace,
        column: str,
        value: float,
        start: Choices,
        randomness: Randomness,
    ) -> tuple[list[Choices], NDArray[np.int64]]:
        """Choose contexts in which the record stands out; fewer where fewer are found.

        Beside them stand their populations, the record included. These are exact, and private.
        """
        sampler = self.sampler_in(space)
        judge = detectors.detector(self.detector)
        overlap_with = space.context(start) if self.utility == OVERLAP else None
        view = look_from(table, space, column, value, judge, overlap_with=overlap_with)
        mechanism = self.mechanism(sampler)
        if sampler == "direct":
            chosen = self._directly(view, mechanism, randomness)
        else:
            chosen = self._searching(view, sampler, start, mechanism, randomness)
        spare = [space.everyone] * (self.n_groups - len(chosen))  # the work tells nothing
        return chosen, view.judge([*chosen, *spare]).sizes[: len(chosen)]

    def _directly(
        self, view: RecordView, mechanism: ExponentialMechanism, randomness: Randomness
    ) -> list[Choices]:
        """Choose among all matching contexts.

        Where none is left a choice is made all the same, among all, and dropped: the work tells
        nothing.
        """
        utilities = view.scan()
        worth = self._worth(view)
        if worth is not None:  # a function of somebody's own sees every context, whichever match
            contexts = [view.space.numbered(number) for number in range(len(utilities))]
            worths = np.array([worth(context) for context in contexts], dtype=np.int64)
        chosen: list[Choices] = []
        for _ in range(self.n_groups):
            left = bool((utilities >= 0).any())
            if worth is None:
                weighed = utilities if left else np.zeros_like(utilities)
                number = search.choose_by_number(weighed, mechanism, randomness)
            else:
                among = np.flatnonzero(utilities >= 0) if left else np.arange(len(utilities))
                number = int(among[mechanism.choose(worths[among], randomness, among.tolist())])
            if left:
                chosen.append(view.space.numbered(number))
                utilities[number] = NO_MATCH
        return chosen

    def _searching(
        self,
        view: RecordView,
        sampler: Sampler,
        start: Choices,
        mechanism: ExponentialMechanism,
        randomness: Randomness,
    ) -> list[Choices]:
        """Choose among the matching contexts that a search finds."""
        most_probes = MOST_PROBES_PLUGGED_IN if self._plugged_in else MOST_PROBES
        pool = Candidates(view, self._worth(view))
        found = search.candidates(
            sampler, pool, start, self.max_visits, most_probes, mechanism, randomness, self.n_starts
        )
        most = search.most_judged(sampler, view.space, self.max_visits, self.n_starts)
        search.judge_up_to(pool, most)  # so that every search costs the same
        chosen: list[Choices] = []
        for _ in range(self.n_groups):
            if found:
                chosen.append(pool.choose(found, mechanism, randomness))
                found = [one for one in found if one != chosen[-1]]
            else:
                search.spare_choice(mechanism, randomness)
        return chosen

    def _worth(self, view: RecordView) -> Callable[[Choices], int] | None:
        """What a context is worth to a utility of somebody's own; None for the usual ones."""
        return partial(_own_worth, self.utility, view) if self.utility.function else None

    @property
    def _plugged_in(self) -> bool:
        known = isinstance(detectors.detector(self.detector), BuiltIn)
        return not known or self.utility.function is not None

    @property
    def _most_contexts(self) -> int:
        """How many contexts direct choices may weigh."""
        most = MOST_CONTEXTS_PLUGGED_IN if self._plugged_in else MOST_CONTEXTS
        return min(most, MOST_STEPS // self._steps)

    @property
    def _steps(self) -> int:
        known = detectors.detector(self.detector)
        return known.steps if isinstance(known, BuiltIn) else 1


def _own_worth(utility: ContextUtility, view: RecordView, context: Choices) -> int:
    values = np.sort(np.append(view.values[view.members(context)], view.value))
    return utility.worth(view.space.context(context), values)
