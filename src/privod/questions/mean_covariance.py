"""How far from the usual combinations of values is a new record?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="mean-covariance-1",
    query="privod.queries.mean_covariance.query:MeanCovariance",
    picture="privod.pictures.mean_covariance:draw",
    games="privod.audit.mean_covariance:games",
    exports=("privod.queries.mean_covariance.release:NoisyMoments",),
    guide="questions/mean_covariance.md",
    proof="proofs/mean_covariance.md",
)
