"""Zero-concentrated accounting: conversions on the safe side, costs, and the two-way filter."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteGaussian, ExponentialMechanism, PermuteAndFlip, Top
from privod.privacy import Loss
from privod.privacy.certified import exp_above, exp_below, log_above, log_below
from privod.privacy.zcdp import (
    NOTHING_SPENT,
    Cost,
    Spent,
    Zcdp,
    ZcdpBudget,
    delta_of_rho,
    epsilon_of_rho,
    rho_of_loss,
)
from tests.reference.mechanisms import exponential_law, permute_and_flip_law

SMALL = Cost.of_loss(Loss("0.01"))


def asked(budget: ZcdpBudget, cost: Cost, most: int = 10_000) -> int:
    """How many questions of one cost are paid, one after another."""
    spent = NOTHING_SPENT
    for count in range(most):
        after = budget.after(spent, cost)
        if after is None:
            return count
        spent = after
    return most


@settings(max_examples=200, deadline=None)
@given(st.fractions(Fraction(1, 10**9), 10**9, max_denominator=10**12), st.fractions(-700, 700))
def test_logarithms_and_exponentials_are_enclosed(number: Fraction, exponent: Fraction) -> None:
    with localcontext() as context:
        context.prec = 70
        log = Fraction((Decimal(number.numerator) / Decimal(number.denominator)).ln())
        power = Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())
    assert log_below(number) <= log + Fraction(1, 10**60)
    assert log - Fraction(1, 10**60) <= log_above(number)
    assert log_above(number) - log_below(number) < Fraction(1, 2**120)
    assert exp_below(exponent) <= power * (1 + Fraction(1, 10**60))
    assert power * (1 - Fraction(1, 10**60)) <= exp_above(exponent)
    assert exp_above(exponent) - exp_below(exponent) < power / 2**120


def test_a_budget_of_one_and_a_millionth_is_worth_what_the_paper_says() -> None:
    assert float(rho_of_loss(1, "1e-6")) == pytest.approx(0.024356, abs=5e-7)
    whole = ZcdpBudget.of(1, "1e-6", conversion_share=1)
    assert asked(whole, SMALL) == 487
    assert asked(ZcdpBudget.of(1, "1e-6"), SMALL) >= 450
    assert whole.questions_left(NOTHING_SPENT, SMALL) == 487


def delta_at(rho: float, epsilon: float, order: float) -> float:
    exponent = (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order)
    return math.exp(min(exponent, 600.0)) / (order - 1)


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "5"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
def test_conversions_round_the_safe_way_and_lose_next_to_nothing(epsilon: str, delta: str) -> None:
    rho = rho_of_loss(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= Fraction(epsilon)
    assert epsilon_of_rho(rho * Fraction(10_001, 10_000), delta) > Fraction(epsilon)
    assert delta_of_rho(rho, epsilon) <= Fraction(delta) * (1 + Fraction(1, 10**9))
    orders = 1 + np.geomspace(1e-3, 1e5, 4000)
    best = min(delta_at(float(rho), float(epsilon), float(order)) for order in orders)
    assert best == pytest.approx(float(delta), rel=1e-3)


@pytest.mark.parametrize("sigma2", [Fraction(10), Fraction(200)])
def test_the_conversion_never_claims_less_than_gaussian_noise_really_loses(
    sigma2: Fraction,
) -> None:
    noise = DiscreteGaussian(sigma2)
    for epsilon in ("0.1", "0.5", "2"):
        rounding = Fraction(1, 10**55)  # of tails, whatever their size
        assert noise.delta(epsilon, 1) <= delta_of_rho(noise.rho(1), epsilon) + rounding


def renyi(one: list[Fraction], other: list[Fraction], order: float) -> float:
    total = sum(
        math.exp(order * math.log(p) + (1 - order) * math.log(q))
        for p, q in zip(one, other, strict=True)
    )
    return math.log(total) / (order - 1)


def worst_rho(law: object, scale: Fraction) -> float:
    """The largest divergence over order, over utilities that move by one, of three candidates."""
    worst = 0.0
    for gaps in product((0, 1, 3), repeat=2):
        for moves in product((-1, 0, 1), repeat=3):
            before = [0, *(-gap for gap in gaps)]
            after = [u + m for u, m in zip(before, moves, strict=True)]
            laws = [law(before, scale), law(after, scale)]  # type: ignore[operator]
            worst = max(worst, *(renyi(laws[0], laws[1], a) / a for a in (1.001, 1.5, 2, 8)))
    return worst


def test_the_exponential_mechanism_is_bounded_in_range_and_permute_and_flip_is_not() -> None:
    scale = Fraction(2)  # epsilon 1 for a sensitivity of 1
    exponential = ExponentialMechanism(scale)
    claimed = exponential.zcdp(1)
    assert claimed == Zcdp(Fraction(1, 8))
    assert worst_rho(exponential_law, scale) <= float(claimed.rho)
    flipped = PermuteAndFlip(scale).zcdp(1)
    assert flipped == Zcdp(Fraction(1, 2))
    assert float(claimed.rho) < worst_rho(permute_and_flip_law, scale) <= float(flipped.rho)


def test_several_choices_cost_as_many_times_one() -> None:
    assert Top(5, ExponentialMechanism(Fraction(2))).zcdp(1) == Zcdp(Fraction(5, 8))
    monotone = ExponentialMechanism(Fraction(2), monotone=True)
    assert monotone.zcdp(1) == Zcdp(Fraction(1, 32))
    five = Top(5, PermuteAndFlip(Fraction(2)))
    assert five.zcdp(1) == Zcdp(Fraction(5, 2))


def test_groups_cost_the_square_of_their_size() -> None:
    gaussian = Zcdp(DiscreteGaussian(Fraction(50)).rho(1))
    assert gaussian.for_groups(2) == Zcdp(Fraction(4, 100))
    assert SMALL.for_groups(3) == Cost.of_loss(Loss("0.03"))
    cost = Cost(Loss("0.5", "1e-6"), gaussian)
    grown = cost.for_groups(2)
    assert grown.zcdp == Zcdp(Fraction(4, 100))
    assert grown.loss == Loss("0.5", "1e-6").for_groups(2)
    approximate = Cost.of_loss(Loss("0.5", "1e-6"))
    assert approximate.for_groups(2).zcdp.delta == approximate.loss.for_groups(2).delta
    with pytest.raises(InvalidParameter, match="groups"):
        approximate.zcdp.for_groups(2)


def test_a_question_is_paid_by_the_plain_sum_or_by_the_sum_of_rhos() -> None:
    budget = ZcdpBudget.of(1, "1e-6")
    assert budget.after(NOTHING_SPENT, Cost.of_loss(Loss("0.9"))) is not None
    assert budget.after(NOTHING_SPENT, Cost.of_loss(Loss("1.1"))) is None
    half = budget.after(NOTHING_SPENT, Cost.of_loss(Loss("0.5")))
    assert half is not None
    assert budget.after(half, Cost.of_loss(Loss("0.5"))) is not None
    assert budget.after(half, Cost.of_loss(Loss("0.6"))) is None
    filled = half
    for _ in range(50):
        after = budget.after(filled, SMALL)
        assert after is not None
        filled = after
    assert filled.adding
    assert budget.after(filled, SMALL) is None  # the large question has used up all of rho


def test_once_past_the_plain_sum_only_rhos_pay() -> None:
    budget, spent = ZcdpBudget.of(1, "1e-6"), NOTHING_SPENT
    for count in range(150):
        after = budget.after(spent, SMALL)
        assert after is not None
        assert after.adding == (count < 100)
        spent = after
    assert budget.after(spent, Cost.of_loss(Loss("0.3"))) is None


def test_deltas_are_paid_from_what_the_conversion_leaves() -> None:
    budget = ZcdpBudget.of(1, "1e-6", conversion_share="0.5")
    assert asked(budget, Cost.of_loss(Loss("0.01", "1e-7"))) == 5
    assert asked(ZcdpBudget.of(1, "1e-6", 1), Cost.of_loss(Loss("0.01", "1e-9"))) == 0
    gaussian = Cost(Loss("0.4", "1e-7"), Zcdp(Fraction(1, 500)))
    first = budget.after(NOTHING_SPENT, gaussian)
    assert first == Spent(Fraction(2, 5), Fraction(1, 500), Fraction(1, 10**7), adding=True)
    assert asked(budget, gaussian) == budget.questions_left(NOTHING_SPENT, gaussian) == 11


costs = st.builds(
    lambda e, d, r: Cost(Loss(e, d), Zcdp(min(r, e * e / 2), Fraction(0) if r < 1 else d)),
    st.fractions(Fraction(1, 200), 1, max_denominator=1000),
    st.sampled_from([Fraction(0), Fraction(1, 10**8), Fraction(1, 10**7)]),
    st.fractions(Fraction(1, 10**5), 2, max_denominator=10**6),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(costs, max_size=40))
def test_what_was_paid_always_fits_one_of_the_two_filters(questions: list[Cost]) -> None:
    """The invariant that the proof rests on, over random sequences; refusals spend nothing."""
    budget, spent, paid = ZcdpBudget.of(1, "1e-6", "0.5"), NOTHING_SPENT, []
    for cost in questions:
        after = budget.after(spent, cost)
        if after is not None:
            spent = after
            paid.append(cost)
    assert spent.epsilon == sum(cost.loss.epsilon for cost in paid)
    assert spent.rho == sum(cost.zcdp.rho for cost in paid)
    assert spent.delta <= budget.approximate_delta
    assert spent.delta >= sum(cost.zcdp.delta for cost in paid)
    if spent.adding:
        assert spent.epsilon <= 1
        assert spent.delta == sum(cost.loss.delta for cost in paid)
    else:
        assert spent.rho <= budget.rho


@settings(max_examples=20, deadline=None)
@given(costs, st.sampled_from(["0.5", "0.9"]))
def test_the_number_of_questions_left_is_the_number_that_is_paid(cost: Cost, share: str) -> None:
    budget = ZcdpBudget.of(1, "1e-6", share)
    assert budget.questions_left(NOTHING_SPENT, cost) == asked(budget, cost)


def test_the_transcript_of_a_greedy_adversary_stays_within_the_budget() -> None:
    """Randomized response, its epsilon chosen by the answers so far; the divergence is summed.

    The strongest of a family: on an unlikely path ask boldly while the plain sum lasts, otherwise
    ask small questions by rho. All paths are followed, so the divergence is exact.
    """
    budget = ZcdpBudget.of(Fraction(3, 5), Fraction(1, 10))
    menu = [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]
    for boldness in range(3):
        excess = play_out(budget, menu, boldness)
        assert 0 < excess <= budget.loss.delta


def play_out(budget: ZcdpBudget, menu: list[Fraction], boldness: int) -> float:
    limit = math.exp(budget.loss.epsilon)
    excess, paths = 0.0, [(NOTHING_SPENT, 1.0, 1.0, 0)]
    while paths:
        spent, p, q, heads = paths.pop()
        order = menu if heads < boldness else menu[::-1]
        for epsilon in order:
            after = budget.after(spent, Cost.of_loss(Loss(epsilon)))
            if after is not None:
                truth = 1 / (1 + math.exp(-epsilon))
                paths.append((after, p * truth, q * (1 - truth), heads + 1))
                paths.append((after, p * (1 - truth), q * truth, heads))
                break
        else:
            excess += max(0.0, p - limit * q)
    return excess


@pytest.mark.parametrize(("epsilon", "delta"), [(0, "1e-6"), (1, 0), (1, 1), (-1, "1e-6")])
def test_budgets_without_meaning_are_refused(epsilon: int, delta: object) -> None:
    with pytest.raises(InvalidParameter):
        ZcdpBudget.of(epsilon, delta)  # type: ignore[arg-type]


def test_other_nonsense_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="conversion_share"):
        ZcdpBudget.of(1, "1e-6", 2)
    with pytest.raises(InvalidParameter, match="rho"):
        Zcdp(Fraction(-1))
    with pytest.raises(InvalidParameter, match="fail more often"):
        Cost(Loss(1), Zcdp(Fraction(1), Fraction(1, 2)))
    with pytest.raises(InvalidParameter, match="size"):
        SMALL.for_groups(0)
    with pytest.raises(InvalidParameter, match="rho"):
        epsilon_of_rho(-1, "1e-6")
