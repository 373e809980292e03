"""Which of these records are in the data and anomalous? [Asif 2020]"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="anomaly-labels-1",
    query="privod.questions.anomaly_labels.query:AnomalyLabels",
    picture="privod.questions.anomaly_labels.picture:draw",
    owner_picture="privod.questions.anomaly_labels.picture:draw_for_owner",
    games="privod.questions.anomaly_labels.audit:games",
    exports=(
        "privod.query.labels:answer_by_edits",
        "privod.outliers.crowds.anomalies:edits_by_search",
        "privod.outliers.crowds.anomalies:is_regular",
        "privod.outliers.crowds.anomalies:least_edit_margin",
        "privod.outliers.crowds.anomalies:record_privacy",
    ),
    guide="questions/anomaly_labels.md",
    proof="proofs/anomaly.md",
)
