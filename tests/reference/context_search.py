"""The exact distribution of each sampler's answer, by walking through every run it can take."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product

from privod.outliers.contexts.contexts import Choices, ContextSpace

Distribution = dict[Choices, float]


def exponential(
    candidates: Sequence[Choices], worth: Mapping[Choices, int], scale: float
) -> Distribution:
    """The law of one private choice."""
    best = max(worth[one] for one in candidates)
    weights = {one: math.exp((worth[one] - best) / scale) for one in candidates}
    total = sum(weights.values())
    return {one: weight / total for one, weight in weights.items()}


def _mixed(parts: Sequence[tuple[float, Distribution]]) -> Distribution:
    mixture: Distribution = defaultdict(float)
    for share, part in parts:
        for one, probability in part.items():
            mixture[one] += share * probability
    return dict(mixture)


def direct(allowed: set[Choices], worth: Mapping[Choices, int], scale: float) -> Distribution:
    return exponential(sorted(allowed), worth, scale)


def uniform(
    allowed: set[Choices], worth: Mapping[Choices, int], scale: float, n: int
) -> Distribution:
    """Given that enough draws match, each of n matching draws is any allowed context."""
    runs = list(product(sorted(allowed), repeat=n))
    return _mixed([(1 / len(runs), exponential(sorted(set(run)), worth, scale)) for run in runs])


def random_walk(
    space: ContextSpace,
    allowed: set[Choices],
    worth: Mapping[Choices, int],
    scale: float,
    n: int,
    start: Choices,
) -> Distribution:
    def go(here: Choices, visited: frozenset[Choices], left: int) -> Distribution:
        ways = [one for one in space.connected(here) if one in allowed]
        if left == 0 or not ways:
            return exponential(sorted(visited), worth, scale)
        return _mixed([(1 / len(ways), go(way, visited | {way}, left - 1)) for way in ways])

    return go(start, frozenset({start}), n - 1)


def depth_first(
    space: ContextSpace,
    allowed: set[Choices],
    worth: Mapping[Choices, int],
    scale: float,
    n: int,
    start: Choices,
) -> Distribution:
    def go(stack: tuple[Choices, ...], visited: frozenset[Choices]) -> Distribution:
        if len(visited) == n or not stack:
            return exponential(sorted(visited), worth, scale)
        children = [one for one in space.connected(stack[-1]) if one in allowed - visited]
        if not children:
            return go(stack[:-1], visited)
        law = exponential(children, worth, scale)
        return _mixed([(law[one], go((*stack, one), visited | {one})) for one in children])

    return go((start,), frozenset({start}))


def breadth_first(
    space: ContextSpace,
    allowed: set[Choices],
    worth: Mapping[Choices, int],
    scale: float,
    n: int,
    start: Choices,
) -> Distribution:
    def go(seen: frozenset[Choices], visited: frozenset[Choices]) -> Distribution:
        if len(visited) == n or not seen:
            return exponential(sorted(visited), worth, scale)
        law = exponential(sorted(seen), worth, scale)
        parts = []
        for one in law:
            new = {other for other in space.connected(one) if other in allowed}
            now = visited | {one}
            parts.append((law[one], go((seen | new) - now, now)))
        return _mixed(parts)

    return go(frozenset({start}), frozenset())
