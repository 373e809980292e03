"""Which of these records, with categories, are in the data and rare there? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="mixed-labels-1",
    query="privod.questions.mixed_labels.query:MixedLabels",
    picture="privod.questions.mixed_labels.picture:draw",
    games="privod.questions.mixed_labels.audit:games",
    guide="questions/mixed_labels.md",
    proof="proofs/mixed_labels.md",
)
