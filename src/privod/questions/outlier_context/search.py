"""Five ways to the contexts that a private choice is made among [PCOR, Algorithms 1 to 5].

The rule of every search: which contexts it comes to know depends on the set of matching contexts,
on public input and on coins, and on utilities only through the private choice itself. So a start is
the first match in a public order, and each choice that steers the search is paid for. Where a
search ends early, choices are made all the same, among one: as much is drawn whatever matches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, combinations, count, islice, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privod.mechanisms import ExponentialMechanism, Randomness
from privod.mechanisms.law import Even
from privod.mechanisms.selection import Options
from privod.outliers.contexts.contexts import Choices, ContextSpace
from privod.outliers.contexts.matching import RecordView
from privod.outliers.contexts.packed import Packed, pack, unpack

Sampler = Literal["auto", "direct", "uniform", "random-walk", "dfs", "bfs"]

MOST_VISITS = 10_000  # contexts of one search
BATCH = 256  # contexts judged at a time
PROBED = 1 << 12  # contexts looked at together for a first match: enough for several threads
FEW_CONTEXTS = 1 << 12  # of which every one is probed for a first match
MANY_TIMES = 64  # so many even draws miss one of the contexts with probability e**-64
WORD = 64  # bits of a draw; an attribute takes as many words as hold its values
WORD_BYTES = WORD // 8
BLOCK = 1 << 20  # utilities counted at a time, so that memory stays flat


@dataclass
class Candidates:
    """Which contexts match and what each is worth, looked up once each.

    `worth` is the utility of a context, where it is not the one that `view` counts.
    """

    view: RecordView
    worth: Callable[[Choices], int] | None = None
    _known: dict[Choices, tuple[bool, int]] = field(default_factory=dict)

    def matching(self, contexts: Sequence[Choices]) -> list[Choices]:
        """Those of the contexts in which the record stands out."""
        unknown = [context for context in dict.fromkeys(contexts) if context not in self._known]
        if unknown:
            judged = self.view.judge(unknown)
            found = zip(judged.matches.tolist(), judged.utilities.tolist(), strict=True)
            self._known.update(zip(unknown, found, strict=True))
        return [one for one in contexts if self._known[one][0]]

    @property
    def n_judged(self) -> int:
        """How many contexts were looked up."""
        return len(self._known)

    def knows(self, context: Choices) -> bool:
        """Whether a context was looked up."""
        return context in self._known

    def choose(
        self, candidates: Sequence[Choices], choice: ExponentialMechanism, randomness: Randomness
    ) -> Choices:
        """Make one private choice among contexts that match."""
        utilities = [self.worth_of(context) for context in candidates]
        return candidates[choice.choose(np.array(utilities, np.int64), randomness, candidates)]

    def worth_of(self, context: Choices) -> int:
        """The utility of a context that was looked up."""
        return self._known[context][1] if self.worth is None else self.worth(context)


@dataclass
class Frontier(Options):
    """Contexts to choose among one after another, kept by what they are worth.

    A worth is chosen by how many share it, then one of these evenly: that is the law of a choice
    among all [docs/proofs/selection.md], in as many steps as there are worths.
    """

    _shared_by: dict[int, list[Choices]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._shared_by)

    def add(self, context: Choices, worth: int) -> None:
        """Let a context be chosen too; it must not be there yet."""
        self._shared_by.setdefault(worth, []).append(context)

    def take(self, choice: ExponentialMechanism, randomness: Randomness) -> Choices:
        """Make one private choice, and take the chosen context out."""
        chosen, place = randomness.draw(choice, self)
        contexts = self._shared_by[chosen]
        contexts[place], contexts[-1] = contexts[-1], contexts[place]
        taken = contexts.pop()
        if not contexts:
            del self._shared_by[chosen]
        return taken

    def pick(self, choice: ExponentialMechanism, bits: Randomness) -> tuple[int, int]:
        """The worth of the chosen context, and its place among those that share it."""
        size = len(self._shared_by)
        worths = np.fromiter(self._shared_by, np.int64, size)
        sharing = np.fromiter(map(len, self._shared_by.values()), np.int64, size)
        chosen = int(worths[choice.choose_group(worths, sharing, bits)])
        return chosen, bits.below_hidden(len(self._shared_by[chosen]))

    def worths(self) -> dict[Choices, int]:
        return {one: worth for worth, shared in self._shared_by.items() for one in shared}

    def name(self, drawn: tuple[int, int]) -> Choices:
        worth, place = drawn
        return self._shared_by[worth][place]

    def place(self, name: Choices) -> tuple[int, int]:
        worth = self.worths()[name]
        return worth, self._shared_by[worth].index(name)


@dataclass(frozen=True)
class Numbered(Options):
    """All contexts by number, of which those with a utility that is not negative are candidates."""

    utilities: NDArray[np.int32]

    def pick(self, choice: ExponentialMechanism, bits: Randomness) -> int:
        """One pass counts how many contexts share each utility [Algorithm 1]."""
        utilities = self.utilities
        blocks = [utilities[first : first + BLOCK] for first in range(0, len(utilities), BLOCK)]
        shared_by = np.zeros(int(utilities.max()) + 1, np.int64)
        for block in blocks:
            shared_by += np.bincount(block[block >= 0], minlength=len(shared_by))
        worths = np.flatnonzero(shared_by)
        chosen = worths[choice.choose_group(worths, shared_by[worths], bits)]
        nth = bits.below_hidden(int(shared_by[chosen]))
        before = 0
        for block in blocks:
            places = np.flatnonzero(block == chosen)
            if nth < len(places):
                break
            nth -= len(places)
            before += len(block)
        return before + int(places[nth])

    def worths(self) -> dict[int, int]:
        among = np.flatnonzero(self.utilities >= 0)
        return dict(zip(among.tolist(), self.utilities[among].tolist(), strict=True))


def choose_by_number(
    utilities: NDArray[np.int32], choice: ExponentialMechanism, randomness: Randomness
) -> int:
    """Choose among all contexts whose utility is not negative, given by number."""
    return int(randomness.draw(choice, Numbered(utilities)))


def candidates(
    sampler: Sampler,
    pool: Candidates,
    start: Choices,
    n: int,
    most_probes: int,
    choice: ExponentialMechanism,
    randomness: Randomness,
    n_starts: int = 1,
) -> list[Choices]:
    """The matching contexts that a sampler comes to know; none if it finds no match at all."""
    if sampler == "uniform":
        return uniform(pool, n, most_probes, randomness)
    starts = first_matches(pool.view, start, most_probes, n_starts)
    pool.matching(starts)
    if sampler == "random-walk":
        return random_walk(pool, starts, n, randomness, n_starts)
    if sampler == "dfs":
        return depth_first(pool, starts, n - n_starts, choice, randomness)
    return breadth_first(pool, starts, n, choice, randomness)


def public_order(space: ContextSpace, start: Choices) -> Iterator[Packed]:
    """Where to look for a first match, many at a time: the start, everyone, fewer, then anywhere.

    The same for whatever rows. Anywhere is every context, where these are few; else contexts picked
    by a fixed hash, without an end. Contexts may come twice.
    """
    few = space.n_contexts <= FEW_CONTEXTS
    every = map(space.numbered, range(space.n_contexts if few else 0))
    listed = chain((start,), _fewer_and_fewer(space), every)
    while batch := list(islice(listed, PROBED)):
        yield pack(space, batch)
    if few:
        return
    widths = [WORD_BYTES * -(-(bits + 1) // WORD) for bits in space.free_bits]
    ends = [0, *accumulate(widths)]
    for first in count(0, PROBED // BATCH):
        draw = b"".join(
            hashlib.shake_256(b"privod contexts %d" % number).digest(BATCH * ends[-1])
            for number in range(first, first + PROBED // BATCH)
        )
        rows = np.frombuffer(draw, np.uint8).reshape(PROBED, ends[-1])
        parts = [rows[:, begin:end] for begin, end in pairwise(ends)]
        yield np.concatenate(
            [_picked(space, place, part) for place, part in enumerate(parts)], axis=1
        )


def _fewer_and_fewer(space: ContextSpace) -> Iterator[Choices]:
    """Everyone; the record's own value alone in one attribute, in two, ..., in all."""
    everyone = space.everyone
    places = range(len(everyone))
    for n_narrow in range(len(everyone) + 1):
        for narrow in combinations(places, n_narrow):
            yield tuple(1 if at in narrow else everyone[at] for at in places)


def _picked(space: ContextSpace, place: int, drawn: Packed) -> Packed:
    """The choices in one attribute that rows of bytes pick: their bits, or a range by number."""
    width = space.byte_ends[place + 1] - space.byte_ends[place]
    runs = space.runs[place]
    if runs is None:
        every = space.everyone[place].to_bytes(width, "little")
        picked = drawn[:, :width] & np.frombuffer(every, np.uint8)
        picked[:, 0] |= 1
        return picked
    listed = np.frombuffer(b"".join(run.to_bytes(width, "little") for run in runs), np.uint8)
    numbers = [int.from_bytes(row.tobytes(), "little") % len(runs) for row in drawn]
    return listed.reshape(len(runs), width)[numbers]


def first_matches(view: RecordView, start: Choices, most_probes: int, n: int = 1) -> list[Choices]:
    """The first match in the public order, then those as far from the ones before as can be.

    Of equally far ones the earlier in the order. All probes are looked at, wherever matches are:
    the work tells nothing.
    """
    left, found = most_probes, []
    for batch in public_order(view.space, start):
        probes = batch[:left]
        matches = probes[view.judge_packed(probes).matches]
        found.append(matches if n > 1 else matches[:1])
        left -= len(probes)
        if left == 0:
            break
    known = np.concatenate(found)
    chosen: list[Choices] = []
    apart = np.full(len(known), np.iinfo(np.int64).max)
    while len(chosen) < n and apart.any():
        taken = known[int(apart.argmax())]
        chosen.append(unpack(view.space, taken))
        apart = np.minimum(apart, np.bitwise_count(known ^ taken).sum(axis=1, dtype=np.int64))
    return chosen


def most_judged(sampler: Sampler, space: ContextSpace, n: int, n_starts: int = 1) -> int:
    """How many contexts a walk may look at, by public numbers; uniform is even by itself."""
    if sampler == "uniform":
        return 0
    return min(space.n_contexts, n_starts + n * max(1, space.most_connected))


def judge_up_to(pool: Candidates, n: int) -> None:
    """Look at further contexts until n were looked at, so that every search costs the same."""
    numbers = count()
    while pool.n_judged < n:
        batch: list[Choices] = []
        while len(batch) < min(BATCH, n - pool.n_judged):
            context = pool.view.space.numbered(next(numbers))
            if not pool.knows(context):
                batch.append(context)
        pool.matching(batch)


def uniform(pool: Candidates, n: int, most_probes: int, randomness: Randomness) -> list[Choices]:
    """Draw contexts uniformly; the first n of the draws that match [Algorithm 2]; [] if none does.

    All draws are made, however soon n match: the work tells nothing.
    """
    space = pool.view.space
    found: list[Choices] = []
    left = min(most_probes, max(n, MANY_TIMES * space.n_contexts))
    while left:
        draws = (randomness.draw(Even(), space.n_contexts) for _ in range(min(left, BATCH)))
        batch = [space.numbered(number) for number in draws]
        found += pool.matching(batch)
        left -= len(batch)
    return list(dict.fromkeys(found[:n]))


def random_walk(
    pool: Candidates, starts: list[Choices], n: int, randomness: Randomness, n_starts: int = 1
) -> list[Choices]:
    """Step to random connected matches until n are known, or none is left to step to [Alg. 3].

    From each start as many steps, also where fewer starts were found.
    """
    visited = dict.fromkeys(starts)
    for place in range(n_starts):
        here = starts[place] if place < len(starts) else None
        for _ in range(1, n // n_starts):
            ways = [] if here is None else pool.matching(pool.view.space.connected(here))
            step = randomness.draw(Even(), ways)
            here = ways[step] if ways else None
            if here is not None:
                visited[here] = None
    return list(visited)


def depth_first(
    pool: Candidates,
    starts: list[Choices],
    n: int,
    choice: ExponentialMechanism,
    randomness: Randomness,
) -> list[Choices]:
    """Go on from the latest context that leads to a new match, by private choice [Algorithm 4]."""
    visited = dict.fromkeys(starts)
    stack = starts[::-1]
    for _ in range(n):
        children: list[Choices] = []
        while stack and not children:
            children = pool.matching(pool.view.space.connected(stack[-1]))
            children = [child for child in children if child not in visited]
            if not children:
                stack.pop()
        if children:
            stack.append(pool.choose(children, choice, randomness))
            visited[stack[-1]] = None
        else:
            spare_choice(choice, randomness)
    return list(visited)


def breadth_first(
    pool: Candidates,
    starts: list[Choices],
    n: int,
    choice: ExponentialMechanism,
    randomness: Randomness,
) -> list[Choices]:
    """Visit one of all matches seen so far, by private choice, and see its own [Algorithm 5]."""
    visited: list[Choices] = []
    seen = set(starts)
    frontier, spare = Frontier(), Frontier()
    for first in starts:
        frontier.add(first, pool.worth_of(first))
    for _ in range(n):
        if not frontier:
            spare.add((), 0)
            spare.take(choice, randomness)
            continue
        here = frontier.take(choice, randomness)
        visited.append(here)
        for child in pool.matching(pool.view.space.connected(here)):
            if child not in seen:
                seen.add(child)
                frontier.add(child, pool.worth_of(child))
    return visited


def spare_choice(choice: ExponentialMechanism, randomness: Randomness) -> None:
    """Choose among one, for nothing but the draws."""
    choice.choose(np.zeros(1, np.int64), randomness)
