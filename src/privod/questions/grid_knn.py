"""How far from the records at hand does a new one lie? [Rauch 2021]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="grid-knn-1",
    query="privod.queries.grid_knn.query:GridKnn",
    picture="privod.pictures.grid_knn:draw",
    games="privod.audit.grid_knn:games",
    exports=(
        "privod.queries.grid_knn.release:NoisyGrid",
        "privod.estimators.grid_knn:GridKnnDetector",
    ),
    guide="questions/grid_knn.md",
    proof="proofs/grid_knn.md",
)
