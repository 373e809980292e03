"""How far from the usual combinations of values is a new record?"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(
    __name__,
    value="privod.questions.mean_covariance.release:NoisyMoments",
)
