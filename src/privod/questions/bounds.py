"""Between which values do the records lie?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="private-bounds-1",
    query="privod.queries.bounds:PrivateBounds",
    picture="privod.pictures.bounds:draw",
    games="privod.audit.bounds:games",
    guide="questions/bounds.md",
    proof="proofs/bounds.md",
)
