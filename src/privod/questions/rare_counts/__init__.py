"""How many records have these values, if they are rare? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="rare-counts-1",
    query="privod.questions.rare_counts.query:RareCounts",
    picture="privod.questions.rare_counts.picture:draw",
    games="privod.questions.rare_counts.audit:games",
    exports=("privod.questions.rare_counts.query:ValueCounts",),
    guide="questions/rare_counts.md",
    proof="proofs/rare_counts.md",
)
