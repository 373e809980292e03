"""What every question must do, run over the whole catalog.

A question added to the catalog is held to this without another line of test: its promise needs no
data, it survives JSON, its release says what it promised, it never fails because of rows, the audit
does not catch it, and it has a proof page, a picture, a sentence and documented parameters.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit import replay_audit
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.examples import HOSPITAL
from privod.errors import InvalidParameter
from privod.mechanisms import secure, seeded
from privod.mechanisms.randomness import keyed
from privod.pictures import draw, svg
from privod.privacy import Guarantee
from privod.query.catalog import QUERIES, query_from_json, release_from_json
from privod.query.parameters import parameters_of
from privod.query.query import Query, canonical_json
from privod.registry import question

PROOFS = Path(__file__).parent.parent / "docs" / "proofs"
AUDIT_PAIRS = 200  # `privod audit` replays 10,000

SMALL = Domain(
    (
        Numeric("height", 0, 10),
        Numeric("weight", -5, 5),
        Categorical("group", ("x", "y", "z")),
        Categorical("grade", (1, 2)),
    )
)

EXAMPLES: list[Query[Any]] = [
    example
    for domain in (SMALL, HOSPITAL)
    for kind in QUERIES.values()
    for example in kind.examples(domain)
]

EXTREME_RANGES = [
    (-8.9e307, 8.9e307),
    (0.0, 1.7e308),
    (1e308, math.nextafter(1e308, math.inf)),
    (-1e300, 1e-300),
    (-1e155, 1e155),
    (-1e150, 1e150),
    (1.0, math.nextafter(1.0, 2.0)),
    (0.0, 2.0**-500),
]

BARE = [
    Domain(columns)
    for columns in (
        (Numeric("height", 0, 10), Categorical("group", ("x",))),
        (Categorical("group", ("x",)),),
        (Numeric("height", 0, 10),),
        (Numeric("height", 0, 10), Categorical("group", ("x",)), Categorical("grade", (1,))),
    )
]
"""Domains with as little in them as can be: of these, too, examples can be asked."""

every_kind = pytest.mark.parametrize("kind", QUERIES.values(), ids=QUERIES)
every_example = pytest.mark.parametrize(
    "query", EXAMPLES, ids=[f"{place}-{query.name}" for place, query in enumerate(EXAMPLES)]
)
small_examples = [example for kind in QUERIES.values() for example in kind.examples(SMALL)]


def table_of(heights: list[float], weights: list[float], groups: list[str]) -> Table:
    """A table of the small domain; the lists are cut to the shortest."""
    size = min(len(heights), len(weights), len(groups))
    grades = [1 + place % 2 for place in range(size)]
    return Table(
        SMALL,
        {
            "height": np.array(heights[:size], dtype=float),
            "weight": np.array(weights[:size], dtype=float),
            "group": groups[:size],
            "grade": grades,
        },
    )


numbers = st.one_of(st.floats(), st.sampled_from([0.0, 5.0, 5.0, 10.0, -5.0]))
tables = st.builds(
    table_of,
    st.lists(numbers, max_size=30),
    st.lists(numbers, max_size=30),
    st.lists(st.sampled_from(["x", "y", "z", "?"]), max_size=30),
)


@every_kind
def test_its_name_is_that_of_its_class_and_its_question_is_a_sentence(
    kind: type[Query[Any]],
) -> None:
    assert kind.name == re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    assert kind.version >= 1
    assert kind.question.endswith("?")


@every_kind
def test_it_has_an_example_for_the_sample_data(kind: type[Query[Any]]) -> None:
    assert kind.examples(HOSPITAL)
    for domain in BARE:
        for example in kind.examples(domain):
            example.check(domain)


@every_example
def test_its_promise_needs_no_data(query: Query[Any]) -> None:
    guarantee = query.guarantee()
    assert isinstance(guarantee, Guarantee)
    assert guarantee.loss.epsilon > 0
    assert guarantee.sentence().endswith(".")


@every_example
def test_it_survives_json(query: Query[Any]) -> None:
    text = canonical_json(query.to_json())
    again = query_from_json(json.loads(text))
    assert again == query
    assert hash(again) == hash(query)
    assert again.guarantee() == query.guarantee()
    assert canonical_json(again.to_json()) == text


@pytest.mark.parametrize("query", small_examples, ids=lambda query: query.name)
@settings(max_examples=25)
@given(table=tables)
def test_it_never_fails_because_of_rows(query: Query[Any], table: Table) -> None:
    query.check(SMALL)
    release = query.answer(table, seeded(1))
    assert release.guarantee == query.guarantee()


@every_kind
@pytest.mark.parametrize(("low", "high"), EXTREME_RANGES)
def test_ranges_however_extreme_are_refused_before_a_charge_or_answered(
    kind: type[Query[Any]], low: float, high: float
) -> None:
    domain = Domain(
        (Numeric("height", low, high), Numeric("weight", low, high), *SMALL.columns[2:])
    )
    places = np.array([low, high, low / 2 + high / 2] * 40)
    groups = {"group": ["x", "y", "z"] * 40, "grade": [1, 2] * 60}
    table = Table(domain, {"height": places, "weight": places[::-1].copy(), **groups})
    examples = kind.examples(domain)
    for query in (*examples, *(replace(cast(Any, each), epsilon=50) for each in examples)):
        try:
            query.check(domain)
            query.statements(domain)
        except InvalidParameter:
            continue
        release = query.answer(table, secure())
        written = json.dumps(release.to_json(), allow_nan=False)
        assert release_from_json(json.loads(written)).sentence() == release.sentence()


@pytest.mark.parametrize("query", small_examples, ids=lambda query: query.name)
def test_its_release_says_what_it_promised_and_survives_json(query: Query[Any]) -> None:
    table = table_of([1.0, 2.0, 2.0, 9.0], [0.0, 1.0, 1.0, -4.0], ["x", "x", "y", "z"])
    release = query.answer(table, secure())
    assert release.query == query
    assert release.guarantee == query.guarantee()
    assert not release.seeded
    data = json.loads(json.dumps(release.to_json(), allow_nan=False))
    again = release_from_json(data)
    assert again.to_json() == release.to_json()
    assert again.sentence() == release.sentence()


@pytest.mark.parametrize("query", small_examples, ids=lambda query: query.name)
def test_one_key_gives_one_release_whatever_the_number_of_threads(
    query: Query[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that begins an answer again, perhaps on another host, must give the same one."""
    table = table_of(list(np.linspace(0, 9, 40)), list(np.linspace(-5, 5, 40)), ["x", "y"] * 20)
    releases = []
    for threads in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=threads: set(range(n)))
        releases.append(query.answer(table, keyed(bytes(32), bytes(32), query.name)).to_json())
    assert releases[0] == releases[1]


@pytest.mark.parametrize("query", small_examples, ids=lambda query: query.name)
def test_a_seeded_release_is_marked(query: Query[Any]) -> None:
    assert query.answer(table_of([], [], []), seeded(3)).seeded


@pytest.mark.parametrize("query", small_examples, ids=lambda query: query.name)
def test_it_has_a_picture_and_a_sentence_even_of_no_rows(query: Query[Any]) -> None:
    release = query.answer(table_of([], [], []), seeded(5))
    sentence = release.sentence()
    assert sentence[0].isupper() or re.match(r"-?\d", sentence)  # or a count comes first
    assert sentence.endswith(".")
    assert svg(draw(release)).lstrip().startswith(b"<?xml")


@every_kind
def test_it_has_a_proof_page(kind: type[Query[Any]]) -> None:
    described = question(kind.name)
    if not described.query.startswith("privod."):
        pytest.skip("another package has its own pages")
    page = PROOFS.parent / described.proof
    assert page.is_file()
    assert kind.name in page.read_text()


@every_kind
def test_each_parameter_is_documented_once(kind: type[Query[Any]]) -> None:
    parameters = parameters_of(kind)
    assert parameters
    assert all(parameter.doc for parameter in parameters)
    assert "Guarantee" in (kind.__doc__ or "")


@every_kind
def test_no_pair_and_no_parameter_makes_it_lose_more_than_it_claims(kind: type[Query[Any]]) -> None:
    found = replay_audit(kind.name, AUDIT_PAIRS)
    assert found.holds, found.sentence()
    assert found.share > 0.3  # where pairs tell nothing, nothing is tried
