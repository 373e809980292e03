"""Zero-concentrated differential privacy: many small losses add up by their squares.

Losses rho [Bun and Steinke 2016] add up, also when every question is chosen by the answers before
it, and a total rho is worth an (epsilon, delta) [Canonne, Kamath and Steinke 2020]. A mechanism may
fail with a probability `delta` beside that. Budgets round down, charges round up; all are exact
fractions. A budget pays a question if the plain sum of epsilons stays within its epsilon or the sum
of rhos within its rho. Proofs: docs/proofs/zcdp.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..errors import InvalidParameter
from .certified import exp_above, log_above, log_below
from .loss import Loss, Number, as_exact, exact, positive, rounded_down, rounded_up

CONVERSION_SHARE = Fraction(9, 10)  # of a budget's delta, where nothing else is said
ORDER_PLACES = 2**20  # the order of the divergence is a multiple of 1/2^20: any order is valid
FARTHEST_ORDER = 1e12
ROOT_PLACES = 10**40


@dataclass(frozen=True)
class Zcdp:
    """A zero-concentrated loss: rho, but for a probability of delta, 0 of Gaussian noise."""

    rho: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("rho", "delta"):
            number = as_exact(getattr(self, name), name)
            if number < 0:
                raise InvalidParameter(name, "must be at least 0", number, "Try 0.")
            object.__setattr__(self, name, number)

    @classmethod
    def of_loss(cls, loss: Loss) -> Zcdp:
        """epsilon^2 / 2, with delta beside [Bun and Steinke 2016, Prop. 3.3 and Lemma 8.8].

        Above 2 epsilon itself is less: no divergence passes it, whatever its order.
        """
        return cls(min(loss.epsilon**2 / 2, loss.epsilon), loss.delta)

    @classmethod
    def of_bounded_range(cls, bound: Fraction) -> Zcdp:
        """bound^2 / 8 for a choice, if log-odds of outcomes span at most `bound`.

        That is so for the exponential mechanism, with bound = epsilon [Cesar and Rogers 2021,
        Lemma 3.2, after Dong et al. 2020], and not for permute-and-flip.
        """
        return cls(bound**2 / 8)

    def __add__(self, other: Zcdp) -> Zcdp:
        return Zcdp(self.rho + other.rho, self.delta + other.delta)

    def for_groups(self, size: int) -> Zcdp:
        """The loss towards `size` steps: size^2 rho [Bun and Steinke 2016, Prop. 1.9].

        Where it may fail there is no such rule: take `Zcdp.of_loss(loss.for_groups(size))`.
        """
        if size < 1:
            raise InvalidParameter("size", "must be at least 1", size, "Try 1.")
        if self.delta and size > 1:
            way_out = "Grow the loss (epsilon, delta) first, then take Zcdp.of_loss of it."
            raise InvalidParameter("delta", "must be 0 for groups", self.delta, way_out)
        return Zcdp(size * size * self.rho, self.delta)

    def to_json(self) -> dict[str, str]:
        """Exact fractions as text."""
        return {"rho": str(self.rho), "delta": str(self.delta)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Zcdp:
        """Read back what `to_json` wrote."""
        return cls(exact(data["rho"], "rho"), exact(data.get("delta", 0), "delta"))


@dataclass(frozen=True)
class Cost:
    """What one question costs, in both currencies; each is a valid statement on its own."""

    loss: Loss
    zcdp: Zcdp

    def __post_init__(self) -> None:
        if self.zcdp.delta > self.loss.delta:
            way_out = "State both for the same mechanism."
            raise InvalidParameter("zcdp", "must not fail more often", self.zcdp.delta, way_out)

    @classmethod
    def of_loss(cls, loss: Loss) -> Cost:
        """The cost of a mechanism of which nothing but its loss is known."""
        return cls(loss, Zcdp.of_loss(loss))

    def for_groups(self, size: int) -> Cost:
        """The cost towards `size` steps or rows; the better of two rules for rho."""
        if size == 1:
            return self
        loss = self.loss.for_groups(size)
        grown = Zcdp.of_loss(loss)
        if self.zcdp.delta:
            return Cost(loss, grown)
        squared = size * size * self.zcdp.rho
        return Cost(loss, Zcdp(squared if loss.delta else min(squared, grown.rho)))


@dataclass(frozen=True)
class Spent:
    """What was spent of a zCDP budget: sums, and the delta that approximate questions used up.

    `adding` says that the sum of epsilons still is within the budget's; once past it stays past.
    """

    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    adding: bool = True


NOTHING_SPENT = Spent()


SMALLEST_DELTA = Fraction(1, 10**100)  # that converts rho; a float holds it with room


@dataclass(frozen=True)
class ZcdpBudget:
    """A budget of (epsilon, delta) that questions are paid from by either currency.

    Guarantee
    ---------
    All answers together, however the questions were chosen, lose at most (epsilon, delta).

    Parameters
    ----------
    loss : Loss
        What the owner allows; epsilon and delta above 0.
    conversion_delta : Fraction
        The part of delta that the conversion of rho uses; the rest pays approximate questions.
    """

    loss: Loss
    conversion_delta: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.conversion_delta <= self.loss.delta < 1 or self.loss.epsilon <= 0:
            rule = "must have epsilon above 0, and delta above 0 and below 1"
            raise InvalidParameter("budget", rule, str(self.loss), "Try epsilon 1, delta 1e-6.")

    @classmethod
    def of(
        cls, epsilon: Number, delta: Number, conversion_share: Number = CONVERSION_SHARE
    ) -> ZcdpBudget:
        """Split delta; a share of 1 leaves nothing for questions that may fail."""
        loss, share = Loss(epsilon, delta), positive(conversion_share, "conversion_share")
        if share > 1:
            raise InvalidParameter("conversion_share", "must be at most 1", share, "Try 1/2.")
        found = cls(loss, loss.delta * share)
        if found.conversion_delta < SMALLEST_DELTA:
            rule = "must have a delta that converts rho, above 2e-100"
            raise InvalidParameter("budget", rule, str(loss), "Try epsilon 1, delta 1e-6.")
        return found

    @property
    def rho(self) -> Fraction:
        """What (epsilon, conversion delta) is worth, rounded down."""
        return rho_of_loss(self.loss.epsilon, self.conversion_delta)

    @property
    def approximate_delta(self) -> Fraction:
        """What questions that may fail can use up."""
        return self.loss.delta - self.conversion_delta

    def after(self, spent: Spent, cost: Cost) -> Spent | None:
        """What is spent once the question is paid; None if it cannot be paid."""
        epsilon, rho = spent.epsilon + cost.loss.epsilon, spent.rho + cost.zcdp.rho
        added = spent.delta + cost.loss.delta
        if spent.adding and epsilon <= self.loss.epsilon and added <= self.approximate_delta:
            return Spent(epsilon, rho, added, adding=True)
        beside = spent.delta + cost.zcdp.delta
        if rho <= self.rho and beside <= self.approximate_delta:
            return Spent(epsilon, rho, beside, adding=False)
        return None

    def overrun(self, spent: Spent, cost: Cost) -> Spent:
        """What is spent once a cost stands that could not be paid: it was revealed elsewhere.

        Both sums and delta grow; that adding holds is kept, for a budget that is raised later.
        """
        epsilon, rho = spent.epsilon + cost.loss.epsilon, spent.rho + cost.zcdp.rho
        return Spent(epsilon, rho, spent.delta + cost.loss.delta, adding=spent.adding)

    def largest(self, spent: Spent) -> Loss:
        """The largest loss that one more question may have and be paid; (0, 0) if there is none."""
        delta = self.approximate_delta - spent.delta
        room = self.loss.epsilon - spent.epsilon
        by_sum = room if spent.adding and room > 0 else Fraction(0)
        by_rho = root_below(2 * (self.rho - spent.rho)) if self.rho > spent.rho else Fraction(0)
        epsilon = max(by_sum, by_rho)
        return Loss(epsilon, delta) if epsilon > 0 and delta >= 0 else Loss(0)

    def questions_left(self, spent: Spent, cost: Cost) -> int:
        """How many more questions of one cost can be paid; a cost of nothing is paid for ever."""
        if cost.zcdp.rho == 0 and cost.zcdp.delta == 0:
            raise InvalidParameter("cost", "must be above 0", 0, "Ask about a real question.")
        room_rho = _times(self.rho - spent.rho, cost.zcdp.rho)
        by_rho = min(room_rho, _times(self.approximate_delta - spent.delta, cost.zcdp.delta))
        by_sum = 0.0
        if spent.adding:
            room = _times(self.loss.epsilon - spent.epsilon, cost.loss.epsilon)
            by_sum = min(room, _times(self.approximate_delta - spent.delta, cost.loss.delta))
            if cost.loss.delta > cost.zcdp.delta and by_sum < by_rho:
                # deltas paid while adding are gone when the sum of rhos takes over
                left = self.approximate_delta - spent.delta - int(by_sum) * cost.loss.delta
                more = min(room_rho - by_sum, _times(left, cost.zcdp.delta))
                by_rho = by_sum + max(0.0, more)
        return max(0, int(max(by_rho, by_sum)))


def root_below(square: Fraction) -> Fraction:
    """A fraction at most the root of a number above 0, with few digits."""
    root = math.isqrt(square.numerator * ROOT_PLACES**2 // square.denominator)
    return rounded_down(Fraction(root, ROOT_PLACES)) if root else Fraction(0)


def _times(room: Fraction, price: Fraction) -> float:
    if room < 0:
        return 0
    return math.inf if price == 0 else room // price


@lru_cache(maxsize=256)
def rho_of_loss(epsilon: Number, delta: Number) -> Fraction:
    """The largest rho that is worth (epsilon, delta), rounded down.

    For every order a > 1, rho a-divergence bounds give delta = e^((a-1)(a rho - epsilon)) / (a-1)
    (1 - 1/a)^a [Canonne, Kamath and Steinke 2020, Prop. 12]; solved for rho, at the best order.
    """
    lost, chance = _worth(epsilon, delta)

    def rho(order: float) -> float:
        return (float(lost) + _room(chance, order) / (order - 1)) / order

    a = _best_order(lambda order: -rho(order))
    found = (lost + _room_below(chance, a) / (a - 1)) / a
    return rounded_down(found) if found > 0 else Fraction(0)


@lru_cache(maxsize=256)
def epsilon_of_rho(rho: Number, delta: Number) -> Fraction:
    """The least epsilon that rho is worth at this delta, rounded up."""
    concentrated, chance = exact(rho, "rho"), exact(delta, "delta")
    _worth(1, chance)
    if concentrated < 0:
        raise InvalidParameter("rho", "must be at least 0", rho, "Try 0.01.")
    if concentrated == 0:
        return Fraction(0)

    def epsilon(order: float) -> float:
        return order * float(concentrated) - _room(chance, order) / (order - 1)

    a = _best_order(epsilon)
    found = a * concentrated - _room_below(chance, a) / (a - 1)
    return rounded_up(found) if found > 0 else Fraction(0)


def delta_of_rho(rho: Number, epsilon: Number) -> Fraction:
    """The least delta at which rho keeps this epsilon, rounded up; 1 where nothing is kept."""
    concentrated, lost = positive(rho, "rho"), positive(epsilon, "epsilon")

    def log_delta(order: float) -> float:
        gap = (order - 1) * (order * float(concentrated) - float(lost))
        return gap + order * math.log1p(-1 / order) - math.log(order - 1)

    a = _best_order(log_delta)
    exponent = (a - 1) * (a * concentrated - lost)
    exponent += a * log_above(1 - 1 / a) - log_below(a - 1)
    if exponent >= 0:
        return Fraction(1)
    return min(Fraction(1), rounded_up(exp_above(exponent)))


def _room(chance: Fraction, order: float) -> float:
    """What the delta adds to a divergence of this order, in the conversion."""
    return math.log(chance) + math.log(order - 1) - order * math.log1p(-1 / order)


def _room_below(chance: Fraction, order: Fraction) -> Fraction:
    """The same, surely no more."""
    return log_below(chance) + log_below(order - 1) - order * log_above(1 - 1 / order)


def _worth(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    lost, chance = positive(epsilon, "epsilon"), positive(delta, "delta")
    if chance >= 1:
        raise InvalidParameter("delta", "must be below 1", delta, "Try 1e-6.")
    return lost, chance


def _best_order(cost: Any) -> Fraction:
    """An order above 1 at about the least cost, by golden section over ln(a - 1).

    Any order makes a valid statement, so nothing hangs on how well this is done but tightness.
    """
    low, high = math.log(1e-6), math.log(FARTHEST_ORDER)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if cost(1 + math.exp(left)) < cost(1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + Fraction(max(1, round(math.exp((low + high) / 2) * ORDER_PLACES)), ORDER_PLACES)
