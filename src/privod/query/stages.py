"""A release in stages: integer sums of a table, each given what was released before.

A staged query is a generator. It yields a `Stage` and is sent the noisy sums; what it computes of
them is public. So the same query is answered by a curator, who adds up the rows of one table, and
by several holders, who add up theirs in shares (docs/proofs/detector_profile.md, "Stages").
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, TypeVar

import numpy as np

from privod.arrays import Floats, Ints
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace

Value = TypeVar("Value")


@dataclass(frozen=True)
class Stage:
    """One vector of integer sums over records, and the noise that each of them gets.

    How many sums there are is public. They depend on earlier noisy sums only, and those of disjoint
    rows add up. One adjacent change of the table changes them by `absolute` in total, and by
    `squared` in the sum of the squares, at most, whatever was released before.
    """

    name: str
    size: int
    sums: Callable[[Floats], Ints]
    absolute: int
    squared: int
    noise: DiscreteLaplace | DiscreteGaussian

    @property
    def loss(self) -> Fraction:
        """Epsilon of Laplace noise, rho of Gaussian noise."""
        if isinstance(self.noise, DiscreteGaussian):
            return self.noise.rho(self.squared)
        return self.noise.loss(self.absolute).epsilon


Stages: TypeAlias = Generator[Stage, Ints, Value]


def count_rows(rows: Floats) -> Ints:
    """How many rows there are, as the sums of a stage; a table knows without a look at them."""
    return np.array([len(rows)], dtype=np.int64)


def go_through(stages: Stages[Value], noisy_sums: Callable[[Stage], Ints]) -> Value:
    """Answer every stage with its noisy sums and return what the query makes of all of them."""
    try:
        stage = next(stages)
        while True:
            stage = stages.send(noisy_sums(stage))
    except StopIteration as end:
        value: Value = end.value
        return value
