"""Masks cancel in the sum and hide everything else; tags keep equality and nothing else."""

import os
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.errors import ProtocolAborted
from privod.joint import sharing
from privod.joint.sharing import (
    check_fixed,
    derive,
    from_fixed,
    keyed_tags,
    masked,
    open_sealed,
    pair_key,
    seal,
    to_fixed,
    with_ones,
    without_ones,
)

KEY = b"k" * 32


def pairwise_keys(names: list[str]) -> dict[str, dict[str, bytes]]:
    """Some key for every pair."""
    return {
        own: {
            peer: derive(b"|".join(sorted([own.encode(), peer.encode()])), b"salt", b"test")
            for peer in names
            if peer != own
        }
        for own in names
    }


@settings(max_examples=30, deadline=None)
@given(
    n_parties=st.integers(2, 7),
    length=st.integers(0, 50),
    kind=st.sampled_from([np.uint32, np.uint64]),
    seed=st.integers(0, 100),
)
def test_masks_cancel_in_the_sum_of_all(n_parties: int, length: int, kind: Any, seed: int) -> None:
    names = [f"p{number}" for number in range(n_parties)]
    keys = pairwise_keys(names)
    generator = np.random.default_rng(seed)
    top = np.iinfo(kind).max
    vectors = {name: generator.integers(0, top, length, dtype=kind) for name in names}
    hidden = [masked(vectors[name], name, keys[name], 5) for name in names]
    assert np.array_equal(sum(hidden, np.zeros(length, kind)), sum(vectors.values()))


def test_masks_cross_the_edge_of_a_block() -> None:
    names = ["a", "b", "c"]
    keys = pairwise_keys(names)
    vector = np.arange(300_000, dtype=np.uint64)  # 2.4 MB: three blocks of the stream
    hidden = [masked(vector, name, keys[name], 1) for name in names]
    assert np.array_equal(hidden[0] + hidden[1] + hidden[2], 3 * vector)


def test_one_masked_vector_looks_uniform() -> None:
    hidden = masked(np.zeros(100_000, np.uint64), "a", {"b": os.urandom(32)}, 1)
    bits = np.unpackbits(hidden.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 / np.sqrt(bits.size)
    assert len(np.unique(hidden)) == len(hidden)


def test_another_step_is_another_mask() -> None:
    key = {"b": bytes(32)}
    zeros = np.zeros(10, np.uint64)
    assert not np.array_equal(masked(zeros, "a", key, 1), masked(zeros, "a", key, 2))


def test_a_missing_party_leaves_noise_not_a_partial_sum() -> None:
    names = ["a", "b", "c"]
    keys = pairwise_keys(names)
    two = [masked(with_ones(np.zeros(8, np.uint64)), name, keys[name], 1) for name in names[:2]]
    with pytest.raises(ProtocolAborted, match="did not cancel"):
        without_ones(two[0] + two[1], 2)


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


def test_tags_keep_equality_and_nothing_else() -> None:
    mixed = np.random.default_rng(0).integers(0, 3, (2, 4, 500), dtype=np.uint32)
    tags = keyed_tags(mixed, os.urandom(32))
    for table in range(2):
        codes = [tuple(column) for column in mixed[table].T]
        pairs = set(zip(codes, tags[table, :, 0].tolist(), strict=True))
        assert len(pairs) == len(set(codes)) == len({tag for _, tag in pairs})
    assert not np.array_equal(tags, keyed_tags(mixed, os.urandom(32)))


def test_a_sealed_message_opens_only_unaltered_and_in_its_context() -> None:
    key = os.urandom(32)
    sealed = seal(key, b"secret", b"run 1", os.urandom(12))
    assert open_sealed(key, sealed, b"run 1") == b"secret"
    altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for wrong, context in ((altered, b"run 1"), (sealed, b"run 2"), (b"", b"run 1")):
        with pytest.raises(ProtocolAborted, match="altered"):
            open_sealed(key, wrong, context)


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 70_000])
@pytest.mark.parametrize("kept", [2**64 - 1, 7 << 61, 0xFFFF << 10, 0])
def test_an_order_is_that_of_the_words_of_the_stream_also_where_some_agree(
    monkeypatch: pytest.MonkeyPatch, n: int, kept: int
) -> None:
    words = np.frombuffer(sharing.stream(KEY, 0, 8 * n), "<u8") & np.uint64(kept)
    monkeypatch.setattr(sharing, "stream", lambda *_: words.tobytes())
    order = sharing.permutation(KEY, n)
    assert np.array_equal(order, np.argsort(words, kind="stable"))


@pytest.mark.parametrize(("n", "size"), [(1, 0), (7, 3), (1000, 40), (5000, 2500), (2**31, 3000)])
def test_a_sample_has_the_first_distinct_rows_that_the_stream_names(n: int, size: int) -> None:
    words = np.frombuffer(sharing.stream(KEY, 0, 8 * (4 * size + 64)), "<u8")
    named = dict.fromkeys((words % np.uint64(n)).tolist())
    assert sharing.sample(KEY, n, size).tolist() == list(named)[:size]
