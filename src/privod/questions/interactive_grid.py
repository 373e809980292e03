"""How far out do these records lie, by a grid that is asked bit by bit? [Rauch 2021]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="interactive-grid-1",
    query="privod.queries.interactive_grid.query:InteractiveGridScores",
    picture="privod.pictures.interactive_grid:draw",
    games="privod.audit.interactive_grid:games",
    exports=("privod.queries.interactive_grid.query:GridScores",),
    guide="questions/interactive_grid.md",
    proof="proofs/interactive_grid.md",
)
