"""Questions that share one state: noise is drawn when first needed, and kept for good.

All questions with the same `state` look at one set of noisy counts. Each count gets its noise once,
whoever asks for it and whenever; so all of these questions together lose what one of them does, and
only the first is charged. What was drawn is kept by the ledger, beside the releases.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Table
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.query.query import Query, Release

__all__ = ["KeptQuery", "looked"]

Value = TypeVar("Value")
Ints = NDArray[np.int64]


class KeptQuery(Query[Value], Generic[Value]):
    """A question about some of many counts, whose noise it shares with other questions."""

    @property
    @abstractmethod
    def state(self) -> str:
        """The parameters that the counts and their noise follow from, as a stable text."""

    @property
    @abstractmethod
    def most_kept(self) -> int:
        """How many counts of this state may ever be drawn; a part of `state`."""

    @property
    @abstractmethod
    def count_noise(self) -> DiscreteLaplace:
        """The noise of each count, which follows from `state` alone."""

    @abstractmethod
    def needed(self, domain: Domain) -> tuple[str, ...]:
        """The names of the counts it looks at, each once; public, whatever the rows."""

    @abstractmethod
    def true_counts(self, table: Table) -> Ints:
        """These counts as they are. Private: they leave with noise only."""

    @abstractmethod
    def value_of(self, domain: Domain, counts: Mapping[str, int]) -> Value:
        """The answer, from noisy counts by name."""

    def answer(self, table: Table, randomness: Randomness) -> Release[Value]:
        return self.answer_kept(table.domain, self.true_counts(table), {}, randomness)[0]

    def answer_kept(
        self, domain: Domain, exact: Ints, kept: Mapping[str, int], randomness: Randomness
    ) -> tuple[Release[Value], dict[str, int]]:
        """The answer, and the counts that were drawn for it because they were not kept yet."""
        names = self.needed(domain)
        missing = [place for place, name in enumerate(names) if name not in kept]
        noisy = self.count_noise.add_to(exact[missing], randomness).tolist()
        fresh = {names[place]: int(count) for place, count in zip(missing, noisy, strict=True)}
        value = self.value_of(domain, {**kept, **fresh})
        return self.release(value, randomness), fresh


def looked(query: Query[Any], table: Table, randomness: Randomness) -> Release[Any] | Ints:
    """What whoever looks at the rows hands on: a release, or exact counts that get noise later."""
    if isinstance(query, KeptQuery):
        return query.true_counts(table)
    return query.answer(table, randomness)
