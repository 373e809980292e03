"""At which radius does a wanted share of the records stand apart?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-radius-1",
    query="privod.questions.outlier_radius.query:OutlierRadius",
    picture="privod.questions.outlier_radius.picture:draw",
    games="privod.questions.outlier_radius.audit:games",
    guide="questions/outlier_radius.md",
    proof="proofs/outlier_radius.md",
)
