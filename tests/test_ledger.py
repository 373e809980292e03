"""The ledger: exact sums, all or nothing, and nothing changed without being found."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privod.curator import Curator
from privod.data import Domain, Numeric
from privod.errors import BudgetExceeded
from privod.ledger.acts import ChargeElsewhere
from privod.ledger.prices import GRID, cost_towards
from privod.privacy import AddRemove, Guarantee, Loss, Replace, Statement
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("age", 0, 120),))


def question(bins: int, epsilon: Any = "0.1", adjacency: Any = AddRemove()) -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon, adjacency=adjacency)


def start(directory: Path, *budgets: Loss) -> Curator:
    curator = Curator.open(directory)
    curator.register("people", {"age": np.arange(100.0)}, DOMAIN)
    adjacencies = (AddRemove(), Replace())
    for adjacency, budget in zip(adjacencies, budgets, strict=False):
        curator.open_budget("people", adjacency, budget, confirmed=True)
    return curator


def test_ten_tenths_are_one_and_the_eleventh_is_refused(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss(1))
    for bins in range(1, 11):
        curator.ask(question(bins), "people")
    (state,) = curator.budget("people")
    assert state.spent == Loss(1)
    assert state.left == Loss(0)
    before = curator.head()
    with pytest.raises(BudgetExceeded, match=r"allows epsilon 1; .*to epsilon 1\.1\. Left is"):
        curator.ask(question(11), "people")
    assert curator.head() == before
    curator.verify()


def test_deltas_add_up_and_are_limited_too(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss(10, "1e-6"))
    lost = Guarantee(Loss("0.1", "6e-7"), AddRemove())
    curator.do(ChargeElsewhere("people", lost, "published by hand"), confirmed=True)
    curator.do(ChargeElsewhere("people", lost, "and once more"), confirmed=True)
    (state,) = curator.budget("people")
    assert state.spent == Loss("0.2", "12e-7")
    with pytest.raises(BudgetExceeded, match="delta"):
        curator.ask(question(3), "people")


def test_a_loss_is_charged_to_every_main_budget_at_its_price_there(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss(1), Loss(1))
    charges = curator.ask(question(3), "people").charges
    costs = {charge.adjacency: charge.loss for charge in charges}
    assert costs == {AddRemove(): Loss("0.1"), Replace(): Loss("0.2")}


def test_if_one_budget_would_be_overspent_none_is_charged(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss(1), Loss("0.19"))
    before = curator.head(), [state.spent for state in curator.budget("people")]
    with pytest.raises(BudgetExceeded, match="replace budget"):
        curator.ask(question(3), "people")
    assert (curator.head(), [state.spent for state in curator.budget("people")]) == before


losses = st.tuples(
    st.fractions(min_value=Fraction(1, 10**6), max_value=2, max_denominator=10**6),
    st.fractions(min_value=0, max_value=Fraction(1, 100), max_denominator=10**9),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=st.lists(losses, min_size=1, max_size=12))
def test_whatever_is_asked_the_sum_is_right_and_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[Fraction, Fraction]]
) -> None:
    budget = Loss(3, Fraction(1, 50))
    with start(tmp_path_factory.mktemp("book"), budget) as curator:
        expected = Loss(0)
        for epsilon, delta in asked:
            lost = Guarantee(Loss(epsilon, delta), AddRemove())
            cost = cost_towards(AddRemove(), Statement.of(lost), 1)
            assert cost is not None
            assert lost.loss <= cost.loss
            if expected + cost.loss <= budget:
                curator.do(ChargeElsewhere("people", lost, "tried"), confirmed=True)
                expected += cost.loss
            (state,) = curator.budget("people")
            assert state.spent == expected
            assert state.spent <= budget
            assert state.left.epsilon == budget.epsilon - expected.epsilon
        curator.verify()


@given(st.fractions(min_value=0, max_value=100))
def test_a_charge_is_never_less_than_the_loss_and_hardly_more(epsilon: Fraction) -> None:
    statement = Statement.of(Guarantee(Loss(epsilon), AddRemove()))
    cost = cost_towards(AddRemove(), statement, 1)
    assert cost is not None
    for charged, lost in ((cost.loss.epsilon, epsilon), (cost.zcdp.rho, statement.cost.zcdp.rho)):
        assert 0 <= charged - lost < Fraction(1, 10**55)
        assert GRID % charged.denominator == 0


@pytest.mark.parametrize("epsilon", ["0.1", "1/3", "1/7", "1e-40", "5/36", "0.0625"])
def test_usual_losses_are_charged_exactly(epsilon: str) -> None:
    loss = Loss(Fraction(epsilon))
    cost = cost_towards(AddRemove(), Statement.of(Guarantee(loss, AddRemove())), 1)
    assert cost is not None
    assert cost.loss == loss


def test_awkward_losses_do_not_make_the_sum_grow_without_end(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss(1))
    for prime in (10**30 + 57, 10**31 + 33, 10**32 + 49):
        lost = Guarantee(Loss(Fraction(1, prime)), AddRemove())
        curator.do(ChargeElsewhere("people", lost, "an awkward one"), confirmed=True)
    (state,) = curator.budget("people")
    assert len(str(state.spent.epsilon)) < 120
