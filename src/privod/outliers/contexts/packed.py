"""Contexts as rows of bytes: many at once, for the compiled loops.

A row has the choices of all attributes in their order inside, each little-endian in as many whole
bytes as hold a bit for every value (`ContextSpace.byte_ends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from privod.outliers.contexts.contexts import Choices, ContextSpace

Packed = NDArray[np.uint8]

WORD_BYTES = 8


def pack(space: ContextSpace, contexts: Sequence[Choices]) -> Packed:
    """A row for each of the contexts."""
    widths = [end - start for start, end in pairwise(space.byte_ends)]
    if max(widths) < WORD_BYTES:  # each choice is a machine word
        words = np.fromiter(chain.from_iterable(contexts), "<i8")
        each = words.view(np.uint8).reshape(len(contexts), len(widths), WORD_BYTES)
        return np.concatenate([each[:, at, :width] for at, width in enumerate(widths)], axis=1)
    packed = b"".join(
        choice.to_bytes(width, "little")
        for context in contexts
        for choice, width in zip(context, widths, strict=True)
    )
    return np.frombuffer(packed, np.uint8).reshape(len(contexts), sum(widths))


def unpack(space: ContextSpace, row: Packed) -> Choices:
    """The context of a row."""
    return tuple(
        int.from_bytes(row[start:end].tobytes(), "little")
        for start, end in pairwise(space.byte_ends)
    )


def chosen_bits(space: ContextSpace, rows: Packed) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which codes each context takes in, and where those of each attribute begin."""
    bits = np.unpackbits(rows, axis=1, bitorder="little").view(np.bool_)
    return bits, 8 * np.array(space.byte_ends)
