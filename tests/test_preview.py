"""A preview says before payment how far off an answer may be, and is right about it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.data.examples import HOSPITAL, hospital
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.queries.catalog import QUERIES
from privod.queries.grid_knn.query import GridKnn
from privod.queries.histogram import Histogram
from privod.queries.lookahead import LookaheadCount
from privod.queries.marginals.query import MarginalHistograms
from privod.queries.outlier_count import OutlierCount
from privod.queries.preview import enough_epsilon, epsilon_within

N_QUESTIONS = 200
SHARP = 10**6  # at this epsilon the noise of a count is 0
LEAST_COVERED = 0.93


def random_question(generator: np.random.Generator) -> Any:
    epsilon = Fraction(int(generator.integers(5, 300)), 100)
    columns = tuple(generator.choice(HOSPITAL.numeric_names, 2, replace=False).tolist())
    kind = generator.integers(0, 5)
    if kind == 0:
        bins = int(generator.integers(2, 12))
        return Histogram(columns=(columns[0], "ward"), bins=bins, epsilon=epsilon)
    if kind == 1:
        return MarginalHistograms(
            columns=columns, bins=int(generator.integers(2, 20)), epsilon=epsilon
        )
    if kind == 2:
        return GridKnn(columns=columns, cells_per_axis=5, drop_below=None, epsilon=epsilon)
    if kind == 3:
        return LookaheadCount(
            record=(0,), columns=("age",), max_crowd=2, edit_margin=2, epsilon=epsilon
        )
    crowd, radius = int(generator.integers(1, 6)), float(generator.integers(1, 20))
    return OutlierCount(
        radius=radius, max_crowd=crowd, columns=columns, epsilon=epsilon, noise="global"
    )


def counts_of(query: Any, table: Any, seed: int) -> np.ndarray[Any, Any]:
    value = query.answer(table, seeded(seed)).value
    if isinstance(query, GridKnn):
        return np.asarray(value.counts).ravel()
    return np.asarray(value.counts if hasattr(value, "counts") else value.count).ravel()


def test_over_random_questions_the_stated_margin_covers_what_it_says() -> None:
    """Every count of 200 questions is one trial; the same answer at a huge epsilon is the truth."""
    generator = np.random.default_rng(20)
    table = hospital(800)
    covered: list[np.ndarray[Any, Any]] = []
    for seed in range(N_QUESTIONS):
        query = random_question(generator)
        margin = query.preview(HOSPITAL).margin
        truth = counts_of(replace(query, epsilon=SHARP), table, 0)
        covered.append(np.abs(counts_of(query, table, seed) - truth) <= margin)
    shares = np.array([one.mean() for one in covered])
    assert LEAST_COVERED <= np.concatenate(covered).mean() <= 1
    assert LEAST_COVERED <= shares.mean() <= 1  # each question counts alike


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
    assert "mostly noise" in " ".join(noisy.split())
    assert curator.budget("stays")[0].spent == Loss(0)
