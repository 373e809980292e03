"""In which groups do these persons stand out? [Shafieinejad 2021]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="outlier-groups-1",
    query="privod.queries.outlier_context.groups:OutlierGroups",
    picture="privod.pictures.outlier_groups:draw",
    owner_picture="privod.pictures.outlier_groups:draw_for_owner",
    games="privod.audit.outlier_groups:games",
    exports=("privod.queries.outlier_context.groups:PersonGroups",),
    guide="questions/outlier_groups.md",
    proof="proofs/outlier_groups.md",
)
