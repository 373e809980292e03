"""How far from what is ordinary here is a new record, and why?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="private-detector-1",
    query="privod.queries.private_detector.query:DetectorProfile",
    picture="privod.pictures.private_detector:draw",
    games="privod.audit.private_detector:games",
    exports=(
        "privod.queries.private_detector.release:NoisyProfile",
        "privod.estimators.private:PrivateDetector",
    ),
    guide="questions/private_detector.md",
    proof="proofs/private_detector.md",
)
