"""Questions about records that are alike, with what makes them alike as single parameters."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from privod.query.near import Alike, near_of
from privod.questions.anomaly_labels.query import AnomalyLabels
from privod.questions.novelty_labels.models import CrowdModel, model_of
from privod.questions.novelty_labels.query import NoveltyLabels

PARTS = ("max_distance", "tolerances", "weights")


@cache  # questions say it as text, and tests ask again for every record
def alike_of(query: AnomalyLabels | NoveltyLabels) -> Alike:
    """What makes records alike in a question."""
    near = near_of(query.near) if isinstance(query, AnomalyLabels) else crowd_of(query).near
    assert isinstance(near, Alike)
    return near


@cache
def crowd_of(query: NoveltyLabels) -> CrowdModel:
    """The crowd by which new records are labeled."""
    model = model_of(query.model)
    assert isinstance(model, CrowdModel)
    return model


def anomalies(**parameters: Any) -> AnomalyLabels:
    """Labels of records in the data."""
    return AnomalyLabels(near=_near(Alike(), parameters), **parameters)


def novelties(**parameters: Any) -> NoveltyLabels:
    """Labels of new records."""
    near, most = _near(Alike(), parameters), parameters.pop("max_crowd")
    return NoveltyLabels(model=f"crowd(max_crowd={most}, near={near})", **parameters)


def altered(query: Any, **changes: Any) -> Any:
    """The question with other parameters."""
    near = _near(alike_of(query), changes)
    if isinstance(query, AnomalyLabels):
        return replace(query, **({"near": near} | changes))
    most = changes.pop("max_crowd", crowd_of(query).max_crowd)
    return replace(query, **({"model": f"crowd(max_crowd={most}, near={near})"} | changes))


def _near(now: Alike, parameters: dict[str, Any]) -> str:
    return str(replace(now, **{key: parameters.pop(key) for key in PARTS if key in parameters}))
