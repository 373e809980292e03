"""Which combinations of these categories are rare? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="rare-combinations-1",
    query="privod.questions.rare_combinations.query:RareCombinations",
    picture="privod.questions.rare_combinations.picture:draw",
    games="privod.questions.rare_combinations.audit:games",
    exports=("privod.questions.rare_combinations.query:CombinationCounts",),
    guide="questions/rare_combinations.md",
    proof="proofs/rare_combinations.md",
)
