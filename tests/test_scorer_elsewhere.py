"""A detector of another package is scored, saved, loaded and merged like ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter
from privod.estimators import QuestionDetector
from privod.mechanisms import secure, seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import query_from_json
from privod.query.saved import read_saved, read_scorable
from privod.query.scorer import Scorable, Scorer
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.histogram.query import Histogram
from privod.server.views.pages import answer_path
from tests.odd import odd
from tests.running_server import running

__all__ = ["odd"]  # a fixture

pytestmark = pytest.mark.usefixtures("odd")
DOMAIN = Domain((Numeric("age", 0, 100),))
ASKED = {"name": "odd-detector", "column": "age", "epsilon": "200"}
AGES = np.random.default_rng(0).normal(40, 5, 500)


@pytest.fixture
def value() -> Any:
    return query_from_json(ASKED).answer(Table(DOMAIN, {"age": AGES}), secure()).value


def test_it_is_scored_by_the_command_line(value: Any, tmp_path: Path) -> None:
    value.save(tmp_path / "odd.privod")
    (tmp_path / "new.csv").write_text("age\n41\n99\n")
    asked = ["score", str(tmp_path / "new.csv"), "--release", str(tmp_path / "odd.privod")]
    picture = tmp_path / "scores.svg"
    found = CliRunner().invoke(app, [*asked, "--json", "--picture", str(picture)])
    told = json.loads(found.stdout)
    assert told["scores"] == value.scores([[41.0], [99.0]]).tolist()
    assert told["stands_out"] == [False, True]
    assert told["limit"] == pytest.approx(45)
    assert picture.read_bytes().lstrip().startswith(b"<?xml")
    for wrong, rule in (("--why", "explains its scores"), ("--set=depth=3", "is no setting of")):
        refused = CliRunner().invoke(app, [*asked, wrong])
        assert isinstance(refused.exception, InvalidParameter)
        assert rule in str(refused.exception)


def test_a_release_without_a_threshold_orders_records_and_flags_none(tmp_path: Path) -> None:
    query = query_from_json({**ASKED, "orders": True})
    release = query.answer(Table(DOMAIN, {"age": AGES}), secure())
    release.value.save(tmp_path / "odd.privod")
    (tmp_path / "new.csv").write_text("age\n41\n99\n")
    asked = ["score", str(tmp_path / "new.csv"), "--release", str(tmp_path / "odd.privod")]
    files = ["--out", str(tmp_path / "s.csv"), "--picture", str(tmp_path / "s.svg")]
    scored = json.loads(CliRunner().invoke(app, [*asked, *files, "--json"]).stdout)
    assert scored["stands_out"] is None
    assert scored["limit"] is None
    assert scored["scores"][1] == max(scored["scores"])
    assert (tmp_path / "s.csv").read_text().startswith("row,score\n")
    assert (tmp_path / "s.svg").stat().st_size > 0
    told = CliRunner().invoke(app, asked).stdout.replace("\n", " ")
    assert "2 records in order. This release knows no score" in told


def test_it_is_saved_loaded_and_merged(value: Any, tmp_path: Path) -> None:
    value.save(tmp_path / "odd.privod")
    assert read_saved(tmp_path / "odd.privod") == value
    assert type(value).from_json(json.loads(json.dumps(value.to_json()))) == value
    other = query_from_json(ASKED).answer(Table(DOMAIN, {"age": AGES[:9]}), seeded(0)).value
    both = value.merge(other)
    assert both.sums.tolist() == (value.sums + other.sums).tolist()
    assert both.noise.n_draws == 2
    assert both.seeded
    assert both.guarantee == value.guarantee
    scorer: Scorer[Any] = value.scorer().merge(other.scorer())
    assert scorer.value == both
    assert scorer.guarantee == both.guarantee
    assert scorer.explain([[1.0]]) is None
    elsewhere = Domain((Numeric("age", 0, 120),))
    far = query_from_json(ASKED).answer(Table(elsewhere, {"age": AGES}), secure()).value
    with pytest.raises(InvalidData, match="merged only"):
        value.merge(far)


@pytest.mark.parametrize("orders", [False, True])
def test_it_is_scored_in_the_console(tmp_path: Path, orders: bool) -> None:
    query = query_from_json({**ASKED, "orders": orders})
    with running(tmp_path, data=False) as server:
        server.curator.register("people", {"age": AGES}, DOMAIN)
        server.curator.open_budget("people", AddRemove(), Loss(1000))
        server.curator.ask(query, "people")
        with server.browser(server.token("analyst")) as analyst:
            page = analyst.post(answer_path("people", query), records="age\n41\n99\n")
    found = re.findall(r'<td class="number">(\d+)</td><td class="number">', page.text)
    assert found == ["2", "1"], "the far record comes first"
    assert (">stands out</td>" in page.text) == (not orders)
    assert ("This answer orders records" in page.text) == orders


def test_an_estimator_and_a_pipeline_take_it(value: Any, tmp_path: Path) -> None:
    query = query_from_json({**ASKED, "column": "x0"})
    detector = QuestionDetector(query, bounds=(0, 100))
    assert clone(detector).promised() == query.guarantee()
    rows = AGES[:, None]
    fitted = make_pipeline(FunctionTransformer(), detector).fit(rows)
    assert fitted.predict([[41.0], [99.0]]).tolist() == [1, -1]
    assert detector.guarantee_ == query.guarantee()
    grown = detector.partial_fit(rows[:50])
    assert grown.release_.value.noise.n_draws == 2
    released = query_from_json(ASKED).release(value, secure())
    (tmp_path / "odd.json").write_text(json.dumps(released.to_json()))
    read = QuestionDetector.from_release(tmp_path / "odd.json", contamination=0.5)
    assert read.offset_ == -value.threshold(0.5)
    assert (-read.score_samples([[41.0]])).tolist() == value.scores([[41.0]]).tolist()


def test_what_cannot_score_is_refused(tmp_path: Path) -> None:
    table = Table(DOMAIN, {"age": AGES})
    release = Histogram(columns=("age",), epsilon=1).answer(table, secure())
    (tmp_path / "h.json").write_text(json.dumps(release.to_json()))
    with pytest.raises(InvalidParameter, match=r"can score records.*odd-detector"):
        read_scorable(tmp_path / "h.json")
    with pytest.raises(InvalidParameter, match="that scores records"):
        QuestionDetector.from_release(release)
    for query in (None, release.query):
        with pytest.raises(InvalidParameter, match="whose release scores records"):
            QuestionDetector(query, bounds=(0, 1)).fit(AGES[:, None])


def test_a_question_of_ours_is_an_estimator_too() -> None:
    query = DetectorProfile(columns=("x0",), epsilon=3)
    # With fresh noise it misses the far record once in ten thousand times.
    detector = QuestionDetector(query, bounds=(0, 100), random_state=0).fit(AGES[:, None])
    assert isinstance(detector.release_.value, Scorable)
    assert detector.predict([[99.0]]).tolist() == [-1]
