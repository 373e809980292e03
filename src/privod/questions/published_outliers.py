"""What do the published protocols for joint outliers find, and what do they reveal? [Raval 2011]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="published-outliers-1",
    query="privod.joint.published.question:PublishedOutliers",
    picture="privod.pictures.joint_run:draw_run",
    exports=(
        "privod.joint.outliers:OutlierResult",
        "privod.joint.run:rehearse",
        "privod.estimators.hashed:HashedDetector",
    ),
    guide="questions/published_outliers.md",
    proof="proofs/published_outliers.md",
    joint=True,
)
