"""What do the published protocols for joint outliers find, and what do they reveal? [Raval 2011]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="published-outliers-1",
    query="privod.joint.published.question:PublishedOutliers",
    picture="privod.joint.pictures.run:draw_run",
    exports=(
        "privod.joint.outliers:OutlierResult",
        "privod.estimators.hashed:HashedDetector",
    ),
    guide="questions/published_outliers.md",
    proof="proofs/published_outliers.md",
    joint=True,
)
