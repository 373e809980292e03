"""Which of these new records would be anomalous among those at hand? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="novelty-labels-1",
    query="privod.questions.novelty_labels.query:NoveltyLabels",
    picture="privod.questions.novelty_labels.picture:draw",
    games="privod.questions.novelty_labels.audit:games",
    exports=(
        "privod.questions.novelty_labels.models:EditModel",
        "privod.questions.novelty_labels.models:plug_in_model",
    ),
    guide="questions/novelty_labels.md",
    proof="proofs/novelty_labels.md",
)
