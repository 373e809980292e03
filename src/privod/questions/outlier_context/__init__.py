"""In which groups do these persons stand out? [Shafieinejad 2021]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-context-1",
    query="privod.questions.outlier_context.query:OutlierContext",
    picture="privod.questions.outlier_context.picture:draw",
    owner_picture="privod.questions.outlier_context.picture:draw_for_owner",
    games="privod.questions.outlier_context.audit:games",
    adjacent="privod.questions.outlier_context.audit:same_contexts",
    exports=(
        "privod.outliers.contexts.contexts:Context",
        "privod.questions.outlier_context.query:PersonGroups",
    ),
    guide="questions/outlier_context.md",
    proof="proofs/outlier_context.md",
)
