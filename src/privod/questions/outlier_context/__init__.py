"""In which groups do these persons stand out? [Shafieinejad 2021]"""

from privod.registry import described

QUESTION = described(
    __name__,
    adjacent="privod.questions.outlier_context.audit:same_contexts",
    exports=(
        "privod.outliers.contexts.contexts:Context",
        "privod.questions.outlier_context.query:PersonGroups",
    ),
)
