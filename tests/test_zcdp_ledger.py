"""Budgets that are counted by zcdp, in a real ledger: paid, refused, raised, carried, verified."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privod.curator import BudgetState, Curator
from privod.data import Domain, Numeric
from privod.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerDamaged,
    NeedsConfirmation,
)
from privod.ledger.acts import ChargeElsewhere, LimitToken, RaiseBudget
from privod.ledger.chain import FIELDS, LATER_FIELDS, entry_hash
from privod.ledger.prices import cost_towards
from privod.ledger.sqlite import LEDGER_FILE
from privod.privacy import (
    NOTHING_SPENT,
    AddRemove,
    Cost,
    Guarantee,
    InCrowd,
    Loss,
    Replace,
    Zcdp,
    ZcdpBudget,
)
from privod.privacy.zcdp import epsilon_of_rho
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_subspaces.query import OutlierSubspaces

COLUMNS = tuple(f"x{place}" for place in range(4))
DOMAIN = Domain(tuple(Numeric(name, 0, 1) for name in COLUMNS))
ROWS = dict.fromkeys(COLUMNS, np.linspace(0, 1, 50))
LIMIT = Loss(1, "1e-6")


def start(directory: Path, limit: Loss = LIMIT, adjacency: Any = AddRemove()) -> Curator:
    curator = Curator.open(directory)
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", adjacency, limit, accounting="zcdp", confirmed=True)
    return curator


def counts(number: int, epsilon: Any = "0.01", **others: Any) -> Histogram:
    bins, column = divmod(number, len(COLUMNS))
    return Histogram(columns=(COLUMNS[column],), bins=bins + 1, epsilon=epsilon, **others)


def state_of(curator: Curator) -> BudgetState:
    return curator.budget("people")[0]


def ask_until_refused(
    curator: Curator, epsilon: str, token: str | None = None, first: int = 0, **others: Any
) -> int:
    """Ask questions of one price until one is refused; how many were paid."""
    for asked in range(10_000):
        query = counts(first + asked, epsilon, **others)
        try:
            curator.ask(query, "people", token=token)
        except BudgetExceeded:
            return asked
    raise AssertionError("nothing was ever refused")


def test_many_small_questions_fit_into_one_and_a_millionth(tmp_path: Path) -> None:
    curator = start(tmp_path)
    (priced,) = curator.price(counts(0), "people").charges
    assert priced.questions_left == 482  # at a hundredth, where 100 fit by plain sums
    assert priced.rho == Fraction(1, 20_000)
    assert ask_until_refused(curator, "0.02") == 120  # by plain sums 50
    with pytest.raises(BudgetExceeded, match=r"or rho 0\.02.* Left is epsilon 0\.0"):
        curator.ask(counts(200, "0.02"), "people")
    state = state_of(curator)
    assert state.spent == Loss("2.4")
    assert epsilon_of_rho(state.spent_rho, Fraction("9e-7")) <= 1
    before = curator.head()
    assert curator.ask(counts(7, "0.02"), "people").stored
    assert curator.price(counts(7, "0.02"), "people").already_answered
    assert curator.head() == before
    curator.verify()


def test_what_rho_paid_for_is_never_shown_as_a_plain_sum(tmp_path: Path) -> None:
    with start(tmp_path) as curator:
        curator.ask(counts(16, "0.5", noise="gaussian", delta="1e-6"), "people")
        state = state_of(curator)
        assert not state.adding
        assert state.spent.delta == 0
        assert state.left.epsilon < LIMIT.epsilon


def test_a_large_question_is_paid_by_the_plain_sum(tmp_path: Path) -> None:
    curator = start(tmp_path)
    assert state_of(curator).left.epsilon == 1
    curator.ask(counts(0, "0.9"), "people")  # whose rho is sixteen times the budget's
    assert state_of(curator).left.epsilon == Fraction("0.1")
    with pytest.raises(BudgetExceeded):
        curator.ask(counts(1, "0.2"), "people")
    curator.ask(counts(1, "0.1"), "people")
    assert state_of(curator).left == Loss(0)
    curator.verify()


def test_gaussian_counts_pay_rho_and_need_no_delta_of_the_budget_past_the_sum(
    tmp_path: Path,
) -> None:
    curator = start(tmp_path)
    query = counts(99, "0.2", noise="gaussian", delta="1e-9")
    (priced,) = curator.price(query, "people").charges
    assert priced.rho is not None
    assert 0 <= priced.rho - query.cost().zcdp.rho < Fraction(1, 10**55)
    assert priced.rho < Zcdp.of_loss(Loss("0.2")).rho / 10
    asked = ask_until_refused(curator, "0.2", noise="gaussian", delta="1e-9")
    state = state_of(curator)
    assert asked == priced.questions_left
    assert asked > 10  # where 5 fit by plain sums
    assert not state.adding
    assert state.spent.delta == Fraction("5e-9")  # of those that were paid by the plain sum
    curator.verify()


def test_choices_of_the_exponential_mechanism_pay_an_eighth_of_their_square(
    tmp_path: Path,
) -> None:
    curator = start(tmp_path, Loss(4, "1e-6"))
    query = OutlierSubspaces(
        radius_per_column=0.1,
        max_crowd=3,
        epsilon="0.4",
        n_subspaces=2,
        choice="exponential",
        count_share=0,
    )
    (charge,) = curator.ask(query, "people").charges
    assert charge.loss == Loss("0.4")
    assert charge.rho == 2 * Fraction("0.2") ** 2 / 8


def test_opening_says_that_a_promise_without_delta_is_given_up(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, DOMAIN)
    with pytest.raises(NeedsConfirmation, match="up to an added probability of its delta"):
        curator.open_budget("people", AddRemove(), LIMIT, accounting="zcdp")
    with pytest.raises(InvalidParameter, match="delta above 0"):
        curator.open_budget("people", AddRemove(), Loss(1), accounting="zcdp", confirmed=True)
    with pytest.raises(InvalidParameter, match="sums or zcdp"):
        curator.open_budget("people", AddRemove(), LIMIT, accounting="renyi")  # type: ignore[arg-type]
    assert curator.budget("people") == ()


def test_an_allowance_counts_by_sums_beside_a_zcdp_budget(tmp_path: Path) -> None:
    curator = start(tmp_path)
    crowd = InCrowd(0.0, ("x0",), 5)
    with pytest.raises(InvalidParameter, match="sums for an allowance"):
        curator.open_budget("people", crowd, LIMIT, accounting="zcdp", confirmed=True)
    curator.open_budget("people", crowd, Loss(1), confirmed=True)
    assert [state.accounting for state in curator.budget("people")] == ["zcdp", "sums"]


def test_raising_converts_anew_and_carries_all_history(tmp_path: Path) -> None:
    curator = start(tmp_path, Loss("0.1", "1e-6"))
    asked = ask_until_refused(curator, "0.01")
    spent = state_of(curator).concentrated
    curator.do(RaiseBudget("people", AddRemove(), LIMIT, "the board agreed"), confirmed=True)
    state = state_of(curator)
    assert state.zcdp == ZcdpBudget.of(1, "1e-6")
    assert state.concentrated == spent
    curator.ask(counts(asked), "people")
    curator.verify()


def test_a_zcdp_budget_opened_late_begins_with_what_was_asked(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", Replace(), Loss(20, "1e-3"), confirmed=True)
    for number in range(40):
        curator.ask(counts(number, "0.1", adjacency=Replace()), "people")
    too_little = Loss("0.5", "1e-6")
    with pytest.raises(InvalidParameter, match="must cover the epsilon 2 "):
        curator.open_budget("people", AddRemove(), too_little, accounting="zcdp", confirmed=True)
    limit = Loss("1.6", "1e-6")  # less than the 2 that they cost by plain sums
    late = curator.open_budget("people", AddRemove(), limit, accounting="zcdp", confirmed=True)
    assert late.spent == Loss(2)
    assert late.spent_rho == 40 * Fraction("0.05") ** 2 / 2
    assert not late.adding
    curator.verify()
    curator.ask(counts(41, "0.01"), "people")
    curator.verify()


def test_what_was_revealed_elsewhere_is_charged_in_full(tmp_path: Path) -> None:
    curator = start(tmp_path)
    lost = Guarantee(Loss(2, "1e-7"), AddRemove())
    (charge,) = curator.do(ChargeElsewhere("people", lost, "a talk"), confirmed=True)
    assert charge.loss == lost.loss
    state = state_of(curator)
    assert state.spent == lost.loss
    assert state.left == Loss(0)
    with pytest.raises(BudgetExceeded):
        curator.ask(counts(0, "1e-9"), "people")
    curator.do(
        RaiseBudget("people", AddRemove(), Loss(3, "1e-6"), "so that work can go on"),
        confirmed=True,
    )
    curator.ask(counts(0, "0.5"), "people")
    curator.verify()


TINY = Fraction(1, 10**400)


def test_a_budget_that_cannot_be_converted_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="a delta that converts"):
        start(tmp_path, Loss(1, TINY))


def test_a_budget_with_a_very_small_delta_still_answers(tmp_path: Path) -> None:
    with start(tmp_path, Loss(1, "1e-60")) as curator:
        curator.ask(counts(0, "0.1"), "people")
        assert state_of(curator).left.epsilon == Fraction("0.9")
        curator.verify()


@pytest.mark.parametrize("limit", [Loss(0, "1e-7"), Loss(1, 1), Loss(1, TINY)])
def test_a_limit_that_cannot_be_converted_is_refused_when_it_is_set(
    tmp_path: Path, limit: Loss
) -> None:
    with start(tmp_path) as curator:
        ada = curator.store.add_token("a" * 64, "analyst", "people", "Ada").id
        with pytest.raises(InvalidParameter):
            curator.do(LimitToken("people", AddRemove(), ada, limit))
        curator.do(LimitToken("people", AddRemove(), ada, Loss(0)))


def test_a_token_is_held_to_its_limit_by_the_same_count(tmp_path: Path) -> None:
    curator = start(tmp_path)
    ada = curator.store.add_token("a" * 64, "analyst", "people", "Ada").id
    bob = curator.store.add_token("b" * 64, "analyst", "people", "Bob").id
    curator.do(LimitToken("people", AddRemove(), ada, Loss("0.9", "1e-8")))  # a delta of its own
    curator.do(LimitToken("people", AddRemove(), bob, Loss("0.2")))
    asked = {ada: ask_until_refused(curator, "0.02", token=ada)}
    asked[bob] = ask_until_refused(curator, "0.02", token=bob, first=1000)
    with pytest.raises(BudgetExceeded, match="This token may spend"):
        curator.ask(counts(2000, "0.02"), "people", token=bob)
    cost = Cost.of_loss(Loss("0.02"))
    due = ZcdpBudget.of("0.9", "1e-8").questions_left(NOTHING_SPENT, cost)
    assert due > 45, "more than by plain sums"
    assert asked == {ada: due, bob: 10}
    curator.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE budgets SET spent_rho = '0'",
        "UPDATE budgets SET adding = 1 - adding",
        "UPDATE budgets SET conversion_delta = '1/1000000'",
        "UPDATE budgets SET conversion_delta = NULL",
    ],
)
def test_what_stands_beside_the_chain_is_checked(tmp_path: Path, statement: str) -> None:
    with start(tmp_path) as curator:
        curator.ask(counts(0), "people")
        curator.verify()
    connection = sqlite3.connect(tmp_path / LEDGER_FILE)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerDamaged), Curator.open(tmp_path) as again:
        again.verify()


@pytest.mark.parametrize(
    ("rho", "delta"), [("1/100000", "0"), ("0", "0"), ("-1", "0"), ("x", "0"), ("1/20000", "1")]
)
def test_a_charge_that_was_made_cheaper_is_found_in_a_rebuilt_chain(
    tmp_path: Path, rho: str, delta: str
) -> None:
    with start(tmp_path) as curator:
        curator.ask(counts(0), "people")
        (entry,) = (entry for entry in curator.history() if entry.kind == "charge")
    _rewrite(tmp_path, entry.number, json.dumps({"zcdp": {"rho": rho, "delta": delta}}))
    (tmp_path / "witness").unlink()
    with Curator.open(tmp_path, restoring=True) as again, pytest.raises(LedgerDamaged):
        again.verify()


def _rewrite(directory: Path, number: int, details: str) -> None:
    """Change what an entry says, and rebuild every hash behind it."""
    connection = sqlite3.connect(directory / LEDGER_FILE)
    connection.execute("DROP TRIGGER entries_never_update")
    connection.execute("UPDATE entries SET details = ? WHERE number = ?", (details, number))
    columns = ", ".join((*FIELDS, *LATER_FIELDS))
    previous = ""
    select = f"SELECT {columns} FROM entries ORDER BY number"  # noqa: S608 - names of ours
    rows = connection.execute(select).fetchall()
    for row in rows:
        fields = list(row[: len(FIELDS)])
        fields[FIELDS.index("previous")] = previous
        digest = entry_hash(fields, row[len(FIELDS) :])
        connection.execute(
            "UPDATE entries SET previous = ?, hash = ? WHERE number = ?", (previous, digest, row[0])
        )
        previous = digest
    connection.execute("UPDATE head SET hash = ?", (previous,))
    connection.commit()
    connection.close()


# ---- auto noise --------------------------------------------------------------------------------


def test_auto_takes_gaussian_noise_in_a_zcdp_budget_and_the_smaller_one_elsewhere(
    tmp_path: Path,
) -> None:
    asked = counts(3, "0.1", noise="auto", delta="1e-9")
    assert asked.chosen_noise == "laplace"  # of one column it is the smaller one
    curator = start(tmp_path / "zcdp")
    gaussian = counts(3, "0.1", noise="gaussian", delta="1e-9")
    assert curator.adapted(asked, "people") == gaussian
    answer = curator.ask(asked, "people")
    assert answer.release.query == gaussian
    assert answer.release.guarantee == gaussian.guarantee()
    assert curator.release("people", asked) == answer.release
    assert curator.ask(gaussian, "people").stored
    curator.verify()
    with Curator.open(tmp_path / "sums") as sums:
        sums.register("people", ROWS, DOMAIN)
        sums.open_budget("people", AddRemove(), LIMIT)
        assert sums.ask(asked, "people").release.query == asked


def test_gaussian_noise_is_smaller_for_the_same_rho_at_every_number_of_histograms() -> None:
    for n_tables in (1, 2, 4):

        @dataclass(frozen=True, kw_only=True)
        class Several(Histogram):
            @property
            def n_histograms(self, n: int = n_tables) -> int:
                return n

        asked = Several(columns=COLUMNS[:1], epsilon="0.1", noise="auto", delta="1e-9")
        taken = asked.within("zcdp")
        assert taken.noise == "gaussian"
        noise, laplace = taken.count_noise, asked.laplace_noise
        spent = taken.cost().zcdp.rho / Zcdp.of_loss(Loss("0.1")).rho
        gain = laplace.deviation**2 / (noise.deviation**2 * float(spent))
        assert gain == pytest.approx(2 * n_tables, rel=0.02)
        assert asked.within("sums") is asked


def test_a_grid_that_drops_cells_keeps_laplace_noise_in_a_zcdp_budget() -> None:
    grid = GridKnn(columns=("x0",), epsilon=1, drop_below=3, noise="auto", delta="1e-9")
    assert grid.within("zcdp") == GridKnn(columns=("x0",), epsilon=1, drop_below=3)


# ---- whatever is asked -------------------------------------------------------------------------

prices = st.sampled_from(["0.01", "0.05", "0.2", "0.4"])


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=st.lists(st.tuples(prices, st.sampled_from(["0", "1e-8"])), min_size=5, max_size=12))
def test_the_ledger_pays_what_the_filter_pays(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, str]]
) -> None:
    spent = NOTHING_SPENT
    budget = ZcdpBudget.of(1, "1e-6")
    with start(tmp_path_factory.mktemp("ledger")) as curator:
        for number, (epsilon, delta) in enumerate(asked):
            noise = "laplace" if delta == "0" else "gaussian"
            query = counts(number, epsilon, noise=noise, delta=delta)
            cost = cost_towards(AddRemove(), query.statements(DOMAIN)[0], 1)
            assert cost is not None
            after = budget.after(spent, cost)
            affordable = curator.price(query, "people").affordable
            assert affordable == (after is not None)
            if after is None:
                with pytest.raises(BudgetExceeded):
                    curator.ask(query, "people")
            else:
                curator.ask(query, "people")
                spent = after
            assert state_of(curator).concentrated == spent
        curator.verify()
