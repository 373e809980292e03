"""Narrow promises: whom they protect, what they may tell exactly, and words that say so."""

from __future__ import annotations

# slow: left out by `make quick`
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator, who_is_protected
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, LedgerDamaged, NeedsConfirmation, NoPromise, Unavailable
from privod.ledger import chain
from privod.ledger.acts import AdmitPerson, AllowExactCounts
from privod.ledger.prices import cost_towards
from privod.mechanisms import secure
from privod.outliers.contexts.contexts import ContextSpace
from privod.outliers.contexts.detectors import detector
from privod.outliers.contexts.matching import look_from
from privod.privacy import (
    AddRemove,
    AdmittedContexts,
    InAlikeCrowd,
    InCrowd,
    Loss,
    SameContexts,
    Statement,
)
from privod.query.query import canonical_json
from privod.questions.anomaly_labels.query import AnomalyLabels
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.rare_counts.query import RareCounts
from tests.test_allowances import CROWD, DOMAIN, ROWS, adjacency_of, copies, people, person

COMBINED = RareCounts(columns=("job",), max_crowd=5, epsilon="0.1")
PAIRED = InCrowd(0.0, ("job",), 5)


def allowed(directory: Path, counts: int) -> Curator:
    curator = people(directory)
    curator.open_budget("people", CROWD, Loss(5), confirmed=True)
    curator.do(AllowExactCounts("people", CROWD, counts, "a study"), confirmed=True)
    return curator


# ---- permission for exact counts ---------------------------------------------------------------


def test_exact_counts_need_a_permission_of_their_own(tmp_path: Path) -> None:
    """An allowance alone sold 200 memberships of 200 people who stand alone."""
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(5), confirmed=True)
    before = curator.head()
    for ask in (curator.price, curator.ask):
        with pytest.raises(NoPromise, match="may tell 1 counts exactly"):
            ask(copies(3), "people")
    noisy = RareCounts(
        records=((3.0,),), columns=("age",), max_crowd=5, epsilon="0.1", edit_margin=5
    )
    assert noisy.exact_counts(DOMAIN) == 0
    assert curator.head() == before
    curator.ask(noisy, "people")  # nothing of it is exact, so nobody need allow it


def test_no_more_counts_are_told_exactly_than_the_owner_allows(tmp_path: Path) -> None:
    curator = allowed(tmp_path, 2)
    for value in (3.0, 4.0):
        curator.ask(copies(value), "people")
    with pytest.raises(NoPromise, match="allows 0 more"):
        curator.ask(copies(5.0), "people")
    assert curator.ask(copies(3.0), "people").stored  # what was told stays free
    assert curator.do(AllowExactCounts("people", CROWD, 3, "one more"), confirmed=True) == 1
    curator.ask(copies(5.0), "people")
    assert curator.do(AllowExactCounts("people", CROWD, 0, "enough")) == 0
    with pytest.raises(NoPromise, match="allows 0 more"):
        curator.ask(copies(6.0), "people")
    curator.verify()


def test_combinations_take_as_many_counts_as_there_are(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", PAIRED, Loss(5), confirmed=True)
    curator.do(AllowExactCounts("people", PAIRED, 1, "a study"), confirmed=True)
    with pytest.raises(NoPromise, match="may tell 2 counts exactly"):
        curator.ask(COMBINED, "people")
    assert curator.do(AllowExactCounts("people", PAIRED, 2, "both jobs"), confirmed=True) == 2
    curator.ask(COMBINED, "people")
    curator.verify()


def test_a_permission_counts_for_all_versions_of_a_data_set(tmp_path: Path) -> None:
    curator = allowed(tmp_path, 1)
    curator.register("later", ROWS, DOMAIN, continues="people")
    curator.ask(copies(3.0), "later")
    with pytest.raises(NoPromise, match="allows 0 more"):
        curator.ask(copies(3.0), "people")


def test_a_permission_says_what_it_gives_up_and_belongs_to_an_allowance(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(5), confirmed=True)
    with pytest.raises(NeedsConfirmation, match="Up to 7 counts of records that are not protected"):
        curator.do(AllowExactCounts("people", CROWD, 7, "a study"))
    with pytest.raises(InvalidParameter, match="must be that of an allowance"):
        curator.do(AllowExactCounts("people", AddRemove(), 7, "a study"), confirmed=True)
    for wrong in (-1, True, 10**16):
        with pytest.raises(InvalidParameter, match="counts must be"):
            curator.do(AllowExactCounts("people", CROWD, wrong, "a study"), confirmed=True)


def test_a_count_that_was_told_without_permission_is_found_by_verify(tmp_path: Path) -> None:
    curator = allowed(tmp_path, 1)
    curator.ask(copies(3.0), "people")
    curator.verify()
    query = copies(4.0)
    with curator.database.writing() as connection:
        (state,) = [one for one in chain.budgets_of(connection, "people") if one.role != "main"]
        cost = cost_towards(CROWD, Statement.of(query.guarantee()), 1)
        assert cost is not None
        text = canonical_json(query.to_json())
        asked = chain.Asked("people", text, "nobody")
        chain.enter_charges(connection, asked, [(state, cost)])
    with pytest.raises(LedgerDamaged, match="tells counts exactly without permission"):
        curator.verify()


# ---- who is protected --------------------------------------------------------------------------


def test_crowds_are_counted_over_all_records() -> None:
    ages = [1.0] * 5 + [2.0] * 3 + [2.5] + [9.0]
    table = Table(DOMAIN, {"job": ["CEO"] * 10, "age": ages})
    equal = who_is_protected(table, [InCrowd(0.0, ("age",), 4)])
    assert (equal.records, equal.examined, equal.protected) == (10, 10, 5)
    near = who_is_protected(table, [InCrowd(0.5, ("age",), 4)])
    assert near.protected == 9
    assert "9 of 10 records are protected (90.0 %); 1 are not." in near.sentences()
    alike = who_is_protected(table, [InCrowd(0.0, ("age", "job"), 4)])
    assert alike.protected == 5
    both = who_is_protected(table, [InCrowd(0.0, ("age",), 4), InCrowd(0.5, ("age",), 9)])
    assert both.protected == 0
    assert len(both.promises) == 2
    empty = who_is_protected(Table(DOMAIN, {"job": [], "age": []}), [CROWD])
    assert empty.sentences()[-1] == "There are no records."


SALARIES = Domain((Categorical("job", ("CEO", "Lawyer")), Numeric("pay", 0, 100)))


def asked_about(detector_text: str) -> SameContexts:
    record = canonical_json([[["job", "CEO"]], 30.0])
    return SameContexts(detector_text, "pay", record)


def salaries() -> Table:
    rng = np.random.default_rng(5)
    jobs = rng.choice(["CEO", "Lawyer"], 40)
    return Table(SALARIES, {"job": jobs, "pay": rng.normal(20, 4, 40).round(1)})


@pytest.mark.parametrize("text", ["grubbs", "lof(n_neighbors=1, threshold=1.5)"])
def test_contexts_are_compared_with_and_without_each_record(text: str) -> None:
    """The slow way: every record is taken out by hand."""
    table, adjacency = salaries(), asked_about(text)
    space = ContextSpace.around(SALARIES, {"job": "CEO"})
    jobs, pay = table.codes(("job",))[:, 0], table.numbers(("pay",))[:, 0]
    names = np.array(["CEO", "Lawyer"])

    def matching(kept: np.ndarray) -> list[bool]:
        some = Table(SALARIES, {"job": names[jobs[kept]], "pay": pay[kept]})
        sizes = look_from(some, space, "pay", 30.0, detector(text)).scan()
        return [bool(size >= 0) for size in sizes]

    every = np.arange(len(table))
    same = [matching(every != row) == matching(every >= 0) for row in every]
    found = who_is_protected(table, [adjacency], sample=1000)
    assert (found.examined, found.protected) == (40, sum(same))
    assert found.alike == int((jobs == 0).sum())
    assert found.alike_protected == sum(np.array(same)[jobs == 0])
    assert found.protected > 0
    sampled = who_is_protected(table, [adjacency], sample=7)
    assert (sampled.examined, sampled.records) == (7, 40)
    assert "of all 40 (95 % confidence)" in " ".join(sampled.sentences())


def test_a_detector_that_isolates_leaves_more_people_out() -> None:
    careful, isolating = (
        who_is_protected(salaries(), [asked_about(text)], sample=1000).protected
        for text in ("lof(n_neighbors=15, threshold=1.5)", "lof(n_neighbors=1, threshold=1.5)")
    )
    assert isolating < careful


def test_an_invented_person_beside_a_target_tells_of_it_and_the_owner_sees_that() -> None:
    """With one neighbor, whether the target is there decides; epsilon does not matter.

    Such a detector is refused unless the owner insists (test_allowances), and the report says so.
    """
    query = OutlierContext(
        group_columns=("job",),
        persons=(("CEO", 61.0),),
        column="pay",
        epsilon="1e-9",
        detector="lof(n_neighbors=1, threshold=1.5)",
    )
    others = [float(10 + place % 10) for place in range(30)]
    tables = [
        Table(SALARIES, {"job": ["CEO"] * len(pay), "pay": pay}) for pay in (others, [*others, 60])
    ]
    without, with_target = (
        {not query.answer(table, secure()).value[0].groups for _ in range(20)} for table in tables
    )
    assert (without, with_target) == ({False}, {True})
    found = who_is_protected(tables[1], [adjacency_of(query)], sample=1000)
    assert found.records - found.protected == 1


def test_several_persons_and_cut_numbers_are_looked_at_together() -> None:
    table = salaries()
    alone = [
        OutlierContext(persons=(("CEO", value),), group_columns=("job",), column="pay", epsilon=1)
        for value in (30.0, 34.0)
    ]
    both = replace(alone[0], persons=(("CEO", 30.0), ("CEO", 34.0)))
    counts = [
        who_is_protected(table, [context_of(one) for one in some], sample=1000).protected
        for some in ([both], alone)
    ]
    assert counts[0] == counts[1]  # who is protected is protected for each of them
    cut = Domain((*SALARIES.columns, Numeric("age", 0, 100)))
    names = np.array(["CEO", "Lawyer"])[table.codes(("job",))[:, 0]]
    pay = table.numbers(("pay",))[:, 0]
    rows = Table(cut, {"job": names, "pay": pay, "age": np.arange(40.0)})
    aged = OutlierContext(
        persons=((30.0, 30.0),),
        group_columns=("age",),
        column="pay",
        cuts=(("age", 25.0),),
        epsilon=1,
        detector="grubbs",
    )
    found = who_is_protected(rows, [context_of(aged)], sample=1000)
    assert (found.examined, found.alike) == (40, 15)


def context_of(query: OutlierContext) -> SameContexts:
    found = query.guarantee().adjacency
    assert isinstance(found, SameContexts)
    return found


def test_a_person_with_several_rows_is_taken_out_whole() -> None:
    capped = Domain(SALARIES.columns, person="who", max_rows_per_person=20)
    rows = {"job": ["CEO"] * 40, "pay": [29.0] * 20 + [float(n % 4) for n in range(20)]}
    table = Table(capped, {**rows, "who": ["crowd"] * 20 + [str(n) for n in range(20)]})
    found = who_is_protected(table, [asked_about("grubbs")], sample=1000)
    assert (found.records, found.examined) == (21, 21)
    assert found.protected == 20  # without the crowd, the person stands out otherwise


@pytest.mark.parametrize("rows", [1, 2])
def test_the_curator_counts_persons_where_each_has_one_row(tmp_path: Path, rows: int) -> None:
    """Of stored rows nobody knows whose they are: only with one row each are rows persons."""
    domain = Domain(SALARIES.columns, person="who", max_rows_per_person=rows)
    curator = Curator.open(tmp_path)
    pay = [10.0] * 5 + [90.0, np.nan]
    curator.register("paid", {"job": ["CEO"] * 7, "pay": pay, "who": list("abcdefg")}, domain)
    curator.open_budget("paid", AddRemove(), Loss(1))
    if rows == 1:
        (found,) = curator.who_is_protected("paid", InCrowd(0.0, ("pay",), 3))
        assert (found.records, found.protected) == (6, 5)
        curator.open_budget("paid", InCrowd(0.0, ("pay",), 3), Loss(1), confirmed=True)
    else:
        with pytest.raises(Unavailable, match="persons cannot be counted"):
            curator.who_is_protected("paid", asked_about("grubbs"))


def test_the_curator_reports_each_promise_and_all_together(tmp_path: Path) -> None:
    curator = people(tmp_path)
    assert curator.who_is_protected("people") == ()
    (thought_of,) = curator.who_is_protected("people", CROWD)
    assert (thought_of.protected, thought_of.records) == (0, 40)
    curator.open_budget("people", PAIRED, Loss(1), confirmed=True)
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    curator.do(AdmitPerson("people", adjacency_of(person(9)), "the list"), confirmed=True)
    before = curator.head()
    jobs, contexts, together = curator.who_is_protected("people", sample=5)
    assert jobs.protected == 40
    assert contexts.examined == together.examined == 5
    assert len(together.promises) == 2
    assert curator.head() == before
    with pytest.raises(InvalidParameter, match="every record is near every other"):
        curator.who_is_protected("people", InCrowd(500.0, ("age",), 5))
    with pytest.raises(InvalidParameter, match="between-tails or same-contexts"):
        curator.who_is_protected("people", AddRemove())


FARTHEST = (0.0, 5e-324, 1e-310, 119.0)
LARGEST = (1, 2, 41, 2**53)


@pytest.mark.parametrize("crowd", [0, -1, 2**53 + 1, 10**29, True, 1.5])
def test_a_crowd_that_no_data_set_can_have_is_refused_with_the_range(crowd: int) -> None:
    for build in (
        lambda: InCrowd(1.0, ("age",), crowd),
        lambda: InAlikeCrowd(("age",), crowd),
        lambda: InAlikeCrowd(("age",), 5, weights=(("age", crowd),)),
    ):
        with pytest.raises(InvalidParameter, match=r"(crowd|weights) must be a whole number from"):
            build()


def test_every_allowance_that_is_accepted_leaves_the_owners_report_readable(tmp_path: Path) -> None:
    curator = people(tmp_path)
    accepted = [
        *(InCrowd(radius, ("age",), crowd) for radius in FARTHEST for crowd in LARGEST[1:]),
        *(InAlikeCrowd(("age", "job"), crowd, 0, (), (("age", 10**6),)) for crowd in LARGEST[1:]),
        *(InAlikeCrowd(("age",), 2, 0, (("age", radius),)) for radius in FARTHEST),
    ]
    for adjacency in accepted:
        (alone,) = curator.who_is_protected("people", adjacency)
        assert 0 <= alone.protected <= alone.records == 40
    for adjacency in accepted:
        curator.open_budget("people", adjacency, Loss("0.01"), confirmed=True)
    told = curator.who_is_protected("people", sample=3)
    assert len(told) == len(set(accepted)) + 1
    assert len(curator.budget("people")) == len(set(accepted)) + 1
    assert curator.verify()


# ---- words -------------------------------------------------------------------------------------


def test_prices_and_answers_say_what_the_unprotected_lose(tmp_path: Path) -> None:
    curator = allowed(tmp_path, 9)
    told = "Counts of values that fewer than 4 records have are told exactly, whatever epsilon is"
    assert f"Not protected: {told}" in curator.price(copies(3.0), "people")._repr_html_()
    assert f"Not protected: {told}" in curator.ask(copies(3.0), "people")._repr_html_()
    barely = replace(copies(3.0), max_crowd=2)
    assert barely.not_protected().startswith("Counts of values that nobody has are told")


def test_labels_say_how_surely_they_tell_of_a_record_far_out() -> None:
    labels = AnomalyLabels(
        records=((1.0,),),
        columns=("age",),
        near="distance(radius=1)",
        max_crowd=9,
        epsilon=2,
        edit_margin=2,
    )
    assert "at most 1 in 10^7" in labels.not_protected()
    assert "fewer than 8 records within 1 of it" in labels.not_protected()
    assert replace(labels, edit_margin=None).not_protected() == ""
    weak = replace(labels, epsilon=Fraction(1, 100))
    assert "46.4 %" in weak.not_protected()


def test_an_owner_sees_figures_and_allows_counts_on_the_command_line(tmp_path: Path) -> None:
    people(tmp_path).close()
    run = CliRunner()
    at = ["--at", str(tmp_path)]
    crowd = json.dumps(CROWD.to_json())
    shown = run.invoke(app, ["protected", "people", *at])
    assert "No narrow promise is open" in " ".join(shown.output.split())
    opening = ["open", "people", "--epsilon", "1", "--adjacency", crowd, *at]
    refused = run.invoke(app, opening, input="n\n")
    assert refused.exit_code != 0
    assert "0 of 40 records are protected (0.0 %); 40 are not." in refused.output
    assert "that decision tells something" in refused.output
    assert run.invoke(app, opening, input="y\n").exit_code == 0
    allowing = ["allow-exact", "people", "--counts", "2", "--adjacency", crowd, *at]
    allowing += ["--reason", "a study"]
    assert run.invoke(app, allowing, input="n\n").exit_code != 0
    assert "2 more counts may be told" in run.invoke(app, allowing, input="y\n").output
    shown = run.invoke(app, ["protected", "people", "--json", *at])
    found = json.loads(shown.output)["protected"]
    assert [(one["protected"], one["records"]) for one in found] == [(0, 40)]
    asking = ["rare-counts", "records=3", "columns=age", "max_crowd=5", "epsilon=0.1"]
    asked = run.invoke(app, ["ask", "people", *asking, *at])
    told = "Not protected: Counts of values that fewer than 4 records have"
    assert told in " ".join(asked.output.split())
    elsewhere = run.invoke(app, ["protected", "people", "--at", "https://curator.example"])
    assert elsewhere.exit_code != 0
