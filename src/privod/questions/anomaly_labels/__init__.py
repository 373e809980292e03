"""Which of these records are in the data and anomalous? [Asif 2020]"""

from privod.registry import described

QUESTION = described(
    __name__,
    exports=(
        "privod.query.labels:answer_by_edits",
        "privod.outliers.crowds.anomalies:edits_by_search",
        "privod.outliers.crowds.anomalies:is_regular",
        "privod.outliers.crowds.anomalies:least_edit_margin",
        "privod.outliers.crowds.anomalies:record_privacy",
    ),
)
