"""In which columns do the most outliers show? [Okada 2015]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-subspaces-1",
    query="privod.questions.outlier_subspaces.query:OutlierSubspaces",
    picture="privod.questions.outlier_subspaces.picture:draw",
    owner_picture="privod.questions.outlier_subspaces.picture:draw_for_owner",
    games="privod.questions.outlier_subspaces.audit:games",
    guide="questions/subspaces.md",
    proof="proofs/subspaces.md",
)
