"""A name is drawn as it is written, whatever it looks like to the drawing library."""

from __future__ import annotations

from typing import Any

import pytest

from privod.data import Categorical, Domain, Numeric
from privod.data.examples import HOSPITAL, hospital
from privod.data.sources import read
from privod.mechanisms import seeded
from privod.pictures import draw, svg
from privod.pictures.canvas import LONGEST_TICK, shortened
from privod.query.catalog import QUERIES
from privod.questions.histogram.query import Histogram

LONG = "A column with quite a long name, as hospitals and ministries like to give them in reports"


@pytest.mark.parametrize("price", ["$10-$20", "$x", r"$\\frac{$", r"a_$^$"])
def test_a_category_with_dollars_is_drawn_as_it_is(price: str) -> None:
    domain = Domain((Categorical("price", (price, "more")), Numeric("$a$ and $b$", 0, 1)))
    rows = {"price": [price, "more"], "$a$ and $b$": [0.5, 0.7]}
    query = Histogram(columns=("price",), epsilon=1)
    drawn = svg(draw(query.answer(read(rows, domain), seeded(1)))).decode()
    assert price in drawn
    two = Histogram(columns=("$a$ and $b$",), epsilon=1)
    assert "$a$ and $b$" in svg(draw(two.answer(read(rows, domain), seeded(1)))).decode()


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    domain = Domain((Numeric("x", 0, 10), Numeric("y", 0, 10), Categorical("g", ("a", "b"))))
    rows = {"x": [1.0, 2.0, 9.0], "y": [1.0, 2.0, 9.0], "g": ["a", "a", "b"]}
    table = read(rows, domain)
    for kind in QUERIES.values():
        query = kind.examples(domain)[0]
        drawn = svg(draw(query.answer(table, seeded(2)))).decode()
        assert "mathdefault" not in drawn


@pytest.mark.parametrize("columns", [("kind",), ("kind", LONG), (LONG,)])
def test_names_that_are_too_long_keep_their_beginning_and_their_end(columns: Any) -> None:
    kinds = tuple(f"{LONG} of kind {place}" for place in range(3))
    domain = Domain((Categorical("kind", kinds), Numeric(LONG, 0, 1)))
    rows = {"kind": list(kinds), LONG: [0.1, 0.2, 0.9]}
    query = Histogram(columns=columns, epsilon=1, bins=3)
    figure = draw(query.answer(read(rows, domain), seeded(1)))
    drawn = svg(figure).decode()
    assert LONG not in drawn
    if "kind" in columns:
        for place in range(3):
            assert f"of kind {place}<" in drawn
    for axes in figure.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        assert all(len(label.get_text()) <= LONGEST_TICK for label in labels)


def test_names_that_fit_are_left_alone() -> None:
    assert shortened("a" * 32, 32) == "a" * 32
    assert shortened("begin" + "x" * 100 + "the end", 24) == "beginxxxxxxxxxx…xthe end"


@pytest.mark.parametrize("name", ["anomaly-labels", "novelty-labels", "outlier-count", "quantiles"])
def test_the_names_of_axes_fit_into_a_picture(name: str) -> None:
    """What privod writes itself is never cut in the middle."""
    query = QUERIES[name].examples(HOSPITAL)[0]
    release = query.answer(hospital(200), seeded(0))
    assert "…" not in svg(draw(release)).decode()
