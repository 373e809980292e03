"""Which of my records are outliers in our joint data, exactly, with only the answer opened?"""

from privod.registry import described

QUESTION = described(
    __name__,
    name="exact-outliers",
    query="privod.joint.exact.question:ExactOutliers",
    picture="",
    exports=("privod.joint.exact.question:ExactResult",),
    worst_cases="",
    joint=True,
)
