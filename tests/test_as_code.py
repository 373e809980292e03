"""A question written as code is the same question when the code runs."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction
from typing import Any

import pytest

import privod
from privod.cli.analyst import _query
from privod.data.examples import HOSPITAL
from privod.privacy import Replace
from privod.query.as_code import as_notebook, as_python, as_shell, constructed
from privod.query.catalog import QUERIES
from privod.query.query import Query
from privod.questions.histogram.query import Histogram

ADDRESS = "https://curator.example"
EXAMPLES = [example for kind in QUERIES.values() for example in kind.examples(HOSPITAL)]
ODD = [
    Histogram(columns=('it\'s "odd"; \\', "$HOME"), epsilon="1/3", adjacency=Replace()),
    Histogram(columns=("age",), epsilon=Fraction(1, 7)),
]
every_question = pytest.mark.parametrize("query", [*EXAMPLES, *ODD], ids=lambda query: query.name)


@every_question
def test_the_python_builds_the_same_question(query: Query[Any]) -> None:
    assert eval(constructed(query), dict(vars(privod), **_names(query))) == query  # noqa: S307


def _names(query: Query[Any]) -> dict[str, Any]:
    imported = re.findall(
        r"^from privod import (.*)$", as_python(query, "d", ADDRESS), re.MULTILINE
    )
    return {name: getattr(privod, name) for name in imported[0].split(", ")}


@every_question
def test_the_line_for_the_shell_asks_the_same_question(query: Query[Any]) -> None:
    command, verb, dataset, question, *rest = shlex.split(as_shell(query, "my data", ADDRESS))
    assert (command, verb, dataset) == ("privod", "ask", "my data")
    assert rest[-2:] == ["--at", ADDRESS]
    assert _query(question, rest[:-2]) == query


def test_a_notebook_holds_the_script_without_its_last_line_and_shows_the_answer() -> None:
    query = Histogram(columns=("ward",), epsilon="0.1")
    notebook = json.loads(as_notebook(query, "stays", ADDRESS))
    first, second = ("".join(cell["source"]) for cell in notebook["cells"])
    assert as_python(query, "stays", ADDRESS).startswith(first)
    assert second == "answer"
    assert notebook["nbformat"] == 4


def test_no_token_is_ever_written_into_code() -> None:
    text = as_python(Histogram(columns=("ward",), epsilon="0.1"), "stays", ADDRESS)
    assert 'os.environ["PRIVOD_TOKEN"]' in text
