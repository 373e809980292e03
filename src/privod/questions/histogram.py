"""How are the records spread over these columns?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="histogram-1",
    query="privod.queries.histogram:Histogram",
    picture="privod.pictures.histogram:draw",
    games="privod.audit.histogram:games",
    exports=("privod.queries.histogram:NoisyCounts",),
    guide="questions/histogram.md",
    proof="proofs/histogram.md",
)
