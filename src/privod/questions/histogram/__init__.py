"""How are the records spread over these columns?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="histogram-1",
    query="privod.questions.histogram.query:Histogram",
    picture="privod.questions.histogram.picture:draw",
    games="privod.questions.histogram.audit:games",
    exports=("privod.questions.histogram.query:NoisyCounts",),
    guide="questions/histogram.md",
    proof="proofs/histogram.md",
)
