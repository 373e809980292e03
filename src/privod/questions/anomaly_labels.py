"""Which of these records are in the data and anomalous? [Asif 2020]"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="anomaly-labels-1",
    query="privod.queries.anomaly_labels:AnomalyLabels",
    picture="privod.pictures.anomaly_labels:draw",
    owner_picture="privod.pictures.anomaly_labels:draw_for_owner",
    games="privod.audit.anomaly_labels:games",
    exports=(
        "privod.queries.labels:answer_by_edits",
        "privod.outliers.crowds.anomalies:edits_by_search",
        "privod.outliers.crowds.anomalies:is_regular",
        "privod.outliers.crowds.anomalies:least_edit_margin",
        "privod.outliers.crowds.anomalies:record_privacy",
    ),
    guide="questions/anomaly_labels.md",
    proof="proofs/anomaly.md",
)
