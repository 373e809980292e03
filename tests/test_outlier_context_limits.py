"""Which outlier contexts are refused before any charge; a search stays within its limits."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import ExponentialMechanism, seeded
from privod.outliers.contexts import matching
from privod.outliers.contexts.contexts import Choices, ContextSpace
from privod.outliers.contexts.detectors import detector, plug_in
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.search import (
    Candidates,
    Frontier,
    breadth_first,
)
from privod.questions.outlier_context.utility import plug_in_utility
from tests.one_person import asked, group_in, record_of
from tests.reference import context_search as exact
from tests.test_outlier_context import ASK, DOMAIN, ROWS, SAMPLERS, table_of


def changed(**parameters: Any) -> Callable[[], OutlierContext]:
    return lambda: asked(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(record=()), "name a column"),
        (changed(record=(("job", "CEO"), ("job", "Lawyer"))), "different names"),
        (changed(persons=(("CEO", 90.0),)), "3 values each"),
        (changed(persons=()), "1 to 100 rows"),
        (changed(column="job"), "another column"),
        (changed(value=float("nan")), "finite"),
        (changed(value="rich"), "finite"),
        (changed(value=10**400), "64 bits"),
        (changed(value=-(10**400)), "64 bits"),
        (changed(epsilon=0), "epsilon"),
        (changed(detector="nose"), "detector must be a known one"),
        (changed(utility="beauty"), "utility must be a known one"),
        (changed(sampler="magic"), "sampler must be one of"),
        (changed(max_visits=0), "max_visits"),
        (changed(max_visits=10**6), "at most 10000"),
        (changed(n_starts=0), "n_starts must be at least 1"),
        (changed(n_starts=51), "n_starts must be at most 3"),
        (changed(start=(("town", "Ottawa"),)), "group columns"),
        (changed(start=(("job", "CEO"), ("job", "CEO"))), "each once"),
        (changed(start=(("job", None),)), "column and values of it"),
        (changed(start=(("job",),)), "column and values of it"),
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
        (changed(record=(("town", "Ottawa"),)), "categorical"),
        (changed(record=(("job", "Pilot"),)), "declared value"),
        (changed(column="wealth"), "numeric"),
        (changed(column="city", record=(("job", "CEO"),)), "numeric"),
        (changed(value=101), "end with a number from 0 to 100"),
        (changed(start=(("job", "Lawyer"),)), "hold the record"),
        (changed(start=(("job", "CEO", "Pilot"),)), "known values"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused_before_any_charge(
    make: Callable[[], OutlierContext], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)


def test_a_range_in_which_some_rows_would_make_sums_overflow_is_refused_for_all_rows() -> None:
    wide = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("salary", 0, 1.7e308)))
    query = asked(ASK, record=(("job", "CEO"),), value=1.7e308, detector="lof")
    with pytest.raises(InvalidParameter, match="range of 'salary' must be at most"):
        query.check(wide)
    assert OutlierContext.examples(wide) == ()
    for salaries in ([0.0], [0.0, 0.85e308]):  # nor do they fail, were they asked
        table = Table(wide, {"job": ["CEO"] * len(salaries), "salary": salaries})
        with np.errstate(over="ignore"):
            assert group_in(query.answer(table, seeded(0))) is None  # said, since none was found


def test_tiny_values_are_those_of_the_table() -> None:
    """A table holds multiples of 2^-500; the record must still be recognized as one of its rows."""
    fine = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("salary", 0, 1)))
    query = asked(ASK, record=(("job", "CEO"),), value=1e-160)
    table = Table(fine, {"job": ["CEO"], "salary": [1e-160]})
    space = ContextSpace.around(fine, dict(record_of(query)))
    value = float(query.persons[0][-1])
    assert matching.look_from(table, space, "salary", value, detector("lof")).present


def tagged(*n_values: int) -> Domain:
    columns = [Categorical(f"tag{place}", tuple(range(n))) for place, n in enumerate(n_values)]
    return Domain((*columns, Numeric("salary", 0, 100)))


def about_tags(domain: Domain, **parameters: Any) -> OutlierContext:
    return asked(ASK, record=tuple((n, 0) for n in domain.categorical_names), **parameters)


def test_direct_is_refused_where_many_neighbors_or_full_bins_would_take_hours() -> None:
    large, few = tagged(27), tagged(15)  # 2^26 and 2^14 contexts
    about_tags(large, sampler="direct", detector="lof(n_neighbors=20)").check(large)
    about_tags(few, sampler="direct", detector="lof(n_neighbors=1000)").check(few)
    about_tags(large, sampler="direct", detector="histogram").check(large)
    for rule, most in (
        ("lof(n_neighbors=40)", 2**35 // 1600),
        ("lof(n_neighbors=1000)", 2**35 // 10**6),
        ("histogram(share=0.5)", 2**35 // 50_000),
    ):
        query = about_tags(large, sampler="direct", detector=rule)
        with pytest.raises(InvalidParameter, match=f"at most {most} groups"):
            query.check(large)
    slow = about_tags(large, detector="lof(n_neighbors=1000)")
    slow.check(large)  # by bfs
    assert slow._choosing.sampler_in(ContextSpace.around(large, dict(record_of(slow)))) == "bfs"


def test_a_search_is_refused_where_it_would_look_at_too_many_contexts() -> None:
    domain = tagged(60, 60, 60, 60, 60, 60)  # 354 contexts are connected to each
    plug_in("slow-search-test", lambda everyone, value: value > everyone.mean())
    limits = {"grubbs": 2**18, "lof(n_neighbors=1000)": 2**35 // 10**6, "slow-search-test": 2**16}
    for sampler in ("bfs", "dfs", "random-walk", "auto"):
        for rule, judged in limits.items():
            most = judged // 354
            about_tags(domain, sampler=sampler, detector=rule, max_visits=most).check(domain)
            query = about_tags(domain, sampler=sampler, detector=rule, max_visits=most + 1)
            with pytest.raises(InvalidParameter, match=f"max_visits must be at most {most} with"):
                query.check(domain)
    about_tags(domain, sampler="uniform", max_visits=10_000).check(domain)
    one = tagged(1)
    about_tags(one, sampler="bfs", max_visits=10_000).check(one)


def test_a_wide_search_takes_time_in_proportion_to_its_visits() -> None:
    """Each of its choices is among tens of thousands of contexts, which share a few worths."""
    domain = tagged(60, 60, 60, 60, 60, 60)
    n = 100
    tags: dict[str, Any] = {name: np.zeros(n, np.int64) for name in domain.categorical_names}
    table = Table(domain, {**tags, "salary": 50 + np.arange(n) / 100})
    query = about_tags(domain, sampler="bfs", value=100, detector="grubbs", max_visits=300)
    choices: list[int] = []

    class Counting(ExponentialMechanism):
        def choose_group(self, utilities: Any, multiplicities: Any, randomness: Any) -> int:
            choices.append(len(utilities))
            return super().choose_group(utilities, multiplicities, randomness)

    space = ContextSpace.around(domain, dict(record_of(query)))
    view = matching.look_from(table, space, "salary", 100, detector("grubbs"))
    pool, choice = Candidates(view), Counting(Fraction(300))
    assert pool.matching([space.everyone])
    found = breadth_first(pool, [space.everyone], 300, choice, seeded(0))
    assert len(set(found)) == 300
    assert choices == [1] * 300


@pytest.mark.parametrize("seed", range(3))
def test_a_frontier_is_drawn_from_by_the_law_of_a_choice_among_all(seed: int) -> None:
    """Two draws one after the other, against the chance of every pair."""
    rng = np.random.default_rng(seed)
    worth: dict[Choices, int] = {(place,): int(rng.integers(-2, 2)) for place in range(6)}
    choice = ExponentialMechanism(Fraction(3, 2))
    runs, source = 6000, seeded(seed)
    counts: Counter[tuple[Choices, Choices]] = Counter()
    for _ in range(runs):
        frontier = Frontier()
        late, *early = worth
        for one in early:
            frontier.add(one, worth[one])
        first = frontier.take(choice, source)
        frontier.add(late, worth[late])
        counts[first, frontier.take(choice, source)] += 1
    surprise, pairs = 0.0, 0
    for first, chance in exact.exponential(early, worth, 1.5).items():
        rest = [one for one in worth if one != first]
        for second, then in exact.exponential(rest, worth, 1.5).items():
            expected = runs * chance * then
            surprise += (counts[first, second] - expected) ** 2 / expected
            pairs += 1
    assert pairs == 25
    assert surprise < pairs + 5 * math.sqrt(2 * pairs)


def test_too_many_contexts_for_direct_are_refused_and_bfs_is_offered() -> None:
    wide = Domain((Categorical("tag", tuple(range(60))), Numeric("salary", 0, 100)))
    query = asked(ASK, record=(("tag", 3),), start=(), sampler="direct")
    with pytest.raises(InvalidParameter, match="bfs"):
        query.check(wide)
    rng = np.random.default_rng(0)
    tags, salaries = rng.integers(0, 60, 300), rng.normal(40, 3, 300)
    table = Table(wide, {"tag": tags, "salary": salaries})
    for sampler in ("auto", "bfs", "dfs", "random-walk", "uniform"):
        searched = replace(query, sampler=sampler)
        searched.check(wide)
        answer = group_in(searched.answer(table, seeded(4)))
        assert answer is not None
        assert answer.contains({"tag": 3})


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_utility_too_large_to_weigh_is_the_largest_that_can_be(sampler: Any) -> None:
    answers = []
    for number, size in enumerate((2**61, 2**61 + 1, 2**63, 10**400, math.inf)):

        def signed(_: Any, values: Any, size: Any = size) -> Any:
            return size if len(values) % 2 else -size

        name = f"too-large-{number}-{sampler}"
        plug_in_utility(name, signed, sensitivity=1)
        query = replace(ASK, utility=name, sampler=sampler, max_visits=30)
        answers.append(group_in(query.answer(table_of(ROWS), seeded(2))))
    assert answers[0] is not None
    assert answers == 5 * answers[:1]
