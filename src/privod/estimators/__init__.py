"""Private detectors in the shape that scikit-learn's and PyOD's users know.

They keep the releases and nothing else of the data. `privod.estimators.pyod` is imported on its
own, since it needs PyOD.
"""

from __future__ import annotations

from privod.errors import Unavailable

try:
    from privod.estimators.private import PrivateDetector, UnreliableFit
    from privod.estimators.question import QuestionDetector
    from privod.estimators.spending import (
        PrivacyWarning,
        Spending,
        charged_to,
        search_loss,
        spending,
        spent,
    )
except ImportError as problem:
    if problem.name is None or not problem.name.startswith("sklearn"):
        raise
    raise Unavailable(
        "Estimators are built on scikit-learn, which is not installed. Install privod[sklearn]."
    ) from None

__all__ = [
    "PrivacyWarning",
    "PrivateDetector",
    "QuestionDetector",
    "Spending",
    "UnreliableFit",
    "charged_to",
    "search_loss",
    "spending",
    "spent",
]
