"""How far out do these records lie, by a grid that is asked bit by bit? [Rauch 2021]"""

from privod.registry import described

QUESTION = described(__name__, exports=("privod.questions.interactive_grid.query:GridScores",))
