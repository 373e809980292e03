"""How rare are a new record's values, column by column?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="marginals-1",
    query="privod.questions.marginals.query:MarginalHistograms",
    picture="privod.questions.marginals.picture:draw",
    games="privod.questions.marginals.audit:games",
    value="privod.questions.marginals.release:NoisyMarginals",
    exports=("privod.estimators.marginals:MarginalDetector",),
    guide="questions/marginals.md",
    proof="proofs/marginals.md",
)
