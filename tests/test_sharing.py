"""Shares add up to what they hide, and hide it; sealed messages open as they were."""

import json
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from privod.errors import ProtocolAborted
from privod.joint.letters import LENGTH_BYTES, packed, unpacked
from privod.joint.published.protocols import check_fixed, from_fixed, to_fixed
from privod.joint.sharing import (
    open_sealed,
    pair_key,
    seal,
    shares_of,
    stretched,
    words_of,
)


def test_both_ends_derive_one_key_and_another_agreement_another() -> None:
    own, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    raw = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    ours = pair_key(own, peer.public_key().public_bytes(*raw), ("a", "b"), b"s", b"terms")
    theirs = pair_key(peer, own.public_key().public_bytes(*raw), ("b", "a"), b"s", b"terms")
    other = pair_key(peer, own.public_key().public_bytes(*raw), ("b", "a"), b"s", b"others")
    assert ours == theirs != other


@given(st.lists(st.floats(-(2.0**40), 2.0**40), min_size=1, max_size=20))
def test_fixed_point_keeps_twenty_fractional_bits(values: list[float]) -> None:
    numbers = np.array(values)
    back = from_fixed(to_fixed(numbers))
    assert np.abs(back - numbers).max() <= 2.0**-21 + np.abs(numbers).max() * 2.0**-52


def test_fixed_point_sums_are_sums() -> None:
    parts = np.random.default_rng(0).normal(size=(5, 100)) * 1000
    total = sum((to_fixed(part) for part in parts), np.zeros(100, np.uint64))
    assert np.abs(from_fixed(total) - parts.sum(axis=0)).max() < 5 * 2.0**-20


@pytest.mark.parametrize("wrong", [2.0**43, np.inf, np.nan])
def test_ranges_that_could_overflow_are_refused(wrong: float) -> None:
    with pytest.raises(ProtocolAborted, match="too wide"):
        check_fixed(np.array([wrong]), 2)


def test_a_sealed_message_opens_only_unaltered_and_in_its_context() -> None:
    key = os.urandom(32)
    sealed = seal(key, b"secret", b"run 1", os.urandom(12))
    assert open_sealed(key, sealed, b"run 1") == b"secret"
    altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for wrong, context in ((altered, b"run 1"), (sealed, b"run 2"), (b"", b"run 1")):
        with pytest.raises(ProtocolAborted, match="altered"):
            open_sealed(key, wrong, context)


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_three_shares_add_up_and_two_of_them_look_like_any_other_two(values: list[int]) -> None:
    words = np.array(values, np.int64).view(np.uint64)
    first, second, third = shares_of(words, (os.urandom(32), os.urandom(32)))
    parts = stretched(first, len(words)), stretched(second, len(words)), words_of(third, len(words))
    assert np.array_equal(parts[0] + parts[1] + parts[2], words)
    zeros = np.zeros(len(words), np.uint64)
    again = shares_of(zeros, (first, os.urandom(32)))
    assert again[0] == first  # a seed is drawn before anybody looks at the words


def test_shares_of_other_lengths_are_refused() -> None:
    with pytest.raises(ProtocolAborted, match="wrong length"):
        stretched(b"short", 3)
    with pytest.raises(ProtocolAborted, match="wrong length"):
        words_of(bytes(23), 3)


def test_the_third_share_is_uniform_whatever_it_shares() -> None:
    words = np.zeros(10_000, np.uint64)
    third = words_of(shares_of(words, (os.urandom(32), os.urandom(32)))[2], len(words))
    assert len(np.unique(third)) == len(words)
    assert abs((third >> np.uint64(63)).mean() - 0.5) < 0.03  # six deviations


def test_letters_that_would_overlap_are_refused() -> None:
    """A bundle of a megabyte could otherwise fill the memory of whoever reads it."""
    content = bytes(1000)
    listed = json.dumps([["one", 1000], ["two", -1000], ["three", 1000]]).encode()
    bundle = len(listed).to_bytes(LENGTH_BYTES, "big") + listed + content
    with pytest.raises(ProtocolAborted, match="cannot be read"):
        unpacked(bundle)
    assert unpacked(packed({"one": content})) == {"one": content}
