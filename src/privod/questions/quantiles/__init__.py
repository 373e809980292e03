"""Below which values do these shares of the records lie?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="quantiles-1",
    query="privod.questions.quantiles.query:Quantiles",
    picture="privod.questions.quantiles.picture:draw",
    games="privod.questions.quantiles.audit:games",
    exports=("privod.questions.quantiles.query:NoisyQuantiles",),
    guide="questions/quantiles.md",
    proof="proofs/quantiles.md",
)
