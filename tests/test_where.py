"""Conditions: every question that takes them sees the same records, and tells no size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod import Boolean, Categorical, Domain, Numeric, Table
from privod.audit import replay_question
from privod.curator import Curator
from privod.data import Date
from privod.data.conditions import Conditions
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss, Replace
from privod.query.catalog import QUERIES
from privod.query.conditional import Conditional
from privod.query.parameters import parameters_of
from privod.query.query import canonical_json
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_count.query import OutlierCount

DOMAIN = Domain(
    (
        Numeric("x", 0, 10, fill=0),
        Numeric("y", 0, 10, fill=0),
        Date("day", "2020-01-01", "2024-12-31", fill="2020-01-01"),
        Categorical("c", ("a", "b"), other=True, fill="a"),
        Boolean("b", fill=False),
    )
)
WHERE = {"day": {"from": "2023-01-01"}, "c": ["a", "(other)"]}
CHANCE = np.random.default_rng(3)
N = 400
ROWS: dict[str, Any] = {
    "x": CHANCE.normal(5, 1, N),
    "y": CHANCE.normal(5, 1, N),
    "day": CHANCE.integers(18262, 20088, N),
    "c": CHANCE.choice(["a", "b", "z"], N),
    "b": CHANCE.choice([True, False], N),
}
MET = (ROWS["day"] >= 19358) & (ROWS["c"] != "b")
NAMES = ("x", "y")
ASKED = [
    (kind, example)
    for kind in QUERIES.values()
    if issubclass(kind, Conditional)
    for example in kind.examples(Domain(DOMAIN.columns[:2]))[:1]
]


@pytest.mark.parametrize(("kind", "example"), ASKED, ids=[kind.name for kind, _ in ASKED])
def test_a_question_with_conditions_answers_as_on_those_records_alone(
    kind: Any, example: Any
) -> None:
    query = kind.from_parameters({**example.parameters(), "where": WHERE})
    query.check(DOMAIN)
    alone = Table(DOMAIN, {name: values[MET] for name, values in ROWS.items()})
    found = query.answer(Table(DOMAIN, ROWS), seeded(5))
    expected = example.answer(alone, seeded(5))
    assert query.value_to_json(found.value) == example.value_to_json(expected.value)
    words = "c is (other) or a and day is at least 2023-01-01"
    assert found.sentence() == f"Of the records where {words}: {expected.sentence()}"
    assert words in query.preview(DOMAIN).sentence()
    assert words in "".join(text.get_text() for text in found.plot().texts)
    again = kind.from_parameters(query.parameters())
    assert canonical_json(again.to_json()) == canonical_json(query.to_json())
    assert "where" not in example.parameters()
    assert query.guarantee() == example.guarantee()


def test_most_questions_that_count_take_conditions() -> None:
    assert len(ASKED) >= 9


@pytest.mark.parametrize(
    "kind", [each for each in QUERIES.values() if not issubclass(each, Conditional)]
)
def test_other_questions_refuse_conditions_and_say_why(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="not proved under conditions"):
        kind.from_parameters({"where": WHERE})


def test_a_record_that_is_replaced_can_leave_and_changes_no_more_than_the_noise_is_made_for() -> (
    None
):
    query = Histogram(columns=("x",), epsilon=1, adjacency=Replace(), where=WHERE)
    counts = query.counts_before_noise(Table(DOMAIN, ROWS))
    place = int(np.flatnonzero(MET)[0])
    for changed in ({"c": "b"}, {"x": 9.9}, {"day": 18262}):
        other = {name: values.copy() for name, values in ROWS.items()}
        for name, value in changed.items():
            other[name][place] = value
        moved = np.abs(query.counts_before_noise(Table(DOMAIN, other)) - counts).sum()
        assert moved <= query._counts_changed == 2


def test_the_number_of_records_that_meet_conditions_is_told_by_nobody() -> None:
    query = OutlierCount(radius=1, max_crowd=3, epsilon=1, columns=NAMES, adjacency=Replace())
    table = Table(DOMAIN, ROWS)
    assert query.answer(table, seeded(1)).value.n_records == N
    asked = replace(query, where=WHERE)
    assert asked.answer(table, seeded(1)).value.n_records is None


@pytest.mark.parametrize("name", sorted({kind.name for kind, _ in ASKED}))
def test_no_noise_follows_from_how_many_records_meet_conditions(name: str) -> None:
    """Replaced records come to meet them, or no longer do; parts of a question see them, too."""
    some = np.flatnonzero(MET)[:6].tolist()
    few = {column: values[[*some, *np.flatnonzero(~MET)[:3]]] for column, values in ROWS.items()}
    pairs = []
    for stay in (0, 1, 3, 5):
        leave = {column: values.copy() for column, values in few.items()}
        leave["c"][stay:6] = "b"
        one_more = {column: values.copy() for column, values in leave.items()}
        one_more["c"][stay] = "a"
        pairs += [(Table(DOMAIN, leave), Table(DOMAIN, one_more))]
        pairs += [(other, one) for one, other in pairs[-1:]]
    examples: tuple[Any, ...] = QUERIES[name].examples(Domain(DOMAIN.columns[:2]))
    for example in examples:
        query = replace(example, adjacency=Replace(), where={"c": ["a"]})
        query.check(DOMAIN)
        found = replay_question(query, query.cost(), pairs)
        assert found.holds, found.trouble


@pytest.mark.parametrize("most_records", [1000, 20_000_000], ids=["in memory", "on disk"])
def test_a_curator_answers_and_its_ledger_names_the_conditions(
    tmp_path: Path, most_records: int
) -> None:
    curator = Curator.open(tmp_path)
    curator.register("d", ROWS, DOMAIN, most_records=most_records)
    curator.open_budget("d", AddRemove(), Loss(4000))
    query = Histogram(columns=("b",), epsilon=1000, where=WHERE)
    answer = curator.ask(query, "d")
    true = [int((MET & (ROWS["b"] == value)).sum()) for value in (False, True)]
    assert answer.release.value.counts.tolist() == true
    assert "'among'" in "".join(str(entry) for entry in curator.history("d"))
    with pytest.raises(
        InvalidParameter, match=r"where must be declared, got 'dya'. Did you mean 'day'"
    ):
        curator.ask(replace(query, where={"dya": {"from": "2023-01-01"}}), "d")
    spent = curator.budget("d")[0].spent
    curator.ask(Histogram(columns=("b",), epsilon=1000, where={"c": "b"}), "d")
    assert curator.budget("d")[0].spent.epsilon == spent.epsilon + 1000  # disjoint: charged in full


def test_forms_and_the_shell_read_conditions() -> None:
    (parameter,) = (each for each in parameters_of(Histogram) if each.name == "where")
    query = Histogram(columns=("x",), epsilon=1, where=WHERE)
    written = parameter.written(query.parameters()["where"])
    assert Conditions.read(parameter.read(written)).entries == query.where
    typed = parameter.read("x >= 2 and day from 2021-01-01 to 2021-12-31")
    assert (
        Conditions.read(typed).words() == "day is from 2021-01-01 to 2021-12-31 and x is at least 2"
    )
