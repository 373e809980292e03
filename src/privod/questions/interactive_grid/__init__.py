"""How far out do these records lie, by a grid that is asked bit by bit? [Rauch 2021]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="interactive-grid-1",
    query="privod.questions.interactive_grid.query:InteractiveGridScores",
    picture="privod.questions.interactive_grid.picture:draw",
    games="privod.questions.interactive_grid.audit:games",
    exports=("privod.questions.interactive_grid.query:GridScores",),
    guide="questions/interactive_grid.md",
    proof="proofs/interactive_grid.md",
)
