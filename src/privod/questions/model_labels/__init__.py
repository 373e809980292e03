"""Which of these new records would be anomalous by a model of one's choice? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="model-labels-1",
    query="privod.questions.model_labels.query:ModelLabels",
    picture="privod.questions.model_labels.picture:draw",
    games="privod.questions.model_labels.audit:games",
    exports=(
        "privod.questions.model_labels.edit_models:EditModel",
        "privod.questions.model_labels.edit_models:plug_in_model",
    ),
    guide="questions/model_labels.md",
    proof="proofs/model_labels.md",
)
