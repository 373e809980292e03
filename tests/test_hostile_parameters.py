"""What an analyst gives meets rows in floating point: it is finite there, or refused before."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from privod.questions.detector_profile.layout import LARGEST_END, LEAST_SCALE, Layout
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.detector_profile.release import NoisyProfile
from privod.questions.histogram.query import Histogram
from privod.questions.outlier_count.query import OutlierCount
from tests.running_server import Running, running

DOMAIN = Domain((Numeric("age", 0, 100), Numeric("weight", 0, 200)))
PERSON = (37.0, 81.0)
ROWS = {"age": [20.0, PERSON[0], 60.0], "weight": [50.0, PERSON[1], 90.0]}
TOO_SMALL = (5e-324, 1e-310, 2.2e-305, float(np.nextafter(LEAST_SCALE, 0)))
OUTSIDE = (*TOO_SMALL, 0.0, -1.0, float(np.nextafter(LARGEST_END, np.inf)), np.inf, np.nan)


def layout_of(**changed: Any) -> str:
    """Cells and scales centered on one person's record, as an analyst may type them."""
    described = Layout(DOMAIN.columns, ((0, 100), (0, 200)), 4, PERSON, (1.0, 1.0)).to_json()
    return json.dumps({**described, **changed})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("layouts"), data=False) as server:
        server.curator.register("stays", ROWS, DOMAIN)
        server.curator.open_budget("stays", AddRemove(), Loss(10))
        yield server


@pytest.mark.parametrize("scale", OUTSIDE)
def test_a_scale_that_no_release_has_is_refused_with_the_accepted_range(scale: float) -> None:
    with pytest.raises(InvalidParameter) as refused:
        DetectorProfile(columns=DOMAIN.names, epsilon=1, layout=layout_of(scales=[1.0, scale]))
    assert "layout" in str(refused.value)
    assert repr(LEAST_SCALE) in str(refused.value)
    assert repr(LARGEST_END) in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"score_unit": 5e-324},
        {"score_unit": 1e300},
        {"centers": [1e200, 0.0]},
        {"ranges": [[0, 1e300], [0, 1]]},
        {"ranges": [[0, 5e-324], [0, 1]]},
    ],
)
def test_every_other_number_of_a_layout_has_its_ends(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="layout"):
        DetectorProfile(columns=DOMAIN.names, epsilon=1, layout=layout_of(**changed))


def test_the_attack_by_a_tiny_scale_is_refused_everywhere_and_charges_nothing(
    server: Running, tmp_path: Path
) -> None:
    asked = {
        "columns": list(DOMAIN.names),
        "epsilon": "0.01",
        "layout": layout_of(scales=[5e-324, 5e-324]),
    }
    body = {"query": {"name": "detector-profile", **asked}}
    with server.api(server.token("analyst")) as api:
        for verb in ("ask", "price"):
            answer = api.post(f"/datasets/stays/{verb}", json=body)
            assert answer.status_code == 422, answer.text
            assert repr(LEAST_SCALE) in answer.text
    assert [str(budget.spent) for budget in server.curator.budget("stays")] == ["epsilon 0"]

    with Curator.open(tmp_path / "curator") as curator:
        curator.register("stays", ROWS, DOMAIN)
        curator.open_budget("stays", AddRemove(), Loss(10))
    given = ("columns=age,weight", "epsilon=0.01", f"layout={asked['layout']}")
    told = CliRunner().invoke(
        app,
        ["ask", "stays", "detector-profile", *given],
        env={"PRIVOD_AT": str(tmp_path / "curator")},
    )
    assert isinstance(told.exception, InvalidParameter)
    assert repr(LEAST_SCALE) in str(told.exception)
    with Curator.open(tmp_path / "curator") as curator:
        assert [str(budget.spent) for budget in curator.budget("stays")] == ["epsilon 0"]


def test_a_release_with_a_scale_that_none_has_is_not_read() -> None:
    asked = DetectorProfile(columns=DOMAIN.names, epsilon=1, layout=layout_of())
    data = asked.answer(Table(DOMAIN, ROWS), seeded(0)).value.to_json()
    assert NoisyProfile.from_json(data)
    for scale in OUTSIDE:
        layout = {**data["layout"], "scales": [1.0, scale]}
        with pytest.raises(InvalidData):
            NoisyProfile.from_json({**data, "layout": layout})


@pytest.mark.parametrize("scale", TOO_SMALL)
def test_a_point_that_is_no_number_counts_as_zero_and_leaves_others_alone(scale: float) -> None:
    """What is refused above would tell nothing all the same."""
    person, scales = np.array([PERSON]), np.full(2, scale)
    others = np.array([[20.0, 50.0], [60.0, 90.0]])
    assert product_sums(person, person[0], scales, 1.0).tolist() == [0, 0, 0]
    with_them = product_sums(np.concatenate([others, person]), person[0], scales, 1.0)
    assert with_them.tolist() == product_sums(others, person[0], scales, 1.0).tolist()
    assert with_them.any()


WILD = (5e-324, 1e-310, 2.0**-501, 1e-60, 1e-7, -0.0, 1.7e308, 10**29, 2**63, 10**400, True, 37.0)


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_priced_can_be_answered_whatever_number_is_given(name: str) -> None:
    """A tiny delta, or share of epsilon, was priced, charged, and then failed for ever."""
    kind, table = QUERIES[name], Table(DOMAIN, ROWS)
    asked = [(query, key) for query in kind.examples(DOMAIN) for key in query.parameters()]
    for (query, key), value in itertools.product(asked, WILD):
        try:
            found = kind.from_parameters({**query.parameters(), key: value})
            found.check(DOMAIN)
            found.statements(DOMAIN)
        except (InvalidParameter, InvalidData):
            continue
        if max(found.most_numbers(DOMAIN, 3), found.work(DOMAIN, 3) / 10**4) < 10**4:
            assert found.answer(table, seeded(0)).value is not None


@pytest.mark.parametrize("name", ["outlier-count", "outlier-subspaces"])
def test_a_tiny_delta_is_refused_with_the_accepted_range(name: str, server: Running) -> None:
    for query in QUERIES[name].examples(DOMAIN):
        wrong = {"query": {**query.to_json(), "delta": 1e-310}}
        with server.api(server.token("analyst")) as api:
            answer = api.post("/datasets/stays/price", json=wrong)
        assert answer.status_code == 422, answer.text
        assert "10^-60" in answer.text or "no counts are bought" in answer.text
    assert [str(budget.spent) for budget in server.curator.budget("stays")] == ["epsilon 0"]


@pytest.mark.parametrize("epsilon", ["1e-300", "1e-30", "1e-12"])
def test_an_epsilon_too_small_for_any_noise_is_refused(epsilon: str) -> None:
    """Searches for the least noise end in floats: at infinity, or at a growth of 1."""
    crowd: dict[str, Any] = {"radius": 1, "max_crowd": 3, "epsilon": epsilon, "columns": ("age",)}
    for noise, delta in itertools.product(("auto", "gaussian"), ("1e-30", "1/2")):
        with pytest.raises(InvalidParameter, match=r"epsilon|noise beyond 2\^40"):
            OutlierCount(**{**crowd, "noise": noise, "delta": delta}).check(DOMAIN)
    asked = {"columns": "age", "epsilon": epsilon, "noise": "gaussian", "delta": "1e-30"}
    with pytest.raises(InvalidParameter, match="epsilon"):
        Histogram.from_parameters(asked).guarantee()


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
