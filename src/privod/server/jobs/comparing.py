"""Two histograms over the same cells, beside each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from privod.query.preview import CERTAINTY
from privod.query.query import Release
from privod.questions.histogram.query import Histogram

MOST_ROWS = 100
EACH = 1 - (1 - CERTAINTY) / 2  # both counts of a row are within it, by a union bound


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
