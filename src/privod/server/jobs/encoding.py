"""Write a stored release in the forms that are sent: JSON, CSV, a summary, a picture."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, Literal

import numpy as np

from privod import wire
from privod.errors import NotFound
from privod.ledger import store
from privod.ledger.database import Database
from privod.ledger.engines import open_database
from privod.ledger.private_files import private_directory
from privod.query.preview import CERTAINTY
from privod.query.query import Release, canonical_json
from privod.query.scorer import Scorable
from privod.questions.histogram.query import Histogram

Form = Literal["answer", "release", "csv", "svg", "summary"]
SMALL_BYTES = 64 * 1024  # what is no larger is kept in memory, and needs no room on the disk
MOST_ROWS = 100
EACH = 1 - (1 - CERTAINTY) / 2  # both counts of a row are within it, by a union bound

_databases: dict[tuple[str, str | None], Database] = {}


def read_stored(task: dict[str, Any]) -> Release[Any]:
    """The release that a task names, from the ledger's database."""
    directory, url = task["directory"], task["database"]
    if (directory, url) not in _databases:
        _databases[directory, url] = open_database(Path(directory), url)
    with _databases[directory, url].reading() as connection:
        stored = store.find_release(connection, task["question"])
    if stored is None:
        raise NotFound("There is no such answer.")
    return stored.release.read()


def encode(task: dict[str, Any]) -> bytes:
    """One form of a release: small ones as they are, large ones as a file and its digest."""
    written = _written(read_stored(task), task["form"], task["titles"])
    digest = hashlib.sha256(written).hexdigest()
    if len(written) <= SMALL_BYTES:
        return digest.encode() + written
    folder = Path(task["folder"])
    private_directory(folder)
    path = folder / f"{task['name']}-{digest}"
    passing = folder / f"{secrets.token_hex(8)}.part"
    handle = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(written)
        passing.rename(path)
    except OSError:
        passing.unlink(missing_ok=True)
        raise
    return digest.encode()


def _written(release: Release[Any], form: Form, titles: dict[str, str]) -> bytes:
    if form == "answer":
        # Without its brace: what the answer cost is written before it, for whoever asks.
        return wire.to_text(wire.StoredAnswer.of(release)).removeprefix("{").encode()
    if form == "release":
        return canonical_json(release.to_json()).encode()
    if form == "csv":
        return release.to_csv().encode()
    if form == "summary":
        return json.dumps(_summary(release)).encode()
    from privod import pictures

    return pictures.svg(pictures.draw(release, titles))


def _summary(release: Release[Any]) -> dict[str, Any]:
    """What a page says about an answer."""
    columns = release.value.columns if isinstance(release.value, Scorable) else ()
    return {
        "sentence": release.sentence(),
        "promise": release.guarantee.in_short(),
        "guarantee": release.guarantee.sentence(),
        "scored_columns": [column.name for column in columns],
    }


def differences(one: Release[Any], other: Release[Any]) -> dict[str, Any] | None:
    """The cells of two histograms, largest differences first; None if they count other cells."""
    if not (isinstance(one.query, Histogram) and isinstance(other.query, Histogram)):
        return None
    first, second = one.value, other.value
    if first.axes != second.axes:
        return None
    margin = one.query.count_noise.quantile(EACH) + other.query.count_noise.quantile(EACH)
    apart = second.counts - first.counts
    order = np.argsort(-np.abs(apart), axis=None, kind="stable")[:MOST_ROWS]
    rows = []
    for place in order.tolist():
        at = np.unravel_index(place, apart.shape)
        names = [axis.names[int(where)] for axis, where in zip(first.axes, at, strict=True)]
        rows.append(
            {
                "cell": ", ".join(names),
                "counts": (int(first.counts[at]), int(second.counts[at])),
                "apart": int(apart[at]),
                "told": abs(int(apart[at])) > margin,
            }
        )
    beyond = int(np.count_nonzero(np.abs(apart) > margin))
    return {
        "rows": rows,
        "columns": ", ".join(axis.column for axis in first.axes),
        "margin": margin,
        "beyond": beyond,
        "cells": int(apart.size),
    }
