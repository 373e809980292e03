"""A question's form is read off its fields and its documentation."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric
from privod.data.examples import HOSPITAL
from privod.errors import InvalidParameter, PrivodError
from privod.privacy import AddRemove, Adjacency, Number
from privod.query.catalog import JOINT_QUESTIONS, QUERIES, query_from_json
from privod.query.parameters import Parameter, parameters_of, promise_of
from privod.query.query import Query
from privod.questions.histogram.query import Histogram
from privod.server.views.forms import boxes_of


@dataclass(frozen=True, kw_only=True)
class Everything(Query[int]):  # never asked, so what it would answer is left out
    """Is everything of every kind?

    Guarantee
    ---------
    None
    at all.

    Parameters
    ----------
    radius, margin : float
        Two at once.
    mode : str
        First line.

        Second paragraph.

    Notes
    -----
    Not a parameter : at all
        No.
    """

    name: ClassVar[str] = "everything"
    radius: float
    margin: float | None = None
    mode: Literal["fast", "slow"] = "fast"
    column: str = "age"
    label: str = ""
    tags: tuple[str, ...] = ()
    point: tuple[float, ...] = (1.0, 2.0)
    points: tuple[tuple[float, ...], ...] = ()
    exactly: Number = "1/3"
    whole: int | None = 3
    limit: int | Literal["auto"] | None = "auto"
    truth: bool = False
    adjacency: Adjacency = AddRemove()
    anything: Any = None


def by_name(kind: Any) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters_of(kind)}


def test_the_histogram_says_what_it_needs() -> None:
    found = by_name(Histogram)
    assert list(found) == [
        *("columns", "epsilon", "bins", "edges", "gaps", "noise", "delta", "adjacency", "where")
    ]
    assert [parameter.kind for parameter in found.values()] == [
        "columns",
        "number",
        "whole",
        "json",
        "truth",
        "choice",
        "number",
        "adjacency",
        "conditions",
    ]
    assert found["columns"].required
    assert not found["bins"].required
    assert found["bins"].default == 10
    assert found["adjacency"].default == {"name": "add-remove"}
    assert found["epsilon"].doc == "The privacy loss of the whole histogram, greater than 0."
    assert promise_of(Histogram).startswith("Every record is protected")


def test_every_kind_of_field_has_its_kind() -> None:
    assert {name: parameter.kind for name, parameter in by_name(Everything).items()} == {
        "radius": "float",
        "margin": "float",
        "mode": "choice",
        "column": "column",
        "label": "text",
        "tags": "texts",
        "point": "numbers",
        "points": "records",
        "exactly": "number",
        "whole": "whole",
        "limit": "whole",
        "truth": "truth",
        "adjacency": "adjacency",
        "anything": "json",
    }


def test_documentation_is_found_for_names_given_together_and_over_paragraphs() -> None:
    found = by_name(Everything)
    assert found["radius"].doc == found["margin"].doc == "Two at once."
    assert found["mode"].doc == "First line. Second paragraph."
    assert found["mode"].choices == ("fast", "slow")
    assert found["limit"].choices == ("auto",)
    assert found["label"].doc == ""
    everything: Any = Everything  # abstract to the type checker
    assert promise_of(everything) == "None at all."


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("radius", "0.5", 0.5),
        ("radius", "wide", "wide"),
        ("margin", "", None),
        ("whole", " 7 ", 7),
        ("whole", "7.5", "7.5"),
        ("limit", "auto", "auto"),
        ("limit", "7", 7),
        ("limit", "", None),
        ("limit", "None", None),
        ("label", "none", "none"),
        ("truth", "on", True),
        ("truth", "no", False),
        ("truth", "perhaps", "perhaps"),
        ("tags", "a, b ,,c", ["a", "b", "c"]),
        ("tags", ["a, b", "c"], ["a, b", "c"]),
        ("point", "1, 2.5,x", [1, 2.5, "x"]),
        ("points", "1, 2\n\n3,4", [[1, 2], [3, 4]]),
        ("exactly", "1/3", "1/3"),
        ("adjacency", "replace", "replace"),
        ("adjacency", '{"name": "replace"}', {"name": "replace"}),
        ("anything", '{"a": [1]}', {"a": [1]}),
        ("anything", "{broken", "{broken"),
    ],
)
def test_what_is_typed_is_read(name: str, typed: str | list[str], value: Any) -> None:
    assert by_name(Everything)[name].read(typed) == value


@pytest.mark.parametrize("kind", QUERIES.values(), ids=str)
def test_every_parameter_in_the_catalog_is_documented(kind: type[Query[Any]]) -> None:
    assert [parameter.name for parameter in parameters_of(kind) if not parameter.doc] == []
    assert promise_of(kind)


@pytest.mark.parametrize("kind", QUERIES.values(), ids=str)
def test_every_default_in_the_catalog_is_read_back_from_what_is_written(
    kind: type[Query[Any]],
) -> None:
    for parameter in parameters_of(kind):
        if not parameter.required:
            once = parameter.read(parameter.written(parameter.default))
            assert parameter.read(parameter.written(once)) == once


@given(typed=st.text())
def test_no_text_makes_reading_fail(typed: str) -> None:
    for parameter in by_name(Everything).values():
        parameter.read(typed)


WILD = [
    10**400,
    -(10**400),
    10**5000,
    [10**400],
    [[10**400]],
    {"name": "in-crowd", "radius": 10**400, "columns": ["age"], "crowd": 1},
    math.nan,
    math.inf,
    1e308,
    5e-324,
    10**18,
    "1e400",
    "1e\u00b2",
    "\u0661",
    None,
    True,
    [],
    {},
]


@pytest.mark.parametrize("kind", QUERIES.values(), ids=lambda kind: kind.name)
def test_a_wild_value_is_accepted_or_refused_in_words(kind: type[Query[Any]]) -> None:
    domain = Domain((Categorical("g", ("u", "v", "w")), Numeric("s", 0, 100), Numeric("t", 0, 1)))
    for example in kind.examples(domain):
        plain = example.to_json()
        for parameter in plain.keys() - {"name"}:
            for wild in WILD:
                with suppress(PrivodError):
                    query = query_from_json({**plain, parameter: wild})
                    query.check(domain)
                    query.guarantee().sentence()


@pytest.mark.parametrize("name", [*QUERIES, *JOINT_QUESTIONS])
def test_every_parameter_of_every_question_is_explained(name: str) -> None:
    kind: Any = {**QUERIES, **JOINT_QUESTIONS}[name]
    for parameter in parameters_of(kind):
        assert len(parameter.doc) > 10, parameter.name


OF_COLUMNS = [
    (kind, parameter.name)
    for kind in QUERIES.values()
    for parameter in parameters_of(kind)
    if parameter.kind in ("column", "columns")
]


@pytest.mark.parametrize(("kind", "name"), OF_COLUMNS)
def test_a_form_offers_the_columns_that_the_question_takes_and_no_others(
    kind: Any, name: str
) -> None:
    (box,) = (box for box in boxes_of(kind, HOSPITAL, [], {}) if box.name == name)
    offered = {choice.value for choice in box.choices}
    taken: set[str] = set()
    for example in kind.examples(HOSPITAL):
        told = getattr(example, name)
        some = (told,) if isinstance(told, str) else told
        taken |= set(some)
        for other in set(HOSPITAL.names) - set(some):
            others = other if isinstance(told, str) else (other, *some[1:])
            with suppress(InvalidParameter):
                replace(example, **{name: others}).check(HOSPITAL)
                taken.add(other)
    assert taken <= offered
    kinds = {type(HOSPITAL[column]) for column in taken}
    assert {type(HOSPITAL[column]) for column in offered} == kinds
