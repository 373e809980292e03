"""The histogram: right counts under the noise, the right noise, and bad input told by name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter, NoPromise, NotFound
from privod.mechanisms import secure, seeded
from privod.pictures import draw, draw_budget, png
from privod.privacy import AddRemove, InCrowd, Loss, Replace
from privod.query.catalog import QUERIES, kind_of, query_from_json, release_from_json
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("x", 0, 10), Categorical("c", ("a", "b")), Numeric("y", -1, 1)))
SHARP = 1000  # an epsilon at which the noise is zero but once in e**1000 draws


def table(x: list[float], c: list[str]) -> Table:
    return Table(DOMAIN, {"x": x, "c": c, "y": np.zeros(len(x))})


def counts(query: Histogram, rows: Table) -> Any:
    return query.answer(rows, secure()).value.counts.tolist()


def test_numbers_fall_into_equal_intervals_and_the_upper_end_into_the_last() -> None:
    query = Histogram(columns=("x",), epsilon=SHARP, bins=5)
    rows = table([0, 1.99, 2, 9.99, 10, 99], ["a"] * 6)
    assert counts(query, rows) == [2, 1, 0, 0, 3]


def test_several_columns_give_every_combination_of_their_cells() -> None:
    query = Histogram(columns=("c", "x"), epsilon=SHARP, bins=2)
    assert counts(query, table([1, 9, 9], ["a", "a", "b"])) == [[1, 1], [0, 1]]


def test_the_cells_are_named_by_the_domain_alone() -> None:
    axes = (
        Histogram(columns=("x", "c"), epsilon=1, bins=2).answer(table([], []), seeded(0)).value.axes
    )
    assert axes[0].names == ("0 to 5", "5 to 10")
    assert axes[1].names == ("a", "b")


@pytest.mark.parametrize(("adjacency", "scale"), [(AddRemove(), 2), (Replace(), 4)])
def test_the_noise_has_the_scale_that_the_adjacency_needs(adjacency: Any, scale: int) -> None:
    query = Histogram(columns=("x",), epsilon="0.5", adjacency=adjacency)
    assert query.laplace_noise.scale == Fraction(scale)
    assert query.guarantee().loss == Loss("0.5")
    assert query.guarantee().adjacency == adjacency


def test_equal_questions_are_equal_however_they_are_written() -> None:
    left = Histogram(columns="x", epsilon=0.5, adjacency="replace")  # type: ignore[arg-type]
    right = Histogram(columns=["x"], epsilon="1/2", adjacency=Replace())  # type: ignore[arg-type]
    assert left == right
    assert hash(left) == hash(right)


def test_every_draw_is_fresh() -> None:
    query = Histogram(columns=("x",), epsilon="0.01", bins=50)
    rows = table([1], ["a"])
    assert counts(query, rows) != counts(query, rows)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": (), "epsilon": 1}, "columns must name a column"),
        ({"columns": 3, "epsilon": 1}, "columns must name a column"),
        ({"columns": ("x", "x"), "epsilon": 1}, "columns must be different names"),
        ({"columns": (1,), "epsilon": 1}, "columns must be different names"),
        ({"columns": "x", "epsilon": 0}, "epsilon must be greater than 0"),
        ({"columns": "x", "epsilon": float("inf")}, "epsilon must be finite"),
        ({"columns": "x", "epsilon": "much"}, "epsilon must be a number"),
        ({"columns": "x", "epsilon": 1, "bins": 0}, "bins must be at least 1, got 0. Try 10."),
        ({"columns": "x", "epsilon": 1, "bins": 2.5}, "bins must be a whole number"),
        ({"columns": "x", "epsilon": 1, "bins": True}, "bins must be a whole number"),
        (
            {"columns": "x", "epsilon": 1, "adjacency": InCrowd(1, ("x",), 3)},
            "adjacency must be AddRemove",
        ),
        ({"columns": "x", "epsilon": 1, "adjacency": "friends"}, "adjacency must be one of"),
    ],
)
def test_bad_parameters_are_told_by_name(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Histogram(**parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Histogram(columns=("z",), epsilon=1), "columns must be declared, got 'z'"),
        (
            Histogram(columns=("x", "y"), epsilon=1, bins=10_000),
            "columns must give at most 1000000 cells",
        ),
        (Histogram(columns=("x",), epsilon=1, bins=10**15), "columns must give at most"),
        (Histogram(columns=("x",), epsilon=1, bins=10**6 + 1), "columns must give at most"),
    ],
)
def test_what_does_not_fit_the_domain_is_told_before_anything(
    query: Histogram, message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        query.check(DOMAIN)


def test_questions_are_found_by_name_and_keep_their_version() -> None:
    assert kind_of("histogram") is Histogram
    query = Histogram(columns=("x",), epsilon=1)
    assert query.to_json()["version"] == 1
    assert query_from_json(query.to_json()) == query
    for version in (0, 2, True, "1", None):
        with pytest.raises(InvalidParameter, match="version of histogram must be 1"):
            query_from_json({**query.to_json(), "version": version})
    with pytest.raises(NotFound, match="There is no question 'poem'"):
        kind_of("poem")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({}, InvalidParameter),
        ([], InvalidParameter),
        ({"name": 3}, InvalidParameter),
        ({"name": "poem"}, NotFound),
        ({"name": "histogram"}, InvalidParameter),
        ({"name": "histogram", "columns": ["x"], "epsilon": "1", "x": 1}, InvalidParameter),
    ],
)
def test_what_is_no_question_is_refused(data: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        query_from_json(data)


def test_a_release_with_another_promise_is_refused() -> None:
    data = Histogram(columns=("x",), epsilon=1).answer(table([1], ["a"]), secure()).to_json()
    data["guarantee"]["loss"]["epsilon"] = "1/2"
    with pytest.raises(NoPromise, match="not the one that its question makes"):
        release_from_json(data)


def test_the_catalog_lists_queries_under_their_own_names() -> None:
    assert all(name == kind.name for name, kind in QUERIES.items())


def test_pictures_are_drawn_for_one_two_and_many_columns() -> None:
    rows = table([1, 2, 3], ["a", "b", "a"])
    for columns in (("x",), ("x", "c"), ("x", "c", "y")):
        release = Histogram(columns=columns, epsilon=1).answer(rows, secure())
        assert png(draw(release)).startswith(b"\x89PNG")


def test_a_budget_is_drawn_with_and_without_charges() -> None:
    charges = [("histogram", Loss("0.1"))] * 40
    for some in ([], charges):
        assert png(draw_budget("Spent", Loss(5), some)).startswith(b"\x89PNG")
