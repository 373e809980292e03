"""Rows of the papers' tables that need no noise come out the same when they are computed again."""

from __future__ import annotations

import csv
import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
needs_data = pytest.mark.skipif("PRIVOD_DATA" not in os.environ, reason="PRIVOD_DATA is not set")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "papers"))
    return importlib.import_module(request.param)


def published(table: str, **wanted: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "figures" / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def as_written(row: dict[str, Any]) -> dict[str, str]:
    return {key: f"{one:.4g}" if isinstance(one, float) else str(one) for key, one in row.items()}


@pytest.mark.parametrize("script", ["okada"], indirect=True)
def test_bounds_of_the_global_sensitivity_are_those_published(script: ModuleType) -> None:
    assert [as_written(row) for row in script.bounds()] == published("okada/bounds")


@pytest.mark.parametrize("script", ["okada"], indirect=True)
def test_what_each_radius_finds_on_synthetic_data_is_what_is_published(script: ModuleType) -> None:
    points = script.numbers_raw(script.okada_synthetic_1())
    rows = [script.regime_row(one) for one in script.regimes("Synthetic 1", points, 5, 1.1)]
    assert [as_written(row) for row in rows] == published("okada/regimes", data="Synthetic 1")


@needs_data
@pytest.mark.parametrize("script", ["okada"], indirect=True)
def test_the_cover_above_the_plane_is_as_tight_as_published(script: ModuleType) -> None:
    assert [as_written(row) for row in script.covers()] == published("okada/covers")


@needs_data
@pytest.mark.parametrize("script", ["rauch"], indirect=True)
@pytest.mark.parametrize("name", ["lymphography", "heart_statlog", "pima"])
def test_detectors_without_noise_are_as_good_as_published(script: ModuleType, name: str) -> None:
    split = script.load(name)
    for cells in (2, 3):
        for method, found in script.baselines(split, cells):
            (row,) = published("rauch/cells", set=name, cells=str(cells), method=method)
            assert {key: row[key] for key in found} == as_written(found), (cells, method)
