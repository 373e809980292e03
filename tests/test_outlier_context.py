"""The outlier context: its exact law on small domains, its promise, its answers, its refusals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit.game import play
from privod.audit.outlier_context import games
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NeedsConfirmation, NoPromise
from privod.mechanisms import ExponentialMechanism, seeded
from privod.outliers import matching
from privod.outliers.contexts import Choices, Context, ContextSpace, population
from privod.outliers.detectors import detector, plug_in
from privod.pictures import svg
from privod.pictures.outlier_context import draw, draw_for_owner
from privod.privacy import AddRemove, Guarantee, Loss, SameContexts
from privod.progress import listening
from privod.queries.context_search import (
    Frontier,
    Landscape,
    Sampler,
    breadth_first,
    choose_by_number,
    public_order,
)
from privod.queries.context_utility import context_utility, plug_in_utility
from privod.queries.outlier_context import OutlierContext
from tests.reference import context_search as exact

DOMAIN = Domain(
    (
        Categorical("job", ("CEO", "Lawyer")),
        Categorical("city", ("Montreal", "Ottawa", "Toronto")),
        Numeric("salary", 0, 100),
    )
)
ROWS: list[tuple[str, str, float]] = [
    ("CEO", "Ottawa", 40),
    ("CEO", "Ottawa", 42),
    ("CEO", "Ottawa", 41),
    ("CEO", "Toronto", 44),
    ("Lawyer", "Ottawa", 39),
    ("Lawyer", "Toronto", 43),
    ("Lawyer", "Montreal", 41),
    ("CEO", "Montreal", 95),
    ("CEO", "Ottawa", 90),  # the record
]
ASK = OutlierContext(
    record=(("job", "CEO"), ("city", "Ottawa")),
    column="salary",
    value=90,
    epsilon=1,
    detector="lof(n_neighbors=2, threshold=1.5)",
    max_visits=3,
)
SAMPLERS: tuple[Sampler, ...] = ("direct", "uniform", "random-walk", "dfs", "bfs")


def table_of(rows: list[tuple[str, str, float]]) -> Table:
    jobs, cities, salaries = zip(*rows, strict=True) if rows else ((), (), ())
    return Table(DOMAIN, {"job": list(jobs), "city": list(cities), "salary": list(salaries)})


@dataclass
class Small:
    """What the law of an answer depends on, for one table."""

    space: ContextSpace
    allowed: set[Choices]
    worth: dict[Choices, int]
    matching: frozenset[Choices]

    @classmethod
    def of(cls, query: OutlierContext, table: Table) -> Small:
        space = ContextSpace.around(table.domain, dict(query.record))
        start = query._start(space)
        overlap = space.context(start) if query.utility == "overlap" else None
        rule = detector(query.detector)
        view = matching.look_from(table, space, query.column, query.value, rule, overlap)
        every = [space.numbered(number) for number in range(space.n_contexts)]
        judged = view.judge(every)
        worth = dict(zip(every, judged.utilities.tolist(), strict=True))
        found = frozenset(one for one, match in zip(every, judged.matches, strict=True) if match)
        return cls(space, set(found or every), worth, found)

    def law(self, query: OutlierContext, scale: float | None = None) -> exact.Distribution:
        """The exact probability of every context."""
        n, sampler = query.max_visits, query.sampler
        scale = float(query._choice(sampler).scale) if scale is None else scale
        if sampler == "direct":
            return exact.direct(self.allowed, self.worth, scale)
        if sampler == "uniform":
            return exact.uniform(self.allowed, self.worth, scale, n)
        start = query._start(self.space)
        if start not in self.allowed:
            order = public_order(self.space, start)
            start = next(one for one in order if one in self.allowed)
        walk = {
            "random-walk": exact.random_walk,
            "dfs": exact.depth_first,
            "bfs": exact.breadth_first,
        }[sampler]
        return walk(self.space, self.allowed, self.worth, scale, n, start)


def largest_ratio(left: exact.Distribution, right: exact.Distribution) -> float:
    assert left.keys() == right.keys()
    return max(abs(math.log(left[one] / right[one])) for one in left)


def adjacent_pairs(query: OutlierContext) -> list[tuple[Small, Small]]:
    """Tables one record apart with the same allowed contexts: removals, and additions of copies."""
    found = []
    for size in (len(ROWS), len(ROWS) - 1, 5):
        rows = ROWS[-size:]
        here = Small.of(query, table_of(rows))
        extra = [("Lawyer", "Toronto", 41.0), ("CEO", "Montreal", 40.0), ("CEO", "Ottawa", 41.0)]
        others = [[*rows, one] for one in extra]
        others += [rows[:place] + rows[place + 1 :] for place in range(len(rows) - 1)]
        there = [Small.of(query, table_of(other)) for other in others]
        found += [(here, other) for other in there if other.allowed == here.allowed]
    return found


@pytest.mark.parametrize("utility", ["population", "overlap"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_context_becomes_likelier_than_promised_exactly(sampler: Any, utility: str) -> None:
    query = replace(ASK, sampler=sampler, utility=utility, start=(("city", "Ottawa", "Toronto"),))
    pairs = adjacent_pairs(query)
    assert len(pairs) >= 4
    assert any(here.worth != there.worth for here, there in pairs)
    worst = max(largest_ratio(here.law(query), there.law(query)) for here, there in pairs)
    assert worst <= float(query.guarantee().loss.epsilon) * (1 + 1e-12)


def test_everything_and_nothing_matching_are_told_apart_no_better_than_promised() -> None:
    """Without tells_none, no match at all and a match everywhere count as the same contexts."""
    space = ContextSpace.around(DOMAIN, dict(ASK.record))
    every = {space.numbered(number) for number in range(space.n_contexts)}
    worth = {one: bin(sum(one)).count("1") for one in every}
    more = {one: utility + (one[0] > 1) for one, utility in worth.items()}
    for sampler in SAMPLERS:
        query = replace(ASK, sampler=sampler)
        left = Small(space, every, worth, frozenset()).law(query)
        right = Small(space, every, more, frozenset(every)).law(query)
        assert largest_ratio(left, right) <= 1 + 1e-12


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_answers_follow_the_exact_law(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2)
    table = table_of(ROWS)
    law = Small.of(query, table).law(query)
    source, runs = seeded(7), 1000
    space = ContextSpace.around(DOMAIN, dict(query.record))
    answers = [query.answer(table, source).value for _ in range(runs)]
    counts = Counter(space.choices(answer) for answer in answers if answer is not None)
    assert sum(counts.values()) == runs
    assert set(counts) <= set(law)
    surprise = sum((counts[one] - runs * p) ** 2 / (runs * p) for one, p in law.items())
    assert surprise < len(law) + 6 * math.sqrt(2 * len(law))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_where_nothing_matches_answers_follow_the_law_of_all_contexts(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2, detector="histogram")  # needs 400 records
    table = table_of(ROWS)
    small = Small.of(query, table)
    assert not small.matching
    law = small.law(query)
    source, runs = seeded(8), 400
    answers = [query.answer(table, source).value for _ in range(runs)]
    counts = Counter(small.space.choices(answer) for answer in answers if answer is not None)
    surprise = sum((counts[one] - runs * p) ** 2 / (runs * p) for one, p in law.items())
    assert surprise < len(law) + 6 * math.sqrt(2 * len(law))
    assert replace(query, tells_none=True).answer(table, source).value is None


def test_a_search_that_pays_once_is_caught() -> None:
    worst = 0.0
    for sampler in ("dfs", "bfs"):
        query = replace(ASK, sampler=sampler, max_visits=4)
        for here, there in adjacent_pairs(query):
            paid_once = float(1 / Fraction(query.epsilon))
            ratio = largest_ratio(here.law(query, paid_once), there.law(query, paid_once))
            worst = max(worst, ratio)
    assert worst > float(ASK.guarantee().loss.epsilon)


class ThirdPaid(OutlierContext):
    """A planted bug: every choice is three times as sharp as it is paid for."""

    def _choice(self, sampler: Any) -> ExponentialMechanism:
        right = super()._choice(sampler)
        return ExponentialMechanism(right.scale / 3, right.monotone)

    def guarantee(self) -> Guarantee:
        honest = OutlierContext(**{name: getattr(self, name) for name in self.parameters()})
        return honest.guarantee()


def test_a_choice_that_pays_a_third_is_caught_by_the_game_and_exactly() -> None:
    direct = games(ThirdPaid)[0]
    assert not play(direct, 2000, seeded(3)).holds
    assert play(games()[0], 2000, seeded(3)).holds
    assert isinstance(direct.query, OutlierContext)
    query = replace(direct.query, sampler="direct")
    left, right = (Small.of(query, table).law(query) for table in (direct.left, direct.right))
    assert largest_ratio(left, right) > 1


def test_the_audits_tables_have_the_same_matching_contexts() -> None:
    for game in games():
        assert isinstance(game.query, OutlierContext)
        left, right = (Small.of(game.query, table) for table in (game.left, game.right))
        assert left.matching == right.matching
        assert len(left.matching) == 2


def test_there_is_an_example_for_any_domain_with_a_category_and_a_number() -> None:
    for n_values in (1, 2, 9, 30, 62):
        wide = Domain((Categorical("tag", tuple(range(n_values))), Numeric("salary", 0, 100)))
        for example in OutlierContext.examples(wide):
            example.check(wide)
            table = Table(wide, {"tag": [0], "salary": [1.0]})
            assert example.answer(table, seeded(0)).value is not None
        assert len(OutlierContext.examples(wide)) == 2
    assert OutlierContext.examples(Domain((Numeric("salary", 0, 100),))) == ()
    assert OutlierContext.examples(Domain((Categorical("job", ("CEO",)),))) == ()


def test_the_price_is_the_declared_epsilon_whatever_the_sampler() -> None:
    for sampler in ("auto", *SAMPLERS):
        for visits in (1, 3, 100):
            query = replace(ASK, sampler=sampler, max_visits=visits, epsilon="0.3")
            assert query.guarantee().loss == Loss(Fraction(3, 10))


def test_monotone_utilities_pay_once_and_others_twice() -> None:
    plug_in_utility("far-below-test", lambda _, values: int((values < 40).sum()), sensitivity=1)
    own = replace(ASK, utility="far-below-test")
    assert own.guarantee().loss == ASK.guarantee().loss
    assert own._choice("direct").scale == 2 * ASK._choice("direct").scale
    assert not context_utility("far-below-test").monotone


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_utility_of_your_own_decides(sampler: Any) -> None:
    name = f"few-values-{sampler}"
    plug_in_utility(name, lambda context, _: -50 * context.bits.count("1"), sensitivity=50)
    query = replace(ASK, utility=name, epsilon=100, sampler=sampler, max_visits=30)
    answer = query.answer(table_of(ROWS), seeded(1)).value
    matches = Small.of(query, table_of(ROWS))
    fewest = min(matches.space.context(one).bits.count("1") for one in matches.matching)
    assert answer is not None
    assert answer.bits.count("1") == fewest


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_answer_matches_and_with_much_budget_is_the_largest(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2000, max_visits=40, tells_none=True)
    table = table_of(ROWS)
    answer = query.answer(table, seeded(2)).value
    small = Small.of(query, table)
    assert answer is not None
    best = max(small.worth[one] for one in small.matching)
    assert population(answer, table).sum() == best


def test_a_plugged_in_detector_answers() -> None:
    plug_in("top-test", lambda everyone, value: value >= np.sort(everyone)[-2:].min())
    query = replace(ASK, detector="top-test", tells_none=True)
    assert query.answer(table_of(ROWS), seeded(1)).value is not None
    assert "top-test" in str(query.to_json())
    over = replace(query, detector="top-test", sampler="bfs")
    assert over.answer(table_of(ROWS), seeded(1)).value is not None


def test_whether_the_record_is_among_the_rows_changes_nothing() -> None:
    with_it, without = table_of(ROWS), table_of(ROWS[:-1])
    for sampler in SAMPLERS:
        query = replace(ASK, sampler=sampler)
        values = [query.answer(table, seeded(5)).value for table in (with_it, without)]
        assert values[0] == values[1]


def test_progress_does_not_tell_whether_anything_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "SMALLEST_STEP", 1)
    monkeypatch.setattr(matching, "INNER_BITS", 0)
    for sampler in SAMPLERS:
        told = []
        for rule in ("lof(n_neighbors=2, threshold=1.5)", "histogram"):
            query = replace(ASK, sampler=sampler, detector=rule)
            steps: list[tuple[str, int, int | None]] = []
            with listening(lambda *step, steps=steps: steps.append(step)):
                query.answer(table_of(ROWS), seeded(1))
            told.append(steps)
        assert told[0] == told[1]
        assert bool(told[0]) == (sampler == "direct")


def test_saying_none_needs_a_book_that_allows_it() -> None:
    silent, telling = ASK.guarantee(), replace(ASK, tells_none=True).guarantee()
    assert silent.under(telling.adjacency).loss == silent.loss
    with pytest.raises(NoPromise):
        telling.under(silent.adjacency)
    assert "stands out anywhere is told" in telling.adjacency.gives_up
    blurred = Guarantee(Loss(1), AddRemove())
    assert blurred.under(silent.adjacency).loss == Loss(1)
    with pytest.raises(NoPromise):
        silent.under(AddRemove())


def test_the_curator_says_none_only_where_the_owner_opened_a_book_for_it(tmp_path: Path) -> None:
    silent = replace(ASK, detector="histogram")  # nobody stands out in so few records
    telling = replace(silent, tells_none=True)
    with Curator.open(tmp_path) as curator:
        curator.register("pay", table_of(ROWS), DOMAIN)
        curator.open_book("pay", AddRemove(), Loss(1))
        with pytest.raises(NoPromise):
            curator.ask(silent, of="pay")
        with pytest.raises(NeedsConfirmation, match="not protected"):
            curator.open_book("pay", silent.guarantee().adjacency, Loss(1))
        curator.open_book("pay", silent.guarantee().adjacency, Loss(1), confirmed=True)
        assert curator.ask(silent, of="pay").release.value is not None
        with pytest.raises(NoPromise):
            curator.ask(telling, of="pay")
        curator.open_book("pay", telling.guarantee().adjacency, Loss(3), confirmed=True)
        assert curator.ask(telling, of="pay").release.value is None
        spent = {state.adjacency: state.spent for state in curator.budget("pay")}
        assert spent[AddRemove()] == Loss(0)
        assert spent[silent.guarantee().adjacency] == Loss(1)


def test_the_adjacency_names_detector_column_and_record() -> None:
    adjacency = ASK.guarantee().adjacency
    assert isinstance(adjacency, SameContexts)
    turned = replace(ASK, record=tuple(reversed(ASK.record)))
    assert turned.guarantee().adjacency == adjacency
    for other in (
        replace(ASK, detector="grubbs"),
        replace(ASK, value=91),
        replace(ASK, record=(("job", "CEO"),)),
    ):
        assert other.guarantee().adjacency != adjacency
        with pytest.raises(NoPromise):
            other.guarantee().under(adjacency)


def test_choosing_by_number_is_choosing_among_contexts() -> None:
    utilities = np.array([-1, 3, 0, 3, -1, 5, 0, 3], dtype=np.int32)
    choice = ExponentialMechanism(Fraction(2))
    source, runs = seeded(11), 4000
    counts = Counter(choose_by_number(utilities, choice, source) for _ in range(runs))
    weights = {place: math.exp(u / 2) for place, u in enumerate(utilities) if u >= 0}
    total = sum(weights.values())
    assert set(counts) <= set(weights)
    for place, weight in weights.items():
        share = weight / total
        assert abs(counts[place] - runs * share) < 6 * math.sqrt(runs * share)


def test_utilities_too_far_apart_for_floats_are_no_trouble() -> None:
    utilities = np.array([0, 1_000_000, 1], dtype=np.int32)
    assert choose_by_number(utilities, ExponentialMechanism(Fraction(1, 10**6)), seeded(0)) == 1


def test_the_sentence_promises_no_more_than_is_known() -> None:
    context = Context.of(
        (("job", ("CEO", "Lawyer")), ("city", ("Montreal", "Ottawa", "Toronto"))),
        {"job": ("CEO",)},
    )
    assert ASK.sentence(context).startswith("If a person with job CEO, city Ottawa and salary 90")
    assert "job in {CEO}" in ASK.sentence(context)
    telling = replace(ASK, tells_none=True)
    assert telling.sentence(context) == (
        "A person with job CEO, city Ottawa and salary 90 stands out by salary in this group:"
        " job in {CEO}."
    )
    assert "in no group" in telling.sentence(None)


def test_pictures_for_everyone_and_for_the_owner() -> None:
    table = table_of(ROWS)
    for query in (ASK, replace(ASK, tells_none=True, detector="histogram")):
        release = query.answer(table, seeded(1))
        assert b"<svg" in svg(draw(release))
        picture = svg(draw_for_owner(release, table))
        assert b"NOT PRIVATE" in picture


def changed(**parameters: Any) -> Callable[[], OutlierContext]:
    return lambda: replace(ASK, **parameters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(record=()), "record must be pairs"),
        (changed(record=(("job", "CEO", "Lawyer"),)), "record must be pairs"),
        (changed(record=(("job", "CEO"), ("job", "Lawyer"))), "once"),
        (changed(column="job"), "another column"),
        (changed(value=float("nan")), "finite"),
        (changed(value="rich"), "finite"),
        (changed(value=10**400), "finite"),
        (changed(value=-(10**400)), "finite"),
        (changed(epsilon=0), "epsilon"),
        (changed(detector="nose"), "detector must be a known one"),
        (changed(utility="beauty"), "utility must be a known one"),
        (changed(sampler="magic"), "sampler must be one of"),
        (changed(max_visits=0), "max_visits"),
        (changed(max_visits=10**6), "at most 10000"),
        (changed(tells_none="perhaps"), "tells_none"),
        (changed(start=(("job",),)), "column and values"),
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
        (changed(value=101), "range of 'salary'"),
        (changed(start=(("job", "Lawyer"),)), "contain the record"),
        (changed(start=(("job", "CEO", "Pilot"),)), "known values"),
        (changed(start=(("town", "Ottawa"),)), "attributes"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused_before_any_charge(
    make: Callable[[], OutlierContext], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make().check(DOMAIN)


def test_a_range_in_which_some_rows_would_make_sums_overflow_is_refused_for_all_rows() -> None:
    wide = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("salary", 0, 1.7e308)))
    query = replace(ASK, record=(("job", "CEO"),), value=1.7e308, detector="lof")
    with pytest.raises(InvalidParameter, match="range of 'salary' must be at most"):
        query.check(wide)
    assert OutlierContext.examples(wide) == ()
    for salaries in ([0.0], [0.0, 0.85e308]):  # nor do they fail, were they asked
        table = Table(wide, {"job": ["CEO"] * len(salaries), "salary": salaries})
        with np.errstate(over="ignore"):
            assert query.answer(table, seeded(0)).value is not None


def test_tiny_values_are_those_of_the_table() -> None:
    """A table holds multiples of 2^-500; the record must still be recognized as one of its rows."""
    fine = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("salary", 0, 1)))
    query = replace(ASK, record=(("job", "CEO"),), value=1e-160)
    table = Table(fine, {"job": ["CEO"], "salary": [1e-160]})
    space = ContextSpace.around(fine, dict(query.record))
    assert matching.look_from(table, space, "salary", query.value, detector("lof")).present


def tagged(*n_values: int) -> Domain:
    columns = [Categorical(f"tag{place}", tuple(range(n))) for place, n in enumerate(n_values)]
    return Domain((*columns, Numeric("salary", 0, 100)))


def about_tags(domain: Domain, **parameters: Any) -> OutlierContext:
    return replace(ASK, record=tuple((n, 0) for n in domain.categorical_names), **parameters)


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
    assert slow._sampler_in(ContextSpace.around(large, dict(slow.record))) == "bfs"


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

    space = ContextSpace.around(domain, dict(query.record))
    view = matching.look_from(table, space, "salary", 100, detector("grubbs"))
    landscape, choice = Landscape(view), Counting(Fraction(300))
    assert landscape.matching([space.everyone])
    found = breadth_first(landscape, space.everyone, 300, choice, seeded(0))
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
    query = replace(ASK, record=(("tag", 3),), start=(), sampler="direct")
    with pytest.raises(InvalidParameter, match="bfs"):
        query.check(wide)
    rng = np.random.default_rng(0)
    tags, salaries = rng.integers(0, 60, 300), rng.normal(40, 3, 300)
    table = Table(wide, {"tag": tags, "salary": salaries})
    for sampler in ("auto", "bfs", "dfs", "random-walk", "uniform"):
        searched = replace(query, sampler=sampler, tells_none=True)
        searched.check(wide)
        answer = searched.answer(table, seeded(4)).value
        assert answer is not None
        assert answer.contains({"tag": 3})


@pytest.mark.parametrize("rule", ["lof", "grubbs", "histogram"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_smallest_tables_get_an_answer_too(sampler: Any, rule: str) -> None:
    query = replace(ASK, sampler=sampler, detector=rule)
    for rows in ([], ROWS[:1], ROWS[-1:], ROWS[-2:]):
        assert query.answer(table_of(rows), seeded(0)).value is not None
