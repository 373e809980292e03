"""In which group does this person stand out? [Shafieinejad 2021]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-context-1",
    query="privod.queries.outlier_context.query:OutlierContext",
    picture="privod.pictures.outlier_context:draw",
    owner_picture="privod.pictures.outlier_context:draw_for_owner",
    games="privod.audit.outlier_context:games",
    exports=("privod.outliers.contexts.contexts:Context",),
    guide="questions/outlier_context.md",
    proof="proofs/outlier_context.md",
)
