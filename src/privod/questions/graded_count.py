"""How many records are outlying, those near the line counted in part?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="graded-count-1",
    query="privod.queries.graded_count:GradedCount",
    picture="privod.pictures.graded_count:draw",
    games="privod.audit.graded_count:games",
    guide="questions/graded_count.md",
    proof="proofs/graded_count.md",
)
