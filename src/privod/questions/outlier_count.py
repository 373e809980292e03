"""How many outlying records are there? [Okada 2015]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-count-1",
    query="privod.queries.outlier_count:OutlierCount",
    picture="privod.pictures.outlier_count:draw",
    games="privod.audit.outlier_count:games",
    guide="questions/outlier_count.md",
    proof="proofs/outlier_count.md",
)
