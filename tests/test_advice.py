"""Advice is read off a release: free, offline, and near the truth where the grid is good."""

from __future__ import annotations

# slow: left out by `make quick`
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data.examples import HOSPITAL, hospital
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.query.crowd_bounds import count_outliers
from privod.query.distances import Distances
from privod.questions.grid_knn.advice import CANDIDATE_RADII, advise_radius
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_radius.query import OutlierRadius

COLUMNS = ("heart_rate", "pressure")


def released(n: int = 20_000) -> NoisyGrid:
    query = GridKnn(columns=COLUMNS, cells_per_axis=40, epsilon=2, drop_below=None)
    return query.answer(hospital(n), seeded(1)).value


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_the_radius_advised_leaves_about_the_share_asked_for(share: float) -> None:
    """To within a factor of 3 of the truth, which the next candidate moves by nearly 2."""
    found = advise_radius(released(), share, max_crowd=5)
    points = Distances.over(HOSPITAL, COLUMNS, "range", ()).points(hospital(20_000))
    truth = count_outliers(points, found.radius, 5) / 20_000
    assert share / 3 <= truth <= share * 3
    assert found.columns == COLUMNS


def test_the_curve_falls_with_the_radius_and_has_the_ladder_of_the_bought_radius() -> None:
    found = advise_radius(released(2000), 0.05, max_crowd=5)
    radii, shares = zip(*found.curve, strict=True)
    assert radii == CANDIDATE_RADII
    assert list(shares) == sorted(shares, reverse=True)
    bought = OutlierRadius(share="0.05", max_crowd=5, epsilon=1).radii
    assert np.allclose(CANDIDATE_RADII, bought, rtol=0.01)


def test_what_is_no_share_or_no_crowd_is_told() -> None:
    grid = released(100)
    with pytest.raises(InvalidParameter, match="share must lie between"):
        advise_radius(grid, 1.5, 5)
    with pytest.raises(InvalidParameter, match="max_crowd must be at least 1"):
        advise_radius(grid, 0.1, 0)


def test_the_command_line_advises_and_says_what_to_ask_next(tmp_path: Path) -> None:
    path = tmp_path / "grid.privod"
    released(3000).save(path)
    shown = CliRunner().invoke(app, ["advise", str(path), "--share", "0.05"])
    assert shown.exit_code == 0
    assert "graded-count columns=heart_rate,pressure radius=" in " ".join(shown.stdout.split())
    told = json.loads(CliRunner().invoke(app, ["advise", str(path), "--json"]).stdout)
    assert told["radius"] in CANDIDATE_RADII
    wards = Histogram(columns=("ward",), epsilon=1).answer(hospital(50), seeded(1))
    other = tmp_path / "wards.json"
    other.write_text(json.dumps(wards.to_json()))
    assert CliRunner().invoke(app, ["advise", str(other)]).exit_code != 0
