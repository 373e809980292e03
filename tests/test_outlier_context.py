"""The outlier context: its exact law on small domains, its promise, its answers, its refusals."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import NeedsConfirmation, NoPromise
from privod.ledger.acts import AdmitPerson
from privod.mechanisms import ExponentialMechanism, seeded
from privod.outliers.contexts import matching
from privod.outliers.contexts.contexts import Choices, Context, ContextSpace, population
from privod.outliers.contexts.detectors import detector, plug_in
from privod.outliers.contexts.packed import unpack
from privod.pictures import svg
from privod.privacy import AddRemove, AdmittedContexts, Loss, SameContexts
from privod.progress import listening
from privod.questions.outlier_context.picture import draw
from privod.questions.outlier_context.query import OutlierContext, PersonGroups
from privod.questions.outlier_context.search import (
    Sampler,
    choose_by_number,
    public_order,
)
from privod.questions.outlier_context.utility import context_utility, plug_in_utility
from tests.one_person import about, asked, group_in, record_of
from tests.reference import context_search as exact
from tests.reference.mechanisms import Counted

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
ASK = about(
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
        space = query.space(table.domain, query.persons[0])
        start = query._start(space)
        overlap = space.context(start) if query.utility == "overlap" else None
        rule = detector(query.detector)
        value = float(query.persons[0][-1])
        view = matching.look_from(table, space, query.column, value, rule, overlap)
        every = [space.numbered(number) for number in range(space.n_contexts)]
        judged = view.judge(every)
        worth = dict(zip(every, judged.utilities.tolist(), strict=True))
        found = frozenset(one for one, match in zip(every, judged.matches, strict=True) if match)
        return cls(space, set(found or every), worth, found)

    def law(self, query: OutlierContext, scale: float | None = None) -> exact.Distribution:
        """The exact probability of every context."""
        n, sampler = query.max_visits, query.sampler
        scale = float(query._choosing.mechanism(sampler).scale) if scale is None else scale
        if sampler == "direct":
            return exact.direct(self.allowed, self.worth, scale)
        if sampler == "uniform":
            return exact.uniform(self.allowed, self.worth, scale, n)
        start = query._start(self.space)
        if start not in self.allowed:
            order = (unpack(self.space, row) for row in chain(*public_order(self.space, start)))
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


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_answers_follow_the_exact_law(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2)
    table = table_of(ROWS)
    law = Small.of(query, table).law(query)
    source, runs = seeded(7), 250 if sampler == "uniform" else 1000
    space = ContextSpace.around(DOMAIN, dict(record_of(query)))
    answers = [group_in(query.answer(table, source)) for _ in range(runs)]
    counts = Counter(space.choices(answer) for answer in answers if answer is not None)
    assert sum(counts.values()) == runs
    assert set(counts) <= set(law)
    surprise = sum((counts[one] - runs * p) ** 2 / (runs * p) for one, p in law.items())
    assert surprise < len(law) + 6 * math.sqrt(2 * len(law))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_where_nothing_matches_the_answer_says_so(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2, detector="histogram")  # needs 400 records
    table = table_of(ROWS)
    assert not Small.of(query, table).matching
    release = query.answer(table, seeded(8))
    assert group_in(release) is None
    assert "in no group looked at" in release.sentence()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_work_is_the_same_whether_something_is_found_or_not(
    sampler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second scan, made only if nothing matched, told by time that the person is ordinary."""
    monkeypatch.setattr("privod.questions.outlier_context.choosing.MOST_PROBES", 40)
    work = []
    for rows in (ROWS, [], [*ROWS, *(3 * [("CEO", "Ottawa", 89.0)])]):
        scans: list[Any] = []
        judged: list[Any] = []
        choices: list[Any] = []
        real_scan, real_judge = matching.RecordView.scan, matching.RecordView.judge_packed
        real_choice = ExponentialMechanism.choose_group

        def scan(view: Any, real: Any = real_scan, told: Any = scans) -> Any:
            told.append(view.space.n_contexts)
            return real(view)

        def judge(view: Any, contexts: Any, real: Any = real_judge, told: Any = judged) -> Any:
            told.append(len(contexts))
            return real(view, contexts)

        def choose(one: Any, *given: Any, real: Any = real_choice, told: Any = choices) -> Any:
            told.append(1)
            return real(one, *given)

        with monkeypatch.context() as patch:
            patch.setattr(matching.RecordView, "scan", scan)
            patch.setattr(matching.RecordView, "judge_packed", judge)
            patch.setattr(ExponentialMechanism, "choose_group", choose)
            query = replace(ASK, sampler=sampler, max_visits=2)
            found = group_in(query.answer(table_of(rows), seeded(1))) is not None
        direct = (len(scans), len(choices)) if sampler == "direct" else (len(scans), 0)
        work.append((found, (*direct, sum(judged))))
    assert len({found for found, _ in work}) == 2  # something is found in some, nothing in others
    assert len({done for _, done in work}) == 1


@pytest.mark.parametrize("sampler", ["bfs", "dfs", "random-walk"])
def test_a_search_that_finds_no_start_names_no_group(sampler: Any) -> None:
    """With 2^27 contexts it released a group in which the person is ordinary, five of five."""
    wide = Domain((Categorical("tag", tuple(range(28))), Numeric("salary", 0, 100)))
    rows = {"tag": [place % 28 for place in range(200)], "salary": [50.0] * 200}
    query = asked(ASK, record=(("tag", 3),), value=50, sampler=sampler, start=())
    release = query.answer(Table(wide, rows), seeded(1))
    assert group_in(release) is None
    assert "stands out by salary in this group" not in release.sentence()


def test_there_is_an_example_for_any_domain_with_a_category_and_a_number() -> None:
    for n_values in (1, 2, 9, 30, 62):
        wide = Domain((Categorical("tag", tuple(range(n_values))), Numeric("salary", 0, 100)))
        for example in OutlierContext.examples(wide):
            example.check(wide)
            table = Table(wide, {"tag": [0], "salary": [1.0]})
            assert not example.answer(table, seeded(0)).value[0].groups
        assert len(OutlierContext.examples(wide)) in (2, 3)
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
    assert own._choosing.mechanism("direct").scale == 2 * ASK._choosing.mechanism("direct").scale
    assert not context_utility("far-below-test").monotone


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_utility_of_your_own_decides(sampler: Any) -> None:
    name = f"few-values-{sampler}"
    plug_in_utility(name, lambda context, _: -50 * context.bits.count("1"), sensitivity=50)
    query = replace(ASK, utility=name, epsilon=10**4, sampler=sampler, max_visits=30)
    answer = group_in(query.answer(table_of(ROWS), seeded(1)))
    matches = Small.of(query, table_of(ROWS))
    fewest = min(matches.space.context(one).bits.count("1") for one in matches.matching)
    assert answer is not None
    assert answer.bits.count("1") == fewest


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_answer_matches_and_with_much_budget_is_the_largest(sampler: Any) -> None:
    query = replace(ASK, sampler=sampler, epsilon=2000, max_visits=40)
    table = table_of(ROWS)
    answer = group_in(query.answer(table, seeded(2)))
    small = Small.of(query, table)
    assert answer is not None
    best = max(small.worth[one] for one in small.matching)
    assert population(answer, table).sum() == best


def test_a_plugged_in_detector_answers() -> None:
    plug_in("top-test", lambda everyone, value: value >= np.sort(everyone)[-2:].min())
    query = replace(ASK, detector="top-test")
    assert group_in(query.answer(table_of(ROWS), seeded(1))) is not None
    assert "top-test" in str(query.to_json())
    over = replace(query, detector="top-test", sampler="bfs")
    assert group_in(over.answer(table_of(ROWS), seeded(1))) is not None


def test_whether_the_record_is_among_the_rows_changes_nothing() -> None:
    with_it, without = table_of(ROWS), table_of(ROWS[:-1])
    for sampler in SAMPLERS:
        query = replace(ASK, sampler=sampler)
        values = [group_in(query.answer(table, seeded(5))) for table in (with_it, without)]
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


def test_the_curator_says_none_and_whom_that_does_not_protect(tmp_path: Path) -> None:
    query = replace(ASK, detector="histogram")  # nobody stands out in so few records
    person = query.guarantee().adjacency
    assert isinstance(person, SameContexts)
    with Curator.open(tmp_path) as curator:
        curator.register("pay", table_of(ROWS), DOMAIN)
        curator.open_budget("pay", AddRemove(), Loss(1))
        with pytest.raises(NoPromise):
            curator.ask(query, of="pay")
        with pytest.raises(NeedsConfirmation, match="not protected"):
            curator.open_budget("pay", AdmittedContexts(), Loss(1))
        curator.open_budget("pay", AdmittedContexts(), Loss(1), confirmed=True)
        curator.do(AdmitPerson("pay", person, "a list made beforehand"), confirmed=True)
        assert "whatever epsilon is" in curator.price(query, of="pay").not_protected
        assert group_in(curator.ask(query, of="pay").release) is None
        spent = {state.adjacency: state.spent for state in curator.budget("pay")}
        assert spent == {AddRemove(): Loss(0), AdmittedContexts(): Loss(1)}


def test_the_adjacency_names_detector_column_and_record() -> None:
    adjacency = ASK.guarantee().adjacency
    assert isinstance(adjacency, SameContexts)
    turned = asked(ASK, record=tuple(reversed(record_of(ASK))))
    assert turned.guarantee().adjacency == adjacency
    for other in (
        replace(ASK, detector="grubbs"),
        asked(ASK, value=91),
        asked(ASK, record=(("job", "CEO"),)),
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
    assert ASK.sentence((PersonGroups((context,)),)) == (
        "A person with job CEO, city Ottawa and salary 90 stands out by salary in this group:"
        " job in {CEO}."
    )
    assert "in no group" in ASK.sentence((PersonGroups(()),))


def test_every_detector_has_a_picture() -> None:
    table = table_of(ROWS)
    for query in (ASK, replace(ASK, detector="histogram")):
        release = query.answer(table, seeded(1))
        assert b"<svg" in svg(draw(release))


@pytest.mark.parametrize("rule", ["lof", "grubbs", "histogram"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_smallest_tables_get_an_answer_too(sampler: Any, rule: str) -> None:
    query = replace(ASK, sampler=sampler, detector=rule)
    for rows in ([], ROWS[:1], ROWS[-1:], ROWS[-2:]):
        query.answer(table_of(rows), seeded(0))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["population", "overlap"])
def test_what_is_drawn_is_the_same_whatever_matches(sampler: Sampler, kind: str) -> None:
    """Nobody, one group, many groups, none: the draws of a search told its length."""
    draws = set()
    tables = [[], ROWS[-1:], ROWS[-5:], ROWS, [(job, city, 50.0) for job, city, _ in ROWS]]
    for rows in tables:
        source = Counted(1)
        query = replace(ASK, sampler=sampler, utility=kind, max_visits=6)
        query.answer(table_of(rows), source)
        draws.add(tuple(source.requests))
    assert len(draws) == 1
