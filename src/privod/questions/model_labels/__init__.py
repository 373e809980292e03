"""Which of these new records would be anomalous by a model of one's choice? [Asif 2020]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(
    __name__,
    exports=(
        "privod.questions.model_labels.edit_models:EditModel",
        "privod.questions.model_labels.edit_models:plug_in_model",
    ),
)
