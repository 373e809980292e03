"""How are the records of all of us spread, without pooling them?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="joint-counts-1",
    query="privod.joint.counts:JointCounts",
    picture="privod.joint.pictures.counts:draw_counts",
    exports=("privod.joint.counts:JointRelease",),
    guide="questions/joint_counts.md",
    proof="proofs/joint_outliers.md",
    joint=True,
)
