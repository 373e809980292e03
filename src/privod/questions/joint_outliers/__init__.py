"""Which of our records are outliers in the data of all of us? [Raval 2011]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="joint-outliers-1",
    query="privod.joint.question:JointOutliers",
    picture="privod.joint.pictures.outliers:draw_run",
    exports=(
        "privod.joint.run:JointAnswer",
        "privod.joint.run:rehearse",
        "privod.estimators.hashed:HashedDetector",
    ),
    guide="questions/joint_outliers.md",
    proof="proofs/joint_outliers.md",
    joint=True,
)
