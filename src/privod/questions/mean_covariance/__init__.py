"""How far from the usual combinations of values is a new record?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="mean-covariance-1",
    query="privod.questions.mean_covariance.query:MeanCovariance",
    picture="privod.questions.mean_covariance.picture:draw",
    games="privod.questions.mean_covariance.audit:games",
    value="privod.questions.mean_covariance.release:NoisyMoments",
    guide="questions/mean_covariance.md",
    proof="proofs/mean_covariance.md",
)
