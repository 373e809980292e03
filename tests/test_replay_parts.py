"""Half the noise in any one part of any question is found by replay.

A part is a place in the code where a law is drawn from. Running the question finds these places,
so a new one fails the test until it is listed; and with half its noise each must break the claim.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from privod.audit import Replayed, WorstCase, replay_pairs
from privod.data import Table
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PermuteAndFlip,
    Randomness,
    Top,
)
from privod.mechanisms.coins import EditCoin
from privod.mechanisms.law import Even, Law
from privod.mechanisms.smooth import SmoothNoise
from privod.query.catalog import QUERIES
from privod.query.parameters import parameters_of
from privod.questions.grid_knn.query import Kept
from privod.registry import load, question

Part = tuple[str, int, str]  # of a function, at a line, by a law

LAPLACE, GAUSSIAN, CHOICE = "DiscreteLaplace", "DiscreteGaussian", "ExponentialMechanism"
PARTS = {
    "anomaly-labels": ["answer_by_edits EditCoin"],
    "detector-profile": [f"noisy_sums {GAUSSIAN}", f"noisy_sums {LAPLACE}"],
    "graded-count": [f"answer {LAPLACE}"],
    "grid-knn": [f"answer {LAPLACE}", f"answer {LAPLACE}", "answer Kept"],
    "histogram": [f"answer {GAUSSIAN}", f"answer {LAPLACE}"],
    "interactive-grid": [f"<dictcomp> {LAPLACE}"],
    "novelty-labels": ["answer_by_edits EditCoin"],
    "outlier-context": [
        f"_groups_of {LAPLACE}",
        f"choose {CHOICE}",
        f"choose_by_number {CHOICE}",
        f"take {CHOICE}",
    ],
    "outlier-count": [
        f"answer {LAPLACE}",
        f"answer {LAPLACE}",
        "answer SmoothGaussian",
        "answer SmoothHeavy",
        "answer SmoothLaplace",
    ],
    "outlier-radius": ["answer PermuteAndFlip"],
    "outlier-subspaces": [f"answer {LAPLACE}", "answer Top"],
    "private-bounds": [f"_magnitude {LAPLACE}", f"_zoom {LAPLACE}"],
    "quantiles": [f"_of_column {LAPLACE}", f"_split {CHOICE}"],
    "rare-counts": [f"answer {LAPLACE}"],
}
"""What must be found; the stages of the detector are told apart in tests/test_replay.py."""

NOTHING_TO_TELL = "spare_choice"  # among one candidate, so that all tables draw as often


def weaker(law: Law, given: Any) -> tuple[Law, Any]:
    """The law with half its noise."""
    if isinstance(law, DiscreteLaplace):
        return DiscreteLaplace(law.scale / 2), given
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 / 4), given
    if isinstance(law, ExponentialMechanism | PermuteAndFlip):
        return replace(law, scale=law.scale / 2), given
    if isinstance(law, Top):
        return replace(law, choice=replace(law.choice, scale=law.choice.scale / 2)), given
    if isinstance(law, Kept):
        return replace(law, noise=DiscreteLaplace(law.noise.scale / 2)), given
    if isinstance(law, EditCoin):
        return EditCoin(2 * law.epsilon), given
    assert isinstance(law, SmoothNoise)
    count, bound = given
    return law, (count, bound / 2)


class Weakened(Randomness):
    """Draws as another one does, but in one part with half the noise."""

    seeded = True

    def __init__(self, inner: Randomness, part: Part | None) -> None:
        self._inner, self._part = inner, part
        self.parts: set[Part] = set()

    def bytes(self, n: int) -> bytes:
        return self._inner.bytes(n)

    def draw(self, law: Law, given: Any) -> Any:
        part = (*drawn_at(), type(law).__name__)
        if not isinstance(law, Even) and part[0] != NOTHING_TO_TELL:
            self.parts.add(part)
            if part == self._part:
                law, given = weaker(law, given)
        return self._inner.draw(law, given)


def drawn_at() -> tuple[str, int]:
    """The function and line of a question, not of a mechanism, that draws."""
    frame = sys._getframe(2)
    while "/privod/mechanisms/" in frame.f_code.co_filename:
        assert frame.f_back is not None
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_lineno


def replayed(case: WorstCase, part: Part | None = None) -> tuple[Replayed, set[Part]]:
    query = case.query
    parts: set[Part] = set()

    def answered(table: Table, randomness: Randomness) -> Any:
        weakened = Weakened(randomness, part)
        value = query.answer(table, weakened).value
        parts.update(weakened.parts)
        return value

    def same(value: Any) -> str:
        return json.dumps(query.value_to_json(value), default=str)

    ways = [(case.left, case.right), (case.right, case.left)] * 2
    return replay_pairs(query.name, answered, query.cost(), ways, same), parts


def cases_of(name: str) -> tuple[WorstCase, ...]:
    """Its worst cases, each also with every word that one of its parameters takes."""
    cases: tuple[WorstCase, ...] = load(question(name).worst_cases)()
    words = [(one.name, word) for one in parameters_of(QUERIES[name]) for word in one.choices]
    found = list(cases)
    for case in cases:
        for parameter, word in words:
            with suppress(InvalidParameter, InvalidData):
                query = replace(cast(Any, case.query), **{parameter: word})
                query.check(case.left.domain)
                if query != case.query:
                    found.append(replace(case, query=query))
    return tuple(found)


@pytest.mark.parametrize("name", QUERIES)
def test_half_the_noise_of_any_part_of_a_question_is_found(name: str) -> None:
    cases = cases_of(name)
    honest = [replayed(case) for case in cases]
    assert all(found.holds for found, _ in honest)
    waiting = {part for _, parts in honest for part in parts}
    assert sorted(f"{function} {law}" for function, _, law in waiting) == PARTS[name]
    for case, (_, parts) in zip(cases, honest, strict=True):
        waiting -= {part for part in parts & waiting if not replayed(case, part)[0].holds}
    assert not waiting
