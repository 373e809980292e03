"""Keys for one purpose, streams of a key, additive shares and sealed messages: pure functions."""

from __future__ import annotations

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from privod.errors import ProtocolAborted

KEY_BYTES = 32
NONCE_BYTES = 12
WORD = np.dtype("<u8")


def derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Return a 32-byte key for one purpose (HKDF with SHA-256)."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt, purpose).derive(secret)


def pair_key(
    own: X25519PrivateKey, peer: bytes, names: tuple[str, str], session: bytes, agreement: bytes
) -> bytes:
    """Return the key that two parties share in one session about one agreement."""
    low, high = sorted(names)
    shared = own.exchange(X25519PublicKey.from_public_bytes(peer))
    purpose = b"|".join([b"privod pair 1", low.encode(), high.encode(), agreement])
    return derive(shared, session, purpose)


def stream(key: bytes, number: int, n_bytes: int) -> bytes:
    """Stretch a key into bytes; another number, another stream."""
    counter = number.to_bytes(8, "big") + bytes(8)
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(n_bytes))


def shares_of(words: NDArray[np.uint64], seeds: tuple[bytes, bytes]) -> tuple[bytes, bytes, bytes]:
    """Cut words into three shares that add up to them modulo 2**64; the first two are seeds.

    To whoever has two of them the words are hidden by the stream of the third.
    """
    rest = words.copy()
    for seed in seeds:
        rest -= stretched(seed, len(words))
    return (*seeds, rest.astype(WORD, copy=False).tobytes())


def stretched(seed: bytes, length: int) -> NDArray[np.uint64]:
    """Return the words of a share that came as a seed."""
    if len(seed) != KEY_BYTES:
        raise ProtocolAborted("The seed of a share has a wrong length. Run again.")
    return np.frombuffer(stream(seed, 0, 8 * length), WORD).astype(np.uint64)


def words_of(share: bytes | memoryview, length: int) -> NDArray[np.uint64]:
    """Return the words of a share, or of a sum, that came as they are."""
    if len(share) != 8 * length:
        raise ProtocolAborted("A share has a wrong length. Run again.")
    return np.frombuffer(share, WORD).astype(np.uint64)


def seal(key: bytes, message: bytes, context: bytes, nonce: bytes) -> bytes:
    """Encrypt a message for the other holder of the key."""
    return nonce + AESGCM(key).encrypt(nonce, message, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Decrypt and authenticate a sealed message."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise ProtocolAborted("A sealed message was altered on its way. Run again.") from None
