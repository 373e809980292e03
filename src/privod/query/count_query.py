"""Questions that are answered by counts, each with noise once: one noise, one guarantee.

A record more or less changes one count of each histogram by one, a replaced one two. Laplace noise
follows the sum of these changes, Gaussian noise the root of the sum of their squares.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, DiscreteLaplace
from privod.mechanisms.merged import MergedNoise
from privod.privacy import (
    AddRemove,
    Adjacency,
    Cost,
    Guarantee,
    Loss,
    Number,
    Replace,
    Statement,
    Zcdp,
)
from privod.privacy.loss import as_exact
from privod.query.checks import LARGEST_COUNT, ExactNumber, column_names, dp_adjacency, whole_number
from privod.query.conditional import Conditional

Value = TypeVar("Value")
NoiseName = Literal["laplace", "gaussian", "auto"]
CountNoise = DiscreteLaplace | DiscreteGaussian

COUNTS_CHANGED = {AddRemove(): 1, Replace(): 2}  # in every histogram, by one each
MOST_EXPECTED = 10**15  # records; a larger guess chooses nothing else
TOTAL_SHARE = Fraction(1, 50)  # of epsilon, for the number of records where it is bought
BINS = 4.5  # bins of a column with one record to a count's noise (choose_detector.py)
FEWEST_BINS, MOST_BINS = 4, 64


@dataclass(frozen=True)
class NoisyTotal:
    """How many records there are, with noise of its own."""

    count: int
    noise: MergedNoise

    def __add__(self, other: NoisyTotal) -> NoisyTotal:
        return NoisyTotal(self.count + other.count, self.noise + other.noise)

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "noise": self.noise.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NoisyTotal:
        least, most = -LARGEST_COUNT, LARGEST_COUNT
        count = whole_number(data["count"], "count", at_least=least, at_most=most)
        return cls(count, MergedNoise.from_json(data["noise"]))


class CountQuery(Conditional[Value]):
    """A question whose answer is histograms of columns, with exact discrete noise.

    Parameters
    ----------
    noise : str
        One of laplace, gaussian, auto; auto takes the smaller one, by the other parameters alone,
        and in a budget that is counted by zcdp the one that is smaller for the same rho.
    delta : number
        A probability that is added to the bound of epsilon; 0 allows laplace noise only.
    """

    holds_rows: ClassVar[bool] = False

    columns: tuple[str, ...]
    epsilon: ExactNumber
    adjacency: Adjacency
    noise: NoiseName = "laplace"
    delta: ExactNumber | Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "adjacency", dp_adjacency(self.adjacency))
        if self.noise not in ("laplace", "gaussian", "auto"):
            rule = "must be one of laplace, gaussian, auto"
            raise InvalidParameter("noise", rule, self.noise, "Try 'laplace'.")
        if self.noise == "gaussian" and not self.delta:
            rule = "must be greater than 0 for gaussian noise"
            raise InvalidParameter("delta", rule, 0, "Try 1e-6, or noise 'laplace'.")
        if self.noise == "laplace" and self.delta:
            way_out = "Leave it out, or ask for noise 'gaussian' or 'auto'."
            raise InvalidParameter("delta", "must be 0 for laplace noise", self.delta, way_out)

    @property
    @abstractmethod
    def n_histograms(self) -> int:
        """In how many histograms every record is counted."""

    @property
    def counts_epsilon(self) -> Fraction:
        """What of epsilon the counts lose: all of it, where nothing else is bought."""
        return self.epsilon

    @cached_property
    def chosen_noise(self) -> NoiseName:
        """The noise taken: auto takes the smaller one, by public parameters alone."""
        if self.noise != "auto" or not self.delta:
            return "laplace" if self.noise == "auto" else self.noise
        changed = self._counts_changed
        laplace = self.laplace_noise
        gaussian = DiscreteGaussian.for_loss(self.counts_epsilon, self.delta, changed)
        return "gaussian" if gaussian.deviation < laplace.deviation else "laplace"

    @cached_property
    def laplace_noise(self) -> DiscreteLaplace:
        """The Laplace noise that loses epsilon."""
        return DiscreteLaplace.for_loss(self.counts_epsilon, self._counts_changed)

    @cached_property
    def count_noise(self) -> CountNoise:
        """The noise of each count; all changes are by one, so their squares sum to as much."""
        if self.chosen_noise == "laplace":
            return self.laplace_noise
        return DiscreteGaussian.for_loss(self.counts_epsilon, self.delta, self._counts_changed)

    def within(self, accounting: str, delta: Fraction = Fraction(0)) -> Self:  # noqa: ARG002
        """Counted by zcdp, auto takes the noise that is smaller for one and the same rho.

        Variance times rho decides, by public parameters alone.
        """
        if self.noise != "auto" or not self.delta or accounting != "zcdp":
            return self
        changed, laplace = self._counts_changed, self.laplace_noise
        gaussian = DiscreteGaussian.for_loss(self.counts_epsilon, self.delta, changed)
        rho = Zcdp.of_loss(laplace.loss(changed)).rho
        cheaper = gaussian.deviation**2 * gaussian.rho(changed) < laplace.deviation**2 * rho
        if not cheaper:
            return replace(self, noise="laplace", delta=Fraction(0))  # type: ignore[call-arg]
        return replace(self, noise="gaussian")  # type: ignore[call-arg]

    def guarantee(self) -> Guarantee:
        return self._promise_of_counts

    @cached_property
    def _promise_of_counts(self) -> Guarantee:
        """What the counts promise, derived once; a question may tell more than them."""
        noise = self.count_noise
        if isinstance(noise, DiscreteLaplace):
            return Guarantee(noise.loss(self._counts_changed), self.adjacency)
        lost = Loss(self.counts_epsilon, self.delta)
        if not noise.keeps(lost, self._counts_changed):
            lost = noise.loss(self._counts_changed, self.delta)
        return Guarantee(lost, self.adjacency)

    def cost(self) -> Cost:
        noise, loss = self.count_noise, self.guarantee().loss
        if isinstance(noise, DiscreteLaplace):
            return Cost.of_loss(loss)
        return Cost(loss, Zcdp(noise.rho(self._counts_changed)))

    def also(self, domain: Domain) -> tuple[Statement, ...]:  # noqa: ARG002 - counts alone
        """Under Replace, what is lost under AddRemove.

        A record that comes or goes changes half as many counts as one that is replaced.
        """
        if self.adjacency == AddRemove():
            return ()
        noise, changed = self.count_noise, COUNTS_CHANGED[AddRemove()] * self.n_histograms
        if isinstance(noise, DiscreteLaplace):
            return (Statement(Cost.of_loss(noise.loss(changed)), AddRemove()),)
        lost = self.guarantee().loss  # of more changes, so it holds for fewer too
        return (Statement(Cost(lost, Zcdp(noise.rho(changed))), AddRemove()),)

    @property
    def _counts_changed(self) -> int:
        return COUNTS_CHANGED[self.adjacency] * self.n_histograms


def chance(value: Number, name: str) -> Fraction:
    """Read a probability that is added to the bound of epsilon: at least 0, at most 1/2."""
    number = as_exact(value, name)
    if not 0 <= number <= Fraction(1, 2):
        raise InvalidParameter(name, "must lie between 0 and 1/2", value, "Try 1e-6.")
    return number


def bins_for(records: float, scale: float) -> int:
    """Into how many bins a column is cut, whose counts will have noise of this scale."""
    worth = min(max(records, 1.0), MOST_EXPECTED) / scale
    return int(np.clip(round(BINS * worth ** (1 / 3)), FEWEST_BINS, MOST_BINS))


def uniform_cells(expected_records: int, epsilon: float, n_axes: int) -> float:
    """Cells per axis at which noise and coarseness balance, not rounded [Su 2016, Section 4]."""
    power: float = 2 / (n_axes + 2)
    cells: float = (min(expected_records, MOST_EXPECTED) * epsilon / 10) ** power
    return cells


def loss_of(noise: CountNoise, absolute: int, squared: int) -> Fraction:
    """What noise loses, of changes whose sizes and squares add up to these: epsilon, or rho."""
    if isinstance(noise, DiscreteLaplace):
        return noise.loss(absolute).epsilon
    return noise.rho(squared)


@contextmanager
def told_of_epsilon(epsilon: Number, parts: str) -> Iterator[None]:
    """Name the parameter that was given, where parts of it make a noise that cannot be drawn."""
    try:
        yield
    except InvalidParameter as problem:
        if problem.parameter not in ("epsilon", "sigma2", "scale"):
            raise
        rule = f"must be neither tiny nor huge, nor may {parts}"
        raise InvalidParameter("epsilon", rule, epsilon, "Try 1.") from None
