"""The demo asks every question of the catalog and writes one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from privod.data.examples import HOSPITAL
from privod.demo import Demo, run
from privod.queries.catalog import QUERIES


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run(Path(tmp_path_factory.mktemp("demo")))


def test_every_question_of_the_catalog_appears(shown: Demo) -> None:
    asked = [step.name for step in shown.steps]
    for name, kind in QUERIES.items():
        assert asked.count(name) == len(kind.examples(HOSPITAL))


def test_every_answer_has_a_sentence_a_promise_a_price_and_a_picture(shown: Demo) -> None:
    for step in shown.steps:
        assert step.sentence.endswith(".")
        assert step.promise.endswith(".")
        assert "epsilon" in step.price
        assert b"<svg" in step.picture


def test_the_page_needs_nothing_from_elsewhere(shown: Demo) -> None:
    page = shown.html()
    assert page.count("<img") == len(shown.steps) + len(shown.budgets)
    assert 'src="http' not in page
    assert "<script" not in page
    assert "href" not in page


def test_the_demo_as_json_has_every_step(shown: Demo) -> None:
    assert len(shown.to_json()["steps"]) == len(shown.steps)
