"""Between which values do the records lie?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="private-bounds-1",
    query="privod.questions.private_bounds.query:PrivateBounds",
    picture="privod.questions.private_bounds.picture:draw",
    games="privod.questions.private_bounds.audit:games",
    guide="questions/bounds.md",
    proof="proofs/bounds.md",
)
