"""In which groups do these persons stand out? [Shafieinejad 2021]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-groups-1",
    query="privod.questions.outlier_context.groups:OutlierGroups",
    picture="privod.questions.outlier_groups.picture:draw",
    owner_picture="privod.questions.outlier_groups.picture:draw_for_owner",
    games="privod.questions.outlier_groups.audit:games",
    adjacent="privod.questions.outlier_context.audit:same_contexts",
    exports=("privod.questions.outlier_context.groups:PersonGroups",),
    guide="questions/outlier_groups.md",
    proof="proofs/outlier_groups.md",
)
