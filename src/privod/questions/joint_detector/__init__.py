"""Which of my records are unusual among the records of all of us?"""

from privod.registry import described

QUESTION = described(
    __name__,
    query="privod.joint.detector.question:JointDetector",
    picture="",
    exports=("privod.joint.detector.question:JointProfile", "privod.joint.run:rehearse"),
    worst_cases="",
    joint=True,
)
