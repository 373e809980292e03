"""A preview says before payment how far off an answer may be, and is right about it."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import math
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from privod import wire
from privod.cli import app
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.examples import HOSPITAL, hospital
from privod.data.mock import mock_table
from privod.errors import InvalidParameter
from privod.ledger.prices import Price
from privod.mechanisms import DiscreteLaplace, seeded
from privod.privacy import AddRemove, Loss, decimal_text
from privod.query.catalog import QUERIES
from privod.query.preview import (
    enough_epsilon,
    epsilon_within,
    noise_remark,
    time_told,
    worth,
)
from privod.query.size import size_question, size_told
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.graded_count.query import GradedCount
from privod.questions.grid_knn.query import GridKnn, margin_of_kept
from privod.questions.histogram.query import Histogram
from privod.questions.novelty_labels.query import NoveltyLabels
from privod.questions.outlier_context.choosing import GroupChoice
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.utility import POPULATION
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_radius.query import OutlierRadius
from privod.questions.outlier_subspaces.query import OutlierSubspaces
from privod.questions.private_bounds.query import PrivateBounds
from privod.questions.quantiles.query import Quantiles
from privod.questions.rare_counts.query import RareCounts

N_QUESTIONS = 200
SHARP = 10**6  # at this epsilon the noise of a count is 0
LEAST_COVERED = 0.93
WITH_NUMBERS = (
    "histogram",
    "grid-knn",
    "outlier-count",
    "graded-count",
    "rare-counts",
    "detector-profile",
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
        "histogram": {"columns": (columns[0], "ward"), "bins": bins},
        "grid-knn": {"columns": columns, "cells_per_axis": 5, "drop_below": None},
        "outlier-count": {
            "radius": radius,
            "max_crowd": crowd,
            "columns": columns,
            "noise": "global",
        },
        "graded-count": {"radius": radius, "max_crowd": crowd, "columns": columns},
        "rare-counts": {"columns": ("ward", "admission"), "max_crowd": crowd},
        "detector-profile": {"columns": (*columns, "ward")},
    }
    asked: Any = QUERIES[kind]
    return asked(epsilon=epsilon, **known[kind])


def errors_of(query: Any, table: Table, seed: int) -> Ints:
    """By how much each number of an answer is off; at a huge epsilon an answer is the truth."""
    value = query.answer(table, seeded(seed)).value
    if isinstance(query, DetectorProfile):  # its cells are chosen anew each time
        rows = np.column_stack([_held(table, name) for name in query.columns])
        return np.asarray(value.counts - value.layout.axes.counts(rows)).ravel()
    truth = replace(query, epsilon=SHARP).answer(table, seeded(0)).value
    found, sought = (_numbers(each) for each in (value, truth))
    drawn = value.noisy if isinstance(query, RareCounts) else np.True_  # others are exact
    return np.asarray((found - sought)[np.broadcast_to(drawn, found.shape)]).ravel()


def _held(table: Table, name: str) -> Ints:
    read = table.numbers if name in HOSPITAL.numeric_names else table.codes
    return np.asarray(read((name,)))[:, 0]


def _numbers(value: Any) -> Ints:
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
    hidden = {"private-bounds", "interactive-grid"}  # what their noise is in is not told
    assert with_margin == set(WITH_NUMBERS) | hidden


@pytest.mark.parametrize("sampler", ["direct", "uniform", "bfs"])
def test_a_group_chosen_falls_short_of_the_best_by_no_more_than_stated(sampler: Any) -> None:
    """At worst all candidates but one fall short by just more than the margin."""
    choosing = GroupChoice("grubbs", POPULATION, sampler, 30, Fraction(1, 2))
    query = OutlierContext.examples(HOSPITAL)[0]
    space = query.space(HOSPITAL, query.persons[0])
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
        enough = re.search(r"epsilon ([0-9./]+) (would do|at least)", remark)
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
        assert wire.Preview.of(preview).sentence == preview.sentence()


def test_the_margin_of_a_preview_is_the_one_that_the_answer_states() -> None:
    query = Histogram(columns=("ward",), epsilon="0.1")
    stated = f"± {query.preview(HOSPITAL).margin}"
    assert f"{stated} (95 % confidence)" in query.preview(HOSPITAL).sentence()
    assert f"{stated} records have" in query.answer(hospital(100), seeded(1)).sentence()


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


def test_what_is_expected_decides_what_is_noise_and_what_is_assumed_is_said() -> None:
    """A graded count of about 22 outliers in 20,000 records, right to within 80, went unmarked."""
    asked: dict[str, Any] = {"radius": 0.05, "columns": ("age", "heart_rate"), "scale": "range"}
    graded = GradedCount(max_crowd=5, epsilon=1, **asked)
    margin = graded.preview(HOSPITAL).margin
    assert margin is not None
    assert 22 < margin < 200
    told = worth(graded, HOSPITAL, 20_000)
    assert (
        f"Up to {margin} records cannot be told from noise. Assumed: 1 % of 20,000 records." in told
    )
    remark = noise_remark(graded, HOSPITAL, 20_000, 22)
    assert "If what is counted is 22 records, such an answer is mostly noise" in remark
    enough = enough_epsilon(graded, HOSPITAL, None, 22)
    assert f"epsilon {decimal_text(enough)} would do" in remark
    better = replace(graded, epsilon=enough)
    assert noise_remark(better, HOSPITAL, 20_000, 22) == ""
    assert "Expected: 22 records." in worth(better, HOSPITAL, None, 22)
    assert noise_remark(graded, HOSPITAL, None) == ""


def test_one_cell_is_taken_to_hold_all_records_and_a_quantile_its_share() -> None:
    """What `price` proposes for sizes was called noise: 1 % was taken to be counted."""
    whole = Histogram(columns=("age",), bins=1, epsilon="0.01")
    margin = whole.preview(HOSPITAL).margin
    assert margin is not None
    assert noise_remark(whole, HOSPITAL, margin + 1) == ""
    assert noise_remark(replace(whole, bins=10), HOSPITAL, margin + 1)
    deciles = Quantiles(columns=("age",), epsilon=1)
    rank = deciles.preview(HOSPITAL).margin
    assert rank is not None
    assert noise_remark(deciles, HOSPITAL, 10 * rank + 10) == ""
    assert "If what is counted is 10 % of" in noise_remark(deciles, HOSPITAL, 9 * rank)


def test_the_counts_beside_chosen_sets_are_noise_where_they_are_small() -> None:
    (_, counted) = OutlierSubspaces.examples(HOSPITAL)
    alone = replace(counted, n_subspaces=1, size=1, smaller_too=False, columns=("age",))
    preview = alone.preview(HOSPITAL)  # one set competes, so only its count is uncertain
    assert preview.noise
    assert preview.is_noise(None, preview.noise)
    assert not preview.is_noise(None, preview.noise + 1)
    assert "Every competing set will be named. Of each count:" in preview.sentence()


def test_more_noise_than_records_says_that_nothing_can_be_said() -> None:
    (plain, _) = OutlierSubspaces.examples(HOSPITAL)
    told = worth(replace(plain, epsilon="0.001"), HOSPITAL, 1000)
    assert "Nothing can be said about the choice: the noise is larger than all records." in told
    assert "no set left out" not in told


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


def test_counts_that_reached_a_threshold_are_right_to_within_what_is_told_of_them() -> None:
    """Most cells hold a record or none: those kept are kept by their noise."""
    domain = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)))
    rows = np.random.default_rng(7).uniform(size=(400, 2))
    table = Table(domain, {"x": rows[:, 0], "y": rows[:, 1]})
    query = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=30, drop_below=3)
    grid, margin = query.grid(domain), query.preview(domain).margin
    assert margin is not None
    held = Counter(map(tuple, grid.cells_of(rows).tolist()))
    off: list[int] = []
    for seed in range(30):
        value = query.answer(table, seeded(seed)).value
        assert value.cells is not None
        kept = zip(value.cells.tolist(), value.counts.tolist(), strict=True)
        off += [abs(count - held[tuple(cell)]) for cell, count in kept]
    assert len(off) > 1000
    assert np.mean(np.array(off) <= query.count_noise.quantile(0.95)) < LEAST_COVERED
    assert np.mean(np.array(off) <= margin) >= LEAST_COVERED
    assert f"± {margin} (95 %" in query.answer(table, seeded(1)).sentence()


@pytest.mark.parametrize("records", [0, 3, 4, 12, 40])
def test_no_number_of_records_in_a_cell_makes_its_kept_count_less_certain(records: int) -> None:
    noise, threshold = DiscreteLaplace(Fraction(5)), 4
    drawn = noise.draw(20_000, seeded(records))
    kept = drawn[records + drawn >= threshold]
    assert np.mean(np.abs(kept) <= margin_of_kept(noise, threshold)) >= 0.95 - 0.01


def test_of_several_groups_each_is_compared_with_those_not_told_before_it() -> None:
    query = OutlierContext.examples(HOSPITAL)[0]
    space = query.space(HOSPITAL, query.persons[0])
    one = GroupChoice("grubbs", POPULATION, "direct", 30, Fraction(1, 2))
    assert "told before" not in one.preview(space).sentence()
    assert (
        "not counting groups told before it" in replace(one, n_groups=2).preview(space).sentence()
    )


def test_a_clear_outlier_is_said_to_be_what_the_model_takes_for_one() -> None:
    """Nothing lies near 5, but so many lie beyond it that its label is wrong far more often."""
    model = "crowd(max_crowd=5, near=tail())"
    query = NoveltyLabels(columns=("age",), records=((5.0,),), epsilon=2, model=model)
    told = query.preview(HOSPITAL)
    assert "farther out than all others in some column" in told.sentence()
    between, farthest = query.error(5 - 1 - 4), query.error(5 - 1 - 0)  # others beyond it
    assert told.wrong_label == pytest.approx(farthest)
    assert between > 100 * farthest


def test_where_noise_follows_the_rows_no_epsilon_is_said_to_do() -> None:
    query = OutlierCount(
        radius=5, max_crowd=20, epsilon="0.1", delta="1e-6", columns=("age",), noise="laplace"
    )
    remark = worth(query, HOSPITAL, 20_000)
    assert "would do" not in remark
    found = re.search(r"takes epsilon ([0-9.]+) at least, and more for some data", remark)
    assert found is not None
    enough = replace(query, epsilon=found.group(1))
    least = enough.preview(HOSPITAL).least_margin
    assert least is not None
    assert least < 200  # 1 % of the records, as the remark assumes


def test_the_least_epsilon_is_found_below_those_at_which_auto_takes_another_noise() -> None:
    domain = Domain(tuple(Numeric(name, 0, 1) for name in "abcd"))
    query = OutlierCount(radius=0.1, max_crowd=3, epsilon=1, columns=("a", "b", "c", "d"))
    plain = epsilon_within(replace(query, noise="global"), domain, 200)
    assert replace(query, epsilon=plain).chosen_noise(4) == "global"
    assert replace(query, epsilon=2 * plain).chosen_noise(4) == "heavy"  # of no public margin
    assert epsilon_within(query, domain, 200) == plain
    far = replace(query, epsilon=epsilon_within(query, domain, 150)).preview(domain).margin
    assert far is not None
    assert far <= 150


@pytest.mark.parametrize("zooms", [1, 2])
def test_ranges_cut_off_no_more_records_of_the_usual_size_than_told(zooms: int) -> None:
    """A crowd, then a few records at the far end, across bins that hold nobody."""
    domain = Domain((Numeric("x", 0, 16),))
    query = PrivateBounds(columns=("x",), epsilon="0.5", zooms=zooms)

    def lost(far: int) -> NDArray[np.int64]:
        values = np.concatenate([np.linspace(8.1, 8.9, 3000), np.full(far, 15.9)])
        table = Table(domain, {"x": values})
        ends = [query.answer(table, seeded(seed)).value[0].high for seed in range(40)]
        return np.array([np.count_nonzero(values > end) for end in ends])

    told = query.preview(domain)
    assert str(query.records_cut) in told.sentence()
    assert np.mean(lost(query.records_cut + 1) <= query.records_cut) >= 0.95
    margin = told.margin
    assert margin is not None
    assert (lost(60) > 2 * margin).any()  # what it once was said to stay within


def test_a_range_of_far_larger_values_is_lost_however_many_they_are_and_that_is_told() -> None:
    values = np.concatenate([np.full(1200, 0.7), np.full(800, 9e5)])
    domain = Domain((Numeric("x", -1e6, 1e6),))
    query = PrivateBounds(columns=("x",), epsilon=2)
    found = query.answer(Table(domain, {"x": values}), seeded(1)).value[0]
    assert np.count_nonzero(values > found.high) == 800 > query.records_cut
    assert "however many" in query.preview(domain).sentence()


def test_an_epsilon_at_which_any_radius_may_be_named_is_refused() -> None:
    query = OutlierRadius(share="0.01", max_crowd=2, epsilon="0.01", columns=("age",))
    with pytest.raises(InvalidParameter, match="epsilon must be larger to choose among 25 radii"):
        query.check(HOSPITAL)
    replace(query, epsilon="0.05").check(HOSPITAL)


def test_the_usual_time_stands_beside_the_bound_for_the_declared_size() -> None:
    price = Price((), affordable=True, already_answered=False, most_records=100_000)
    price = replace(price, about_seconds=112.4, usual_seconds=2.5)
    assert time_told(price) == (
        "An answer usually takes about 3 seconds on 100,000 records. It never takes more than about"
        " 113 seconds, the worst case for the declared 100,000 records."
    )
    assert "3 seconds on 21,000 records" in time_told(replace(price, records=21_000))
    assert time_told(replace(price, about_seconds=0.9)) == ""
    assert time_told(replace(price, about_seconds=None)) == ""


def test_usual_times_never_pass_the_bound() -> None:
    for kind in QUERIES.values():
        for query in kind.examples(HOSPITAL):
            for records in (1, 100, 10**4, 10**8):
                assert query.usual_work(HOSPITAL, records) <= query.work(HOSPITAL, records)


def test_the_number_of_records_is_told_rounded_up_with_its_margin() -> None:
    asked = size_question(HOSPITAL)
    assert asked is not None
    assert asked.preview(HOSPITAL).margin == 300
    release = asked.answer(mock_table(HOSPITAL, 20_000), seeded(3))
    told = int(release.value.counts.sum())
    assert size_told(release, HOSPITAL) == math.ceil((told + 300) / 1000) * 1000
    assert size_question(Domain((Categorical("sex", ("f", "m")),))) is None


def test_a_bought_size_stands_in_prices_and_limits_keep_the_declared_one(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("stays", hospital(2_000, seed=1), HOSPITAL, most_records=1_000_000)
    curator.open_budget("stays", AddRemove(), Loss(2))
    query = OutlierRadius.examples(HOSPITAL)[0]
    before = curator.price(query, "stays")
    size = size_question(HOSPITAL)
    assert size is not None
    release = curator.ask(size, "stays").release
    after = curator.price(query, "stays")
    assert (before.records, after.records) == (None, size_told(release, HOSPITAL))
    assert after.about_seconds == before.about_seconds
    assert after.most_records == before.most_records == 1_000_000
    assert after.usual_seconds is not None
    assert before.usual_seconds is not None
    assert after.usual_seconds < before.usual_seconds / 100


def test_the_shell_offers_the_size_beside_a_price_until_it_is_bought(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("stays", hospital(2_000, seed=1), HOSPITAL)
    curator.open_budget("stays", AddRemove(), Loss(2))
    asked = ["price", "stays", "histogram", "columns=ward", "epsilon=1", "--at", str(tmp_path)]
    told = " ".join(CliRunner().invoke(app, asked).output.split())
    offer = "privod ask stays histogram columns=age epsilon=0.01 bins=1"
    assert f"noisy count of them (± 300) costs epsilon 0.01: {offer}" in told
    CliRunner().invoke(app, [*offer.split()[1:], "--at", str(tmp_path), "--yes"])
    assert offer not in " ".join(CliRunner().invoke(app, asked).output.split())
