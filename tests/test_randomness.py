"""The one source of random bits."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privod.errors import InvalidParameter
from privod.mechanisms.randomness import HIDDEN_BITS, Randomness, keyed, secure, seeded
from tests.reference.mechanisms import walk

KEY, SALT = bytes(range(32)), bytes(32)


def test_only_a_seeded_source_says_that_it_can_be_replayed() -> None:
    assert seeded(1).seeded
    assert not secure().seeded
    assert not keyed(KEY, SALT, "a question").seeded


def test_a_key_gives_the_same_stream_again_and_only_with_its_salt_and_question() -> None:
    assert keyed(KEY, SALT, "a question").bytes(12).hex() == "085c0860cf666e2e7041a611"
    streams = [keyed(KEY, SALT, "a question"), keyed(KEY, SALT, "a question")]
    assert streams[0].words(3).tolist() == streams[1].words(3).tolist()
    others = [
        keyed(KEY[::-1], SALT, "a question"),
        keyed(KEY, KEY, "a question"),
        seeded(0),
        keyed(KEY, SALT, "another"),
    ]
    drawn = {source.bytes(16) for source in (*others, streams[0], keyed(KEY, SALT, "a question"))}
    assert len(drawn) == 6


def test_a_key_is_shown_nowhere_and_must_be_whole() -> None:
    assert repr(keyed(KEY, SALT, "a question")) == "keyed(...)"
    with pytest.raises(InvalidParameter, match="key must have 32 bytes, got 31"):
        keyed(KEY[:31], SALT, "a question")
    with pytest.raises(InvalidParameter, match="salt must have 32 bytes, got 0"):
        keyed(KEY, b"", "a question")


def test_a_seed_gives_the_same_stream_on_every_platform() -> None:
    source = seeded(2026)
    assert source.bytes(12).hex() == "1ffa10318e8654017b9daabb"
    assert source.words(2).tolist() == [3180124722568874024, 744339621923410052]
    assert source.halfwords(3).tolist() == [20324, 8689, 14811]
    assert [source.below(10) for _ in range(8)] == [7, 0, 7, 5, 6, 0, 2, 9]


def test_different_seeds_and_later_requests_differ() -> None:
    one, other = seeded(1), seeded(11)
    assert len({one.bytes(16), one.bytes(16), other.bytes(16), seeded(-1).bytes(16)}) == 4


@pytest.mark.parametrize("seed", [1.5, "1", True, None])
def test_a_seed_must_be_an_integer(seed: object) -> None:
    with pytest.raises(InvalidParameter, match="seed must be an integer"):
        seeded(seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [secure(), seeded(3), keyed(KEY, SALT, "a question")])
def test_requests_have_the_size_and_type_asked_for(source: Randomness) -> None:
    assert len(source.bytes(0)) == 0
    assert len(source.bytes(1001)) == 1001
    assert source.words(7).dtype == np.uint64
    assert source.words(7).shape == (7,)
    assert source.halfwords(5).dtype == np.uint16
    assert source.bits(0) == 0


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 10**6))
def test_k_bits_stay_below_two_to_the_k(k: int, seed: int) -> None:
    assert 0 <= seeded(seed).bits(k) < 2**k


@settings(deadline=None)
@given(st.integers(1, 2**80), st.integers(0, 10**6))
def test_below_stays_below_its_bound(bound: int, seed: int) -> None:
    assert 0 <= seeded(seed).below(bound) < bound


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 8, 11])
def test_below_is_exactly_uniform(bound: int) -> None:
    sure, undecided = walk(lambda tape: tape.below(bound), 16)
    assert set(sure) == set(range(bound))
    assert len(set(sure.values())) == 1
    assert sum(sure.values()) + undecided == 1
    assert undecided <= Fraction(1, 2) ** 4


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 8, 11])
def test_below_hidden_is_exactly_uniform(bound: int) -> None:
    sure, undecided = walk(lambda tape: tape.below_hidden(bound, 6), 12)
    assert set(sure) == set(range(bound))
    assert len(set(sure.values())) == 1
    assert sum(sure.values()) + undecided == 1
    assert undecided <= Fraction(bound, 64) ** 2


@settings(deadline=None)
@given(st.integers(1, 2**62), st.integers(0, 10**6))
def test_what_below_hidden_draws_does_not_tell_its_bound(bound: int, seed: int) -> None:
    drawn, other = seeded(seed), seeded(seed)
    assert 0 <= drawn.below_hidden(bound) < bound
    other.bytes(HIDDEN_BITS // 8)
    assert drawn.bytes(8) == other.bytes(8)  # both are at their second request


def test_below_refuses_an_empty_range() -> None:
    for draw in (secure().below, secure().below_hidden):
        with pytest.raises(InvalidParameter, match="bound must be at least 1, got 0"):
            draw(0)


@pytest.mark.parametrize("source", [seeded(5), keyed(KEY, SALT, "a question")])
def test_expanded_bytes_look_uniform(source: Randomness) -> None:
    counts = np.bincount(np.frombuffer(source.bytes(2**18), dtype=np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-6


FORK = """
import os
from privod.mechanisms.randomness import secure
source = secure()
source.bytes(8), source.words(3), source.below(1000)
for _ in range(4):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, (source.bytes(8) + source.bits(64).to_bytes(8, "big")).hex().encode())
        os._exit(0)
    os.wait()
    print(os.read(reading, 100).decode())
print((source.bytes(8) + source.bits(64).to_bytes(8, "big")).hex())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="only Unix forks")
def test_forked_children_never_draw_the_same_bytes() -> None:
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    halves = [line[start : start + 16] for line in run.stdout.split() for start in (0, 16)]
    assert len(halves) == 10
    assert max(Counter(halves).values()) == 1


@pytest.mark.parametrize("source", [secure(), seeded(7), keyed(KEY, SALT, "a question")])
def test_threads_that_share_a_source_never_draw_the_same_bytes(source: Randomness) -> None:
    drawn: list[bytes] = []
    threads = [
        Thread(target=lambda: drawn.extend(source.bytes(8) for _ in range(500))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 4000


def test_a_bound_beyond_the_bits_that_are_drawn_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"at most 2\*\*6"):
        seeded(0).below_hidden(65, 6)
