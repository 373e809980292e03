"""Histograms cut at edges, by powers and by the calendar, and with cells for gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privod import Categorical, Domain, Histogram, Numeric, Ordinal, Table
from privod.data import Date
from privod.data.binning import Edges, WithGaps
from privod.errors import InvalidParameter
from privod.mechanisms import seeded

DOMAIN = Domain(
    (
        Numeric("amount", 1, 10_000),
        Date("day", "2023-11-15", "2024-02-01"),
        Ordinal("grade", ("low", "high")),
        Categorical("c", ("a", "b"), other=True),
    )
)
ROWS: dict[str, Any] = {
    "amount": [0.5, 5, 10, 99, 20_000, np.nan],
    "day": ["2023-11-15", "2023-12-31", "2024-01-01", "2024-02-01", "2030-01-01", "2024-02-31"],
    "grade": ["low", "high", "high", None, "low", "low"],
    "c": ["a", "b", "zz", "", "a", "a"],
}
TABLE = Table(DOMAIN, ROWS)


def counted(**asked: Any) -> dict[str, int]:
    query = Histogram(epsilon=1, **asked)
    query.check(DOMAIN)
    again = Histogram.from_parameters(query.parameters())
    assert again == query
    (axis,) = query._axes(DOMAIN)
    return dict(zip(axis.names, query.counts_before_noise(TABLE).tolist(), strict=True))


def test_edges_powers_and_the_calendar_cut_columns() -> None:
    found = counted(columns="amount", edges={"amount": [1, 10, 100]})
    assert found == {"1 to 10": 2, "10 to 100": 1}  # whole records only; the last edge belongs
    powers = counted(columns="amount", edges={"amount": "log"}, bins=4)
    assert list(powers) == ["1 to 10", "10 to 100", "100 to 1000", "1000 to 10000"]
    months = counted(columns="day", edges={"day": "month"})
    assert months == {"2023-11": 1, "2023-12": 1, "2024-01": 1, "2024-02": 1}
    assert counted(columns="day", edges={"day": "quarter"}) == {"2023 Q4": 2, "2024 Q1": 2}
    assert counted(columns="day", edges={"day": "year"}) == {"2023": 2, "2024": 2}
    dates = counted(columns="day", edges={"day": ["2023-12-01", "2024-01-01", "2024-01-31"]})
    assert list(dates.values()) == [1, 1]


def test_gaps_have_cells_and_every_stored_record_is_counted() -> None:
    amount = counted(columns="amount", gaps=True, bins=1)
    assert amount == {"1 to 10000": 3, "missing": 1, "below": 1, "above": 1}
    assert counted(columns="day", gaps=True, edges={"day": "year"}) == {
        "2023": 2, "2024": 2, "missing": 1, "below": 0, "above": 1}  # fmt: skip
    assert counted(columns="grade", gaps=True) == {"low": 3, "high": 2, "missing": 1}
    assert counted(columns="c", gaps=True) == {"a": 3, "b": 1, "(other)": 1, "missing": 1}
    both = Histogram(columns=("amount", "c"), epsilon=1000, gaps=True, bins=2)
    release = both.answer(TABLE, seeded(1))
    assert release.value.counts.sum() == 6
    assert "Of amount about 16.7 % missing, 16.7 % below, 16.7 % above." in release.sentence()
    met = Histogram(columns=("c",), epsilon=1, gaps=True, where={"grade": "low"})
    assert met.counts_before_noise(TABLE).sum() == 3


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"amount": [1, 1, 2]}, "edges must increase for 'amount'"),
        ({"amount": [10, 1]}, "edges must increase"),
        ({"amount": [1]}, "must be 2 to"),
        ({"amount": []}, "must be 2 to"),
        ({"amount": "month"}, "of a column of dates"),
        ({"day": "log"}, "must not be log"),
        ({"amount": "logs"}, "word that is not known"),
        ({"grade": [0, 1]}, "numbers or dates, not of 'grade'"),
        ({"amuont": [0, 1]}, "must be of columns asked for.*Did you mean 'amount'"),
        ({"day": ["2024-02-31", "2024-03-01"]}, "must be a date"),
        ("month", "must be given by column"),
        ({"amount": [True, 2]}, "numbers or dates"),
    ],
)
def test_impossible_edges_are_refused(edges: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Histogram(columns=DOMAIN.names, epsilon=1, edges=edges).check(DOMAIN)


def test_a_value_lies_in_one_bin_or_none() -> None:
    edges = Edges((0.0, 1.0, 4.0))
    assert edges.places(np.array([-1, 0, 0.99, 1, 4, 5])).tolist() == [-1, 0, 0, 1, 1, -1]
    gaps = WithGaps(edges, 3)
    assert gaps.places(np.array([np.nan, -np.inf, np.inf, 4.0, 9.0])).tolist() == [2, 3, 4, 1, -1]


@pytest.mark.parametrize("edges", [{}, {"x": "log"}])
def test_too_many_bins_are_refused_without_naming_them(edges: Any) -> None:
    query = Histogram(columns=("x",), epsilon=1, bins=2**62, edges=edges)
    with pytest.raises(InvalidParameter, match="must give at most 1000000 cells"):
        query.check(Domain((Numeric("x", 1, 100),)))
