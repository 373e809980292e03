"""Many processes on one budget, and processes killed at any moment; `make soak` does more of it."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.soak_ledger import DATA, Place, fill, hammer, kill_often, question

from privod.errors import AnswerFailed
from privod.privacy import Loss


def test_processes_are_granted_exactly_what_there_is(tmp_path: Path) -> None:
    granted, _ = hammer(Place(str(tmp_path), None), processes=4, units=60)
    assert granted == 60


def test_processes_are_granted_exactly_what_zcdp_allows(tmp_path: Path) -> None:
    granted, _ = hammer(Place(str(tmp_path), None), processes=4, units=40, accounting="zcdp")
    assert granted == 77  # by plain sums 40


def test_a_zcdp_budget_survives_kill_9_at_random_moments(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "curator"), None)
    assert kill_often(place, times=3, scratch=tmp_path, accounting="zcdp") > 0


def test_a_budget_survives_kill_9_at_random_moments(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "curator"), None)
    assert kill_often(place, times=15, scratch=tmp_path) > 0


KILLED_WHILE_LOOKING = """
import os, signal, sys
from fractions import Fraction
from benchmarks.soak_ledger import DATA, Place, question
from privod.questions.histogram.query import Histogram

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

Histogram.answer = die
curator = Place(sys.argv[1], None).open()
curator.ask(question(3, Fraction(1, 4)), DATA, request_id="r1")
"""


def test_a_crash_while_looking_costs_budget_and_nothing_else(tmp_path: Path) -> None:
    place = Place(str(tmp_path), None)
    fill(place, Loss(1))
    child = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_LOOKING, str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    with place.open() as curator:
        assert curator.verify().releases == 0
        assert curator.budget(DATA)[0].spent == Loss("0.25")
        query = question(3, Loss("0.25").epsilon)
        with pytest.raises(AnswerFailed):  # the retry does not pay, and does not look again
            curator.ask(query, DATA, request_id="r1")
        assert not curator.ask(query, DATA, request_id="r2").stored
        assert curator.budget(DATA)[0].spent == Loss("0.5")
        curator.verify()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking a process with threads warns")
def test_a_curator_survives_a_fork(tmp_path: Path) -> None:
    place = Place(str(tmp_path), None)
    fill(place, Loss(1))
    with place.open() as curator:
        unit = Loss("0.1").epsilon
        curator.ask(question(1, unit), DATA)
        child = os.fork()
        if child == 0:
            try:
                curator.ask(question(2, unit), DATA)
                os._exit(0)
            finally:
                os._exit(1)
        curator.ask(question(3, unit), DATA)
        assert os.waitpid(child, 0)[1] == 0
        assert curator.budget(DATA)[0].spent == Loss("0.3")
        assert curator.verify().releases == 3
