"""How rare are a new record's values, column by column?"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(
    __name__,
    value="privod.questions.marginals.release:NoisyMarginals",
    exports=("privod.estimators.marginals:MarginalDetector",),
)
