"""Errors name the parameter, the rule, the value and a way out; progress reaches its listener."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

from privod import errors
from privod.errors import InvalidParameter, PrivodError
from privod.progress import listening, report, track


def test_a_wrong_parameter_is_told_with_a_way_out() -> None:
    problem = InvalidParameter("cells_per_axis", "must be at least 2", 1, "Try 10.")
    assert str(problem) == "cells_per_axis must be at least 2, got 1. Try 10."
    assert isinstance(problem, ValueError)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 10), "0.1"),
        (Fraction(1, 3), "1/3"),
        (Fraction(10**400, 3), f"{10**400}/3"),
        (Fraction(10**5000), "a number of thousands of digits"),
    ],
)
def test_a_fraction_is_told_as_it_is_typed(value: Fraction, shown: str) -> None:
    problem = InvalidParameter("delta", "must be greater than 0", value, "Try 1e-6.")
    assert str(problem) == f"delta must be greater than 0, got {shown}. Try 1e-6."


def test_errors_cross_processes() -> None:
    problem = InvalidParameter("bins", "must be at least 1", 0, "Try 10.")
    again = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes, as multiprocessing does
    assert str(again) == str(problem)


def test_every_error_is_in_the_tree_that_the_module_draws() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, PrivodError)
        assert name in (errors.__doc__ or "")


def test_progress_is_heard_inside_and_not_outside() -> None:
    heard: list[tuple[str, int, int | None]] = []
    with listening(lambda phase, done, total: heard.append((phase, done, total))):
        assert list(track([10, 20], "counting")) == [10, 20]
        report("choosing", 5)
    report("silence", 1)
    assert heard == [
        ("counting", 0, 2),
        ("counting", 1, 2),
        ("counting", 2, 2),
        ("choosing", 5, None),
    ]


def test_a_generator_has_no_known_end() -> None:
    totals = []
    with listening(lambda _phase, _done, total: totals.append(total)):
        list(track(iter("ab"), "reading"))
    assert totals == [None, None, None]
