"""Questions that took the place of others answer as those did: the same seeds, the same releases.

`recorded/catalog.json` was written by the questions as they were before. Here stands how each of
them is asked now, and how its answer reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import seeded
from privod.query.catalog import query_from_json
from privod.query.near import Alike

DOMAIN = Domain(
    (
        Numeric("age", 0, 100),
        Numeric("dose", 0, 100),
        Categorical("ward", ("a", "b", "c")),
        Categorical("grade", (1, 2)),
    )
)
RECORDED = json.loads((Path(__file__).parent / "recorded" / "catalog.json").read_text())
TABLE = Table(DOMAIN, dict(zip(DOMAIN.names, zip(*RECORDED["rows"], strict=True), strict=True)))

Asked = dict[str, Any]


def copies(asked: Asked) -> Asked:
    """lookahead-count: the copies of one record."""
    record = asked.pop("record")
    return {**asked, "name": "rare-counts", "records": [record]}


def one_count(value: Any) -> Any:
    return {"count": value["counts"][0], "noisy": value["noisy"][0]}


def combinations(asked: Asked) -> Asked:
    """rare-combinations: every combination."""
    return {**asked, "name": "rare-counts"}


def same(value: Any) -> Any:
    return value


def one_group(asked: Asked) -> Asked:
    """outlier-context as it was: one person, one group."""
    record, value = asked.pop("record"), asked.pop("value")
    columns, own = zip(*record, strict=True)
    return {**asked, "group_columns": list(columns), "persons": [[*own, value]]}


def first_group(value: Any) -> Any:
    (found,) = value
    return found["groups"][0] if found["groups"] else None


def groups(asked: Asked) -> Asked:
    """outlier-groups."""
    return {**asked, "name": "outlier-context"}


def near_of(asked: Asked) -> str:
    alike = {key: asked.pop(key, []) for key in ("tolerances", "weights")}
    return str(
        Alike(asked.pop("max_distance", 0), *(tuple(map(tuple, alike[key])) for key in alike))
    )


def by_distance(asked: Asked) -> Asked:
    """anomaly-labels with a radius."""
    radius = asked.pop("radius")
    return {**asked, "near": f"distance(radius={radius})"}


def mixed(asked: Asked) -> Asked:
    """mixed-labels: records alike."""
    near = near_of(asked)
    return {**asked, "near": near, "name": "anomaly-labels"}


def novel(asked: Asked) -> Asked:
    """novelty-labels: records alike."""
    model = f"crowd(max_crowd={asked.pop('max_crowd')}, near={near_of(asked)})"
    return {**asked, "model": model}


def by_model(asked: Asked) -> Asked:
    """model-labels: every label had an equal share; a crowd by distance now shares less.

    There epsilon is such that a label has what it had.
    """
    told = asked.pop("model", "tail-rank(n_beyond=5)")
    numbers = dict(part.split("=") for part in told.partition("(")[2][:-1].split(", "))
    if told.startswith("tail-rank"):
        model = f"crowd(max_crowd={numbers['n_beyond']}, near=tail())"
    else:
        near = f"distance(radius={numbers['radius']})"
        model = f"crowd(max_crowd={numbers['n_neighbors']}, near={near})"
        asked["epsilon"] = str(Fraction(asked["epsilon"]) / len(asked["records"]))
    return {**asked, "model": model, "name": "novelty-labels"}


NOW: dict[str, tuple[Callable[[Asked], Asked], Callable[[Any], Any]]] = {
    "anomaly-labels": (by_distance, same),
    "mixed-labels": (mixed, same),
    "novelty-labels": (novel, same),
    "model-labels": (by_model, same),
    "outlier-context": (one_group, first_group),
    "outlier-groups": (groups, same),
    "lookahead-count": (copies, one_count),
    "rare-combinations": (combinations, same),
}


def _id(recorded: Asked) -> str:
    asked = {key: value for key, value in recorded["before"].items() if key != "records"}
    return " ".join(str(value) for value in asked.values())


@pytest.mark.parametrize("recorded", RECORDED["releases"], ids=_id)
def test_a_release_is_what_it_was(recorded: Asked) -> None:
    asked, read = NOW.get(recorded["before"]["name"], (same, same))
    query = query_from_json(asked(dict(recorded["before"])))
    query.check(DOMAIN)
    for seed, value in enumerate(recorded["values"]):
        release = json.loads(json.dumps(query.answer(TABLE, seeded(seed)).to_json()))
        assert read(_plain(release["value"])) == value
        assert release["guarantee"]["adjacency"] == recorded["adjacency"]
        if "knn" not in str(recorded["before"].get("model")):
            assert release["guarantee"]["loss"] == recorded["loss"]


def _plain(value: Any) -> Any:
    """With a context as its bits."""
    if isinstance(value, dict) and "bits" in value:
        return value["bits"]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
