"""Lookahead counts: rare ones exactly, others noisy, and which of the two is told for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import replay_game
from privod.curator import Curator
from privod.data import Domain, Numeric, Table
from privod.errors import BudgetExceeded, InvalidParameter
from privod.mechanisms import secure, seeded
from privod.outliers.crowds.anomalies import protected_crowd
from privod.pictures import draw
from privod.privacy import AddRemove, InCrowd, Loss
from privod.questions.lookahead_count.audit import games
from privod.questions.lookahead_count.query import CopyCount, LookaheadCount

DOMAIN = Domain((Numeric("x", -100, 100),))


def copies(n: int) -> Table:
    return Table(DOMAIN, {"x": np.full(n, 5.0)})


def ask(**changed: Any) -> LookaheadCount:
    asked: dict[str, Any] = {"record": (5,), "columns": ("x",), "max_crowd": 4, "epsilon": "0.1"}
    return LookaheadCount(**(asked | changed))


def test_rare_counts_are_told_exactly_and_others_noisy() -> None:
    query = ask()
    assert query.guarantee().adjacency == InCrowd(0, ("x",), 4)
    rare = {query.answer(copies(2), seeded(s)).value for s in range(20)}
    assert rare == {CopyCount(2, noisy=False)}
    assert len({query.answer(copies(3), seeded(s)).value.count for s in range(20)}) > 3


@pytest.mark.parametrize("max_crowd", [1, 2, 3, 4])
@pytest.mark.parametrize("margin", [1, 2, 3, 4, 5])
def test_whether_it_is_noisy_is_the_same_on_both_sides_of_every_adjacent_pair(
    max_crowd: int, margin: int
) -> None:
    query = ask(max_crowd=max_crowd, edit_margin=margin)
    adjacency = query.guarantee().adjacency
    least = adjacency.crowd if isinstance(adjacency, InCrowd) else 1
    assert least > 1 or adjacency == AddRemove()
    for more in range(least, 9):
        one, other = (query.answer(copies(n), secure()).value for n in (more, more - 1))
        assert one.noisy
        assert other.noisy


def test_the_sentence_never_calls_a_noisy_count_exact() -> None:
    noisy = ask(epsilon=1).sentence(CopyCount(-2, noisy=True))
    assert (
        noisy == "There are about -2 copies of this record, right to within 3 with 95 % certainty."
    )
    assert "exactly 1 copy" in ask().sentence(CopyCount(1, noisy=False))
    assert "exactly 0 copies" in ask().sentence(CopyCount(0, noisy=False))
    wide = ask(max_crowd=3, edit_margin=5)
    assert wide.noisy_from == 0
    assert wide.answer(copies(0), secure()).value.noisy


@pytest.mark.parametrize("value", [CopyCount(-2, noisy=True), CopyCount(2, noisy=False)])
def test_the_picture_has_an_error_bar_exactly_if_there_is_noise(value: CopyCount) -> None:
    query = ask()
    axes = draw(query.release(value, secure())).axes[0]
    bars = [some for some in axes.containers if some.__class__.__name__ == "ErrorbarContainer"]
    assert len(bars) == int(value.noisy)


def test_a_lookahead_at_a_radius_is_refused_with_its_reason() -> None:
    with pytest.raises(InvalidParameter, match="not private"):
        ask(radius=0.5)


def test_an_epsilon_out_of_reach_is_refused_at_once() -> None:
    with pytest.raises(InvalidParameter):
        ask(epsilon="1e-14")


def test_memberships_of_people_who_stand_alone_are_not_sold_for_nothing(tmp_path: Path) -> None:
    """Rare counts are exact at any price: 200 memberships went for 2e-9 of a budget once."""
    curator = Curator.open(tmp_path)
    curator.register("people", {"x": np.arange(200) / 2}, DOMAIN)
    curator.open_budget("people", AddRemove(), Loss(1))
    asked = [ask(record=(n / 2,), max_crowd=10, epsilon="1e-11") for n in range(200)]
    crowd = asked[0].guarantee().adjacency
    curator.open_budget("people", crowd, Loss(1), confirmed=True)
    curator.allow_exact_counts("people", crowd, 200, "whatever it costs", confirmed=True)
    for query in asked:
        with pytest.raises(InvalidParameter, match="where rare counts are told exactly"):
            curator.ask(query, "people")
    dear = [ask(record=(n / 2,), max_crowd=10, epsilon="0.1") for n in range(11)]
    for query in dear[:10]:
        curator.ask(query, "people")
    with pytest.raises(BudgetExceeded):
        curator.ask(dear[10], "people")
    ask(max_crowd=3, edit_margin=5, epsilon="1e-6").check(DOMAIN)  # nothing is exact there


class LooksAheadTooLittle(LookaheadCount):
    @property
    def noisy_from(self) -> int:
        return protected_crowd(self.max_crowd, self.edit_margin)


def test_the_audit_catches_a_lookahead_of_k_steps_only() -> None:
    assert not all(replay_game(game).holds for game in games(LooksAheadTooLittle))
    assert all(replay_game(game).holds for game in games())
