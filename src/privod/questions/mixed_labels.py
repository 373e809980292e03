"""Which of these records, with categories, are in the data and rare there? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="mixed-labels-1",
    query="privod.queries.mixed_labels:MixedLabels",
    picture="privod.pictures.mixed_labels:draw",
    games="privod.audit.mixed_labels:games",
    guide="questions/mixed_labels.md",
    proof="proofs/mixed_labels.md",
)
