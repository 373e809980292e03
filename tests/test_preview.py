"""A preview says before payment how far off an answer may be, and is right about it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.data import Table
from privod.data.examples import HOSPITAL, hospital
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.outliers.contexts.contexts import ContextSpace
from privod.privacy import AddRemove, Loss
from privod.queries.catalog import QUERIES
from privod.queries.histogram import Histogram
from privod.queries.mean_covariance.query import MeanCovariance
from privod.queries.outlier_context.choosing import GroupChoice
from privod.queries.outlier_context.query import OutlierContext
from privod.queries.outlier_context.utility import POPULATION
from privod.queries.outlier_count import OutlierCount
from privod.queries.preview import enough_epsilon, epsilon_within, worth
from privod.queries.private_detector.query import DetectorProfile
from privod.queries.rare_combinations import RareCombinations

N_QUESTIONS = 200
SHARP = 10**6  # at this epsilon the noise of a count is 0
LEAST_COVERED = 0.93
WITH_NUMBERS = (
    "histogram-1",
    "marginals-1",
    "grid-knn-1",
    "lookahead-count-1",
    "outlier-count-1",
    "graded-count-1",
    "rare-combinations-1",
    "density-sketch-1",
    "mean-covariance-1",
    "private-detector-1",
)
SIZES = (20_000, 1000, 100)  # of data, in which the least epsilon must drown


Ints = np.ndarray[Any, Any]


def random_question(kind: str, generator: np.random.Generator) -> Any:
    """A question of this kind with an epsilon, columns and sizes drawn at random."""
    epsilon = Fraction(int(generator.integers(5, 300)), 100)
    columns = tuple(generator.choice(HOSPITAL.numeric_names, 2, replace=False).tolist())
    bins = int(generator.integers(2, 20))
    crowd, radius = int(generator.integers(1, 6)), float(generator.integers(1, 20))
    known: dict[str, dict[str, Any]] = {
        "histogram-1": {"columns": (columns[0], "ward"), "bins": bins},
        "marginals-1": {"columns": columns, "bins": bins},
        "grid-knn-1": {"columns": columns, "cells_per_axis": 5, "drop_below": None},
        "lookahead-count-1": {
            "record": (0,),
            "columns": ("age",),
            "max_crowd": 2,
            "edit_margin": 2,
        },
        "outlier-count-1": {
            "radius": radius,
            "max_crowd": crowd,
            "columns": columns,
            "noise": "global",
        },
        "graded-count-1": {"radius": radius, "max_crowd": crowd, "columns": columns},
        "rare-combinations-1": {"columns": ("ward", "admission"), "max_crowd": crowd},
        "density-sketch-1": {"columns": columns, "n_tables": 5, "bins": 64},
        "mean-covariance-1": {"columns": columns},
        "private-detector-1": {"columns": (*columns, "ward")},
    }
    asked: Any = QUERIES[kind]
    return asked(epsilon=epsilon, **known[kind])


def errors_of(query: Any, table: Table, seed: int) -> Ints:
    """By how much each number of an answer is off; at a huge epsilon an answer is the truth."""
    value = query.answer(table, seeded(seed)).value
    if isinstance(query, DetectorProfile):  # its cells are chosen anew each time
        rows = np.column_stack([_held(table, name) for name in query.columns])
        return np.asarray(value.counts - value.layout.counts(rows)).ravel()
    truth = replace(query, epsilon=SHARP).answer(table, seeded(0)).value
    found, sought = (_numbers(query, each) for each in (value, truth))
    drawn = value.noisy if isinstance(query, RareCombinations) else np.True_  # others are exact
    return np.asarray((found - sought)[np.broadcast_to(drawn, found.shape)]).ravel()


def _held(table: Table, name: str) -> Ints:
    read = table.numbers if name in HOSPITAL.numeric_names else table.codes
    return np.asarray(read((name,)))[:, 0]


def _numbers(query: Any, value: Any) -> Ints:
    if isinstance(query, MeanCovariance):
        return np.asarray([value.total])
    return np.asarray(value.counts if hasattr(value, "counts") else [value.count])


def test_over_random_questions_the_stated_margin_covers_what_it_says() -> None:
    """Every number of 200 questions is one trial, and every question counts alike as well."""
    generator = np.random.default_rng(20)
    table = hospital(800)
    covered: list[Ints] = []
    for seed in range(N_QUESTIONS):
        query = random_question(WITH_NUMBERS[seed % len(WITH_NUMBERS)], generator)
        margin = query.preview(HOSPITAL).margin
        covered.append(np.abs(errors_of(query, table, seed)) <= margin)
    shares = np.array([one.mean() for one in covered if one.size])
    assert LEAST_COVERED <= np.concatenate(covered).mean() <= 1
    assert LEAST_COVERED <= shares.mean() <= 1


def test_every_margin_that_numbers_can_be_held_against_is_tried_or_named() -> None:
    """Choices have tests of their own, against the best of all candidates."""
    with_margin = {
        name
        for name, kind in QUERIES.items()
        for query in kind.examples(HOSPITAL)
        if query.preview(HOSPITAL).margin is not None and not query.preview(HOSPITAL).loose
    }
    hidden = {"private-bounds-1", "interactive-grid-1"}  # what their noise is in is not told
    assert with_margin == set(WITH_NUMBERS) | hidden


@pytest.mark.parametrize("sampler", ["direct", "uniform", "bfs"])
def test_a_group_chosen_falls_short_of_the_best_by_no_more_than_stated(sampler: Any) -> None:
    """At worst all candidates but one fall short by just more than the margin."""
    choosing = GroupChoice("grubbs", POPULATION, sampler, 30, Fraction(1, 2))
    (query,) = (one for one in OutlierContext.examples(HOSPITAL) if one.utility == "population")
    space = ContextSpace.around(HOSPITAL, dict(query.record))
    margin = choosing.preview(space).margin
    assert margin is not None
    n_candidates = space.n_contexts if sampler == "direct" else 30
    worst = [0] * (n_candidates - 1) + [margin + 1]  # as many as can be, all just too small
    source, mechanism = seeded(5), choosing.mechanism(sampler)
    short = [mechanism.choose(worst, source) != n_candidates - 1 for _ in range(2000)]
    assert 0 < np.mean(short) <= 0.05


def _smallest_epsilon(query: Any) -> Any:
    """The question at the smallest power of ten that it accepts."""
    for power in range(-6, 1):
        try:
            asked = replace(query, epsilon=Fraction(10) ** power)
            asked.check(HOSPITAL)
        except InvalidParameter:
            continue
        return asked
    raise AssertionError("accepts no epsilon up to 1")


@pytest.mark.parametrize("name", list(QUERIES))
def test_every_question_states_its_error_and_marks_noise_with_what_would_do(name: str) -> None:
    for query in QUERIES[name].examples(HOSPITAL):
        preview = query.preview(HOSPITAL)
        stated = (preview.margin, preview.least_deviation, preview.wrong_label)
        assert any(number is not None for number in stated), preview
        noisy = _smallest_epsilon(query)
        drowned = [size for size in SIZES if noisy.preview(HOSPITAL).is_noise(size)]
        records = drowned[0]
        remark = worth(noisy, HOSPITAL, records)
        assert "mostly noise" in remark
        assert f" of {records:,} records" in remark or noisy.preview(HOSPITAL).wrong_label
        enough = re.search(r"epsilon ([0-9./]+) would do", remark)
        assert enough is not None, remark
        better = replace(noisy, epsilon=enough.group(1))
        assert "mostly noise" not in worth(better, HOSPITAL, records)


@pytest.mark.parametrize("name", list(QUERIES))
def test_every_margin_can_be_asked_for(name: str) -> None:
    query: Any
    for query in QUERIES[name].examples(HOSPITAL):
        margin = query.preview(HOSPITAL).margin
        if margin is None:
            with pytest.raises(InvalidParameter, match="no epsilon"):
                epsilon_within(query, HOSPITAL, 10)
            continue
        for wanted in (margin, 2 * margin):
            epsilon = epsilon_within(query, HOSPITAL, wanted)
            assert epsilon <= query.epsilon * Fraction(11, 10)  # two digits, rounded up
            reached = replace(query, epsilon=epsilon).preview(HOSPITAL).margin
            assert reached is not None
            assert reached <= wanted


@pytest.mark.parametrize("name", list(QUERIES))
def test_every_question_previews_its_answer_without_data(name: str) -> None:
    for query in QUERIES[name].examples(HOSPITAL):
        preview = query.preview(HOSPITAL)
        assert preview.sentence().endswith(".")
        assert preview.to_json()["sentence"] == preview.sentence()


def test_the_margin_of_a_preview_is_the_one_that_the_answer_states() -> None:
    query = Histogram(columns=("ward",), epsilon="0.1")
    stated = f"right to within {query.preview(HOSPITAL).margin} with 95 % certainty"
    assert stated in query.preview(HOSPITAL).sentence()
    assert stated in query.answer(hospital(100), seeded(1)).sentence()


@pytest.mark.parametrize("margin", [1, 10, 100])
def test_the_epsilon_for_a_margin_does_and_nine_tenths_of_it_does_not(margin: int) -> None:
    for query in (
        Histogram(columns=("ward",), epsilon=1),
        OutlierCount(radius=5, max_crowd=3, epsilon=1, columns=("age",), noise="global"),
    ):
        epsilon = epsilon_within(query, HOSPITAL, margin)
        enough = replace(query, epsilon=epsilon).preview(HOSPITAL).margin
        less = replace(query, epsilon=epsilon * Fraction(85, 100)).preview(HOSPITAL).margin
        assert enough is not None
        assert less is not None
        assert enough <= margin < less


def test_an_answer_that_would_be_noise_is_marked_with_the_epsilon_that_would_do() -> None:
    query = OutlierCount(radius=5, max_crowd=3, epsilon="0.01", columns=("age",), noise="global")
    assert query.preview(HOSPITAL).is_noise(20_000)
    assert not query.preview(HOSPITAL).is_noise(None)  # of unknown data nothing is said
    better = replace(query, epsilon=enough_epsilon(query, HOSPITAL, 20_000))
    assert not better.preview(HOSPITAL).is_noise(20_000)


@pytest.mark.parametrize("within", [-1, 2.5, True, "ten"])
def test_a_margin_that_is_no_number_of_records_is_refused(within: Any) -> None:
    with pytest.raises(InvalidParameter, match="within"):
        epsilon_within(Histogram(columns=("ward",), epsilon=1), HOSPITAL, within)


def test_a_margin_that_depends_on_the_rows_cannot_be_asked_for() -> None:
    query = OutlierCount(radius=5, max_crowd=3, epsilon=1, columns=("age",), noise="heavy")
    with pytest.raises(InvalidParameter, match="no epsilon"):
        epsilon_within(query, HOSPITAL, 10)


def test_the_command_line_prices_with_a_preview_and_finds_the_epsilon(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("stays", hospital(200), HOSPITAL)
    curator.open_budget("stays", AddRemove(), Loss(3))
    asked = ["price", "stays", "histogram", "columns=ward", "--at", str(tmp_path), "--json"]
    shown = json.loads(CliRunner().invoke(app, [*asked, "--within", "10"]).stdout)
    assert shown["preview"]["margin"] == 10
    assert Fraction(shown["charges"][0]["loss"]["epsilon"]) < Fraction(1, 3)
    noisy = CliRunner().invoke(app, [*asked[:-1], "epsilon=0.001", "--records", "200"]).stdout
    remark = re.search(r"If what is counted .* would do\.", " ".join(noisy.split()))
    assert remark is not None
    assert "25 % of 200 records" in remark.group()
    assert curator.budget("stays")[0].spent == Loss(0)
    paid = CliRunner().invoke(app, ["ask", *asked[1:-1], "epsilon=0.001", "--records", "200"])
    assert remark.group() in " ".join(paid.stdout.split())
