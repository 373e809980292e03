"""How many records are outlying, those near the line counted in part?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="graded-count-1",
    query="privod.questions.graded_count.query:GradedCount",
    picture="privod.questions.graded_count.picture:draw",
    games="privod.questions.graded_count.audit:games",
    guide="questions/graded_count.md",
    proof="proofs/graded_count.md",
)
