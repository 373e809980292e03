"""The index kept for a table: exact, made once, gone with its table, never part of it."""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure
from privod.outliers.crowds import distance, lookup
from privod.outliers.crowds.lookup import CrowdLookup, lookup_for
from privod.questions.anomaly_labels.query import AnomalyLabels

DOMAIN = Domain((Numeric("x", -100, 100), Numeric("y", -100, 100)))
COLUMNS = ("x", "y")


def table(n: int = 200) -> Table:
    rng = np.random.default_rng(n)
    return Table(DOMAIN, {"x": rng.normal(size=n).round(1), "y": rng.normal(size=n).round(1)})


places = st.tuples(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 3.0]), st.sampled_from([0.0, -0.0, 2.0]))


@settings(deadline=None, max_examples=80)
@given(st.lists(places, max_size=12), st.lists(places, min_size=1, max_size=5))
def test_crowds_and_copies_are_counted_apart_and_exactly(
    points: list[tuple[float, float]], asked: list[tuple[float, float]]
) -> None:
    found = CrowdLookup(np.array(points).reshape(-1, 2), 1.0).crowds_and_copies(np.array(asked))
    for record, (crowd, copies) in zip(asked, found, strict=True):
        gaps = [(record[0] - p[0]) ** 2 + (record[1] - p[1]) ** 2 for p in points]
        assert crowd == sum(gap <= 1 for gap in gaps)
        assert copies == sum(gap == 0 for gap in gaps)


def test_different_records_with_one_key_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "mixed", lambda rows: np.zeros(len(rows), np.uint64))
    found = CrowdLookup(np.array([[0.0], [0.0], [9.0]]), 1.0)
    assert found.crowds_and_copies(np.array([[0.0], [9.0], [5.0]])) == [(2, 2), (1, 1), (0, 0)]


def test_a_crowd_beyond_the_cap_is_not_counted_to_its_end() -> None:
    found = CrowdLookup(np.zeros((500, 1)), 1.0)
    assert found.crowds_and_copies(np.array([[0.0]]), cap=3) == [(3, 500)]
    assert found.crowds_and_copies(np.array([[0.0]]), cap=10**300) == [(500, 500)]


def test_an_index_is_made_once_for_a_table_and_few_are_kept() -> None:
    rows, other = table(), table()
    first = lookup_for(rows, COLUMNS, 1.0)
    assert lookup_for(rows, COLUMNS, 1.0) is first
    assert lookup_for(rows, COLUMNS, 2.0) is not first
    assert lookup_for(other, COLUMNS, 1.0) is not first
    for radius in range(3, 3 + lookup.KEPT):
        lookup_for(rows, COLUMNS, float(radius))
    assert len(lookup._indexes[rows]) == lookup.KEPT
    assert lookup_for(rows, COLUMNS, 1.0) is not first


def test_an_index_goes_with_its_table() -> None:
    rows = table()
    lookup_for(rows, COLUMNS, 1.0)
    before = len(lookup._indexes)
    del rows
    gc.collect()
    assert len(lookup._indexes) < before


def test_an_index_is_never_sent_or_shown_with_its_table() -> None:
    rows = table()
    bare = pickle.dumps(rows)
    kept = lookup_for(rows, COLUMNS, 1.0)
    assert pickle.dumps(rows) == bare
    assert repr(rows) == "Table(of 2 columns, rows private)"
    assert repr(kept) == "CrowdLookup(2 columns, points private)"


def test_many_threads_may_ask_at_once() -> None:
    rows = table(3000)
    points = rows.numbers(COLUMNS)
    radii = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    alone = {radius: CrowdLookup(points, radius).crowds_and_copies(points[:40]) for radius in radii}

    def ask(place: int) -> bool:
        radius = radii[place % len(radii)]
        return lookup_for(rows, COLUMNS, radius).crowds_and_copies(points[:40]) == alone[radius]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(120)))


def test_a_label_arranges_no_rows_once_the_index_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """How quick that is, `benchmarks/race_crowds.py` measures."""
    rows = table(3000)
    asked = AnomalyLabels(
        records=((0.1, 0.1),),
        columns=COLUMNS,
        near="distance(radius=1)",
        max_crowd=50,
        epsilon=1,
    )
    asked.answer(rows, secure())

    def never(*_: object) -> None:
        raise AssertionError("all rows were looked at again")

    for owner, name in [(distance, "_grown"), (distance, "lay_tiles"), (Table, "numbers")]:
        monkeypatch.setattr(owner, name, never)
    asked.answer(rows, secure())
    with pytest.raises(AssertionError, match="looked at again"):
        replace(asked, near="distance(radius=2)").answer(rows, secure())
