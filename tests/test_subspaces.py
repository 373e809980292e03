"""Outlier subspaces: the right sets under a sharp choice, one budget, bad input told by name."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import PermuteAndFlip, Top, secure, seeded
from privod.pictures import draw
from privod.privacy import AddRemove, Loss, Replace
from privod.progress import listening
from privod.query.crowd_bounds import count_outliers, count_sensitivity
from privod.questions.outlier_subspaces.audit import worst_cases
from privod.questions.outlier_subspaces.query import FoundSubspaces, OutlierSubspaces
from tests.reference.mechanisms import exponential_law, permute_and_flip_law

DOMAIN = Domain((*(Numeric(name, -100, 100) for name in "abcd"), Categorical("g", ("x",))))
SHARP = 4000


def planted() -> Table:
    """Outliers in a, fewer in b; c and d are calm."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=400) * 0.1 for name in "abcd"}
    columns["a"][:10] = np.linspace(-90, 90, 10)
    columns["b"][:4] = np.linspace(-90, 90, 4)
    return Table(DOMAIN, {**columns, "g": ["x"] * 400})


def ask(**changed: Any) -> OutlierSubspaces:
    asked: dict[str, Any] = {"radius_per_column": 1, "max_crowd": 3, "epsilon": SHARP}
    return OutlierSubspaces(**(asked | changed))


CHOICES = ("narrow", "exponential")


@pytest.mark.parametrize("choice", CHOICES)
def test_the_columns_with_planted_outliers_are_found_in_order(choice: Any) -> None:
    found = ask(n_subspaces=2, choice=choice).answer(planted(), secure()).value
    assert found == FoundSubspaces((("a",), ("b",)), 4)


def test_progress_is_the_same_for_few_rows_and_for_many() -> None:
    told = []
    for n in (0, 10, 20_000):
        rows = {name: np.linspace(-1, 1, n) for name in "abcd"}
        steps: list[tuple[str, int, int | None]] = []
        with listening(lambda *step, steps=steps: steps.append(step)):
            ask(n_subspaces=2, count_share="0.5").answer(
                Table(DOMAIN, {**rows, "g": ["x"] * n}), secure()
            )
        told.append(steps)
    assert told[0] == told[1] == told[2] != []


def test_find_and_count_is_one_question_with_one_budget() -> None:
    query = ask(n_subspaces=2, epsilon=2, count_share="0.25")
    assert query.guarantee().loss == Loss(2)
    assert query.selection.loss(query.changed_by) == Loss("1.5")
    assert query.counting(("a",)).guarantee().loss == Loss("0.25")
    sharp = ask(n_subspaces=2, count_share="0.5").answer(planted(), secure()).value
    assert sharp == FoundSubspaces((("a",), ("b",)), 4, (10, 4), (0, 0))


def test_with_a_delta_more_noises_compete_for_the_counts_which_share_it() -> None:
    query = ask(n_subspaces=2, epsilon=2, count_share="0.5", delta="1e-6", max_crowd=40)
    assert query.guarantee().loss == Loss(2, "1e-6")
    assert query.counting(("a",)).guarantee().loss == Loss("0.5", "5e-7")
    assert query.cost().loss == query.guarantee().loss
    without = ask(n_subspaces=2, epsilon=2, count_share="0.5", max_crowd=40)
    competing = [one.counting(("a", "b")).margins(2) for one in (query, without)]
    assert set(competing[0]) == {"global", "heavy", "laplace", "gaussian"}
    assert set(competing[1]) == {"global", "heavy"}
    sharp = ask(n_subspaces=2, count_share="0.5", delta="1e-6").answer(planted(), secure()).value
    assert (sharp.subspaces, sharp.counts) == ((("a",), ("b",)), (10, 4))


def test_sets_of_every_size_compete_by_their_share_of_the_bound() -> None:
    found = ask(size=2, smaller_too=True, n_subspaces=10).answer(planted(), secure()).value
    assert len(set(found.subspaces)) == 10
    assert found.subspaces[0] == ("a",)  # 10 of 6 beats (a, b)'s 10 of 15


def test_explicit_candidates_are_the_only_ones() -> None:
    query = ask(candidates=(("c", "d"), ("b", "a")))
    assert query.answer(planted(), secure()).value.subspaces == (("a", "b"),)


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_no_utility_changes_by_more_than_one(adjacency: Any) -> None:
    places = list(itertools.product((0.0, 1.0, 2.0), (0.0, 2.0)))
    tables = list(itertools.combinations_with_replacement(places, 3))
    for rows in tables:
        for new in places:
            fewer = rows[1:]
            one = np.array(rows)
            other = np.array([*fewer, new]) if adjacency == Replace() else np.array([*rows, new])
            for columns in ([0], [1], [0, 1]):
                bound = count_sensitivity(1, len(columns), adjacency)
                change = count_outliers(one[:, columns], 1.0, 1) - count_outliers(
                    np.ascontiguousarray(other[:, columns]), 1.0, 1
                )
                assert abs(Fraction(change, bound)) <= 1


def test_the_charge_is_twice_what_the_paper_says_for_its_scale() -> None:
    papers = Top(2, PermuteAndFlip(1 / Fraction(1, 2)))  # exp(u * epsilon / h), epsilon 1, h 2
    assert papers.loss(1) == Loss(2)


def far_in_two_columns() -> Table:
    """Synthetic 2 of [Okada 2015]: 490 records and 10 that are far in columns x1 and x2."""
    generator = np.random.default_rng(0)
    far = generator.normal(0, 1, (10, 10))
    far[:, :2] = generator.normal(20, 10, (10, 2))
    points = np.concatenate([generator.normal(0, 1, (490, 10)), far])
    names = [f"x{place + 1}" for place in range(10)]
    domain = Domain(tuple(Numeric(name, -30, 70) for name in names))
    return Table(domain, dict(zip(names, points.T, strict=True)))


def test_permute_and_flip_finds_at_least_as_often() -> None:
    rows, hits = far_in_two_columns(), {}
    names = rows.domain.numeric_names
    choices: tuple[Any, ...] = ("exponential", "narrow")
    for choice in choices:
        query = OutlierSubspaces(
            radius_per_column=0.13,
            max_crowd=3,
            epsilon=3,
            columns=names,
            choice=choice,
        )
        sets: list[tuple[str, ...]] = [(name,) for name in names]
        counts = query.true_counts(rows, sets)
        utilities = query.utilities(sets, counts)
        source = seeded(4)
        best = int(np.argmax(counts))
        hits[choice] = sum(
            counts[query.selection.choose(utilities, source)[0]] for _ in range(1500)
        ) / (1500 * counts[best])
    assert hits["narrow"] >= hits["exponential"] - 0.03


def test_a_record_moves_two_sets_as_far_apart_as_is_paid_for_and_never_farther() -> None:
    """Over all tables of two records, and all that may join them."""
    sets = [("a",), ("b",), ("a", "b")]
    places = list(itertools.product((0.0, 1.0, 2.0), (0.0, 1.0, 4.0)))
    each = ask(max_crowd=1, epsilon=2)
    both = ask(max_crowd=1, epsilon=2, candidates=tuple(sets))

    def utilities(query: OutlierSubspaces, rows: Any, some: list[tuple[str, ...]]) -> Any:
        points = np.array(rows)
        counts = [
            count_outliers(points[:, ["ab".index(name) for name in one]], np.sqrt(len(one)), 1)
            for one in some
        ]
        return query.utilities(some, counts)

    for query, some in ((each, sets[:2]), (both, sets)):
        farthest = 0
        for rows in itertools.combinations_with_replacement(places, 2):
            before = utilities(query, rows, some)
            for new in places:
                change = utilities(query, (*rows, new), some) - before
                farthest = max(farthest, int(np.ptp(change)))
        assert farthest == 2 * query.changed_by
        assert query.changed_by < query.steps
        assert query.guarantee().loss == Loss(2)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 2)])
def test_the_loss_of_the_narrow_choice_is_reached_and_half_its_scale_loses_twice_that(
    share: Fraction,
) -> None:
    """One record makes all outliers of a column normal and is one in the other."""
    query = ask(max_crowd=1, epsilon=4)
    assert query.steps == 2  # so a count is its utility
    scale = share * query.selection.choice.scale
    before, after = (permute_and_flip_law(counts, scale)[0] for counts in ([2, 2], [0, 3]))
    assert math.log(before / after) == pytest.approx(4 / share)


def test_the_narrow_choice_needs_less_noise_than_the_papers() -> None:
    assert ask(epsilon=2, choice="exponential").selection.choice.scale == Fraction(2 * 6, 2)
    assert ask(epsilon=2).selection.choice.scale == Fraction(6 + 1, 2)
    assert ask(epsilon=2, adjacency=Replace()).selection.choice.scale == Fraction(2 * 7, 2)


@pytest.mark.parametrize(
    ("law", "choice"), [(exponential_law, "exponential"), (permute_and_flip_law, "narrow")]
)
@pytest.mark.parametrize("utilities", [[9, 0, 0, 0], [12, 11, 6, 0], [3, 3, 3, 3], [1, 0, 30]])
def test_no_set_is_likelier_than_what_the_release_says(
    law: Any, choice: Any, utilities: list[int]
) -> None:
    query = ask(epsilon=2, choice=choice)
    scale = query.selection.choice.scale
    assert query.steps == count_sensitivity(3, 1, AddRemove())  # so a count is its utility
    for count, chance in zip(utilities, law(utilities, scale), strict=True):
        assert chance <= query.chance_at_most(max(utilities) - count, 1) + 1e-9


@pytest.mark.parametrize("choice", CHOICES)
def test_sets_left_out_are_hardly_ever_fuller_than_what_the_release_says(choice: Any) -> None:
    query = ask(epsilon=3, n_subspaces=2, choice=choice)
    sets: list[tuple[str, ...]] = [(f"c{place}",) for place in range(12)]
    missing = query.surely_missing(1, len(sets))
    counts = [missing + 5] + [5] * 11  # one set stands out by just that much
    utilities = query.utilities(sets, counts)
    source, runs = seeded(8), 2000
    without = sum(0 not in query.selection.choose(utilities, source) for _ in range(runs))
    assert without <= 0.05 * runs


def test_the_sentence_states_how_far_a_choice_may_be_off() -> None:
    query = ask(epsilon=2)
    text = query.sentence(FoundSubspaces((("a",),), 4))
    assert text == (
        "The column set chosen for the most outliers: a. No other of the 4 candidates has 12 more"
        " of them (95 % confidence)."
    )
    assert "There was no other candidate" in query.sentence(FoundSubspaces((("a",),), 1))
    mixed = ask(epsilon=2, size=2, smaller_too=True, n_subspaces=2)
    text = mixed.sentence(FoundSubspaces((("a",), ("a", "b")), 10))
    assert "more (1 column) or" in text
    assert text.endswith("more (2 columns) (95 % confidence).")


def test_the_picture_shows_how_likely_a_worse_set_is() -> None:
    for query in (ask(epsilon=2), ask(epsilon=2, size=2, smaller_too=True, count_share="0.5")):
        figure = draw(query.answer(planted(), secure()))
        bars, curve = figure.axes
        assert "chance" in curve.get_ylabel()
        assert bars.patches


def of_many_columns(n_columns: int, n_outliers: int) -> Table:
    names = [f"c{place}" for place in range(n_columns)]
    rows = np.zeros((40, n_columns))
    rows[:n_outliers] = 5.0 * np.arange(1, n_outliers + 1)[:, None]
    domain = Domain(tuple(Numeric(name, -99, 99) for name in names))
    return Table(domain, {name: rows[:, place] for place, name in enumerate(names)})


@pytest.mark.parametrize("choice", ["narrow", "exponential"])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
@pytest.mark.parametrize(("n_columns", "size", "smaller_too"), [(27, 26, False), (11, 11, True)])
def test_whether_a_question_is_answered_never_depends_on_the_counts(
    choice: Any, adjacency: Any, n_columns: int, size: int, smaller_too: bool
) -> None:
    """However large the common denominator of the bounds: the unit follows from public numbers."""
    for epsilon in (1, "0.00001"):
        query = ask(
            size=size, smaller_too=smaller_too, epsilon=epsilon, choice=choice, adjacency=adjacency
        )
        for n_outliers in (0, 7):
            table = of_many_columns(n_columns, n_outliers)
            query.check(table.domain)
            assert len(query.answer(table, secure()).value.subspaces) == 1


@pytest.mark.parametrize("smaller_too", [False, True])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 26])
def test_no_change_moves_a_utility_by_more_than_the_steps_that_are_paid_for(
    size: int, adjacency: Any, smaller_too: bool
) -> None:
    query = ask(size=size, smaller_too=smaller_too, adjacency=adjacency, epsilon=2)
    assert query.guarantee().loss == Loss(2)
    for width in query._sizes():
        bound = count_sensitivity(query.max_crowd, width, adjacency)
        some = [tuple(map(str, range(width)))]
        for count in (0, 1, 2, 17, 1000, 10**9):
            change = query.utilities(some, [count + bound]) - query.utilities(some, [count])
            assert 0 <= int(change[0]) <= query.steps
            if query.steps % bound == 0:
                exact = Fraction(count, bound)
                assert Fraction(int(query.utilities(some, [count])[0]), query.steps) == exact


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_subspaces": 0}, "n_subspaces must be at least 1"),
        ({"size": 0}, "size must be at least 1"),
        ({"size": 10**6, "smaller_too": True}, "size must be at most 200"),
        ({"candidates": (tuple(map(str, range(201))),)}, "candidates must have at most 200"),
        ({"epsilon": "1e-14"}, "epsilon must leave a loss between"),
        ({"epsilon": "1e10"}, "epsilon must leave a loss between"),
        ({"epsilon": 1, "n_subspaces": 2**20}, "epsilon must leave a loss between"),
        ({"count_share": 1}, "count_share must be from 0 to below 1"),
        ({"delta": 1, "count_share": "0.5"}, "delta must be 0, or lie between"),
        ({"delta": "1e-6"}, "delta must be 0 where no counts are bought"),
        ({"choice": "guess"}, "choice must be narrow or exponential"),
        ({"candidates": (("a",), ("a",))}, "candidates must be different"),
        ({"radius_per_column": -2}, "radius_per_column must be at least 0"),
    ],
)
def test_bad_parameters_are_told_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ask(**changed)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"columns": ("g",)}, "columns must be numeric"),
        ({"n_subspaces": 9}, "n_subspaces must be at most the number of competing sets, 4"),
        ({"size": 9}, "size must be at most the number of columns, 4"),
        ({"size": 200, "smaller_too": True}, "size must be at most the number of columns, 4"),
    ],
)
def test_what_does_not_fit_the_domain_is_told_before_anything(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ask(**changed).check(DOMAIN)
    assert message in str(caught.value)


def test_too_many_candidates_are_refused_before_anything_is_counted() -> None:
    wide = Domain(tuple(Numeric(f"c{j}", 0, 1) for j in range(60)))
    with pytest.raises(InvalidParameter, match="at most 20000 competing sets, got 34220"):
        ask(size=3).check(wide)


class DrawsLikeThePaper(OutlierSubspaces):
    @property
    def selection(self) -> Top:
        honest = super().selection
        return Top(honest.n_chosen, type(honest.choice)(honest.choice.scale / 2))

    def guarantee(self) -> Any:
        return OutlierSubspaces(**self.__dict__).guarantee()


def test_the_audit_catches_the_papers_scale() -> None:
    caught = {
        game.query.adjacency  # type: ignore[attr-defined]
        for game in worst_cases(DrawsLikeThePaper)[::2]  # without counts
        if not replay_case(game).holds
    }
    assert caught == {AddRemove(), Replace()}
