"""The audit where no pair is given: it looks for one, over persons, versions, estimators, work."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from privod.audit import (
    Power,
    Reading,
    games_of,
    numbers_in,
    search,
    search_question,
    table_pairs,
    work_of,
)
from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.estimators import GridKnnDetector, PrivacyWarning
from privod.mechanisms import DiscreteLaplace, Randomness, bernoulli_exp, seeded
from privod.mechanisms.sparse import distinct, not_taken
from privod.mechanisms.weighted_choice import WeightedChoice
from privod.outliers.crowds.distance import crowds
from privod.privacy import AddRemove, Guarantee, InCrowd, Loss, Replace, SameContexts
from privod.query.query import Release
from privod.questions.grid_knn import query as grid_query
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_count.query import CountedOutliers, OutlierCount
from privod.server.jobs.jobs import next_release_time
from tests.test_audit import ForgetsTheSecondCell, HalfTheNoise
from tests.test_rare_counts import LooksAheadTooLittle

RUNS = 1000
PAIRS = 10
VALUE = (Reading("the value", float),)
DOMAIN = Domain((Numeric("x", 0, 10), Categorical("letter", ("a", "b", "c"))))


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace(), InCrowd(0.0, ("letter",), 3)])
def test_every_pair_that_is_made_is_adjacent(adjacency: Any) -> None:
    for left, right in islice(table_pairs(DOMAIN, adjacency), 40):
        rows = [
            sorted(zip(table.numbers()[:, 0], table.codes()[:, 0], strict=True))
            for table in (left, right)
        ]
        gone, come = ([row for row in one if row not in other] for one, other in _both(rows))
        if adjacency == Replace():
            assert len(left) == len(right)
            assert len(gone) <= 1
            assert len(come) <= 1
        else:
            assert len(right) == len(left) + 1
            assert not gone
        if isinstance(adjacency, InCrowd):
            counts = [np.bincount(table.codes()[:, 0], minlength=3) for table in (left, right)]
            (grown,) = np.flatnonzero(counts[1] - counts[0])
            assert counts[1][grown] >= 3


def _both(rows: list[Any]) -> Iterator[tuple[Any, Any]]:
    yield rows[0], rows[1]
    yield rows[1], rows[0]


def test_pairs_under_an_adjacency_that_needs_more_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Give the pairs yourself"):
        next(table_pairs(DOMAIN, SameContexts("grubbs", "x", "[]")))


@dataclass(frozen=True, kw_only=True)
class IgnoresNeighbors(OutlierCount):
    """A planted bug: noise as if a record only counted itself."""

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)

    def answer(self, table: Table, randomness: Randomness) -> Release[CountedOutliers]:
        found = crowds(table.numbers(("x",)), self.radius)
        count = np.array([int((found <= self.max_crowd).sum())])
        noisy = DiscreteLaplace.for_loss(self.epsilon, 1).add_to(count, randomness)
        return self.release(CountedOutliers(int(noisy[0]), 1), randomness)


HONEST = Histogram(columns=("letter",), epsilon=1)
BUGS = (
    HalfTheNoise(columns=("letter",), epsilon=1),
    ForgetsTheSecondCell(columns=("letter",), epsilon=1, adjacency=Replace()),
    IgnoresNeighbors(radius=1.5, max_crowd=4, epsilon=1, columns=("x",), noise="global"),
    LooksAheadTooLittle(columns=("letter",), max_crowd=3, epsilon=1),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: type(bug).__name__)
def test_planted_bugs_are_caught_without_a_pair_being_given(bug: Any) -> None:
    runs = 2500 if isinstance(bug, ForgetsTheSecondCell) else RUNS  # the least of the breaches
    found = search_question(bug, DOMAIN, runs=runs, most_pairs=PAIRS, randomness=seeded(1))
    assert not found.holds
    assert found.pairs == PAIRS


def test_an_honest_question_passes_the_search_and_much_of_its_loss_is_found() -> None:
    found = search_question(HONEST, DOMAIN, runs=RUNS, most_pairs=PAIRS, randomness=seeded(2))
    assert found.holds
    assert found.caught > 0.3
    assert "would have given away an epsilon of" in found.sentence()


def test_any_answer_can_be_read_as_numbers() -> None:
    table = Table(DOMAIN, {"x": [1.0], "letter": ["a"]})
    value = HONEST.answer(table, seeded(1)).value
    first, *_ = (reading for reading in numbers_in(HONEST) if reading.name == "how many numbers")
    assert first.read(value) >= 3


# ---- persons and versions ----------------------------------------------------------------------

CAPPED = Domain(DOMAIN.columns, person="who", max_rows_per_person=3)


def test_persons_with_several_rows_are_audited_as_persons() -> None:
    """Three rows of one person come together: three times the loss is promised, and not once."""
    held = search_question(HONEST, CAPPED, runs=RUNS, most_pairs=4, randomness=seeded(3))
    assert held.claimed == Loss(3)
    assert held.holds
    assert held.caught > 1

    def asked(table: Table, randomness: Randomness) -> Any:
        return HONEST.answer(table, randomness).value

    claimed = HONEST.guarantee().loss  # a bug: what a row loses, said of a person
    pairs = lambda: table_pairs(CAPPED, AddRemove())  # noqa: E731 - begins again with each call
    once = search(
        asked, claimed, pairs, numbers_in(HONEST), runs=RUNS, most_pairs=4, randomness=seeded(4)
    )
    assert not once.holds


@pytest.mark.parametrize(("times", "holds"), [(1, False), (2, True)])
def test_versions_of_a_data_set_add_up(times: int, holds: bool) -> None:
    """A person is in both versions, so both answers are about that person."""
    nobody, one = (
        Table(DOMAIN, {"x": [1.0] * len(letters), "letter": letters}) for letters in ([], ["a"])
    )

    def of_a(versions: tuple[Table, Table], randomness: Randomness) -> int:
        return min(int(HONEST.answer(each, randomness).value.counts[0]) for each in versions)

    pair = ((nobody, nobody), (one, one))
    claimed = Loss(HONEST.guarantee().loss.epsilon * times)
    found = search(of_a, claimed, lambda: iter([pair]), VALUE, runs=3000, randomness=seeded(5))
    assert found.holds is holds


# ---- estimators and pipelines ------------------------------------------------------------------


@pytest.mark.parametrize(("scaled", "holds"), [(False, True), (True, False)])
def test_an_estimator_holds_and_the_same_behind_a_scaler_does_not(
    scaled: bool, holds: bool
) -> None:
    """One record far out moves all others to one cell, once a scaler learned from it."""
    rows = np.random.default_rng(1).uniform(-1, 1, size=(60, 1))
    far = np.vstack([rows, [[1e9]]])
    detector = GridKnnDetector(epsilon=1, bounds=(-3, 3), cells_per_axis=4)

    def fitted(data: Any, _randomness: Randomness) -> float:
        pipeline = make_pipeline(StandardScaler(), detector) if scaled else detector
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            pipeline.fit(data)
        return float(detector.release_.value.counts.max())

    claimed = detector.promised().loss
    found = search(fitted, claimed, lambda: iter([(rows, far)]), VALUE, runs=300)
    assert found.holds is holds


# ---- work --------------------------------------------------------------------------------------

CELLS = 64
WORK_RUNS, PLANTED_RUNS = 200, 1000


def as_if_empty(occupied: list[int], randomness: Randomness) -> list[int]:
    drawn = distinct(1, CELLS, randomness)
    free = not_taken(drawn, [np.array(occupied)])
    return [cell for cell, empty in zip(drawn, free, strict=True) if empty]


def by_rejection(occupied: list[int], randomness: Randomness) -> list[int]:
    """A planted bug: occupied cells are drawn again, so a full grid takes longer."""
    while (cell := randomness.below(CELLS)) in occupied:
        pass
    return [cell]


@pytest.mark.parametrize(("mechanism", "holds"), [(as_if_empty, True), (by_rejection, False)])
def test_the_time_class_of_a_sparse_answer_does_not_tell_how_full_the_grid_is(
    mechanism: Any, holds: bool
) -> None:
    """One record more fills the last cell but one; the server shows when an answer came."""
    pair = (list(range(62)), list(range(63)))
    work = work_of(mechanism)

    def shown(occupied: list[int], randomness: Randomness) -> float:
        return next_release_time(work(occupied, randomness) / 8)

    found = search(shown, Loss("0.1"), lambda: iter([pair]), VALUE, runs=RUNS, randomness=seeded(7))
    assert found.holds is holds


def work_holds(name: str, runs: int = WORK_RUNS) -> bool:
    """Whether what a question draws tells no more than its answer may, in all of its games."""
    return all(_holds(game, runs) for game in games_of(name))


def _holds(game: Any, runs: int) -> bool:
    def answered(table: Table, randomness: Randomness) -> Any:
        return game.query.answer(table, randomness)

    claimed, pair = game.query.guarantee().loss, (game.left, game.right)
    found = search(
        work_of(answered), claimed, lambda: iter([pair]), VALUE, runs=runs, randomness=seeded(7)
    )
    return found.holds


STEADY = (
    *("anomaly-labels-1", "grid-knn-1", "histogram-1", "marginals-1"),
    *("mixed-labels-1", "outlier-context-1", "outlier-radius-1"),
    *("private-bounds-1", "rare-counts-1"),
)
"""Questions of every kind of draw: noise, cells that are dropped, choices, coins."""


@pytest.mark.parametrize("name", STEADY)
def test_what_an_answer_draws_tells_no_more_than_it_promises(name: str) -> None:
    assert work_holds(name)


def test_noise_for_occupied_cells_alone_is_caught_by_what_it_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_many_as_there_are(_n_cells: int, _most_records: int | None, n_occupied: int) -> int:
        return n_occupied

    monkeypatch.setattr(grid_query, "_n_draws", as_many_as_there_are)
    assert not work_holds("grid-knn-1", PLANTED_RUNS)


def test_choices_by_proposals_are_caught_by_what_they_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: proposals are made until one is accepted, more often where few are good."""

    def by_proposals(choice: WeightedChoice, randomness: Randomness) -> int:
        while True:
            proposed = randomness.below_hidden(choice._utilities.size)
            gap = choice._best - int(choice._utilities[proposed])
            if bernoulli_exp(Fraction(gap) / choice._scale, randomness):
                return proposed

    monkeypatch.setattr(WeightedChoice, "draw", by_proposals)
    assert not work_holds("outlier-context-1", PLANTED_RUNS)


# ---- power -------------------------------------------------------------------------------------


def test_more_runs_catch_smaller_breaches() -> None:
    breaches = [Power(runs, 0.0).least_breach(1.0) for runs in (500, 2000, 20_000, 200_000)]
    assert breaches == sorted(breaches, reverse=True)
    assert breaches[-1] < 1.05
    assert replace(Power(2000, 0.0), delta=0.01).least_breach(1.0) > breaches[1]


def test_the_command_line_looks_for_pairs_in_a_domain(tmp_path: Path) -> None:
    file = tmp_path / "domain.json"
    file.write_text(json.dumps(DOMAIN.to_json()))
    arguments = ["audit", "histogram", "--domain", str(file), "--runs", "200"]
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0
    found = json.loads(shown.output)
    assert all(one["holds"] and one["pairs"] == 20 for one in found)
    assert "the promise holds" in " ".join(CliRunner().invoke(app, arguments).output.split())
