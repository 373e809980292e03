"""What do the published protocols for joint outliers find, and what do they reveal? [Raval 2011]"""

from privod.registry import described

QUESTION = described(
    __name__,
    query="privod.joint.published.question:PublishedOutliers",
    picture="",
    exports=("privod.joint.outliers:OutlierResult",),
    worst_cases="",
    joint=True,
)
