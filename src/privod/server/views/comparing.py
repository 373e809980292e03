"""The console's page that puts stored answers side by side: what was asked, and what was told."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from privod.data import Domain
from privod.errors import InvalidData
from privod.query.preview import CERTAINTY
from privod.query.query import Release
from privod.questions.histogram.query import Histogram
from privod.server.site import site_of
from privod.server.views.answers import written
from privod.server.views.pages import answer_path, page

__all__ = ["compare", "differences"]

MOST_COMPARED = 4
MOST_ROWS = 100
EACH = 1 - (1 - CERTAINTY) / 2  # both counts of a row are within it, by a union bound


def compare(request: Request) -> Response:
    """Some answers about a data set, side by side; of two histograms each cell as well."""
    site, of = site_of(request), request.path_params["dataset"]
    dataset = site.curator.dataset(of)
    keys = list(dict.fromkeys(request.query_params.getlist("key")))
    if not 2 <= len(keys) <= MOST_COMPARED:
        raise InvalidData(
            f"From 2 to {MOST_COMPARED} answers are compared, got {len(keys)}. Tick them in the"
            " list of answers."
        )
    releases = [site.answers.release(of, key) for key in keys]
    return page(
        request,
        "compare.html",
        dataset=dataset,
        answers=[(answer_path(of, release.query), release) for release in releases],
        facts=_facts(releases, dataset.domain),
        cells=differences(*releases) if len(releases) == 2 else None,
    )


def _facts(releases: list[Release[Any]], domain: Domain) -> list[dict[str, Any]]:
    """Every parameter that any of them has, and whether they agree on it."""
    asked = [
        {"question": release.query.name} | dict(written(release.query, domain))
        for release in releases
    ]
    names = list(dict.fromkeys(name for one in asked for name in one))
    rows = [(name, [one.get(name, "") for one in asked]) for name in names]
    return [{"name": name, "values": texts, "same": len(set(texts)) == 1} for name, texts in rows]


def differences(one: Release[Any], other: Release[Any]) -> dict[str, Any] | None:
    """The cells of two histograms over the same cells, the largest differences first.

    A difference is more than noise, with 95 % certainty for each cell by itself, when it is larger
    than both margins together. None where the answers do not count the same cells.
    """
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
