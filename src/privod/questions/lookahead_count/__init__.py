"""How many copies of one record are there? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="lookahead-count-1",
    query="privod.questions.lookahead_count.query:LookaheadCount",
    picture="privod.questions.lookahead_count.picture:draw",
    games="privod.questions.lookahead_count.audit:games",
    guide="questions/lookahead.md",
    proof="proofs/lookahead.md",
)
