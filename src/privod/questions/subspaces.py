"""In which columns do the most outliers show? [Okada 2015]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-subspaces-1",
    query="privod.queries.subspaces:OutlierSubspaces",
    picture="privod.pictures.subspaces:draw",
    owner_picture="privod.pictures.subspaces:draw_for_owner",
    games="privod.audit.subspaces:games",
    guide="questions/subspaces.md",
    proof="proofs/subspaces.md",
)
