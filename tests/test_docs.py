"""The documentation is true: its Python runs, its commands exist, every question has its page."""

from __future__ import annotations

# slow: left out by `make quick`
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pandas
import pytest
from click.testing import CliRunner, Result
from scripts.docs_hooks import parameter_table, question_table, run_example
from typer.main import get_command

from privod.cli import app
from privod.curator import Curator
from privod.data.examples import HOSPITAL, hospital
from privod.estimators import PrivateDetector
from privod.mechanisms import seeded
from privod.query.catalog import QUERIES
from privod.query.preview import worth
from privod.questions.graded_count.query import GradedCount
from privod.registry import questions

ROOT = Path(__file__).parent.parent
COMMANDS: Any = get_command(app)  # once: building it takes longer than reading a page
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

INDEX = (ROOT / "docs" / "questions" / "index.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [
    page for page in sorted((ROOT / "docs" / "questions").glob("*.md")) if page.stem != "index"
]
RUNNING = ["README.md", "docs/outliers.md", "docs/tutorial.md", "docs/start.md"]
TWICE = ["README.md", "docs/start.md"]  # the first pages that people try, and try again
RUNNING += [f"docs/questions/{page.name}" for page in GUIDES]


@pytest.mark.parametrize("name", RUNNING)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(
        f"p{place},{20 + place},{60 + place},{'ABC'[place % 3]}\n" for place in range(30)
    )
    (tmp_path / "patients.csv").write_text(f"patient_id,age,weight,ward\n{rows}")
    text = (ROOT / name).read_text()
    blocks = PYTHON.findall(text)
    assert blocks
    names: dict[str, object] = {}
    for _ in range(2 if name in TWICE else 1):
        exec("\n".join(blocks), names)  # noqa: S102 - our own pages
    assert "release" in names or "<!-- privod:example -->" not in text  # the site shows it


def typed_into(words: list[str], **options: Any) -> Result:
    return CliRunner().invoke(COMMANDS, words, **options)


def typed_in(text: str) -> Iterator[list[str]]:
    """What a page types into a shell: the words after each `privod`, in blocks and in sentences."""
    blocks = "\n".join(block for kind, block in FENCED.findall(text) if not kind)
    lines = blocks.replace("\\\n", " ").splitlines()
    for line in [*lines, *INLINE.findall(FENCED.sub("", text))]:
        typed = re.match(r"(?:.*[\s(])?privod +(?!import )([a-z][a-z-]*(?: .*)?)$", line)
        if typed:
            yield re.split(r"[\s|)=]+", typed.group(1).partition(" #")[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_a_page_types_exists(page: Path) -> None:
    for words in typed_in(page.read_text()):
        command = COMMANDS
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not getattr(command, "commands", {}), words
        known = {option for each in command.params for option in each.opts}
        typed = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
        assert typed <= known | {"--help"}, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_sentence_says_of_commands_alone_that_they_print(page: Path) -> None:
    """Wherever a name alone stands for a command, without `privod` before it."""
    commands = set(COMMANDS.commands)
    said = re.findall(r"`(?:privod )?([a-z][a-z-]*)`\s+prints\b", FENCED.sub("", page.read_text()))
    assert set(said) <= commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_script_and_test_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:tests|benchmarks|scripts)/[a-z_/]+\.py)`", page.read_text())
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_no_two_commands_have_one_name() -> None:
    def named(typer: Any) -> list[str]:
        return [one.name or one.callback.__name__ for one in typer.registered_commands]

    for group in (app, *(one.typer_instance for one in app.registered_groups)):
        assert group is not None
        assert len(named(group)) == len(set(named(group)))


@pytest.mark.parametrize("name", list(questions()))
def test_every_question_has_a_page_with_all_its_parts(name: str) -> None:
    described = questions()[name]
    text = (ROOT / "docs" / described.guide).read_text()
    for part in ("What it guarantees", "How wrong it can be", "Parameters", "```python"):
        assert part in text
    assert f"(../{described.proof})" in text
    assert f"| [{name}]({Path(described.guide).name}) |" in INDEX  # a row of the decision table
    assert (ROOT / "docs" / described.proof).is_file()


def test_what_the_site_adds_to_a_page_comes_from_the_code() -> None:
    assert "`epsilon`" in parameter_table(QUERIES["histogram"])
    for name in questions():
        assert f"[{name}](" in question_table()
    printed, release = run_example((ROOT / "docs/questions/histogram.md").read_text())
    assert printed == release.sentence() + "\n"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_what_a_page_types_in_the_shell_is_read(page: Path) -> None:
    """Every `privod ask` and `privod guarantee`, by the shell's rules, up to what it promises."""
    variables: dict[str, str] = {}
    typed = 0
    for block in (text for kind, text in FENCED.findall(page.read_text()) if not kind):
        for line in block.splitlines():
            assigned = re.match(r"([A-Z]+)=\$'(.*)'$", line)
            if assigned:
                variables[assigned.group(1)] = assigned.group(2).replace("\\n", "\n")
            words = shlex.split(line)
            if words[:2] not in (["privod", "ask"], ["privod", "guarantee"]):
                continue
            for variable, value in variables.items():
                words = [word.replace(f"${variable}", value) for word in words]
            asked = words[3:] if words[1] == "ask" else words[2:]
            if "--" in " ".join(asked):
                asked = asked[: next(at for at, word in enumerate(asked) if word.startswith("--"))]
            shown = typed_into(["guarantee", *asked], catch_exceptions=False)
            assert shown.exit_code == 0, line
            typed += 1
    assert typed == len(re.findall(r"^privod (?:ask|guarantee) ", page.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_a_page_runs_as_typed_and_its_answers_are_worth_having(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = [text for kind, text in FENCED.findall((ROOT / name).read_text()) if not kind]
    lines = [line for block in shell for line in block.splitlines()]
    typed = [line for line in lines if line.startswith("privod ")]
    assert len(typed) >= 8
    for line in typed:
        shown = typed_into(shlex.split(line, comments=True)[1:])
        assert shown.exit_code == 0, (line, shown.output)
        assert "mostly noise" not in " ".join(shown.output.split()), line
    with Curator.open(tmp_path / "privod-curator") as curator:
        releases = curator.releases("stays")
        assert {release.query.name for release in releases} >= {"graded-count", "histogram"}
        for release in releases:
            assert "mostly noise" not in worth(release.query, HOSPITAL, 20_000)
        (counted,) = (one.query for one in releases if isinstance(one.query, GradedCount))
        truth = replace(counted, epsilon=10**6).answer(hospital(), seeded(0)).value.count
        margin = counted.preview(HOSPITAL).margin
        assert margin is not None
        assert 4 * margin <= truth  # worth having, not by luck


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_lines_for_a_table_of_ones_own_run_as_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a date, a category and gaps, and one new record that is far out."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "opened": pandas.Timestamp("2026-01-01")
            + pandas.to_timedelta(rng.integers(0, 300, 4000), "D"),
            "branch": rng.choice(["north", "south"], 4000),
            "amount": rng.normal(100, 10, 4000),
        }
    )
    frame.loc[::50, "amount"] = None
    frame.to_csv("table.csv", index=False)
    frame.iloc[:3].assign(amount=[100.0, np.nan, 1e6]).to_csv("new.csv", index=False)
    text = (ROOT / name).read_text()
    start = text.index("    import pandas\n")
    block = text[start : text.index("\n\n", start)]
    exec(dedent(block), {"PrivateDetector": PrivateDetector})  # noqa: S102 - from our own page
    shown = capsys.readouterr().out
    assert "amount" in shown
    (extras,) = re.findall(r"^demo = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert all(word in extras for word in ("pandas", "sklearn"))


def test_the_sample_has_outliers_that_no_column_alone_explains_away() -> None:
    table = hospital(5_000)
    assert len(table) == 5_000
    rates = table.numbers(("heart_rate",))[:, 0]
    assert 0.003 < (rates > 130).mean() < 0.01
    assert table.domain == HOSPITAL
