"""Anomaly labels: the paper's formulas against all small databases, prices, coins, refusals."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
from privod.curator import Curator, who_is_protected
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter, NeedsConfirmation, NoPromise
from privod.mechanisms import secure, seeded
from privod.outliers.crowds.anomalies import (
    Counts,
    edits_by_search,
    edits_to_flip,
    is_anomalous,
    is_regular,
    least_edit_margin,
    protected_crowd,
    record_privacy,
    sensitive_edits_to_flip,
)
from privod.privacy import AddRemove, BetweenTails, InCrowd, Loss, adjacency_from_json
from privod.query.labels import answer_by_edits
from privod.questions.anomaly_labels.audit import worst_cases
from privod.questions.anomaly_labels.picture import draw_for_owner, privacy_of_records
from privod.questions.anomaly_labels.query import AnomalyLabels

VALUES = 3  # the possible records 0, 1, 2 on a line, radius 1
MOST = 4
EVERY = list(itertools.product(range(MOST + 1), repeat=VALUES))
MODELS = [(beta, k) for beta in (1, 2, 3) for k in range(1, beta + 2)]


def crowd(value: int, data: Counts) -> int:
    return sum(data[max(0, value - 1) : value + 2])


def truth(value: int, data: Counts, beta: int) -> bool:
    return is_anomalous(crowd(value, data), data[value], beta)


def asked(value: int, beta: int) -> Callable[[Counts], bool]:
    return lambda data: truth(value, data, beta)


def protected(beta: int, k: int) -> Any:
    return lambda value, data: crowd(value, data) >= protected_crowd(beta, k)


def edges(beta: int, k: int | None) -> Any:
    """All pairs of small databases adjacent in the (k-sensitive) neighborhood graph."""
    for data in EVERY:
        for value in range(VALUES):
            more = (*data[:value], data[value] + 1, *data[value + 1 :])
            if k is None or crowd(value, more) >= protected_crowd(beta, k):
                yield data, more


def edits(value: int, data: Counts, beta: int, k: int | None) -> int:
    if k is None:
        return edits_to_flip(crowd(value, data), data[value], beta)
    return sensitive_edits_to_flip(crowd(value, data), data[value], beta, k)


@pytest.mark.parametrize("beta", [1, 2, 3])
def test_the_first_formula_is_the_true_edit_distance(beta: int) -> None:
    for data in itertools.product(range(3), repeat=VALUES):
        for value in (0, 1):
            found = edits_by_search(
                data,
                asked(value, beta),
                lambda _v, _d: True,
                4,
            )
            formula = edits(value, data, beta, None)
            assert found == formula if formula <= 4 else found is None


@pytest.mark.parametrize(("beta", "k"), MODELS)
def test_the_second_formula_is_never_above_the_true_distance(beta: int, k: int) -> None:
    for data in itertools.product(range(3), repeat=VALUES):
        for value in (0, 1):
            found = edits_by_search(
                data,
                asked(value, beta),
                protected(beta, k),
                4,
            )
            formula = edits(value, data, beta, k)
            assert formula >= 1
            assert found is None or formula <= found


@pytest.mark.parametrize(("beta", "k"), [*MODELS, (1, None), (2, None), (3, None)])
def test_edits_differ_by_at_most_one_and_are_one_where_the_answer_flips(
    beta: int, k: int | None
) -> None:
    for left, right in edges(beta, k):
        for value in range(VALUES):
            one, other = edits(value, left, beta, k), edits(value, right, beta, k)
            assert abs(one - other) <= 1
            if truth(value, left, beta) != truth(value, right, beta):
                assert one == other == 1


def chance(
    answer: bool, value: int, data: Counts, beta: int, k: int | None, epsilon: float
) -> float:
    wrong = math.exp(-epsilon * (edits(value, data, beta, k) - 1)) / (1 + math.exp(epsilon))
    return 1 - wrong if answer == truth(value, data, beta) else wrong


@pytest.mark.parametrize(("beta", "k"), [(2, 1), (2, 2), (3, 1), (2, None), (3, None)])
def test_labels_and_batches_keep_their_promise_on_all_small_databases(
    beta: int, k: int | None
) -> None:
    epsilon = 0.7
    batches: dict[tuple[int, ...], int] = {(0,): 1, (0, 1): 2, (0, 1, 2): 3, (1, 1): 2}
    for left, right in edges(beta, k):
        for batch, moved in batches.items():
            for answers in itertools.product((False, True), repeat=len(batch)):
                ratio = 1.0
                for value, answer in zip(batch, answers, strict=True):
                    ratio *= chance(answer, value, left, beta, k, epsilon)
                    ratio /= chance(answer, value, right, beta, k, epsilon)
                assert abs(math.log(ratio)) <= epsilon * moved * (1 + 1e-9)


def labels(*records: float, **changed: Any) -> AnomalyLabels:
    asked: dict[str, Any] = {
        "records": tuple((record,) for record in records),
        "columns": ("x",),
        "near": "distance(radius=1.0)",
        "max_crowd": 2,
        "epsilon": "0.5",
    }
    return AnomalyLabels(**(asked | changed))


DOMAIN = Domain((Numeric("x", -100, 100), Numeric("y", -100, 100)))


def table(*places: float) -> Table:
    return Table(DOMAIN, {"x": np.array(places, float), "y": np.zeros(len(places))})


def test_records_that_one_ball_can_hold_share_the_epsilon_of_a_batch() -> None:
    for asked, sharing in (((0, 10, 20), 1), ((0, 2, 20), 2), ((0, 0, 0), 3), ((0, 2.1, 4.2), 1)):
        batch = labels(*asked)
        assert batch.guarantee().loss == Loss("0.5")
        assert batch.label_epsilon * sharing == batch.epsilon


def test_the_promise_names_the_crowd_that_is_protected() -> None:
    assert labels(0).guarantee().adjacency == AddRemove()
    assert labels(0, max_crowd=9, edit_margin=3).guarantee().adjacency == InCrowd(1, ("x",), 7)
    assert labels(0, max_crowd=9, edit_margin=9).guarantee().adjacency == AddRemove()


def test_sharp_labels_are_right() -> None:
    rows = table(0, 0.5, 50, 60, 60.1, 60.2)
    asked = labels(0, 50, 60, 70, epsilon=1000)
    assert asked.answer(rows, secure()).value == (True, True, False, False)


def test_a_record_is_read_as_a_table_would_hold_it() -> None:
    asked = labels(1e-200, -0.0, 3e-151, 0.1, near="distance(radius=0)", epsilon=1000, max_crowd=9)
    assert asked.records[0] == asked.records[1] == (0.0,)
    assert math.copysign(1, asked.records[1][0]) == 1
    rows = table(1e-200, 3e-151, 0.1)
    assert asked.answer(rows, secure()).value == (True, True, True, True)


def test_many_records_are_labeled_like_few() -> None:
    rows = table(*np.linspace(-99, 99, 500))
    asked = labels(*np.linspace(-99, 99, 100), epsilon=1000, max_crowd=5)
    once = asked.answer(rows, seeded(1)).value
    each = [
        labels(float(r), epsilon=1000, max_crowd=5).answer(rows, seeded(1)).value[0]
        for (r,) in asked.records
    ]
    assert list(once) == each


def test_an_outlier_far_out_is_labeled_almost_surely_right() -> None:
    asked = labels(0, max_crowd=100, edit_margin=10, epsilon=1)
    assert asked.error(crowd=1, copies=1) < 1e-35
    plain = labels(0, max_crowd=100, epsilon=1)
    assert plain.error(crowd=1, copies=1) == pytest.approx(1 / (1 + math.e))


def test_the_sentence_says_no_more_than_every_table_keeps() -> None:
    plain = labels(0, max_crowd=100, epsilon=1)
    assert plain.sentence((True,)).endswith("wrong with probability at most 26.9 %.")
    assert plain.sentence((False,)).startswith("The record is not labeled an outlier in the data")
    assert plain.sentence((True, False)).startswith(
        "1 of the 2 records (number 1) is labeled an outlier in the data"
    )
    assert plain.sentence((False, False)).startswith("None of the 2 records is labeled")
    for crowd_of, copies in ((0, 0), (1, 1), (60, 0)):
        assert plain.error(crowd_of, copies) == plain.largest_error  # nothing is "far less"
    narrow = labels(0, max_crowd=100, edit_margin=10, epsilon=1)
    lone = ", that of a record with no other near it 1 in"
    assert f"{lone} 10^39." in narrow.sentence((True,))
    assert narrow.error(1, 1) == narrow.error(0, 0) == narrow.lone_error < 1e-39
    assert narrow.largest_error == plain.largest_error


@pytest.mark.parametrize("epsilon", [1000, "1e5", "1e60", "1e-30"])
@pytest.mark.parametrize("margin", [None, 2])
def test_any_epsilon_has_a_sentence(epsilon: Any, margin: int | None) -> None:
    assert labels(0, epsilon=epsilon, edit_margin=margin).sentence((False,)).endswith(".")


def test_the_owner_may_see_who_gets_how_much_privacy() -> None:
    rows = table(*np.linspace(0, 2, 40), 50)
    asked = labels(0, max_crowd=5, edit_margin=1, epsilon="0.25")
    points, losses = privacy_of_records(asked, rows)
    assert points.shape == (41, 1)
    assert losses[-1] == losses.max() > 1 > 0.3 > losses[:40].max()
    picture = draw_for_owner(asked.answer(rows, secure()), rows)
    assert "NOT PRIVATE" in picture.axes[0].get_title(loc="left")


def test_the_coin_lies_as_often_as_the_formula_says() -> None:
    source, runs = seeded(3), 4000
    for edits_away in (1, 2, 3):
        lies = sum(not answer_by_edits(True, edits_away, Fraction(1), source) for _ in range(runs))
        expected = math.exp(-(edits_away - 1)) / (1 + math.e)
        assert abs(lies - runs * expected) < 5 * math.sqrt(runs * expected)


def test_a_model_of_ones_own_becomes_a_mechanism() -> None:
    def largest(data: Counts) -> bool:  # "anomalous" if value 0 is the only one held
        return data[0] >= 1 and sum(data[1:]) == 0

    found = edits_by_search((2, 0, 0), largest, lambda _v, _d: True, 5)
    assert found == 1
    assert answer_by_edits(True, 50, Fraction(2), secure())
    with pytest.raises(InvalidParameter):
        answer_by_edits(True, 0, Fraction(1), secure())


@pytest.mark.parametrize("margin", [None, 1, 3])
def test_edits_that_make_no_difference_are_not_told_apart(margin: int | None) -> None:
    asked = labels(0, max_crowd=5, edit_margin=margin, epsilon=10)
    assert asked.most_edits == 11
    for size in range(60):
        for copies in range(min(size, 4) + 1):
            capped = asked.edits(min(size, asked.max_crowd + asked.most_edits), copies)
            if margin is None:
                assert capped == min(edits_to_flip(size, copies, 5), 11)
            else:
                assert capped == min(sensitive_edits_to_flip(size, copies, 5, margin), 11)


def test_how_sensitive_a_record_is() -> None:
    assert [least_edit_margin(c, max_crowd=5) for c in (0, 1, 5, 6, 9)] == [6, 5, 1, 1, 1]


def test_regularity_needs_steps_of_at_most_the_radius() -> None:
    line = np.arange(5.0)[:, None]
    assert is_regular(line, 1.0, max_crowd=3, edit_margin=1)
    assert not is_regular(line, 0.5, max_crowd=3, edit_margin=1)
    assert not is_regular(line, 0.0, max_crowd=3, edit_margin=2)
    assert is_regular(line, 0.0, max_crowd=3, edit_margin=3)


def test_protected_records_get_epsilon_and_others_less_the_farther_out() -> None:
    def privacy(size: int) -> float:
        return record_privacy(0.25, size, 1, lambda b, x: sensitive_edits_to_flip(b, x, 24, 1), 24)

    assert privacy(40) == pytest.approx(0.25, rel=0.05)
    assert privacy(24) == pytest.approx(0.25, rel=0.05)
    assert privacy(1) > privacy(12) > privacy(20) > 0.26


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"records": ()}, "records must hold a record"),
        ({"records": ((1, 2),)}, "records must have 1 values each"),
        ({"records": (("?",),)}, "records must be a number"),
        ({"records": ((0,),) * 100_001}, "records must be at most 100000"),
        (
            {"records": ((0,) * 5,) * 70_000, "columns": tuple("abcde")},
            "records must be at most 300000 numbers",
        ),
        ({"near": "distance(radius=-1)"}, "radius must be at least 0"),
        ({"max_crowd": 0}, "max_crowd must be at least 1"),
        ({"edit_margin": 0}, "edit_margin must be at least 1"),
        ({"epsilon": -1}, "epsilon must be greater than 0"),
    ],
)
def test_bad_parameters_are_told_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        labels(0, **changed)
    assert message in str(caught.value)


def test_sensitive_labels_have_a_budget_of_their_own(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("people", {"x": np.zeros(9), "y": np.zeros(9)}, DOMAIN)
    narrow = InCrowd(1, ("x",), 2)
    asked = labels(50, edit_margin=1, max_crowd=2)
    curator.open_budget("people", AddRemove(), Loss(1))
    with pytest.raises(NoPromise):
        curator.ask(asked, "people")
    curator.open_budget("people", narrow, Loss(1), confirmed=True)
    curator.ask(labels(50), "people")  # the main budget pays what is promised under AddRemove
    spent = {state.adjacency: state.spent for state in curator.budget("people")}
    assert spent == {AddRemove(): Loss("0.5"), narrow: Loss(0)}
    release = curator.ask(asked, "people").release  # the allowance pays what holds there only
    assert release.guarantee.adjacency == narrow
    assert len(release.value) == 1
    spent = {state.adjacency: state.spent for state in curator.budget("people")}
    assert spent == {AddRemove(): Loss("0.5"), narrow: Loss("0.5")}


class ChargesOneForTheBatch(AnomalyLabels):
    @property
    def labels_moved(self) -> int:
        return 1


class ForgetsTheEdits(AnomalyLabels):
    def edits(self, crowd: int, copies: int) -> int:
        return 5 + 0 * (crowd + copies)


class ClaimsToProtectEverybody(AnomalyLabels):
    @property
    def adjacency(self) -> Any:
        return AddRemove()


@pytest.mark.parametrize("bug", [ChargesOneForTheBatch, ForgetsTheEdits, ClaimsToProtectEverybody])
def test_the_audit_catches_planted_bugs(bug: type[AnomalyLabels]) -> None:
    assert not all(replay_case(game).holds for game in worst_cases(bug))


def test_records_are_read_as_finely_as_tables() -> None:
    """Differences whose squares vanish would make these three one crowd and no copies."""
    asked = AnomalyLabels(
        records=((0.0,), (2e-170,), (4e-170,)),
        columns=("x",),
        near="distance(radius=0)",
        max_crowd=2,
        epsilon=1,
    )
    assert asked.records == ((0.0,), (0.0,), (0.0,))
    assert asked.labels_moved == 3


# ---- the tail ----------------------------------------------------------------------------------

# Possible records on a 2 by 2 grid; a crowd is the fewest at or beyond, on a side of a column.
PLANE = list(itertools.product((0, 1), repeat=2))


def rank(value: int, data: Counts) -> int:
    own = PLANE[value]
    sides = [
        sum(n for n, other in zip(data, PLANE, strict=True) if sign * other[at] >= sign * own[at])
        for at in (0, 1)
        for sign in (1, -1)
    ]
    return min(sides)


@pytest.mark.parametrize(("beta", "k"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2), (3, None)])
def test_labels_by_the_tail_keep_their_promise_on_all_small_databases(
    beta: int, k: int | None
) -> None:
    """Every pair of tables of up to three copies of four records, two labels, every answer."""
    asked = AnomalyLabels(
        columns=("p", "q"),
        records=tuple((float(p), float(q)) for p, q in (PLANE[0], PLANE[3])),
        max_crowd=beta,
        epsilon=1,
        near="tail()",
        edit_margin=k,
    )
    assert asked.labels_moved == 2
    pairs = 0
    for data in itertools.product(range(4), repeat=4):
        for value in range(4):
            more = (*data[:value], data[value] + 1, *data[value + 1 :])
            assert rank(value, more) == rank(value, data) + 1  # a copy of the record itself
            assert all(0 <= rank(one, more) - rank(one, data) <= 1 for one in range(4))
            if k is not None and rank(value, more) < protected_crowd(beta, k):
                continue
            pairs += 1
            worst = 0.0
            for one in (0, 3):
                chances = []
                for held in (data, more):
                    wrong = asked.error(rank(one, held), held[one])
                    yes = is_anomalous(rank(one, held), held[one], beta)
                    chances.append((1 - wrong, wrong) if yes else (wrong, 1 - wrong))
                worst += max(abs(math.log(a / b)) for a, b in zip(*chances, strict=True))
            assert worst <= 1 + 1e-9
    assert pairs > 100


def test_ends_of_columns_are_labeled_and_who_is_between_is_protected(tmp_path: Path) -> None:
    values = [float(n) for n in range(40)]
    rows = Table(DOMAIN, {"x": values, "y": values[::-1]})
    asked = AnomalyLabels(
        columns=("x", "y"),
        records=((0.0, 39.0), (20.0, 19.0), (60.0, 0.0)),
        max_crowd=5,
        epsilon=900,
        near="tail()",
        edit_margin=2,
    )
    assert asked.answer(rows, secure()).value == (True, False, False)  # the last is not there
    between = BetweenTails(("x", "y"), 4)
    assert asked.guarantee().adjacency == between
    (found,) = [who_is_protected(rows, [between])]
    assert (found.records, found.protected) == (40, 34)
    with Curator.open(tmp_path) as curator:
        curator.register("people", rows, DOMAIN)
        curator.open_budget("people", AddRemove(), Loss(1))
        with pytest.raises(NeedsConfirmation, match="is not protected"):
            curator.open_budget("people", between, Loss(1000))
        curator.open_budget("people", between, Loss(1000), confirmed=True)
        assert len(curator.ask(asked, "people").release.value) == 3
        curator.verify()
        with pytest.raises(InvalidParameter, match="columns must be declared"):
            curator.open_budget("people", BetweenTails(("z",), 4), Loss(1), confirmed=True)


def test_tails_nest_where_they_are_wider() -> None:
    own = BetweenTails(("x", "y"), 4)
    assert adjacency_from_json(json.loads(json.dumps(own.to_json()))) == own
    assert own.steps_of(AddRemove()) == own.steps_of(own) == 1
    assert own.steps_of(BetweenTails(("x",), 3)) == 1
    assert own.steps_of(BetweenTails(("x", "y", "z"), 4)) is None
    assert own.steps_of(BetweenTails(("x", "y"), 5)) is None
    assert own.steps_of(InCrowd(5.0, ("x",), 4)) is None
    assert AddRemove().steps_of(own) is None
    for columns, size in (((), 4), (("x",), 1), (("x",), True)):
        with pytest.raises(InvalidParameter):
            BetweenTails(columns, size)
