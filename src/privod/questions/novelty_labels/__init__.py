"""Which of these new records would be anomalous among those at hand? [Asif 2020]"""

from privod.registry import described

QUESTION = described(
    __name__,
    exports=(
        "privod.questions.novelty_labels.models:EditModel",
        "privod.questions.novelty_labels.models:plug_in_model",
    ),
)
