"""What an analyst gives meets rows in floating point: it is finite there, or refused before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli.app import app
from privod.curator import Curator
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.moments import product_sums
from privod.query.parameters import parameters_of
from privod.questions.mean_covariance.frame import Frame, half_ranges, radius_from
from privod.questions.mean_covariance.query import MeanCovariance
from privod.questions.mean_covariance.release import NoisyMoments
from tests.running_server import Running, running

DOMAIN = Domain((Numeric("age", 0, 100), Numeric("weight", 0, 200)))
PERSON = (37.0, 81.0)
MEANS = ((37 - 50) / 50, (81 - 100) / 100)
ROWS = {"age": [20.0, PERSON[0], 60.0], "weight": [50.0, PERSON[1], 90.0]}
LEAST = float(Frame.around(DOMAIN.numeric(), np.zeros(2, dtype=np.int64), 3).distance_ends[0])
WIDEST = 2 * 2**0.5
TOO_SMALL = (5e-324, 1e-310, 2.2e-305, 1e-150, float(np.nextafter(LEAST, 0)))
OUTSIDE = (*TOO_SMALL, 0.0, -1.0, float(np.nextafter(WIDEST, 4)), float("inf"), float("nan"))


def frame_of(radius: float) -> str:
    """A frame centered on one person's record, as an analyst may type it."""
    described = Frame(DOMAIN.numeric(), MEANS, 1.0).to_json()
    return json.dumps({**described, "radius": radius})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("frames"), data=False) as server:
        server.curator.register("stays", ROWS, DOMAIN)
        server.curator.open_budget("stays", AddRemove(), Loss(10))
        yield server


def test_the_center_of_the_attack_is_the_record_itself() -> None:
    assert Frame(DOMAIN.numeric(), MEANS, 1.0).centers.tolist() == list(PERSON)


@pytest.mark.parametrize("radius", OUTSIDE)
def test_a_radius_that_no_release_has_is_refused_with_the_accepted_range(radius: float) -> None:
    with pytest.raises(InvalidParameter) as refused:
        MeanCovariance(columns=DOMAIN.names, epsilon="0.01", frame=frame_of(radius))
    assert "frame" in str(refused.value)
    assert repr(LEAST) in str(refused.value)
    assert repr(WIDEST) in str(refused.value)


def test_the_attack_by_a_tiny_radius_is_refused_everywhere_and_charges_nothing(
    server: Running, tmp_path: Path
) -> None:
    asked = {"columns": list(DOMAIN.names), "epsilon": "0.01", "frame": frame_of(1e-310)}
    body = {"query": {"name": "mean-covariance", **asked}}
    with server.api(server.token("analyst")) as api:
        for verb in ("ask", "price"):
            answer = api.post(f"/datasets/stays/{verb}", json=body)
            assert answer.status_code == 422, answer.text
            assert repr(LEAST) in answer.text
    assert [str(budget.spent) for budget in server.curator.budget("stays")] == ["epsilon 0"]

    with Curator.open(tmp_path / "curator") as curator:
        curator.register("stays", ROWS, DOMAIN)
        curator.open_budget("stays", AddRemove(), Loss(10))
    given = ("columns=age,weight", "epsilon=0.01", f"frame={asked['frame']}")
    told = CliRunner().invoke(
        app,
        ["ask", "stays", "mean-covariance", *given],
        env={"PRIVOD_AT": str(tmp_path / "curator")},
    )
    assert isinstance(told.exception, InvalidParameter)
    assert repr(LEAST) in str(told.exception)
    with Curator.open(tmp_path / "curator") as curator:
        assert [str(budget.spent) for budget in curator.budget("stays")] == ["epsilon 0"]


def test_the_frames_of_releases_are_accepted_from_the_least_to_the_widest() -> None:
    wide = Frame.around(DOMAIN.numeric(), np.zeros(2, dtype=np.int64), 3)
    for place in range(len(wide.distance_ends)):
        counts = np.zeros(len(wide.distance_ends), dtype=np.int64)
        counts[place] = 100
        found = radius_from(wide, counts, 100)
        assert Frame.from_json(json.loads(found.text)) == found
        for n_columns in (1, 3, 7, 1000):
            columns = tuple(Numeric(f"x{number}", 0, 1) for number in range(n_columns))
            many = Frame.around(columns, np.zeros(n_columns, dtype=np.int64), 3)
            assert Frame.from_json(radius_from(many, counts, 100).to_json())


def test_a_release_with_a_radius_that_none_has_is_not_read() -> None:
    table = Table(DOMAIN, ROWS)
    value = MeanCovariance(columns=DOMAIN.names, epsilon=1).answer(table, seeded(0)).value
    data = value.to_json()
    for radius in OUTSIDE:
        with pytest.raises(InvalidData):
            NoisyMoments.from_json({**data, "frame": {**data["frame"], "radius": radius}})


@pytest.mark.parametrize("radius", TOO_SMALL)
def test_a_point_that_is_no_number_counts_as_zero_and_leaves_others_alone(radius: float) -> None:
    _, halves = half_ranges(DOMAIN.numeric())
    person = np.array([PERSON])
    others = np.array([[20.0, 50.0], [60.0, 90.0]])
    center = Frame(DOMAIN.numeric(), MEANS, 1.0).centers
    assert product_sums(person, center, halves, radius).tolist() == [0, 0, 0]
    with_them = product_sums(np.concatenate([others, person]), center, halves, radius)
    assert with_them.tolist() == product_sums(others, center, halves, radius).tolist()
    assert with_them.any()


def test_every_parameter_that_may_meet_rows_has_a_reason_why_that_is_finite() -> None:
    """A question with a new parameter of numbers or a description must say so on the page."""
    page = (Path(__file__).parent.parent / "docs" / "proofs" / "finite.md").read_text()
    told = {
        name for row in re.findall(r"^\| ([a-z_, ]+) \|", page, re.M) for name in row.split(", ")
    }
    asked = {
        parameter.name
        for kind in QUERIES.values()
        for parameter in parameters_of(kind)
        if parameter.kind in ("float", "number", "numbers", "records", "text", "json")
    }
    assert asked - {"epsilon", "delta"} <= told
