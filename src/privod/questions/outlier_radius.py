"""At which radius does a wanted share of the records stand apart?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-radius-1",
    query="privod.queries.outlier_radius:OutlierRadius",
    picture="privod.pictures.outlier_radius:draw",
    games="privod.audit.outlier_radius:games",
    guide="questions/outlier_radius.md",
    proof="proofs/outlier_radius.md",
)
