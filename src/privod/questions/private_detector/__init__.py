"""How far from what is ordinary here is a new record, and why?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="private-detector-1",
    query="privod.questions.private_detector.query:DetectorProfile",
    picture="privod.questions.private_detector.picture:draw",
    games="privod.questions.private_detector.audit:games",
    value="privod.questions.private_detector.release:NoisyProfile",
    exports=("privod.estimators.private:PrivateDetector",),
    guide="questions/private_detector.md",
    proof="proofs/private_detector.md",
)
