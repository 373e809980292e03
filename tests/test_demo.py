"""The demo asks every question of the catalog and writes one page that needs nothing else."""

from __future__ import annotations

# slow: left out by `make quick`
import re
from pathlib import Path

import pytest

from privod.cli.demo import demo
from privod.data.examples import HOSPITAL, hospital
from privod.demo.catalog import Demo, run
from privod.demo.story import tell
from privod.query.catalog import QUERIES
from privod.query.preview import noise_remark

COUNTS = ("histogram", "outlier-count", "outlier-subspaces", "anomaly-labels", "detector-profile")
ERROR = re.compile(r"with probability at most|95 % (confidence|intervals)")


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


def test_counts_and_labels_are_told_with_their_errors(shown: Demo) -> None:
    for step in shown.steps:
        if step.name in COUNTS:
            assert ERROR.search(step.sentence), step.sentence


def test_the_same_records_are_shown_under_both_ways_to_protect_them(shown: Demo) -> None:
    steps = [step for step in shown.steps if step.name == "anomaly-labels"][:2]
    assert [step.price.split()[-1] for step in steps] == ["(add-remove)", "(in-crowd)"]


def test_the_page_needs_nothing_from_elsewhere(shown: Demo) -> None:
    page = shown.html()
    assert page.count("<img") == len(shown.steps) + len(shown.budgets)
    assert 'src="http' not in page
    assert "<script" not in page
    assert "href" not in page


def test_the_demo_as_json_has_every_step(shown: Demo) -> None:
    assert len(shown.to_json()["steps"]) == len(shown.steps)


def test_the_terminal_names_every_budget_and_what_it_lost(
    shown: Demo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("privod.demo.catalog.run", lambda _: shown)
    demo(report=tmp_path / "report.html", everything=True)
    told = " ".join(capsys.readouterr().out.split())
    for budget in shown.budgets:
        assert budget.lines[0] in told
        assert "spent epsilon" in budget.lines[0]
    assert (tmp_path / "report.html").read_text() == shown.html()


def test_the_story_has_seven_parts_with_pictures_and_says_nothing_of_private_rows(
    tmp_path: Path,
) -> None:
    story = tell(tmp_path)
    assert len(story.chapters) == 7
    for chapter in story.chapters:
        assert chapter.lines
        assert b"<svg" in chapter.picture
    problem, detector, attack, *_, ledger = (" ".join(one.lines) for one in story.chapters)
    private, forest = (float(found) for found in re.findall(r": (0\.\d+)", detector)[:2])
    assert private > forest - 0.05
    assert int(re.search(r"right (\d+) %", attack)[1]) < 95  # type: ignore[index]
    assert "entries were verified" in ledger
    assert "20,000" in story.chapters[0].title
    assert "margin of error" in problem
    page = story.html()
    assert page.count("<img") == 7
    assert 'src="http' not in page
