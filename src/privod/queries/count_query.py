"""Questions that are answered by counts, each with noise once: one noise, one guarantee.

A record lies in one cell of a histogram, so adding or removing it changes one count by one, and
replacing it changes two. Whoever counts several histograms of the same records changes as many
counts in each of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace
from privod.privacy import AddRemove, Adjacency, Guarantee, Number, Replace
from privod.queries.checks import ExactNumber, column_names, dp_adjacency
from privod.queries.query import Query

__all__ = ["COUNTS_CHANGED", "MOST_EXPECTED", "CountQuery", "told_of_epsilon", "uniform_cells"]

Value = TypeVar("Value")

COUNTS_CHANGED = {AddRemove(): 1, Replace(): 2}  # in every histogram, by one each
MOST_EXPECTED = 10**15  # records; a larger guess chooses nothing else


class CountQuery(Query[Value]):
    """A question whose answer is histograms of columns, with exact discrete Laplace noise."""

    columns: tuple[str, ...]
    epsilon: ExactNumber
    adjacency: Adjacency

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))

    @property
    @abstractmethod
    def n_histograms(self) -> int:
        """In how many histograms every record is counted."""

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of each count."""
        return DiscreteLaplace.for_loss(self.epsilon, self._counts_changed)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.noise.loss(self._counts_changed), self.adjacency)

    @property
    def _counts_changed(self) -> int:
        return COUNTS_CHANGED[self.adjacency] * self.n_histograms


def uniform_cells(expected_records: int, epsilon: float, n_axes: int) -> float:
    """Cells per axis at which noise and coarseness balance, not yet rounded [Su 2016, Section 4].

    The rule for the plane, for any dimension.
    """
    power: float = 2 / (n_axes + 2)
    cells: float = (min(expected_records, MOST_EXPECTED) * epsilon / 10) ** power
    return cells


@contextmanager
def told_of_epsilon(epsilon: Number, parts: str) -> Iterator[None]:
    """Name the parameter that was given, where parts of it make a noise that cannot be drawn."""
    try:
        yield
    except InvalidParameter as problem:
        if problem.parameter != "epsilon":
            raise
        rule = f"must be neither tiny nor huge, nor may {parts}"
        raise InvalidParameter("epsilon", rule, epsilon, "Try 1.") from None
