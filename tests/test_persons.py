"""Persons are told apart exactly: nobody's row is taken for another's, nor moved by a gap."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Table
from privod.data.persons import first_rows, numbered
from privod.data.sources import read
from privod.errors import InvalidData

DOMAIN = Domain((Categorical("sex", ("f", "m")),), person="who")
IDS = [2**60 + number for number in range(100)]  # float64 takes all of them for one
SEXES = ["f", "m"] * 50


def frames(who: list[Any], directory: Path) -> list[Any]:
    """The same rows in every form that can hold them."""
    sexes = (SEXES * 2)[: len(who)]
    arrow = pa.table({"who": pa.array(who, pa.int64()), "sex": sexes})
    pa_parquet.write_table(arrow, directory / "rows.parquet")
    lines = [f"{'' if one is None else one},{sex}" for one, sex in zip(who, sexes, strict=True)]
    (directory / "rows.csv").write_text("\n".join(["who,sex", *lines]) + "\n")
    return [
        {"who": who, "sex": sexes},
        {"who": [math.nan if one is None else one for one in who], "sex": sexes},
        {"who": arrow["who"], "sex": sexes},
        {"who": pl.Series(who), "sex": sexes},
        {"who": pd.array(who, dtype="Int64"), "sex": sexes},
        arrow,
        pl.DataFrame({"who": who, "sex": sexes}),
        pd.DataFrame({"who": pd.array(who, dtype="Int64"), "sex": sexes}),
        directory / "rows.parquet",
        directory / "rows.csv",
    ]


def test_a_row_without_a_person_takes_nobody_for_another(tmp_path: Path) -> None:
    for whole, with_a_gap in zip(
        frames(IDS, tmp_path), frames([*IDS, None], tmp_path), strict=True
    ):
        for source in (whole, with_a_gap):
            assert read(source, DOMAIN).codes().tolist() == [[0], [1]] * 50


@pytest.mark.parametrize("missing", [None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_a_missing_person_is_no_person_of_that_name(missing: object) -> None:
    rows = {"who": ["x", missing, missing, "nan"], "sex": ["f", "m", "m", "m"]}
    assert read(rows, DOMAIN).codes().tolist() == [[0], [1]]


@pytest.mark.parametrize(
    "who",
    [
        np.array([1.0, 2.0**53]),
        np.array([1.0, -(2.0**60)]),
        np.array([1, 2**24], dtype=np.float32),
        np.array([1.0, math.inf]),
        [1, 2.0**53],
        ["x", np.float32(2**24)],
        pd.Series([2**60, None]),
        pa.array([1.0, 2.0**53]),
    ],
    ids=lambda who: f"{type(who).__module__} {getattr(who, 'dtype', '')}",
)
def test_floats_too_large_to_tell_persons_apart_are_refused(who: Any) -> None:
    with pytest.raises(InvalidData, match=r"'who' holds floats too large to tell persons apart"):
        read({"who": who, "sex": ["f", "m"]}, DOMAIN)


def test_exact_floats_stand_in_for_whole_numbers() -> None:
    for who in ([1.0, 2.0, 1.0, math.nan], [1, 2.0, np.int32(1), None]):
        table = Table(DOMAIN, {"who": who, "sex": ["f", "m", "m", "f"]})
        assert table.codes().tolist() == [[0], [1]]
    frame = pd.DataFrame({"who": [2**53 - 1, 2**53 - 2, None], "sex": ["f", "m", "m"]})
    assert len(read(frame, DOMAIN)) == 2


def test_a_person_may_be_called_like_a_gap(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('who,sex\nNA,f\nNA,m\nnull,m\n,f\n"",f\nx,m\n')
    assert read(tmp_path / "rows.csv", DOMAIN).codes().tolist() == [[0], [1], [1]]


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"who": [[1], [2]], "sex": ["f", "m"]}),
        pa.table({"who": pa.array([1, None], pa.timestamp("ns")), "sex": ["f", "m"]}),
        {"who": np.ones((2, 2)), "sex": ["f", "m"]},
        {"who": np.array([1, 2], dtype="datetime64[s]"), "sex": ["f", "m"]},
    ],
    ids=["lists", "times", "a square", "times of numpy"],
)
def test_what_names_nobody_is_refused_by_its_type(source: Any) -> None:
    with pytest.raises(InvalidData, match=r"The (person )?column 'who' must hold"):
        read(source, DOMAIN)


@given(
    st.lists(st.binary(min_size=1, max_size=3), max_size=60),
    st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
)
def test_persons_are_numbered_and_capped_as_a_dictionary_would(
    persons: list[bytes], most: int, start: int, falling_together: bool
) -> None:
    column = pa.array(persons, pa.large_binary())[start:]
    hashes = np.full(len(column), 3, np.uint64) if falling_together else None
    seen: dict[bytes, list[int]] = {}
    for row, person in enumerate(column.to_pylist()):
        seen.setdefault(person, []).append(row)
    numbers = numbered(column, hashes)
    assert numbers.tolist() == [list(seen).index(person) for person in column.to_pylist()]
    kept = sorted(row for rows in seen.values() for row in rows[:most])
    assert np.flatnonzero(first_rows(numbers, most, np.ones(len(numbers), bool))).tolist() == kept
