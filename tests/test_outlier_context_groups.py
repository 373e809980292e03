"""Contexts of several persons: the law of several choices, ranges, sizes, own functions."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_case
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NoPromise
from privod.ledger.acts import AdmitPerson
from privod.mechanisms import DiscreteLaplace, seeded
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Choices, ContextSpace, population
from privod.outliers.contexts.matching import look_from
from privod.pictures import svg
from privod.privacy import AddRemove, AdmittedContexts, Guarantee, Loss, SameContexts
from privod.questions.outlier_context.audit import worst_cases
from privod.questions.outlier_context.choosing import GroupChoice
from privod.questions.outlier_context.picture import draw
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.search import first_matches
from privod.questions.outlier_context.utility import (
    ContextUtility,
    context_utility,
    plug_in_utility,
)

DOMAIN = Domain(
    (Categorical("job", ("CEO", "Lawyer")), Numeric("age", 0, 100), Numeric("salary", 0, 100))
)
ROWS = [("CEO", 10.0 * (place % 6), 40.0 + place % 5) for place in range(14)]
ROWS += [("Lawyer", 10.0 * (place % 9), 42.0 + place % 3) for place in range(9)]
ASK = OutlierContext(
    group_columns=("job", "age"),
    persons=(("CEO", 35.0, 90.0),),
    column="salary",
    epsilon=1,
    cuts=(("age", 30.0, 50.0),),
    detector="grubbs(alpha=0.05)",
)
SAMPLERS = ("direct", "uniform", "random-walk", "dfs", "bfs")


def table_of(rows: list[tuple[str, float, float]]) -> Table:
    jobs, ages, salaries = zip(*rows, strict=True) if rows else ((), (), ())
    return Table(DOMAIN, {"job": list(jobs), "age": list(ages), "salary": list(salaries)})


def worths(query: OutlierContext, table: Table) -> dict[Choices, int]:
    """The matching contexts of the first person, and what each is worth."""
    space = query.space(table.domain, query.persons[0])
    rule = detectors.detector(query.detector)
    view = look_from(table, space, query.column, float(query.persons[0][-1]), rule)
    found = enumerate(view.scan().tolist())
    return {space.numbered(number): worth for number, worth in found if worth >= 0}


def law(worth: dict[Choices, int], n_groups: int, scale: float) -> dict[Any, float]:
    """The exact probability of every sequence of groups that direct choices can tell."""
    chances = {}
    for sequence in permutations(worth, min(n_groups, len(worth))):
        left, chance = dict(worth), 1.0
        for one in sequence:
            highest = max(left.values())
            weights = {key: math.exp((u - highest) / scale) for key, u in left.items()}
            chance *= weights[one] / sum(weights.values())
            del left[one]
        chances[sequence] = chance
    return chances


def worst_ratio(query: OutlierContext, choosing: GroupChoice) -> float:
    """Over tables one record apart with the same matching contexts."""
    here = worths(query, table_of(ROWS))
    scale = float(choosing.mechanism("direct").scale)
    found = []
    for place in range(len(ROWS)):
        there = worths(query, table_of(ROWS[:place] + ROWS[place + 1 :]))
        if there.keys() == here.keys():
            left, right = (law(one, query.n_groups, scale) for one in (here, there))
            found.append(max(abs(math.log(left[one] / right[one])) for one in left))
    assert len(found) >= 5
    return max(found)


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_no_sequence_of_groups_becomes_likelier_than_promised_exactly(n_groups: int) -> None:
    query = replace(ASK, n_groups=n_groups)
    assert worst_ratio(query, query._choosing) <= 1 + 1e-12
    assert len(worths(query, table_of(ROWS))) >= 4


def test_groups_that_pay_as_if_each_were_the_only_one_are_caught_exactly() -> None:
    query = replace(ASK, n_groups=3)
    assert worst_ratio(query, replace(query._choosing, n_groups=1)) > 1


def test_direct_choices_follow_the_exact_law() -> None:
    query = replace(ASK, n_groups=2, epsilon=2, sampler="direct")
    table, source, runs = table_of(ROWS), seeded(3), 1000
    expected = law(worths(query, table), 2, float(query._choosing.mechanism("direct").scale))
    space = query.space(DOMAIN, query.persons[0])
    counts: Counter[Any] = Counter()
    for _ in range(runs):
        groups = query.answer(table, source).value[0].groups
        counts[tuple(space.choices(group) for group in groups)] += 1
    assert set(counts) <= set(expected)
    surprise = sum((counts[one] - runs * p) ** 2 / (runs * p) for one, p in expected.items())
    assert surprise < len(expected) + 6 * math.sqrt(2 * len(expected))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_told_groups_differ_match_and_contain_the_person(sampler: Any) -> None:
    query = replace(ASK, n_groups=3, sampler=sampler, max_visits=20, epsilon=50)
    table = table_of(ROWS)
    (found,) = query.answer(table, seeded(1)).value
    space = query.space(DOMAIN, query.persons[0])
    assert len(set(found.groups)) == len(found.groups) == 3
    assert {space.choices(group) for group in found.groups} <= worths(query, table).keys()


@pytest.mark.parametrize("sampler", ["auto", *SAMPLERS])
@pytest.mark.parametrize("share", ["0", "1/3"])
def test_the_price_is_epsilon_however_it_is_split(sampler: Any, share: str) -> None:
    persons = (("CEO", 35.0, 90.0), ("Lawyer", 70.0, 5.0), ("CEO", 1.0, 2.0))
    query = replace(ASK, persons=persons, n_groups=4, sampler=sampler, size_share=share)
    assert query.guarantee().loss == Loss(1)
    assert query.cost().zcdp.rho <= Fraction(1, 2)


def test_sizes_are_those_of_the_groups_with_the_person_counted_once() -> None:
    query = replace(ASK, n_groups=2, epsilon=10**6, size_share="1/2")
    for rows in (ROWS, [*ROWS, ("CEO", 35.0, 90.0)]):
        table = table_of(rows)
        (found,) = query.answer(table, seeded(1)).value
        there = int(len(rows) > len(ROWS))
        exact = [int(population(group, table).sum()) + 1 - there for group in found.groups]
        assert list(found.sizes) == exact


def test_whether_the_person_is_among_the_rows_changes_nothing() -> None:
    query = replace(ASK, n_groups=2, size_share="1/2")
    tables = [table_of(rows) for rows in (ROWS, [*ROWS, ("CEO", 35.0, 90.0)])]
    values = [query.answer(table, seeded(5)).value for table in tables]
    assert values[0] == values[1]


def test_persons_are_answered_in_the_order_asked_and_nobody_found_is_said() -> None:
    query = replace(ASK, persons=(("Lawyer", 10.0, 43.0), ("CEO", 35.0, 90.0)), size_share="1/2")
    release = query.answer(table_of(ROWS), seeded(2))
    ordinary, far = release.value
    assert ordinary.groups == ()
    assert ordinary.sizes == ()
    assert far.groups
    assert "in no group looked at" in release.sentence()
    assert "stands out by salary in this group" in release.sentence()
    assert b"<svg" in svg(draw(release))


def test_who_is_admitted_hangs_on_the_person_and_the_cuts() -> None:
    alone = replace(ASK, n_groups=2, epsilon=2)
    assert alone.guarantee().adjacency == ASK.guarantee().adjacency
    other = replace(ASK, cuts=(("age", 30.0, 60.0),))
    assert other.guarantee().adjacency != ASK.guarantee().adjacency


def test_the_curator_asks_that_the_persons_are_admitted(tmp_path: Path) -> None:
    query = replace(ASK, persons=(("CEO", 35.0, 90.0), ("Lawyer", 70.0, 5.0)), n_groups=2)
    persons = query.guarantee().adjacency
    assert isinstance(persons, SameContexts)
    with Curator.open(tmp_path) as curator:
        curator.register("pay", table_of(ROWS), DOMAIN)
        curator.open_budget("pay", AddRemove(), Loss(1))
        curator.open_budget("pay", AdmittedContexts(), Loss(1), confirmed=True)
        with pytest.raises(NoPromise, match="admitted"):
            curator.ask(query, of="pay")
        curator.do(AdmitPerson("pay", persons, "a list made beforehand"), confirmed=True)
        told = curator.ask(query, of="pay").release.value
        assert len(told) == 2
        assert {state.adjacency: state.spent for state in curator.budget("pay")} == {
            AddRemove(): Loss(0),
            AdmittedContexts(): Loss(1),
        }
        curator.verify()


@pytest.mark.parametrize("cuts", [(), (("age", 30.0, 50.0),)])
def test_persons_who_are_admitted_one_by_one_may_be_asked_about_together(
    tmp_path: Path, cuts: Any
) -> None:
    columns = ("job", "age") if cuts else ("job",)
    persons = (("CEO", 35.0, 90.0), ("Lawyer", 70.0, 5.0))
    rows = persons if cuts else tuple((job, salary) for job, _, salary in persons)
    both = replace(ASK, group_columns=columns, persons=rows, cuts=cuts)
    joint = both.guarantee().adjacency
    assert isinstance(joint, SameContexts)
    singles = [replace(both, persons=(row,)).guarantee().adjacency for row in rows]
    assert set(joint.each()) == set(singles)
    with Curator.open(tmp_path) as curator:
        curator.register("pay", table_of(ROWS), DOMAIN)
        curator.open_budget("pay", AddRemove(), Loss(1))
        curator.open_budget("pay", AdmittedContexts(), Loss(1), confirmed=True)
        for single in singles:
            assert isinstance(single, SameContexts)
            with pytest.raises(NoPromise, match="admitted"):
                curator.ask(both, of="pay")
            curator.do(AdmitPerson("pay", single, "listed"), confirmed=True)
        assert len(curator.ask(both, of="pay").release.value) == 2
        curator.verify()


def test_a_text_that_lists_nobody_stands_for_itself() -> None:
    for text in ("anybody", "[1]", "{}", '{"persons": 3}', '{"persons": []}', "[" * 9999):
        alone = SameContexts("grubbs", "salary", text)
        assert alone.each() == (alone,)


class TooSharp(OutlierContext):
    """A planted bug: every group and every person pays as if it were the only one."""

    @property
    def _choosing(self) -> GroupChoice:
        honest = super()._choosing
        return _Alone(*(getattr(honest, name) for name in GroupChoice.__match_args__))

    def guarantee(self) -> Guarantee:
        return OutlierContext(
            **{name: getattr(self, name) for name in self.parameters()}
        ).guarantee()


class _Alone(GroupChoice):
    def mechanism(self, sampler: Any) -> Any:
        return GroupChoice(
            self.detector, self.utility, sampler, self.max_visits, 4 * self.epsilon
        ).mechanism(sampler)


class SizesTooFine(OutlierContext):
    """A planted bug: each size has the noise of a count that is told alone."""

    @property
    def size_noise(self) -> DiscreteLaplace | None:
        share = self.size_share or 1  # other games buy no size
        return DiscreteLaplace.for_loss(4 * self.epsilon * share, 1)

    def guarantee(self) -> Guarantee:
        return OutlierContext(
            **{name: getattr(self, name) for name in self.parameters()}
        ).guarantee()


def test_planted_bugs_are_caught_by_the_games() -> None:
    """That the honest question is not caught by them is in every question's contract."""
    assert not replay_case(worst_cases(TooSharp)[3]).holds
    assert not replay_case(worst_cases(SizesTooFine)[4]).holds


def test_the_audits_tables_have_the_same_matching_contexts() -> None:
    for game in worst_cases()[3:]:
        assert isinstance(game.query, OutlierContext)
        left, right = (worths(game.query, table) for table in (game.left, game.right))
        assert left.keys() == right.keys()
        assert len(left) == 4


def changed(**parameters: Any) -> Callable[[], OutlierContext]:
    return lambda: replace(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(persons=()), "1 to 100 rows"),
        (changed(persons="CEO"), "1 to 100 rows"),
        (changed(persons=(("CEO", 35.0),)), "3 values each"),
        (changed(persons=(("CEO", None, 90.0),)), "texts and numbers"),
        (changed(persons=(("CEO", 35.0, "rich"),)), "finite"),
        (changed(persons=(("CEO", float("nan"), 90.0),)), "finite"),
        (changed(persons=(("CEO", 35.0, 90.0),) * 2), "differ"),
        (changed(column="age"), "another column"),
        (changed(cuts=(("age",),)), "column and values of it"),
        (changed(cuts=(("salary", 3.0),)), "group columns"),
        (changed(cuts=(("age", 3.0), ("age", 4.0))), "each once"),
        (changed(cuts=(("age", "x"),)), "finite"),
        (changed(n_groups=0), "n_groups"),
        (changed(n_groups=101), "n_groups"),
        (changed(n_groups=9, sampler="bfs", max_visits=8), "n_groups must be at most 8"),
        (changed(size_share=1), "below 1"),
        (changed(size_share=-1), "at least 0"),
        (changed(epsilon=0), "epsilon"),
        (changed(utility="beauty"), "known one"),
        (changed(detector="nose"), "known one"),
        (changed(sampler="magic"), "sampler must be one of"),
    ],
)
def test_bad_parameters_are_refused_with_a_way_out(
    make: Callable[[], OutlierContext], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(persons=(("CEO", 35.0, 101.0),)), "number from 0 to 100"),
        (changed(persons=(("CEO", 135.0, 90.0),)), "from 0 to 100 as age"),
        (changed(persons=(("Pilot", 35.0, 90.0),)), "declared value"),
        (changed(cuts=()), "categorical"),
        (changed(cuts=(("age", 30.0), ("job", 1.0))), "numeric"),
        (changed(cuts=(("age", 0.0),)), "ascend"),
        (changed(column="wealth"), "numeric"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused_before_any_charge(
    make: Callable[[], OutlierContext], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)


def test_the_work_of_all_persons_together_is_limited() -> None:
    wide = Domain((Categorical("tag", tuple(range(26))), Numeric("salary", 0, 100)))
    first = {"group_columns": ("tag",), "persons": ((0, 90.0),), "cuts": ()}
    query = replace(ASK, **first, sampler="direct")  # type: ignore[arg-type]
    replace(query, persons=((0, 90.0), (1, 90.0))).check(wide)  # 2 times 2^25 groups
    with pytest.raises(InvalidParameter, match="direct weighs at most"):
        replace(query, persons=((0, 90.0), (1, 90.0), (2, 90.0))).check(wide)
    many = replace(query, sampler="auto", persons=tuple((tag, 90.0) for tag in range(3)))
    many.check(wide)
    assert many._choosing.sampler_in(ContextSpace.around(wide, {"tag": 0})) == "bfs"


def test_a_detector_of_ones_own_has_parameters_and_is_tried_before_the_charge(
    tmp_path: Path,
) -> None:
    def top(everyone: Any, value: float, *, share: float = 0.5, least: int = 2) -> bool:
        return len(everyone) >= least and float((everyone >= value).mean()) <= share

    detectors.plug_in("top-share-test", top)
    query = replace(ASK, detector="top-share-test(share=0.25)")
    assert query.detector == "top-share-test(share=0.25, least=2)"
    assert query.answer(table_of(ROWS), seeded(0)).value[0].groups
    for text in (
        "top-share-test(size=1)",
        "top-share-test(share=big)",
        "top-share-test(share=inf)",
    ):
        with pytest.raises(InvalidParameter):
            replace(ASK, detector=text)
    with pytest.raises(InvalidParameter, match="number as default"):
        detectors.plug_in("no-number-test", lambda everyone, value, *, how="x": True)

    def fails(everyone: Any, value: float) -> bool:
        return bool(everyone[1] > value)  # there is no other

    detectors.plug_in("fails-alone-test", fails)
    broken = replace(ASK, detector="fails-alone-test")
    persons = broken.guarantee().adjacency
    assert isinstance(persons, SameContexts)
    with Curator.open(tmp_path) as curator:
        curator.register("pay", table_of(ROWS), DOMAIN)
        curator.open_budget("pay", AddRemove(), Loss(1))
        curator.open_budget("pay", AdmittedContexts(), Loss(1), confirmed=True)
        curator.do(AdmitPerson("pay", persons, "listed", isolating=True), confirmed=True)
        with pytest.raises(InvalidParameter, match="IndexError"):
            curator.ask(broken, of="pay")
        assert all(state.spent == Loss(0) for state in curator.budget("pay"))
    # Were it charged, it would not fail: where the function does, nobody stands out.
    assert broken.answer(table_of([]), seeded(0)).value[0].groups == ()


def test_a_utility_of_ones_own_that_fails_is_refused_before_the_charge() -> None:
    plug_in_utility("divides-test", lambda _, values: 1 // (len(values) - 1), sensitivity=1)
    plug_in_utility("speaks-test", lambda _, values: "many", sensitivity=1)  # type: ignore[arg-type, return-value]
    for name, problem in (("divides-test", "ZeroDivisionError"), ("speaks-test", "TypeError")):
        with pytest.raises(InvalidParameter, match=problem):
            replace(ASK, utility=name).check(DOMAIN)
    query = replace(ASK, utility="divides-test", sampler="direct")
    assert query.answer(table_of([]), seeded(0)).value[0].groups == ()  # nor does it fail on rows
    assert query.answer(table_of(ROWS), seeded(0)).value[0].groups


def test_another_package_brings_detectors_and_utilities_by_entry_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Point:
        def __init__(self, found: Any) -> None:
            self.found = found

        def load(self) -> Any:
            return self.found

    def above(everyone: Any, value: float, *, by: float = 10.0) -> bool:
        return bool(value > np.median(everyone) + by)

    worth = ContextUtility("narrow", 50, function=lambda context, _: -50 * context.bits.count("1"))
    brought = {"above-test": Point(above), "narrow-test": Point(worth)}

    def found(*, group: str, name: str) -> list[Point]:
        assert group.startswith("privod.context_")
        return [brought[name]] if name in brought else []

    monkeypatch.setattr(detectors, "entry_points", found)
    monkeypatch.setattr("privod.questions.outlier_context.utility.entry_points", found)
    query = replace(ASK, detector="above-test(by=20)", utility="narrow-test", epsilon=200)
    assert context_utility("narrow-test").sensitivity == 50
    assert query.answer(table_of(ROWS), seeded(0)).value[0].groups[0].bits.count("1") == 2


def test_a_start_may_be_a_range_of_a_number() -> None:
    query = replace(ASK, start=(("age", 20.0, 40.0), ("job", "CEO")))
    space = query.space(DOMAIN, query.persons[0])
    assert (
        space.context(query._start(space)).in_words() == "job in {CEO} and age from 0 to below 50"
    )
    with pytest.raises(InvalidParameter, match="hold the record"):
        replace(ASK, start=(("age", 60.0, 70.0),)).check(DOMAIN)


ISLANDS = Domain((Categorical("place", tuple("abcdef")), Numeric("salary", 0, 100)))


def islands() -> tuple[Table, OutlierContext]:
    """A person who stands out in two kinds of groups, of which no search from one finds all."""
    salaries: dict[str, list[float]] = {
        "a": [],
        "b": [50.0] * 12,
        "c": [50.0] * 12,
        "d": [0.0, 100.0] * 20,
    }
    salaries |= {"e": [50.0] * 40, "f": [50.0] * 40}
    rows = [
        (place, min(pay + 0.01 * n, 100.0))
        for place, pays in salaries.items()
        for n, pay in enumerate(pays)
    ]
    columns = {"place": [place for place, _ in rows], "salary": [pay for _, pay in rows]}
    table = Table(ISLANDS, columns)
    query = OutlierContext(
        group_columns=("place",),
        persons=(("a", 90.0),),
        column="salary",
        epsilon=1,
        detector="grubbs(alpha=0.05)",
        start=(("place", "a", "b"),),
        sampler="bfs",
        max_visits=4,
    )
    return table, query


@pytest.mark.parametrize("n_starts", [1, 2, 3])
def test_starts_are_matches_as_far_apart_as_can_be(n_starts: int) -> None:
    table, query = islands()
    space = query.space(ISLANDS, query.persons[0])
    view = look_from(table, space, "salary", 90.0, detectors.detector(query.detector))
    found = first_matches(view, query._start(space), 1 << 14, n_starts)
    assert found[0] == query._start(space)
    assert len(set(found)) == n_starts
    assert view.judge(found).matches.all()
    every = [space.numbered(number) for number in range(space.n_contexts)]
    matches = [one for one, fits in zip(every, view.judge(every).matches, strict=True) if fits]
    for place in range(1, n_starts):
        nearest = [
            min((one[0] ^ other[0]).bit_count() for other in found[:place]) for one in matches
        ]
        own = min((found[place][0] ^ other[0]).bit_count() for other in found[:place])
        assert own == max(nearest)


@pytest.mark.parametrize("sampler", ["random-walk", "dfs", "bfs"])
def test_several_starts_draw_as_much_whatever_matches_and_lose_what_one_does(sampler: Any) -> None:
    table, query = islands()
    several = replace(query, sampler=sampler, n_starts=3)
    assert several.guarantee() == replace(several, n_starts=1).guarantee()
    nobody = Table(ISLANDS, {"place": [], "salary": []})
    for seed in range(5):
        sources = [seeded(seed), seeded(seed)]
        for rows, source in zip((table, nobody), sources, strict=True):
            several.answer(rows, source)
        after = [source.bytes(8) for source in sources]
        assert after[0] == after[1]  # both have made as many requests
