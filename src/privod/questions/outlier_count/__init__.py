"""How many outlying records are there? [Okada 2015]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-count-1",
    query="privod.questions.outlier_count.query:OutlierCount",
    picture="privod.questions.outlier_count.picture:draw",
    games="privod.questions.outlier_count.audit:games",
    guide="questions/outlier_count.md",
    proof="proofs/outlier_count.md",
)
