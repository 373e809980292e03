"""The audit where no pair is given: it looks for one, over persons, versions, estimators, work."""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from privod.audit import replay_pairs, table_pairs
from privod.data import Categorical, Domain, Numeric, Table, read
from privod.estimators import PrivacyWarning, QuestionDetector
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, InCrowd, Replace
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("x", 0, 10), Categorical("letter", ("a", "b", "c"))))


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace(), InCrowd(0.0, ("letter",), 3)])
def test_every_pair_that_is_made_is_adjacent(adjacency: Any) -> None:
    for left, right in islice(table_pairs(DOMAIN, adjacency), 40):
        rows = [
            sorted(zip(table.numbers()[:, 0], table.codes()[:, 0], strict=True))
            for table in (left, right)
        ]
        gone, come = (
            list((Counter(one) - Counter(other)).elements()) for one, other in _both(rows)
        )
        if adjacency == Replace():
            assert len(gone) <= 1
            assert len(come) <= 1
        else:
            assert len(gone) + len(come) <= 1  # none where it misses a value
        if isinstance(adjacency, InCrowd):
            for (_, code), table in [(row, 0) for row in gone] + [(row, 1) for row in come]:
                assert [each for _, each in rows[table]].count(code) >= 3


def _both(rows: list[Any]) -> Iterator[tuple[Any, Any]]:
    yield rows[0], rows[1]
    yield rows[1], rows[0]


# ---- estimators, pipelines and readers ---------------------------------------------------------


@pytest.mark.parametrize(("scaled", "holds"), [(False, True), (True, False)])
def test_an_estimator_holds_and_the_same_behind_a_scaler_does_not(
    scaled: bool, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record far out moves all others to one cell, once a scaler learned from it."""
    rows = np.random.default_rng(1).uniform(-1, 1, size=(60, 1))
    far = np.vstack([rows, [[1e9]]])
    query = GridKnn(columns=("x0",), epsilon=1, cells_per_axis=4)
    detector = QuestionDetector(query, bounds=(-3, 3))

    def fitted(data: Any, randomness: Randomness) -> Any:
        pipeline = make_pipeline(StandardScaler(), detector) if scaled else detector
        monkeypatch.setattr("privod.estimators.detector.secure", lambda: randomness)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            pipeline.fit(data)
        return detector.release_.value.counts

    found = replay_pairs("fitted", fitted, query.cost(), [(rows, far), (far, rows)])
    assert found.holds is holds, found.sentence()


def by_the_book(path: Path, domain: Domain) -> Table:
    """A planted bug: a reader that lets a stray quote swallow the records after it."""
    with path.open(newline="") as file:
        return Table(domain, {"age": [float(row["age"]) for row in csv.DictReader(file)]})


@pytest.mark.parametrize(("reader", "holds"), [(read, True), (by_the_book, False)])
def test_a_stray_quote_in_a_raw_file_is_caught_where_it_swallows_records(
    tmp_path: Path, reader: Any, holds: bool
) -> None:
    domain = Domain((Numeric("age", 0, 100),))
    lines = ["age,remark", *(f"{20 + place},fine" for place in range(40))]
    pair = (tmp_path / "without.csv", tmp_path / "with.csv")
    pair[0].write_text("\n".join(lines) + "\n")
    pair[1].write_text("\n".join([lines[0], '30,"so so', *lines[1:]]) + "\n")
    query = Histogram(columns=("age",), bins=2, epsilon=1)

    def asked(path: Path, randomness: Randomness) -> Any:
        return query.answer(reader(path, domain), randomness).value.counts

    assert replay_pairs("read", asked, query.cost(), [pair]).holds is holds
