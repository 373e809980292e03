"""Which of these new records would be anomalous among those at hand? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="novelty-labels-1",
    query="privod.queries.novelty_labels:NoveltyLabels",
    picture="privod.pictures.novelty_labels:draw",
    games="privod.audit.novelty_labels:games",
    guide="questions/novelty_labels.md",
    proof="proofs/novelty_labels.md",
)
