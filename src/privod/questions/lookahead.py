"""How many copies of one record are there? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="lookahead-count-1",
    query="privod.queries.lookahead:LookaheadCount",
    picture="privod.pictures.lookahead:draw",
    games="privod.audit.lookahead:games",
    guide="questions/lookahead.md",
    proof="proofs/lookahead.md",
)
