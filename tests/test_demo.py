"""The demo asks every question of the catalog and writes one page that needs nothing else."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from privod.data.examples import HOSPITAL, hospital
from privod.demo import Demo, headline, run
from privod.queries.catalog import QUERIES
from privod.queries.preview import noise_remark

WIDTH, LINES = 64, 48  # of the sentences on a terminal, where prices stand beside them


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return run(Path(tmp_path_factory.mktemp("demo")))


def test_every_question_of_the_catalog_appears(shown: Demo) -> None:
    asked = [step.name for step in shown.steps]
    for name, kind in QUERIES.items():
        assert asked.count(name) == len(kind.examples(HOSPITAL))


@pytest.mark.parametrize("name", QUERIES)
def test_no_example_is_asked_at_an_epsilon_at_which_its_answer_is_mostly_noise(name: str) -> None:
    for query in QUERIES[name].examples(HOSPITAL):
        assert noise_remark(query, HOSPITAL, len(hospital())) == ""


def test_every_answer_has_a_sentence_a_promise_a_price_and_a_picture(shown: Demo) -> None:
    for step in shown.steps:
        assert step.sentence.endswith(".")
        assert step.promise.endswith(".")
        assert "epsilon" in step.price
        assert b"<svg" in step.picture


def test_the_first_screen_has_a_short_sentence_and_a_price_for_each_question(shown: Demo) -> None:
    lines = shown.first_screen()
    assert len(lines) == len({step.name for step in shown.steps})
    assert sum(len(textwrap.wrap(told, WIDTH)) for told, _ in lines) <= LINES
    for told, price in lines:
        assert told.endswith(".")
        assert price.startswith("epsilon ")


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        (
            "About 5 stand apart in age: at most 3 lie near; right to within 2.",
            "About 5 stand apart in age.",
        ),
        (
            "They lie within: age from 0 to 9.5, b from 1 to 2.",
            "They lie within: age from 0 to 9.5, b from 1 to 2.",
        ),
        ("One. Two.", "One."),
    ],
)
def test_a_headline_ends_where_the_explanation_begins(sentence: str, short: str) -> None:
    assert headline(sentence) == short


def test_the_page_needs_nothing_from_elsewhere(shown: Demo) -> None:
    page = shown.html()
    assert page.count("<img") == len(shown.steps) + len(shown.budgets)
    assert 'src="http' not in page
    assert "<script" not in page
    assert "href" not in page


def test_the_demo_as_json_has_every_step(shown: Demo) -> None:
    assert len(shown.to_json()["steps"]) == len(shown.steps)
