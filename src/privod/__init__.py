"""Privacy-preserving outlier analysis: questions about private data, each answer with its promise.

Public names are loaded when first used, so that `import privod` and `privod --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privod.client import connect
    from privod.curator import Curator
    from privod.data import Categorical, Domain, Numeric, Table
    from privod.data.sources import read
    from privod.errors import PrivodError
    from privod.outliers.anomalies import (
        edits_by_search,
        is_regular,
        least_edit_margin,
        record_privacy,
    )
    from privod.privacy import AddRemove, Guarantee, InCrowd, Loss, Replace, SameContexts, Secrecy
    from privod.queries.anomaly import AnomalyLabels, answer_by_edits
    from privod.queries.bounds import PrivateBounds
    from privod.queries.catalog import QUERIES
    from privod.queries.grid_knn import GridKnn
    from privod.queries.histogram import Histogram
    from privod.queries.lookahead import LookaheadCount
    from privod.queries.marginals import MarginalHistograms
    from privod.queries.noisy_grid import NoisyGrid
    from privod.queries.noisy_marginals import NoisyMarginals
    from privod.queries.outlier_count import OutlierCount
    from privod.queries.query import Query, Release
    from privod.queries.subspaces import OutlierSubspaces

__version__ = "0.1.0"

_HOMES = {
    "AddRemove": "privod.privacy",
    "AnomalyLabels": "privod.queries.anomaly",
    "Categorical": "privod.data",
    "Curator": "privod.curator",
    "Domain": "privod.data",
    "GridKnn": "privod.queries.grid_knn",
    "Guarantee": "privod.privacy",
    "Histogram": "privod.queries.histogram",
    "InCrowd": "privod.privacy",
    "LookaheadCount": "privod.queries.lookahead",
    "Loss": "privod.privacy",
    "MarginalHistograms": "privod.queries.marginals",
    "NoisyGrid": "privod.queries.noisy_grid",
    "NoisyMarginals": "privod.queries.noisy_marginals",
    "Numeric": "privod.data",
    "OutlierCount": "privod.queries.outlier_count",
    "OutlierSubspaces": "privod.queries.subspaces",
    "PrivateBounds": "privod.queries.bounds",
    "PrivodError": "privod.errors",
    "QUERIES": "privod.queries.catalog",
    "Query": "privod.queries.query",
    "Release": "privod.queries.query",
    "Replace": "privod.privacy",
    "SameContexts": "privod.privacy",
    "Secrecy": "privod.privacy",
    "Table": "privod.data",
    "answer_by_edits": "privod.queries.anomaly",
    "connect": "privod.client",
    "edits_by_search": "privod.outliers.anomalies",
    "is_regular": "privod.outliers.anomalies",
    "least_edit_margin": "privod.outliers.anomalies",
    "read": "privod.data.sources",
    "record_privacy": "privod.outliers.anomalies",
}

__all__ = [
    "QUERIES",
    "AddRemove",
    "AnomalyLabels",
    "Categorical",
    "Curator",
    "Domain",
    "GridKnn",
    "Guarantee",
    "Histogram",
    "InCrowd",
    "LookaheadCount",
    "Loss",
    "MarginalHistograms",
    "NoisyGrid",
    "NoisyMarginals",
    "Numeric",
    "OutlierCount",
    "OutlierSubspaces",
    "PrivateBounds",
    "PrivodError",
    "Query",
    "Release",
    "Replace",
    "SameContexts",
    "Secrecy",
    "Table",
    "answer_by_edits",
    "connect",
    "edits_by_search",
    "is_regular",
    "least_edit_margin",
    "read",
    "record_privacy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'privod' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
