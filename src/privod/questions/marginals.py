"""How rare are a new record's values, column by column?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="marginals-1",
    query="privod.queries.marginals.query:MarginalHistograms",
    picture="privod.pictures.marginals:draw",
    games="privod.audit.marginals:games",
    exports=(
        "privod.queries.marginals.release:NoisyMarginals",
        "privod.estimators.marginals:MarginalDetector",
    ),
    guide="questions/marginals.md",
    proof="proofs/marginals.md",
)
