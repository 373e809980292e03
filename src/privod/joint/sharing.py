"""Masks that hide numbers and cancel in their sum, keyed tags, fixed point: pure functions.

Two parties that share a key stretch it into the same stream of words; one adds the stream, the
other subtracts it, modulo a power of two. Whoever sees one masked vector sees uniform words;
whoever adds up all of them sees the exact sum (docs/proofs/joint_outliers.md, "Secure sum").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from privod.errors import ProtocolAborted

__all__ = [
    "check_fixed",
    "derive",
    "from_fixed",
    "keyed_tags",
    "masked",
    "open_sealed",
    "pair_key",
    "permutation",
    "sample",
    "seal",
    "stream",
    "to_fixed",
    "with_ones",
    "without_ones",
]

KEY_BYTES = 32
NONCE_BYTES = 12
STREAM_BYTES = 1 << 20  # of a mask at a time, so that it stays in the cache
ONES_BYTES = 16  # of constant words 1 at the end of every sum: each must be the number of parties
FEWEST_ONES = 4
PLACE_BITS = np.uint64(32)  # of a word that carries a row above and its place in a stream below
PLACES = np.uint64(2**32 - 1)
FIXED_BITS = 20  # fractional bits of a real
LARGEST_REAL = 2.0**42  # times 2**20 leaves one bit of room in 64 for the sum of two

Word = TypeVar("Word", np.uint8, np.uint16, np.uint32, np.uint64)


def derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Return a 32-byte key for one purpose (HKDF with SHA-256)."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt, purpose).derive(secret)


def pair_key(
    own: X25519PrivateKey, peer: bytes, names: tuple[str, str], session: bytes, agreement: bytes
) -> bytes:
    """Return the key that two parties share in one session about one agreement.

    `agreement` is the digest of roster and parameters: parties that do not mean the same run do
    not get the same key.
    """
    low, high = sorted(names)
    shared = own.exchange(X25519PublicKey.from_public_bytes(peer))
    purpose = b"|".join([b"privod pair 1", low.encode(), high.encode(), agreement])
    return derive(shared, session, purpose)


def masked(words: NDArray[Word], own: str, keys: Mapping[str, bytes], step: int) -> NDArray[Word]:
    """Hide the words from everyone: add the mask shared with each later peer, subtract the others.

    A key and a step are used once: a second vector under the same mask would reveal a difference.
    """
    hidden = words.copy()
    for peer, key in sorted(keys.items()):
        _add_stream(hidden, key, step, negate=peer < own)
    return hidden


def _add_stream(words: NDArray[Word], key: bytes, step: int, *, negate: bool) -> None:
    counter = step.to_bytes(8, "big") + bytes(8)
    cipher = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    zeros = memoryview(bytes(STREAM_BYTES))
    buffer = bytearray(STREAM_BYTES + 16)
    stream = np.frombuffer(buffer, words.dtype.newbyteorder("<"), STREAM_BYTES // words.itemsize)
    for start in range(0, len(words), len(stream)):
        part = words[start : start + len(stream)]
        cipher.update_into(zeros[: part.nbytes], buffer)
        if negate:
            np.subtract(part, stream[: len(part)], out=part)
        else:
            np.add(part, stream[: len(part)], out=part)


def n_ones(itemsize: int) -> int:
    """Return how many constant words are appended: 128 bits at least."""
    return max(FEWEST_ONES, ONES_BYTES // itemsize)


def with_ones(words: NDArray[Word]) -> NDArray[Word]:
    """Append the constant words by which a wrong sum is noticed."""
    return np.concatenate([words, np.ones(n_ones(words.itemsize), words.dtype)])


def without_ones(total: NDArray[Word], n_parties: int) -> NDArray[Word]:
    """Check and remove the constant words of a sum."""
    ones = n_ones(total.itemsize)
    if not (total[-ones:] == n_parties % (1 << (8 * total.itemsize))).all():
        raise ProtocolAborted(
            "The masks did not cancel: a party used other keys or another vector. This sum was"
            " not opened. Earlier rounds count; run again with the same roster."
        )
    return total[:-ones]


def stream(key: bytes, number: int, n_bytes: int) -> bytes:
    """Stretch a key into bytes; another number, another stream."""
    counter = number.to_bytes(8, "big") + bytes(8)
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(n_bytes))


def permutation(key: bytes, n: int) -> NDArray[np.int64]:
    """Return a pseudo-random order of n rows: place i holds row `permutation[i]`.

    Rows are sorted by words of a stream; of two equal words, which occur with probability below
    n^2 / 2^65, the lower row comes first.
    """
    words = np.frombuffer(stream(key, 0, 8 * n), "<u8")
    low = np.uint64((1 << n.bit_length()) - 1)
    packed = words & ~low
    packed |= np.arange(n, dtype=np.uint64)  # numbers sort much faster than places of numbers
    packed.sort()
    rows = (packed & low).astype(np.int64)
    tied = np.flatnonzero((packed[1:] ^ packed[:-1]) <= low)
    if len(tied):  # their upper bits agree: the lower ones decide
        places = np.union1d(tied, tied + 1)
        among = rows[places]
        rows[places] = among[np.argsort(words[among], kind="stable")]
    return rows


def sample(key: bytes, n: int, size: int) -> NDArray[np.int64]:
    """Return `size` distinct of n rows in a pseudo-random order; at most half of them.

    They are the first distinct remainders of a stream's words. A remainder is likelier than another
    by a factor of 1 + n / 2^64 at most.
    """
    n_words = size + size * size // n + 64  # about 1.4 size are needed to find half of all rows
    while True:
        rows = np.frombuffer(stream(key, 0, 8 * n_words), "<u8") % np.uint64(n)
        packed = rows << PLACE_BITS
        packed |= np.arange(n_words, dtype=np.uint64)
        packed.sort()
        again = np.flatnonzero(packed[1:] >> PLACE_BITS == packed[:-1] >> PLACE_BITS) + 1
        is_first = np.ones(n_words, np.bool_)
        is_first[packed[again] & PLACES] = False
        found = rows[is_first]
        if len(found) >= size:
            return found[:size].astype(np.int64)
        n_words *= 2


def check_fixed(largest: NDArray[np.float64], n_parties: int) -> None:
    """Raise unless sums of reals up to `largest`, which must be public, fit in fixed point."""
    if not np.all(largest * n_parties < 2 * LARGEST_REAL):
        raise ProtocolAborted(
            "The columns are too wide for the sum in fixed point. Rescale the columns."
        )


def to_fixed(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Write reals as integers modulo 2**64 with 20 fractional bits: masked floats do not cancel."""
    return np.rint(values * 2.0**FIXED_BITS).astype(np.int64).view(np.uint64)


def from_fixed(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Read back a sum of fixed-point numbers."""
    return words.view(np.int64).astype(np.float64) / 2.0**FIXED_BITS


def keyed_tags(mixed: NDArray[np.uint32], key: bytes) -> NDArray[np.uint64]:
    """Encrypt each record's four words in each table: (tables, 4, n) to (tables, n, 2) words.

    A keyed hash followed by a block cipher is a pseudo-random function of the codes: without the
    key nothing but equality shows.
    """
    tables, four, n = mixed.shape
    if four != 4:
        raise ValueError("a block of the cipher is four words of 32 bits")
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation of distinct blocks is what is wanted
    tags = np.empty((tables, n, 2), np.uint64)
    for table in range(tables):
        blocks = np.ascontiguousarray(mixed[table].T).astype("<u4", copy=False)
        tags[table] = np.frombuffer(cipher.update(blocks.tobytes()), "<u8").reshape(n, 2)
    return tags


def seal(key: bytes, message: bytes, context: bytes, nonce: bytes) -> bytes:
    """Encrypt a message for the other holder of the key."""
    return nonce + AESGCM(key).encrypt(nonce, message, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Decrypt and authenticate a sealed message."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise ProtocolAborted("A sealed message was altered on its way. Run again.") from None
