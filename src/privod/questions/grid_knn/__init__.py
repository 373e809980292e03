"""How far from the records at hand does a new one lie? [Rauch 2021]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="grid-knn-1",
    query="privod.questions.grid_knn.query:GridKnn",
    picture="privod.questions.grid_knn.picture:draw",
    games="privod.questions.grid_knn.audit:games",
    value="privod.questions.grid_knn.release:NoisyGrid",
    exports=("privod.estimators.grid_knn:GridKnnDetector",),
    guide="questions/grid_knn.md",
    proof="proofs/grid_knn.md",
)
