"""Which of my records are unusual among the records of all of us?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="joint-detector-1",
    query="privod.joint.detector.question:JointDetector",
    picture="privod.joint.pictures.run:draw_run",
    exports=("privod.joint.detector.question:JointProfile", "privod.joint.run:rehearse"),
    guide="questions/joint_detector.md",
    proof="proofs/joint_detector.md",
    joint=True,
)
