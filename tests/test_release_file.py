"""Saved releases come from anywhere: whatever is wrong with them ends in one readable error."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, PrivodError
from privod.mechanisms import seeded
from privod.query.catalog import release_from_json
from privod.query.release_file import question_of_file
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.detector_profile.release import NoisyProfile
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid

Saved = NoisyGrid
DOMAIN = Domain((Numeric("x", 0, 4), Numeric("y", 0, 4)))
FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)


def saved(kind: str) -> Saved:
    points = np.random.default_rng(0).random((60, 2)) * 4
    table = Table(DOMAIN, {"x": points[:, 0], "y": points[:, 1]})
    dropped = 2 if kind == "sparse" else None
    asked = GridKnn(columns=("x", "y"), epsilon=1, cells_per_axis=5, drop_below=dropped)
    return asked.answer(table, seeded(0)).value


ALL = {kind: saved(kind) for kind in ("dense", "sparse")}
KINDS = st.sampled_from(sorted(ALL))


def written(value: Saved) -> bytes:
    with io.BytesIO() as file:
        value.save(file)  # type: ignore[arg-type]  # zipfile takes a path or a file
        return file.getvalue()


FILES = {kind: written(value) for kind, value in ALL.items()}


def read(content: bytes, like: Saved, folder: Path) -> Saved | None:
    """What a file of this content holds, or None if it is refused readably."""
    path = folder / "file.privod"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return type(like).load(path)
        except InvalidData as problem:
            said = str(problem)
    assert len(said) < len(str(path)) + 400
    return None


def parts(kind: str) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(FILES[kind])) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with io.BytesIO() as content:
        with zipfile.ZipFile(content, "w", method) as file:
            for name, entry in entries.items():
                file.writestr(name, entry)
        return content.getvalue()


def with_header(kind: str, **changes: Any) -> bytes:
    entries = parts(kind)
    name = next(name for name in entries if name.endswith(".json"))
    header = {**json.loads(entries[name]), **changes}
    return zipped({**entries, name: json.dumps(header).encode()})


def test_what_was_saved_is_read_and_known_by_its_kind(tmp_path: Path) -> None:
    for kind, value in ALL.items():
        assert read(FILES[kind], value, tmp_path) == value
        found = question_of_file(tmp_path / "file.privod")
        assert found == value.question
    with pytest.raises(InvalidData, match="not a release of detector-profile that privod saved"):
        NoisyProfile.load(tmp_path / "file.privod")


def test_a_zip_of_something_else_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "other.privod").write_bytes(zipped({"letter.txt": b"hello"}))
    with pytest.raises(InvalidData, match="holds nothing that privod saved"):
        question_of_file(tmp_path / "other.privod")


def test_a_file_that_is_not_there_is_missed_as_usual(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        NoisyGrid.load(tmp_path / "absent.privod")


@FUZZ
@given(
    kind=KINDS,
    flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_flipped_bytes_are_harmless_or_refused(
    kind: str, flips: list[tuple[int, int]], tmp_path: Path
) -> None:
    content = bytearray(FILES[kind])
    for place, change in flips:
        content[place % len(content)] ^= change
    found = read(bytes(content), ALL[kind], tmp_path)
    assert found is None or found == ALL[kind]


@FUZZ
@given(kind=KINDS, end=st.integers(0), more=st.binary(max_size=20))
def test_truncated_and_prolonged_files_are_harmless_or_refused(
    kind: str, end: int, more: bytes, tmp_path: Path
) -> None:
    content = FILES[kind][: end % (len(FILES[kind]) + 1)] + more
    found = read(content, ALL[kind], tmp_path)
    assert found is None or found == ALL[kind]


@FUZZ
@given(content=st.binary(max_size=300))
def test_anything_else_is_refused(content: bytes, tmp_path: Path) -> None:
    assert read(content, ALL["dense"], tmp_path) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
TOTAL = {"count": 5, "noise": [["50", 1]]}
FIELDS = [
    "format", "version", "columns", "cells_per_axis", "drop_below", "records", "guarantee",
    "noise", "seeded",
]  # fmt: skip


@FUZZ
@given(kind=KINDS, field=st.sampled_from(FIELDS), value=PLAIN)
def test_a_header_with_a_foreign_field_is_refused_or_still_sane(
    kind: str, field: str, value: Any, tmp_path: Path
) -> None:
    found = read(with_header(kind, **{field: value}), ALL[kind], tmp_path)
    if found is not None:
        assert found.guarantee == ALL[kind].guarantee
        assert type(found.seeded) is bool
        assert np.array_equal(found.counts, ALL[kind].counts)
    with contextlib.suppress(InvalidData):
        type(ALL[kind]).from_json({**ALL[kind].to_json(), field: value})


@pytest.mark.parametrize("poison", ["\ud800", "a\x00b", "\x1b[31m", "\x85"])
@pytest.mark.parametrize("kind", list(ALL))
def test_a_column_named_by_what_no_text_may_hold_is_refused(
    kind: str, poison: str, tmp_path: Path
) -> None:
    columns = ALL[kind].to_json()["columns"]
    named = [{**columns[0], "name": poison}, *columns[1:]]
    assert read(with_header(kind, columns=named), ALL[kind], tmp_path) is None


@FUZZ
@given(kind=KINDS, header=PLAIN)
def test_a_foreign_header_is_refused(kind: str, header: Any, tmp_path: Path) -> None:
    entries = parts(kind)
    name = next(name for name in entries if name.endswith(".json"))
    content = zipped({**entries, name: json.dumps(header).encode()})
    assert read(content, ALL[kind], tmp_path) is None
    with pytest.raises(InvalidData):
        type(ALL[kind]).from_json(header)


def _npy(shape: str, kind: str = "<i8", body: bytes = b"\0" * 200) -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def _with_counts(counts: bytes) -> Callable[[], bytes]:
    return lambda: zipped({**parts("dense"), "counts.npy": counts})


def _encrypted() -> bytes:
    content = bytearray(FILES["dense"])
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(mark, place + 1)
    return bytes(content)


def _guarantee(epsilon: str) -> dict[str, Any]:
    return {"loss": {"epsilon": epsilon, "delta": "0"}, "adjacency": {"name": "add-remove"}}


COLUMN = {"name": "x", "low": 0, "high": 4}


@pytest.mark.parametrize(
    "make",
    {
        "ten billion counts declared": _with_counts(_npy("(10000000000,)")),
        "a negative length": _with_counts(_npy("(-1,)")),
        "a length of thirty digits": _with_counts(_npy(f"({10**30},)")),
        "objects": _with_counts(_npy("(25,)", "|O")),
        "an expression for a shape": _with_counts(_npy("(9**9**9,)")),
        "counts of 2^62": _with_counts(_npy("(25,)", body=(2**62).to_bytes(8, "little") * 25)),
        "no array": _with_counts(b""),
        "an encrypted entry": _encrypted,
        "another compression": lambda: zipped(parts("dense"), zipfile.ZIP_BZIP2),
        "an entry that nobody asked for": lambda: zipped({**parts("dense"), "more": b"1"}),
        "the cells of a sparse grid": lambda: zipped(
            {**parts("dense"), "cells.npy": parts("sparse")["cells.npy"]}
        ),
        "a header of lists": lambda: zipped({**parts("dense"), "release.json": b"[" * 100_000}),
        "a bomb": lambda: zipped({**parts("dense"), "counts.npy": b"\0" * 20_000_000}),
        "epsilon 0": lambda: with_header("dense", guarantee=_guarantee("0")),
        "a better promise": lambda: with_header("dense", guarantee=_guarantee("1/10")),
        "less noise": lambda: with_header("dense", noise=[["1/2", 1]]),
        "more draws than floats go": lambda: with_header("dense", noise=[["1", 10**400]]),
        "the same column twice": lambda: with_header("dense", columns=[COLUMN, COLUMN]),
        "no columns": lambda: with_header("dense", columns=[]),
        "a seed of no": lambda: with_header("dense", seeded="no"),
        "a total beside all cells": lambda: with_header("dense", records=TOTAL),
        "a million cells per axis": lambda: with_header("dense", cells_per_axis=10**6),
        "true cells per axis": lambda: with_header("dense", cells_per_axis=True),
    }.items(),
    ids=lambda entry: entry[0],
)  # fmt: skip
def test_crafted_files_are_refused(make: tuple[str, Callable[[], bytes]], tmp_path: Path) -> None:
    assert read(make[1](), ALL["dense"], tmp_path) is None


@pytest.mark.parametrize(
    "records",
    [
        None,
        {},
        {"count": 5},
        {**TOTAL, "count": 5.5},
        {**TOTAL, "count": True},
        {**TOTAL, "count": 2**63},
        {**TOTAL, "noise": [["49", 1]]},
    ],
)
def test_a_grid_that_dropped_cells_needs_a_total_whose_noise_keeps_the_promise(
    records: Any, tmp_path: Path
) -> None:
    assert read(with_header("sparse", records=TOTAL), ALL["sparse"], tmp_path) is not None
    assert read(with_header("sparse", records=records), ALL["sparse"], tmp_path) is None


@pytest.mark.parametrize("counts", [[1.5] * 25, [2**70] * 25, [2**62] * 25, ["1"] * 25, None, 5])
def test_json_with_counts_that_are_none_is_refused(counts: Any) -> None:
    with pytest.raises(InvalidData):
        NoisyGrid.from_json({**ALL["dense"].to_json(), "counts": counts})


@pytest.mark.parametrize(
    "asked",
    [
        partial(GridKnn, columns=("x", "y"), cells_per_axis=5),
        partial(DetectorProfile, columns=("x", "y"), delta=0),
    ],
    ids=["grid", "profile"],
)
def test_a_release_whose_answer_has_the_noise_of_another_promise_is_refused(asked: Any) -> None:
    """The answer of epsilon 8 beside a question of epsilon 0.1 would claim what no noise keeps."""
    table = Table(DOMAIN, {"x": [1.0, 2.0], "y": [3.0, 3.0]})
    strong, weak = (asked(epsilon=epsilon).answer(table, seeded(0)) for epsilon in (8, "0.1"))
    told = weak.to_json()
    assert release_from_json(told).guarantee == weak.guarantee
    with pytest.raises(PrivodError):
        release_from_json({**told, "value": strong.to_json()["value"]})
    with pytest.raises(PrivodError):  # as if its noise came from no seed
        release_from_json({**told, "seeded": False})
