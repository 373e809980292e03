"""No answer takes more memory than its question counts, whatever the rows: with the limit set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privod.data import Categorical, Domain, Numeric
from privod.query.catalog import QUERIES

ROOT = Path(__file__).parents[1]
RECORDS = 10_000
DOMAIN = Domain((*(Numeric(f"c{at}", 0, 1) for at in range(4)), Categorical("kind", ("a", "b"))))
GREEDY = """
from dataclasses import dataclass
from privod.questions.graded_count.query import GradedCount

@dataclass(frozen=True, kw_only=True)
class Greedy(GradedCount):
    def answer(self, table, randomness):
        held = [table.numbers() for _ in range(1000)]
        return super().answer(table, randomness) if held else None

greedy = Greedy(columns=("c0", "c1"), radius=0.1, max_crowd=3, epsilon=1)
"""


def tried(*lines: str) -> str:
    """What lines that may use the benchmark's functions print, in a process of their own."""
    text = "\n".join(["from soak_limits import *", *lines])
    paths = os.pathsep.join((str(ROOT / "benchmarks"), str(ROOT / "src")))
    asked = [sys.executable, "-c", text]
    done = subprocess.run(
        asked, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_hard_questions_fit_into_what_they_count_on_hard_tables() -> None:
    plane = "some = [one for one in HARD if len(one.columns) == 2 and hasattr(one, 'radius')]"
    plane += " + [one for one in HARD if isinstance(one, GridKnn)]"
    lines = f"print(len(some), [one for one in some if not fits(one, {RECORDS})])"
    assert tried(plane, lines) == "3 []\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_a_question_that_takes_more_than_it_counts_is_found_out() -> None:
    assert tried(GREEDY, f"print(fits(greedy, {RECORDS}))") == "False\n"


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_what_an_answer_takes_never_falls_when_more_records_are_declared(name: str) -> None:
    for query in QUERIES[name].examples(DOMAIN):
        sizes = [query.most_bytes(DOMAIN, records) for records in (0, 1, 1000, 10**7)]
        assert sizes == sorted(sizes)
        assert sizes[0] >= 0
