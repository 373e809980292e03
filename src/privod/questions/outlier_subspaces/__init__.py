"""In which columns do the most outliers show? [Okada 2015]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(
    __name__,
    owner_picture="privod.questions.outlier_subspaces.picture:draw_for_owner",
)
