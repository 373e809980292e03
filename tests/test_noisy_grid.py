"""NoisyGrid: scores, thresholds, merges and files made of a release alone."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData
from privod.mechanisms import secure, seeded
from privod.pictures import svg
from privod.pictures.scored import draw_map, draw_scored, draw_scores
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.scores import limit
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid

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
    scores = value.walk([[0.1, 0.1], [4.6, 4.6]], n_neighbors=20)
    for score in scores:
        assert score[0] < score[1]


@pytest.mark.parametrize("drop_below", [None, 6])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_the_threshold_flags_about_the_share_asked_for(
    drop_below: int | None, share: float
) -> None:
    scorer = grid_of(20_000, drop_below=drop_below).scorer(n_neighbors=20)
    flagged = scorer.scores(cloud(20_000, seed=1).numbers()) > scorer.threshold(share)
    assert scorer.hidden_share < 0.02
    assert share / 2 < flagged.mean() < share * 2


def normals(n: int, n_axes: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(Numeric(f"x{axis}", -5, 5) for axis in range(n_axes)))
    return Table(domain, {name: rng.normal(size=n) for name in domain.names})


@pytest.mark.parametrize("drop_below", [None, "auto"])
@pytest.mark.parametrize("n_axes", [2, 4, 6, 8])
def test_a_share_above_the_hidden_one_is_met_and_a_smaller_one_said_to_be_a_guess(
    n_axes: int, drop_below: Any
) -> None:
    table = normals(50_000, n_axes)
    query = GridKnn(
        columns=table.domain.names, epsilon=1, expected_records=50_000, drop_below=drop_below
    )
    scorer = query.answer(table, seeded(0)).value.scorer()
    fresh = scorer.scores(normals(20_000, n_axes, seed=1).numbers())
    hidden = scorer.hidden_share
    assert hidden < 0.3
    for share in (max(2 * hidden, 0.05), 0.5):
        flagged = (fresh > scorer.threshold(share)).mean()
        assert share / 2 < flagged < share * 2, (share, hidden, flagged)
    assert ("is a guess" in query.sentence(scorer.value)) is (hidden >= 0.02)


def test_records_in_dropped_cells_are_hidden_and_those_in_all_are_counted() -> None:
    table = normals(50_000, 6)
    query = GridKnn(columns=table.domain.names, epsilon=1, expected_records=50_000, drop_below=8)
    value = query.answer(table, seeded(0)).value
    assert abs(value.total - 50_000) < 1000
    assert value.hidden_share == pytest.approx(1 - value.counts.sum() / value.total)
    assert f"about {value.total:,} records in all (± 150)" in query.sentence(value)
    assert (
        "cannot be told from noise. A threshold for a smaller share is a guess"
        in query.sentence(value)
    )


@pytest.mark.parametrize(
    ("n_axes", "n_records", "cells"), [(30, 2000, None), (20, 3000, 2), (3, 2000, 100)]
)
def test_a_grid_of_noise_says_that_its_threshold_is_a_guess(
    n_axes: int, n_records: int, cells: int | None
) -> None:
    table = normals(n_records, n_axes)
    query = GridKnn(
        columns=table.domain.names,
        epsilon=1,
        cells_per_axis=cells,
        expected_records=n_records,
    )
    value = query.answer(table, seeded(0)).value
    assert value.hidden_share > 0.8
    assert "is a guess" in query.sentence(value)
    assert np.isfinite(value.threshold(0.1))


@pytest.mark.parametrize("count", [-(10**6), 0, 500, 10**15])
def test_a_total_far_off_breaks_nothing(count: int) -> None:
    value = grid_of(500, drop_below=3, expected_records=10**400)
    assert value.records is not None
    other = replace(value, records=replace(value.records, count=count))
    assert (other.hidden_share > 0.99) == (count == 10**15)
    sentence = GridKnn(columns=("x", "y"), epsilon=1).sentence(other)
    assert f"about {max(count, 0):,} records in all (± 150)" in sentence
    assert np.isfinite(other.threshold(0.1))


def test_noise_is_rarely_taken_for_records() -> None:
    hidden = [grid_of(0, seed, cells_per_axis=50).hidden_share for seed in range(30)]
    assert np.mean(np.array(hidden) == 1) > 0.85


def test_walks_for_a_threshold_end_however_much_noise_they_meet() -> None:
    value = grid_of(200, cells_per_axis=3000, drop_below=None)
    assert np.isfinite(value.scorer(n_neighbors=10**15).threshold(0.1))


def test_the_nearer_of_two_shares_is_taken_where_scores_come_in_steps() -> None:
    scores = np.array([0.0] * 80 + [1.0] * 15 + [2.0] * 5)
    found = [limit(scores, share) for share in (0.02, 0.04, 0.11, 0.13, 0.19)]
    assert found == [2.0, 1.0, 1.0, 0.0, 0.0]


def test_a_grid_of_nobody_has_scores_and_a_threshold() -> None:
    for drop_below in (None, 1, 50):
        value = grid_of(0, drop_below=drop_below)
        assert np.isfinite(value.threshold(0.1))
        assert np.isfinite(value.walk([[0.0, 0.0]]).graded).all()


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
        "import sys; from privod.questions.grid_knn.release import NoisyGrid;"
        f"grid = NoisyGrid.load({str(tmp_path / 'grid.privod')!r});"
        "print(grid.walk([[4.5, 4.5]]).basic[0]);"
        "print(any(name.startswith('privod.curator') for name in sys.modules))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    score, curator = said.stdout.split()
    assert float(score) == value.walk([[4.5, 4.5]]).basic[0]
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
    header = {**json.loads(parts["release.json"]), **changes}
    other = path.with_suffix(".other")
    with zipfile.ZipFile(other, "w") as file:
        for name, content in parts.items():
            file.writestr(name, json.dumps(header) if name == "release.json" else content)
    return other


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.privod"
    grid_of(300).save(path)
    with pytest.raises(InvalidData, match="version 2"):
        NoisyGrid.load(_tampered(path, version=2))
    with pytest.raises(InvalidData, match="do not fit"):
        NoisyGrid.load(_tampered(path, cells_per_axis=11))
    with pytest.raises(InvalidData, match="not a release of grid-knn that privod saved"):
        NoisyGrid.load(_tampered(path, columns=[{"name": "x"}]))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidData, match="not a release of grid-knn that privod saved"):
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
        with pytest.raises(InvalidData, match="damaged"):
            NoisyGrid.load(path)


def test_a_pickle_inside_a_file_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "grid.privod"
    value = grid_of(10)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "release.json", json.dumps({k: v for k, v in value.to_json().items() if k != "counts"})
        )
        with file.open("counts.npy", "w") as entry:
            np.lib.format.write_array(entry, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidData, match="not a release of grid-knn"):
        NoisyGrid.load(path)


@pytest.mark.parametrize("drop_below", [None, 3])
def test_merging_adds_up_counts_and_keeps_the_largest_loss(drop_below: int | None) -> None:
    first = grid_of(500, 1, drop_below=drop_below)
    second = grid_of(700, 2, epsilon="0.5", drop_below=drop_below)
    both = first.merge(second)
    assert both.total == first.total + second.total
    assert both.guarantee == Guarantee(Loss(1), AddRemove())
    assert both.walk([[0.0, 0.0]]).graded <= first.walk([[0.0, 0.0]]).graded
    if both.cells is not None:
        assert both.cells.tolist() == sorted(both.cells.tolist())
        assert len(both.cells) == len({tuple(row) for row in both.cells.tolist()})
    else:
        assert both.counts.tolist() == (first.counts + second.counts).tolist()
    assert first.merge() == first


def test_a_merged_grid_says_how_far_off_its_counts_are() -> None:
    parts = [grid_of(100, seed, epsilon="0.2") for seed in range(20)]
    merged = parts[0].merge(*parts[1:])
    records = sum(merged.grid.all_counts(cloud(100, seed).numbers()) for seed in range(20))
    margin = merged.noise.quantile(0.95)
    assert (np.abs(merged.counts - records) <= margin).mean() > 0.9
    assert (np.abs(merged.counts - records) <= parts[0].noise.quantile(0.95)).mean() < 0.6
    query = GridKnn(columns=("x", "y"), epsilon="0.2", cells_per_axis=10)
    assert f"margin of ± {margin} (95 %" in query.sentence(merged)


@pytest.mark.parametrize("epsilons", [(1, "0.5"), ("0.5", 1)])
@pytest.mark.parametrize("drop_below", [None, 3])
def test_a_merge_carries_the_noise_of_its_parts_into_files(
    tmp_path: Path, drop_below: int | None, epsilons: tuple[object, object]
) -> None:
    first, second = (grid_of(500, 1, epsilon=each, drop_below=drop_below) for each in epsilons)
    both = first.merge(second)
    least = Fraction(1) if drop_below is None else Fraction(50, 49)
    assert both.noise.parts == ((least, 1), (2 * least, 1))
    assert both.guarantee == Guarantee(Loss(1), AddRemove())
    if both.records is not None:
        assert both.records.noise.parts == ((Fraction(50), 1), (Fraction(100), 1))
        assert both.total == first.total + second.total
    both.save(tmp_path / "both.privod")
    assert NoisyGrid.load(tmp_path / "both.privod") == both
    assert NoisyGrid.from_json(json.loads(json.dumps(both.to_json()))) == both
    query = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=10)
    assert ("lack what merged parts dropped" in query.sentence(both)) == (drop_below is not None)


def test_grids_that_split_epsilon_differently_do_not_add_up() -> None:
    value = grid_of(500, drop_below=3)
    header = {"noise": [["2", 1]], "records": {"count": 500, "noise": [["2", 1]]}}
    half = NoisyGrid.from_json({**value.to_json(), **header})
    for first, second in ((value, half), (half, value)):
        with pytest.raises(InvalidData, match="merged only"):
            first.merge(second)


def test_merging_under_replace_keeps_the_promise() -> None:
    first = grid_of(500, 1, adjacency=Replace())
    assert first.merge(first).guarantee == Guarantee(Loss(1), Replace())


@pytest.mark.parametrize(
    "other",
    [{"cells_per_axis": 9}, {"drop_below": 3}, {"adjacency": Replace()}, {"columns": ("x",)}],
)
def test_grids_of_different_shape_do_not_add_up(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidData, match="merged only"):
        grid_of(10).merge(grid_of(10, **other))


def test_what_is_no_grid_does_not_add_up() -> None:
    with pytest.raises(InvalidData, match="merged only"):
        grid_of(10).merge(None)  # type: ignore[arg-type]


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
    for figure in (
        draw_scored(value.scorer(), points, np.arange(60), 0.1),
        draw_map(value.scorer(n_neighbors=2), 0.1),
        draw_scores(value.scores(points), value.threshold(0.1)),
        draw_scores(value.scores(points), None),
    ):
        assert svg(figure).lstrip().startswith(b"<?xml")
