"""Crowds counted by parts of space are those of all points at once, however few are held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.curator.rows import RowStore
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.folding import Block
from privod.engines import SizeClass
from privod.engines.size import IN_MEMORY
from privod.mechanisms import seeded
from privod.outliers.crowds import by_space
from privod.outliers.crowds.by_space import CreditsBySpace, boxes_around, n_boxes
from privod.outliers.crowds.distance import CrowdIndex
from privod.queries.crowd_bounds import count_credits, graded_credits
from privod.queries.distances import Distances
from privod.queries.graded_count import GradedCount
from privod.queries.outlier_count import OutlierCount


def points_of(block: Block) -> Any:
    return block.numbers


class Reading:
    """Points in blocks, and how often and how many at once were read."""

    def __init__(self, points: Any, at_once: int = 7) -> None:
        self.points, self.at_once, self.times = points, at_once, 0

    def __call__(self) -> Iterator[Block]:
        self.times += 1
        for start in range(0, len(self.points), self.at_once):
            some = self.points[start : start + self.at_once]
            yield Block(some, np.empty((len(some), 0), np.int64))


def counted(points: Any, radius: float, max_crowd: int, grades: int, **how: Any) -> int:
    boxes = boxes_around(points[:: how.pop("look_at", 1)], how.pop("n_parts"))
    names = tuple(f"c{axis}" for axis in range(points.shape[1]))
    sweep = CreditsBySpace(names, (), points_of, radius, max_crowd, grades, boxes, **how)
    read = Reading(points)
    return sum(sweep.part(number, read) for number in range(sweep.n_parts))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_boxes_count_what_all_points_count_on_lattices_full_of_ties(data: st.DataObject) -> None:
    n, d = data.draw(st.integers(0, 60)), data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    unit = data.draw(st.sampled_from([1.0, 0.1, 1e-140, 1e130]))
    points: Any = rng.integers(0, 6, (n, d)) * unit  # many at exactly the radius, many equal
    radius = unit * data.draw(st.sampled_from([0.0, 1.0, 2.0, 5.0]))
    max_crowd, grades = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    expected = int(graded_credits(points, radius, max_crowd, grades).sum()) if n else 0
    found = counted(
        points,
        radius,
        max_crowd,
        grades,
        n_parts=data.draw(st.sampled_from([1, 2, 8])),
        look_at=data.draw(st.integers(1, 5)),
        values_at_once=data.draw(st.sampled_from([1, 10, 40, 10**6])),
    )
    assert found == expected


def test_each_box_is_read_once_where_it_fits_and_no_more_points_are_held_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = np.random.default_rng(0).normal(size=(4000, 2))
    held: list[int] = []

    class Counting(CrowdIndex):
        def __init__(self, some: Any, **how: Any) -> None:
            held.append(some.size)
            super().__init__(some, **how)

    monkeypatch.setattr(by_space, "CrowdIndex", Counting)
    boxes = boxes_around(points, 16)
    sweep = CreditsBySpace(("x", "y"), (), points_of, 0.05, 3, 1, boxes, 2000)  # a quarter of them
    read = Reading(points, 500)
    total = sum(sweep.part(number, read) for number in range(16))
    assert total == int(graded_credits(points, 0.05, 3, 1).sum()) > 0
    assert read.times == 16
    assert max(held) <= 2000
    assert sum(held) < 2 * points.size  # what is around boxes is less than what is in them

    held.clear()
    heap = np.repeat(points[:4], 1000, axis=0)  # four places, and no box can part their copies
    sweep = CreditsBySpace(("x", "y"), (), points_of, 0.05, 1200, 1, boxes, 800)
    assert sum(sweep.part(number, Reading(heap, 500)) for number in range(16)) == 4000
    assert max(held) <= 800


def test_boxes_cover_space_once() -> None:
    rng = np.random.default_rng(1)
    for points in (rng.normal(size=(50, 3)), np.zeros((5, 3)), np.empty((0, 3))):
        boxes = boxes_around(points, 8)
        somewhere = rng.normal(size=(200, 3)) * 3
        inside = [
            ((somewhere >= low) & (somewhere < high)).all(axis=1)
            for low, high in zip(boxes.low, boxes.high, strict=True)
        ]
        assert len(inside) == 8
        assert (np.sum(inside, axis=0) == 1).all()


def test_how_many_boxes_there_are_follows_from_the_declared_size() -> None:
    fitting = by_space.VALUES_AT_ONCE // by_space.ROOM
    assert n_boxes(fitting, 1) == 1
    assert n_boxes(fitting + 1, 1) == 2
    assert n_boxes(100_000_000, 6) == 128


def test_questions_about_crowds_release_the_same_where_rows_are_not_in_memory(
    tmp_path: Path,
) -> None:
    domain = Domain((Numeric("x", 0, 9), Numeric("y", 0, 9), Categorical("kind", ("a", "b", "c"))))
    rng = np.random.default_rng(2)
    kinds = np.array(["a", "b", "c"])[rng.integers(0, 3, 500)]
    rows = {"x": rng.normal(4, 1, 500), "y": rng.normal(4, 1, 500), "kind": kinds.tolist()}
    store = RowStore(tmp_path / "rows")
    folder, seal, _ = store.keep(rows, domain, size=SizeClass(IN_MEMORY + 1))
    stored, memory = store.load(folder, seal, domain), Table(domain, rows)
    assert n_boxes(IN_MEMORY + 1, 2) > 1
    over = Distances.over(domain, ("x", "y", "kind"), "range", (1, 1, 0.05))
    found = {count_credits(table, over, 0.1, 6, 3) for table in (stored, memory)}
    assert len(found) == 1
    assert found != {0}
    asked: dict[str, Any] = {"columns": ("x", "y"), "radius": 0.5, "max_crowd": 5, "epsilon": 1}
    for query in (GradedCount(**asked), OutlierCount(**asked, noise="global")):
        assert query.held_per_record(domain) == 0
        told = {str(query.answer(table, seeded(1)).to_json()) for table in (stored, memory)}
        assert len(told) == 1
