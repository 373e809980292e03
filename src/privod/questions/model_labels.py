"""Which of these new records would be anomalous by a model of one's choice? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="model-labels-1",
    query="privod.queries.model_labels:ModelLabels",
    picture="privod.pictures.model_labels:draw",
    games="privod.audit.model_labels:games",
    exports=("privod.queries.edit_models:EditModel", "privod.queries.edit_models:plug_in_model"),
    guide="questions/model_labels.md",
    proof="proofs/model_labels.md",
)
