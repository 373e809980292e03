"""A lazy grid draws the noise of a cell once, whoever copies, forks or asks at the same time."""

from __future__ import annotations

# slow: left out by `make quick`
import copy
import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness, secure, seeded
from privod.privacy import AddRemove, Guarantee, Replace
from privod.questions.grid_knn.interactive import LazyGrid
from privod.questions.grid_knn.query import GridKnn
from tests.test_grid_knn import plane


def test_a_lazy_grid_scores_like_a_dense_one_and_never_draws_twice() -> None:
    rng = np.random.default_rng(8)
    domain = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(4)))
    points = rng.random((200, 4))
    table = Table(domain, {f"x{axis}": points[:, axis] for axis in range(4)})
    exactly = GridKnn(columns=domain.names, epsilon=500, cells_per_axis=3)
    asked = np.vstack([rng.random((25, 4)), rng.integers(0, 4, (10, 4)) / 3])  # and on borders
    for depth in ("0.4", "1", "2.7"):
        dense = exactly.answer(table, seeded(9)).value.walk(asked, 6, depth)
        lazy = exactly.lazy(table, seeded(9)).scores(asked, 6, depth)
        assert dense.basic.tolist() == lazy.basic.tolist()
        assert dense.weighted.tolist() == lazy.weighted.tolist()
        assert dense.graded.tolist() == lazy.graded.tolist()
    noisy = GridKnn(columns=domain.names, epsilon="0.1", cells_per_axis=3).lazy(table, secure())
    first = noisy.scores(asked, 6, 1)
    assert noisy.scores(asked, 6, 1).weighted.tolist() == first.weighted.tolist()
    assert "0." not in repr(noisy)
    with pytest.raises(InvalidParameter, match="max_depth must keep the walk"):
        GridKnn(columns=domain.names, epsilon=1, cells_per_axis=100).lazy(table, secure()).scores(
            asked, 6, 3
        )


@pytest.mark.parametrize(("adjacency", "changed"), [(AddRemove(), 1), (Replace(), 2)])
@pytest.mark.parametrize("drop_below", ["auto", None, 5])
def test_a_lazy_grid_drops_nothing_so_its_counts_get_all_of_epsilon(
    drop_below: Any, adjacency: AddRemove | Replace, changed: int
) -> None:
    domain = Domain(tuple(Numeric(f"x{axis}", 0, 1) for axis in range(30)))
    query = GridKnn(columns=domain.names, epsilon="0.1", drop_below=drop_below, adjacency=adjacency)
    lazy = query.lazy(Table(domain, {name: [0.5] for name in domain.names}), secure())
    assert lazy._noise == DiscreteLaplace(Fraction(10 * changed))
    assert lazy.guarantee == Guarantee(lazy._noise.loss(changed), adjacency) == query.guarantee()


def lazy_plane(randomness: Randomness) -> LazyGrid:
    query = GridKnn(columns=("x", "y"), epsilon="0.1", cells_per_axis=20)
    return query.lazy(plane([(1.0, 1.0)] * 50), randomness)


@pytest.mark.parametrize(
    "second",
    [copy.copy, copy.deepcopy, pickle.dumps, lambda grid: copy.deepcopy({"inside": [grid]})],
)
def test_a_lazy_grid_has_no_copy_that_could_draw_its_noise_anew(
    second: Callable[[object], object],
) -> None:
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        second(lazy_plane(secure()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_gets_no_noise_of_its_own() -> None:
    grid = lazy_plane(secure())
    child = os.fork()
    if child == 0:
        try:
            grid.scores([[1.0, 1.0]], 5, 0)
        except RuntimeError:
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


class _SlowDice(Randomness):
    """Lets every other thread run between the question and the answer."""

    seeded = False

    def bytes(self, n: int) -> bytes:
        time.sleep(0.002)
        return os.urandom(n)


def test_two_threads_never_add_noise_to_one_cell_twice() -> None:
    for _ in range(5):
        grid = lazy_plane(_SlowDice())
        start = threading.Barrier(4)

        def ask(_: int, grid: LazyGrid = grid, start: threading.Barrier = start) -> float:
            start.wait()
            return float(grid.scores([[1.0, 1.0]], 10**9, "0.3").weighted[0])

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, range(4)))
        assert answers == [answers[0]] * 4


def test_a_lazy_grid_says_whether_it_is_seeded_and_checks_its_walk() -> None:
    assert lazy_plane(seeded(1)).seeded
    grid = lazy_plane(secure())
    assert not grid.seeded
    with pytest.raises(InvalidParameter, match="max_depth must be at least 0, got -1"):
        grid.scores([[1.0, 1.0]], 5, -1)
    with pytest.raises(InvalidParameter, match="max_depth must be finite"):
        grid.scores([[1.0, 1.0]], 5, float("inf"))
    with pytest.raises(InvalidParameter, match="n_neighbors must be at most"):
        grid.scores([[1.0, 1.0]], 10**30, 1)
