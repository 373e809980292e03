"""Detect rows that are registered twice, under another name and with budgets of their own."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from privod.data.domain import Domain
from privod.data.folding import RowSums
from privod.data.persons import hash_sums
from privod.data.views import COMPLETE
from privod.engines.manifest import MANIFEST, SALT, manifest_seal
from privod.engines.opening import open_rows
from privod.engines.source import RegisteredRows
from privod.errors import InvalidData

KEYS = 4  # words of two keys: sums of other rows are the same less than once in 2^64 times


def same_rows(directory: Path, folder: str, others: Mapping[str, str]) -> tuple[str, ...]:
    """Which of the others, name to folder, hold the very rows of this folder."""
    here = directory / folder
    return tuple(name for name, other in others.items() if _same(here, directory / other))


def _same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same rows of the same columns, in whatever order."""
    held = [_extent(folder) for folder in (one, other)]
    if held[0] is None or held[1] is None or held[0] != held[1]:
        return False
    columns = held[0][1]
    keys = np.frombuffer(secrets.token_bytes(8 * KEYS), np.uint64)
    summing = RowSums(columns, columns, partial(hash_sums, keys))
    try:
        sums = [_registered(folder).fold(summing) for folder in (one, other)]
    except (OSError, InvalidData):
        return False  # damaged, which whoever asks about those rows is told
    return bool((sums[0] == sums[1]).all())


def _extent(folder: Path) -> tuple[int, tuple[str, ...]] | None:
    """How many rows there are, and their columns; None if that cannot be read."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if content["place"] is not None:
            domain = Domain.from_json(content["place"]["domain"])
            columns = *domain.numeric_names, *domain.categorical_names, COMPLETE
        else:
            columns = tuple(name for name, _ in content["columns"])
        return sum(content["rows"]), columns
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not all there


def _registered(folder: Path) -> RegisteredRows:
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    return open_rows(folder, manifest_seal(text, (folder / SALT).read_bytes()))
