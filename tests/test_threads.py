"""Threads: one count of cores in the package, and one way to spread work over them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from privod import control_groups, threads
from privod.threads import ahead, available_threads, in_threads, thread_pool
from tests.patience import PATIENCE

PACKAGE = Path(__file__).parent.parent / "src" / "privod"


def test_cores_are_counted_in_one_place_only() -> None:
    asking = ("sched_getaffinity", "cpu_count")
    found = [path for path in PACKAGE.rglob("*.py") if any(w in path.read_text() for w in asking)]
    assert found == [PACKAGE / "threads.py"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux's")
def test_a_process_bound_to_one_core_counts_one() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("limits", "granted"),
    [(["max 100000\n"], None), (["max 100000\n", "150000 100000\n"], 2), (["5000 100000"], 1)],
)
def test_a_container_that_may_use_part_of_the_processors_counts_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[str], granted: int | None
) -> None:
    """The limit of the group itself, or of one above it."""
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path)
    monkeypatch.setattr(control_groups, "OWN_GROUP", tmp_path / "own")
    (tmp_path / "own").write_text("0::/above/self\n")
    for folder, limit in zip(
        (tmp_path / "above" / "self", tmp_path / "above"), limits, strict=False
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(limit)
    threads._granted.cache_clear()
    try:
        cores = len(os.sched_getaffinity(0))
        assert available_threads() == min(cores, granted or cores)
    finally:
        threads._granted.cache_clear()


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_results_come_back_in_the_order_of_the_pieces(threads: int | None) -> None:
    assert in_threads(lambda piece: piece * piece, 50, threads) == [n * n for n in range(50)]
    assert in_threads(str, 0, threads) == []


def test_pieces_run_side_by_side_on_as_many_threads_as_asked() -> None:
    together = threading.Barrier(3, timeout=PATIENCE)  # is passed only if three are inside at once
    in_threads(lambda _: together.wait(), 3, threads=3)


def test_one_thread_is_the_thread_that_asks() -> None:
    assert in_threads(lambda _: threading.get_ident(), 4, threads=1) == 4 * [threading.get_ident()]


def test_what_fails_in_a_thread_fails_here() -> None:
    def work(piece: int) -> None:
        if piece == 2:
            raise ValueError("piece 2")

    with pytest.raises(ValueError, match="piece 2"):
        in_threads(work, 3, threads=2)


def test_a_pool_has_a_thread_for_each_core_unless_told_otherwise() -> None:
    with thread_pool() as whole, thread_pool(5) as five:
        assert (whole._max_workers, five._max_workers) == (available_threads(), 5)


def test_results_come_back_in_order_and_no_more_items_are_read_than_threads_work_on() -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for item in range(50):
            read += 1
            yield item

    for place, result in enumerate(ahead(lambda item: item * item, items())):
        assert result == place * place
        assert read <= place + available_threads()
    assert read == 50


def test_what_fails_while_working_ahead_fails_where_its_result_is_due() -> None:
    found = ahead(lambda item: 1 // item, [2, 1, 0, 1])
    assert (next(found), next(found)) == (0, 1)
    with pytest.raises(ZeroDivisionError):
        next(found)
