"""Allowances beside a main budget, and every adjacency charged its true loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privod.curator import Accounting, BudgetState, Curator
from privod.data import Categorical, Domain, Numeric
from privod.errors import (
    AlreadyExists,
    BudgetExceeded,
    InvalidParameter,
    NeedsConfirmation,
    NoPromise,
    NotFound,
    PrivodError,
)
from privod.ledger.acts import AdmitPerson, AllowExactCounts, ChargeAhead, CloseBudget, RaiseBudget
from privod.ledger.prices import divided_charges
from privod.privacy import (
    AddRemove,
    Adjacency,
    AdmittedContexts,
    Guarantee,
    InCrowd,
    Loss,
    Replace,
    SameContexts,
    Statement,
)
from privod.query.query import Query
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.questions.private_bounds.query import PrivateBounds
from privod.questions.rare_counts.query import RareCounts

DOMAIN = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("age", 0, 120)))
ROWS = {"job": ["CEO", "Lawyer"] * 20, "age": np.repeat(np.arange(10.0), 4)}
CROWD = InCrowd(0.0, ("age",), 5)
WHOLE = Domain(  # drops no row, so their number is public under Replace
    (Categorical("job", ("CEO", "Lawyer"), fill="CEO"), Numeric("age", 0, 120, fill=0))
)


def wide(bins: int, epsilon: Any = "0.3", adjacency: Adjacency = AddRemove()) -> Histogram:
    return Histogram(columns=("age",), bins=bins, epsilon=epsilon, adjacency=adjacency)


def copies(of: float, epsilon: Any = "0.1") -> RareCounts:
    return RareCounts(records=((of,),), columns=("age",), max_crowd=5, epsilon=epsilon)


def person(value: float, detector: str = "grubbs") -> OutlierContext:
    return OutlierContext(
        group_columns=("job",),
        persons=(("CEO", value),),
        column="age",
        epsilon="0.1",
        detector=detector,
    )


def allow_copies(curator: Curator, adjacency: Adjacency = CROWD, counts: int = 100) -> None:
    """Let counts of copies that are rare be told exactly."""
    curator.do(AllowExactCounts("people", adjacency, counts, "copies"), confirmed=True)


TEN = Loss(10)


def people(
    directory: Path,
    main: Loss = TEN,
    domain: Domain = DOMAIN,
    accounting: Accounting = "sums",
) -> Curator:
    curator = Curator.open(directory)
    curator.register("people", ROWS, domain)
    curator.open_budget("people", AddRemove(), main, accounting=accounting, confirmed=True)
    return curator


def spent(curator: Curator) -> dict[str, Loss]:
    return {state.adjacency.name: state.spent for state in curator.budget("people")}


def test_an_allowance_never_refuses_what_the_main_budget_can_pay(tmp_path: Path) -> None:
    """An add-remove budget of 10 and an in-crowd one of 0.5 refused the second histogram at 0.3."""
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss("0.5"), confirmed=True)
    for bins in range(1, 34):
        curator.ask(wide(bins), "people")
    assert spent(curator) == {"add-remove": Loss("9.9"), "in-crowd": Loss(0)}
    curator.verify()


def test_a_narrow_question_is_paid_by_the_allowance_and_by_nothing_else(tmp_path: Path) -> None:
    curator = people(tmp_path)
    with pytest.raises(NoPromise, match="request an allowance"):
        curator.ask(copies(3), "people")
    curator.open_budget("people", CROWD, Loss("0.25"), confirmed=True)
    allow_copies(curator)
    for value in (3.0, 4.0):
        curator.ask(copies(value), "people")
    with pytest.raises(BudgetExceeded, match="in-crowd budget"):
        curator.ask(copies(5.0), "people")
    assert spent(curator) == {"add-remove": Loss(0), "in-crowd": Loss("0.2")}
    curator.verify()


def test_one_of_several_allowances_pays(tmp_path: Path) -> None:
    curator = people(tmp_path)
    narrower = InCrowd(0.0, ("age",), 9)
    curator.open_budget("people", narrower, Loss(1), confirmed=True)
    with pytest.raises(NeedsConfirmation, match="whom every allowance protects"):
        curator.open_budget("people", CROWD, Loss(1))
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    allow_copies(curator)
    (charge,) = curator.ask(copies(3), "people").charges
    assert charge.adjacency == CROWD
    curator.verify()


def test_allowances_stand_beside_an_add_remove_budget_only(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, DOMAIN)
    with pytest.raises(NoPromise, match="Open one first"):
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    with pytest.raises(NoPromise, match="differ in size"):
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    curator.open_budget("people", AddRemove(), Loss(1))
    with pytest.raises(NoPromise, match="differ in size"):
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)


def test_replace_cannot_be_opened_beside_or_after_narrow_questions(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    with pytest.raises(NoPromise, match="differ in size"):
        curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    allow_copies(curator)
    curator.ask(copies(3), "people")
    curator.do(CloseBudget("people", CROWD, "enough"), confirmed=True)
    with pytest.raises(NoPromise, match="no bound under replace"):
        curator.open_budget("people", Replace(), Loss(1), confirmed=True)


def test_persons_with_several_rows_have_no_crowd_and_pay_for_contexts_by_their_cap(
    tmp_path: Path,
) -> None:
    several = Domain(DOMAIN.columns, person="who", max_rows_per_person=3)
    curator = Curator.open(tmp_path)
    curator.register("people", {**ROWS, "who": [str(place) for place in range(40)]}, several)
    curator.open_budget("people", AddRemove(), Loss(1))
    with pytest.raises(InvalidParameter, match="does not stretch"):
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    curator.do(AdmitPerson("people", adjacency_of(person(9)), "the list"), confirmed=True)
    assert curator.price(person(9), "people").charges[0].loss == Loss("0.3")


def adjacency_of(query: OutlierContext) -> SameContexts:
    found = query.guarantee().adjacency
    assert isinstance(found, SameContexts)
    return found


def test_one_allowance_counts_the_questions_about_all_persons(tmp_path: Path) -> None:
    curator = people(tmp_path)
    with pytest.raises(NoPromise, match="One allowance counts"):
        curator.open_budget("people", adjacency_of(person(9)), Loss(1), confirmed=True)
    with pytest.raises(NeedsConfirmation, match="narrows who is protected"):
        curator.open_budget("people", AdmittedContexts(), Loss("0.25"))
    curator.open_budget("people", AdmittedContexts(), Loss("0.25"), confirmed=True)
    with pytest.raises(NoPromise, match="whom the owner admitted"):
        curator.ask(person(9), "people")
    for value in (7.0, 8.0, 9.0):
        with pytest.raises(NeedsConfirmation, match="protected no longer"):
            curator.do(AdmitPerson("people", adjacency_of(person(value)), "the list"))
        curator.do(AdmitPerson("people", adjacency_of(person(value)), "the list"), confirmed=True)
    for value in (7.0, 8.0):
        curator.ask(person(value), "people")
    with pytest.raises(BudgetExceeded, match="admitted-contexts"):
        curator.ask(person(9), "people")
    curator.ask(wide(3), "people")
    assert spent(curator) == {"add-remove": Loss("0.3"), "admitted-contexts": Loss("0.2")}
    assert len(curator.admitted("people")) == 3
    with pytest.raises(AlreadyExists):
        curator.do(AdmitPerson("people", adjacency_of(person(7)), "again"), confirmed=True)
    curator.verify()


def test_presence_of_an_admitted_person_is_never_checked(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    for value in (3.0, 119.0):  # one who is among the rows and one who is not
        curator.do(AdmitPerson("people", adjacency_of(person(value)), "the list"), confirmed=True)
        curator.ask(person(value), "people")


@pytest.mark.parametrize("detector", ["lof(n_neighbors=1, threshold=1.5)", "lof(n_neighbors=9)"])
def test_detectors_that_let_single_records_decide_are_refused(
    tmp_path: Path, detector: str
) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    alone = adjacency_of(person(9, detector))
    with pytest.raises(NoPromise, match="single records decide"):
        curator.do(AdmitPerson("people", alone, "the list"), confirmed=True)
    curator.do(AdmitPerson("people", alone, "insisted", isolating=True), confirmed=True)


@pytest.mark.parametrize(
    ("adjacency", "problem"),
    [
        (InCrowd(1.0, ("height",), 5), "columns must be declared"),
        (InCrowd(1.0, ("job",), 5), "must be 0 over columns of categories"),
        (InCrowd(120.0, ("age",), 5), "every record is near every other"),
    ],
)
def test_a_budget_without_meaning_is_refused(
    tmp_path: Path, adjacency: Adjacency, problem: str
) -> None:
    with pytest.raises(InvalidParameter, match=problem):
        people(tmp_path).open_budget("people", adjacency, Loss(1), confirmed=True)


# ---- Replace beside AddRemove ------------------------------------------------------------------


def test_what_has_no_bound_under_add_remove_is_refused_while_that_budget_is_open(
    tmp_path: Path,
) -> None:
    whole = Domain(
        (Categorical("job", ("CEO", "Lawyer"), fill="CEO"), Numeric("age", 0, 120, fill=0))
    )
    curator = people(tmp_path, domain=whole)  # which drops no row, so their number is public
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    count = OutlierCount(
        columns=("age",), radius=1.0, max_crowd=3, epsilon="0.5", adjacency=Replace()
    )
    before = curator.head()
    for ask in (curator.price, curator.ask):
        with pytest.raises(NoPromise, match="none under add-remove"):
            ask(count, "people")
    assert curator.head() == before


UNDER_REPLACE: list[tuple[Query[Any], Loss]] = [
    (GridKnn(columns=("age",), epsilon="0.4", adjacency=Replace()), Loss("0.2")),
    (
        GridKnn(columns=("age",), epsilon="0.5", drop_below=9, adjacency=Replace()),
        Loss("0.255"),  # half of what counts the cells, and all of what counts the records
    ),
    (PrivateBounds(columns=("age",), epsilon="0.4", adjacency=Replace()), Loss("0.2")),
    (
        OutlierCount(
            columns=("age",),
            radius=1.0,
            max_crowd=3,
            epsilon="0.7",
            noise="global",
            adjacency=Replace(),
        ),
        Loss("0.6"),  # 6 in 7, as one record changes 6 at most and a replaced one 7
    ),
    (
        OutlierCount(columns=("age",), radius=1.0, max_crowd=3, epsilon="0.7", adjacency=Replace()),
        Loss("0.7"),
    ),
    (
        OutlierSubspaces(radius_per_column=1.0, max_crowd=3, epsilon="0.7", adjacency=Replace()),
        Loss("0.6"),
    ),
]


@pytest.mark.parametrize(("query", "lost"), UNDER_REPLACE, ids=lambda one: getattr(one, "name", ""))
def test_a_question_under_replace_is_charged_its_true_loss_under_add_remove(
    tmp_path: Path, query: Query[Any], lost: Loss
) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    curator.ask(query, "people")
    assert spent(curator) == {"add-remove": lost, "replace": query.guarantee().loss}
    curator.verify()


def test_an_add_remove_budget_opened_late_carries_what_was_asked_under_replace(
    tmp_path: Path,
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    total = Loss(0)
    for query, lost in UNDER_REPLACE[4:]:
        curator.ask(query, "people")
        total += lost
    assert curator.open_budget("people", AddRemove(), Loss(10)).spent == total
    curator.verify()


def test_a_histogram_under_replace_states_half_its_loss_under_add_remove(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    curator.ask(wide(3, "0.4", Replace()), "people")
    assert spent(curator) == {"add-remove": Loss("0.2"), "replace": Loss("0.4")}
    curator.ask(wide(4, "0.4"), "people")
    assert spent(curator) == {"add-remove": Loss("0.6"), "replace": Loss("1.2")}
    curator.verify()


def test_an_add_remove_budget_cannot_follow_questions_without_a_bound_there(
    tmp_path: Path,
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", ROWS, WHOLE)
    curator.open_budget("people", Replace(), Loss(10), confirmed=True)
    curator.ask(
        OutlierCount(columns=("age",), radius=1.0, max_crowd=3, epsilon="0.5", adjacency=Replace()),
        "people",
    )
    with pytest.raises(NoPromise, match="no bound under add-remove"):
        curator.open_budget("people", AddRemove(), Loss(10))


# ---- truthful words ----------------------------------------------------------------------------


def test_the_price_says_what_those_lose_who_are_not_protected(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    allow_copies(curator)
    told = curator.price(copies(3), "people").not_protected
    assert "fewer than 4 records have" in told
    assert "whatever epsilon is" in told
    assert curator.price(wide(3), "people").not_protected == ""
    with pytest.raises(NeedsConfirmation, match="exactly whether it is in the data"):
        curator.open_budget("people", InCrowd(0.0, ("age",), 9), Loss(1))


# ---- no dead data set --------------------------------------------------------------------------

ADJACENCIES: tuple[Adjacency, ...] = (AddRemove(), Replace(), CROWD, AdmittedContexts())
amounts = st.sampled_from(["0.1", "0.3", "1"])
steps = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(ADJACENCIES), amounts),
    st.tuples(st.just("raise"), st.sampled_from(ADJACENCIES), amounts),
    st.tuples(st.just("close"), st.sampled_from(ADJACENCIES[1:]), amounts),
    st.tuples(st.just("wide"), st.sampled_from(ADJACENCIES[:2]), amounts),
    st.tuples(st.just("copies"), st.just(CROWD), amounts),
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=st.lists(steps, max_size=10), accounting=st.sampled_from(["sums", "zcdp"]))
def test_no_sequence_of_steps_leaves_a_data_set_dead_while_budget_is_left(
    tmp_path_factory: pytest.TempPathFactory,
    plan: list[tuple[str, Adjacency, str]],
    accounting: Accounting,
) -> None:
    limit = Loss(1, "1e-6")
    with people(tmp_path_factory.mktemp("ledger"), limit, accounting=accounting) as curator:
        for place, (what, adjacency, amount) in enumerate(plan):
            try:
                do(curator, what, adjacency, amount, place)
            except PrivodError:
                continue
        mains = [
            state
            for state in curator.budget("people")
            if state.role == "main" and state.closed is None
        ]
        if mains:
            # What every open main budget can pay, is paid, whatever allowances there are.
            room = min(
                state.left.epsilon / (2 if state.adjacency == Replace() else 1) for state in mains
            )
            if room > 0:
                curator.ask(wide(90, room), "people")
            for state in mains:  # and an exhausted one can be raised
                curator.do(
                    RaiseBudget("people", state.adjacency, state.budget + Loss(2), "more"),
                    confirmed=True,
                )
            curator.ask(wide(91, "0.5"), "people")
        curator.verify()


def do(curator: Curator, what: str, adjacency: Adjacency, amount: str, place: int) -> None:
    query: Query[Any]
    if what == "open":
        curator.open_budget("people", adjacency, Loss(amount), confirmed=True)
        if adjacency == CROWD:
            allow_copies(curator, counts=2)
    elif what == "raise":
        for state in curator.budget("people"):
            if state.adjacency == adjacency:
                curator.do(
                    RaiseBudget("people", adjacency, state.budget + Loss(amount), "more"),
                    confirmed=True,
                )
    elif what == "close":
        curator.do(CloseBudget("people", adjacency, "enough"), confirmed=True)
    else:
        query = wide(10 + place, amount, adjacency) if what == "wide" else copies(place, amount)
        curator.ask(query, "people")


def bare(folder: Path, adjacency: Adjacency) -> Curator:
    """One main budget of 1, spent and closed."""
    curator = Curator.open(folder)
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", adjacency, Loss(1), confirmed=True)
    curator.ask(wide(3, "1", adjacency), "people")
    curator.do(CloseBudget("people", adjacency, "enough"), confirmed=True)
    return curator


@pytest.mark.parametrize(
    ("closed", "wanted"),
    [(main, other) for main in (AddRemove(), Replace()) for other in ADJACENCIES if other != main],
)
def test_after_a_main_budget_was_closed_no_other_is_opened(
    tmp_path: Path, closed: Adjacency, wanted: Adjacency
) -> None:
    with bare(tmp_path, closed) as curator:
        with pytest.raises(NoPromise, match="closed for good, so no other can be opened"):
            curator.open_budget("people", wanted, Loss(100), confirmed=True)
        with pytest.raises(NotFound, match="budgets are closed"):
            curator.ask(wide(4, "40"), "people")
        curator.verify()


@pytest.mark.parametrize("reason", ["a fit", "elsewhere"])
def test_no_reason_lets_a_loss_without_a_bound_be_charged_ahead(
    tmp_path: Path, reason: str
) -> None:
    with people(tmp_path) as curator:
        curator.open_budget("people", Replace(), Loss(10), confirmed=True)
        with pytest.raises(NoPromise, match="none under add-remove"):
            curator.do(ChargeAhead("people", Guarantee(Loss(3), Replace()), reason))


def test_a_narrow_question_has_no_bound_beside_a_replace_budget() -> None:
    budgets = [
        BudgetState(place, "people", adjacency, Loss(1), Loss(0), role=role)
        for place, (adjacency, role) in enumerate([(Replace(), "main"), (CROWD, "narrow")])
    ]
    _, unbounded = divided_charges((Statement.of(Guarantee(Loss("0.1"), CROWD)),), budgets, 1)
    assert [state.adjacency for state in unbounded] == [Replace()]


def test_a_version_that_continues_a_closed_data_set_opens_no_budget_either(tmp_path: Path) -> None:
    with bare(tmp_path, AddRemove()) as curator:
        curator.register("later", ROWS, DOMAIN, continues="people")
        with pytest.raises(NoPromise, match="closed for good"):
            curator.open_budget("later", Replace(), Loss(100), confirmed=True)


def test_beside_a_replace_budget_the_owner_is_told_that_no_allowance_helps(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    with pytest.raises(NoPromise, match="none can be opened for 'people' any more"):
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)


def test_a_closed_data_set_says_so(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.do(CloseBudget("people", AddRemove(), "the study ended"), confirmed=True)
    with pytest.raises(NotFound, match="budgets are closed"):
        curator.ask(wide(3), "people")
