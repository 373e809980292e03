"""Which of my records are outliers in our joint data, exactly, with only the answer opened?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="exact-outliers-1",
    query="privod.joint.exact.question:ExactOutliers",
    picture="privod.joint.pictures.run:draw_run",
    exports=("privod.joint.exact.question:ExactResult",),
    guide="questions/exact_outliers.md",
    proof="proofs/exact_outliers.md",
    joint=True,
)
