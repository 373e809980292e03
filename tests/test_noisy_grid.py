"""NoisyGrid: scores, thresholds, merges and files made of a release alone."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData
from privod.mechanisms import secure, seeded
from privod.pictures import svg
from privod.pictures.grid_knn import draw_quality, draw_score_histogram, draw_scored
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.queries.grid_knn import GridKnn
from privod.queries.noisy_grid import NoisyGrid

DOMAIN = Domain((Numeric("x", -5, 5), Numeric("y", -5, 5)))


def cloud(n: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    return Table(DOMAIN, {"x": rng.normal(size=n), "y": rng.normal(size=n)})


def grid_of(n: int, seed: int = 0, **parameters: object) -> NoisyGrid:
    asked = {"columns": ("x", "y"), "epsilon": 1, "cells_per_axis": 10, **parameters}
    return GridKnn(**asked).answer(cloud(n, seed), seeded(seed)).value  # type: ignore[arg-type]


@pytest.mark.parametrize("drop_below", [None, 6])
def test_far_points_score_higher_by_every_score(drop_below: int | None) -> None:
    value = grid_of(2000, drop_below=drop_below)
    scores = value.scores([[0.1, 0.1], [4.6, 4.6]], n_neighbors=20)
    for score in scores:
        assert score[0] < score[1]


@pytest.mark.parametrize("drop_below", [None, 6])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_threshold_flags_about_the_share_asked_for(
    drop_below: int | None, share: float
) -> None:
    value = grid_of(20_000, drop_below=drop_below)
    limit = value.threshold(share, n_neighbors=20).graded[0]
    fresh = cloud(20_000, seed=1).numbers()
    flagged = (value.scores(fresh, n_neighbors=20).graded > limit).mean()
    assert share / 3 < flagged < share * 2


def test_the_threshold_of_many_cells_is_taken_over_a_sample_of_them() -> None:
    value = grid_of(50_000, cells_per_axis=100)
    limit = value.threshold(0.1, n_neighbors=20).graded[0]
    flagged = (value.scores(cloud(2000, seed=1).numbers(), n_neighbors=20).graded > limit).mean()
    assert 0.02 < flagged < 0.3


def test_a_grid_of_nobody_has_scores_and_a_threshold() -> None:
    for drop_below in (None, 1, 50):
        value = grid_of(0, drop_below=drop_below)
        assert np.isfinite(value.threshold(0.1).basic).all()
        assert np.isfinite(value.scores([[0.0, 0.0]]).graded).all()


@pytest.mark.parametrize("drop_below", [None, 3])
def test_a_saved_grid_is_read_back_equal(tmp_path: Path, drop_below: int | None) -> None:
    value = grid_of(300, drop_below=drop_below)
    value.save(tmp_path / "grid.privod")
    again = NoisyGrid.load(tmp_path / "grid.privod")
    assert again == value
    assert again.seeded
    assert again.guarantee == Guarantee(Loss(1), AddRemove())
    assert NoisyGrid.from_json(json.loads(json.dumps(value.to_json()))) == value


def test_a_saved_grid_is_used_without_curator_or_data(tmp_path: Path) -> None:
    value = grid_of(300)
    value.save(tmp_path / "grid.privod")
    program = (
        "import sys; from privod.queries.noisy_grid import NoisyGrid;"
        f"grid = NoisyGrid.load({str(tmp_path / 'grid.privod')!r});"
        "print(grid.scores([[4.5, 4.5]]).basic[0]);"
        "print(any(name.startswith('privod.curator') for name in sys.modules))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    score, curator = said.stdout.split()
    assert float(score) == value.scores([[4.5, 4.5]]).basic[0]
    assert curator == "False"


def test_no_bytes_of_the_rows_are_in_the_file(tmp_path: Path) -> None:
    table = cloud(200)
    value = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=10).answer(table, secure()).value
    value.save(tmp_path / "grid.privod")
    with zipfile.ZipFile(tmp_path / "grid.privod") as file:
        content = b"".join(file.read(name) for name in file.namelist())
    for row in table.numbers():
        assert row.tobytes() not in content
        assert row[:1].tobytes() not in content


def _tampered(path: Path, **changes: object) -> Path:
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = {**json.loads(parts["grid.json"]), **changes}
    other = path.with_suffix(".other")
    with zipfile.ZipFile(other, "w") as file:
        for name, content in parts.items():
            file.writestr(name, json.dumps(header) if name == "grid.json" else content)
    return other


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.privod"
    grid_of(300).save(path)
    with pytest.raises(InvalidData, match="version 2"):
        NoisyGrid.load(_tampered(path, version=2))
    with pytest.raises(InvalidData, match="do not fit"):
        NoisyGrid.load(_tampered(path, cells_per_axis=11))
    with pytest.raises(InvalidData, match="not a grid that privod saved"):
        NoisyGrid.load(_tampered(path, columns=[{"name": "x"}]))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidData, match="not a grid that privod saved"):
        NoisyGrid.load(tmp_path / "text")
    sparse = grid_of(300, drop_below=3)
    assert sparse.cells is not None
    for broken in (
        replace(sparse, cells=sparse.cells[::-1].copy(), counts=sparse.counts[::-1].copy()),
        replace(sparse, counts=sparse.counts - 100),
        replace(sparse, cells=sparse.cells + 100),
        replace(sparse, cells=None),
    ):
        broken.save(path)
        with pytest.raises(InvalidData, match="do not fit"):
            NoisyGrid.load(path)


def test_a_pickle_inside_a_file_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "grid.privod"
    value = grid_of(10)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "grid.json", json.dumps({k: v for k, v in value.to_json().items() if k != "counts"})
        )
        with file.open("counts.npy", "w") as entry:
            np.lib.format.write_array(entry, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidData, match="not a grid"):
        NoisyGrid.load(path)


@pytest.mark.parametrize("drop_below", [None, 3])
def test_merging_adds_up_counts_and_keeps_the_largest_loss(drop_below: int | None) -> None:
    first = grid_of(500, 1, drop_below=drop_below)
    second = grid_of(700, 2, epsilon="0.5", drop_below=drop_below)
    both = first.merge(second)
    assert both.total == first.total + second.total
    assert both.guarantee == Guarantee(Loss(1), AddRemove())
    assert both.scores([[0.0, 0.0]]).graded <= first.scores([[0.0, 0.0]]).graded
    if both.cells is not None:
        assert both.cells.tolist() == sorted(both.cells.tolist())
        assert len(both.cells) == len({tuple(row) for row in both.cells.tolist()})
    else:
        assert both.counts.tolist() == (first.counts + second.counts).tolist()
    assert first.merge() == first


def test_merging_under_replace_keeps_the_promise() -> None:
    first = grid_of(500, 1, adjacency=Replace())
    assert first.merge(first).guarantee == Guarantee(Loss(1), Replace())


@pytest.mark.parametrize(
    "other",
    [{"cells_per_axis": 9}, {"drop_below": 3}, {"adjacency": Replace()}, {"columns": ("x",)}],
)
def test_grids_of_different_shape_do_not_add_up(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidData, match="add up only"):
        grid_of(10).merge(grid_of(10, **other))


def test_a_merge_with_a_seeded_grid_is_marked() -> None:
    secret = (
        GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=10).answer(cloud(9), secure()).value
    )
    assert not secret.seeded
    assert secret.merge(grid_of(9)).seeded


@pytest.mark.parametrize("drop_below", [None, 3])
def test_scored_records_and_their_scores_can_be_drawn(drop_below: int | None) -> None:
    value = grid_of(500, drop_below=drop_below)
    points = cloud(60, seed=3).numbers()
    scores = value.scores(points).graded
    limit = float(value.threshold(0.1).graded[0])
    curves = {"grid": ([0.1, 1.0], [0.6, 0.8], [0.1, 0.05])}
    for figure in (
        draw_scored(value, points),
        draw_score_histogram(scores, limit),
        draw_quality("Quality against epsilon", curves),
    ):
        assert svg(figure).lstrip().startswith(b"<?xml")
