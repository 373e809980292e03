"""Crowds counted by parts of space are those of all points at once, however few are held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.curator.rows import RowStore
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.folding import Block
from privod.engines import SizeClass, open_rows, spilling
from privod.engines.size import IN_MEMORY
from privod.engines.source import RegisteredRows
from privod.engines.spilling import SpilledParts
from privod.engines.stored import StoredSource
from privod.mechanisms import seeded
from privod.outliers.crowds import by_space
from privod.outliers.crowds.by_space import CreditsBySpace, boxes_around, n_boxes
from privod.outliers.crowds.distance import CrowdIndex
from privod.query.crowd_bounds import count_credits, graded_credits
from privod.query.distances import Distances
from privod.questions.graded_count.query import GradedCount
from privod.questions.outlier_count.query import OutlierCount
from privod.questions.outlier_subspaces.query import OutlierSubspaces


def points_of(block: Block) -> Any:
    return block.numbers


class Reading:
    """Points in their boxes, and how often each box was read."""

    def __init__(self, sweep: CreditsBySpace, points: Any, at_once: int = 7) -> None:
        self.held: list[list[Any]] = [[] for _ in range(sweep.n_parts)]
        self.times = np.zeros(sweep.n_parts, dtype=int)
        for start in range(0, len(points), at_once):
            some = points[start : start + at_once]
            for part, own in sweep.spread(Block(some, np.empty((len(some), 0), np.int64))):
                self.held[part].append(own)

    def __call__(self, part: int) -> list[Any]:
        self.times[part] += 1
        return self.held[part]


def counted(points: Any, radius: float, max_crowd: int, grades: int, **how: Any) -> int:
    boxes = boxes_around(points[:: how.pop("look_at", 1)], how.pop("n_parts"))
    names = tuple(f"c{axis}" for axis in range(points.shape[1]))
    sweep = CreditsBySpace(names, (), points_of, radius, max_crowd, grades, boxes, **how)
    read = Reading(sweep, points)
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


def test_a_box_reads_what_reaches_into_its_surroundings_and_holds_no_more_than_allowed(
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
    read = Reading(sweep, points, 500)
    total = sum(sweep.part(number, read) for number in range(16))
    assert total == int(graded_credits(points, 0.05, 3, 1).sum()) > 0
    assert read.times.min() >= 1
    assert read.times.sum() < 16 * 16 / 2  # boxes far away are not read
    assert max(held) <= 2000
    assert sum(held) < 2 * points.size  # what is around boxes is less than what is in them

    held.clear()
    heap = np.repeat(points[:4], 1000, axis=0)  # four places, and no box can part their copies
    sweep = CreditsBySpace(("x", "y"), (), points_of, 0.05, 1200, 1, boxes, 800)
    read = Reading(sweep, heap, 500)
    assert sum(sweep.part(number, read) for number in range(16)) == 4000
    assert max(held) <= 800


def test_boxes_cover_space_once() -> None:
    rng = np.random.default_rng(1)
    for points in (rng.normal(size=(50, 3)), np.zeros((5, 3)), np.empty((0, 3))):
        boxes = boxes_around(points, 8)
        somewhere = rng.normal(size=(200, 3)) * 3
        sweep = CreditsBySpace(("x", "y", "z"), (), points_of, 1.0, 1, 1, boxes)
        parts = list(sweep.spread(Block(somewhere, np.empty((200, 0), np.int64))))
        inside = [
            ((somewhere >= low) & (somewhere < high)).all(axis=1)
            for low, high in zip(boxes.low, boxes.high, strict=True)
        ]
        assert len(inside) == 8
        assert (np.sum(inside, axis=0) == 1).all()
        found = {part: points.tolist() for part, points in parts}
        assert sum(map(len, found.values())) == 200
        assert all(found[part] == somewhere[inside[part]].tolist() for part in found)


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
    sets = OutlierSubspaces(radius_per_column=0.05, max_crowd=3, epsilon=1, size=2)
    for query in (GradedCount(**asked), OutlierCount(**asked, noise="global"), sets):
        assert query.held_per_record(domain) == 0
        told = {str(query.answer(table, seeded(1)).to_json()) for table in (stored, memory)}
        assert len(told) == 1


# ---- points on disk, in their parts -------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
@settings(max_examples=20, deadline=None)
def test_spilled_points_are_read_in_their_parts_and_lie_in_no_folder(
    tmp_path_factory: pytest.TempPathFactory, added: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    expected: list[list[list[float]]] = [[] for _ in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilling, "WORTH_WRITING", 12)
        with SpilledParts(folder, 4) as parts:
            for place, (part, n) in enumerate(added):
                points = np.arange(2.0 * n).reshape(n, 2) + place
                parts.add(part, points)
                expected[part] += points.tolist()
            parts.finish()
            assert list(folder.iterdir()) == []
            assert os.fstat(parts._file.fileno()).st_mode & 0o077 == 0
            for _ in range(2):
                found = [
                    [one for some in parts.read(part) for one in some.tolist()] for part in range(4)
                ]
                assert found == expected


def stored_rows(folder: Path) -> tuple[RegisteredRows, CreditsBySpace, int]:
    """Rows on disk, how to count them by parts, and what they count."""
    points = np.random.default_rng(4).uniform(0, 9, (600, 2))
    domain = Domain((Numeric("x", 0, 9), Numeric("y", 0, 9)))
    rows = {"x": points[:, 0], "y": points[:, 1]}
    name, seal, _ = RowStore(folder).keep(rows, domain, size=SizeClass(IN_MEMORY + 1))
    sweep = CreditsBySpace(("x", "y"), (), points_of, 0.3, 3, 1, boxes_around(points, 8))
    return open_rows(folder / name, seal), sweep, int(graded_credits(points, 0.3, 3, 1).sum())


def test_stored_rows_are_read_once_for_all_parts_or_again_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, sweep, expected = stored_rows(tmp_path)
    read: list[int] = []
    blocks = StoredSource.read

    def counting(self: StoredSource, partition: int, *columns: Any) -> Any:
        read.append(partition)
        return blocks(self, partition, *columns)

    monkeypatch.setattr(StoredSource, "read", counting)
    before = sorted(rows.folder.iterdir())
    assert rows.sweep(sweep) == expected
    assert sorted(read) == list(range(rows.source.pieces))
    assert sorted(rows.folder.iterdir()) == before

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(SpilledParts, "_write", full)
    read.clear()
    assert rows.sweep(sweep) == expected
    assert len(read) > rows.source.pieces


KILLED = """
import os, signal, sys
from pathlib import Path
from privod.engines.spilling import SpilledParts
import numpy as np
parts = SpilledParts(Path(sys.argv[1]), 2)
parts.add(0, np.ones((1 << 16, 2)))
print(os.fstat(parts._file.fileno()).st_size, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_leaves_no_spilled_points(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert int(done.stdout) == 1 << 20  # it was on disk
    assert list(tmp_path.iterdir()) == []
