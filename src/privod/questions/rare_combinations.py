"""Which combinations of these categories are rare? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="rare-combinations-1",
    query="privod.queries.rare_combinations:RareCombinations",
    picture="privod.pictures.rare_combinations:draw",
    games="privod.audit.rare_combinations:games",
    exports=("privod.queries.rare_combinations:CombinationCounts",),
    guide="questions/rare_combinations.md",
    proof="proofs/rare_combinations.md",
)
