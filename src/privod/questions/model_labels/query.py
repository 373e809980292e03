"""Would these records be anomalous, by any model that states its margin? [Asif 2020, Constr. 1].

The general construction as a question: whoever brings a model whose margin changes by at most 1
with one record gets labels that lose epsilon. Proof in docs/proofs/model_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, Guarantee, Loss, positive
from privod.query.checks import (
    ExactNumber,
    checked_records,
    column_names,
    numeric_columns,
    whole_number,
)
from privod.query.labels import (
    Labels,
    answer_by_edits,
    chance_in_words,
    chance_of_error,
    said_to_be,
)
from privod.query.memory import likeness_bytes
from privod.query.preview import Preview
from privod.query.query import Query, Release
from privod.questions.model_labels.edit_models import edit_model

__all__ = ["ModelLabels"]

MOST_RECORDS = 1000
CLEAR = {  # what a record is like whose label is least often wrong
    "knn-distance": "with no other near it",
    "tail-rank": "farther out than all others in some column",
}
WHATEVER = "that no other record has a bearing on"


@dataclass(frozen=True, kw_only=True)
class ModelLabels(Labels, Query[tuple[bool, ...]]):
    """Which of these new records would be anomalous, by a model of your choice?

    Guarantee
    ---------
    Every record is protected, including whether it is in the data at all, as long as the margin of
    the model changes by at most 1 when one record comes or goes. That is proved for knn-distance
    and tail-rank; for a model of one's own its author vouches. A label is wrong the more rarely,
    the larger the margin is.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns that the model looks at.
    records : tuple of tuple of float
        The new records, a value for each column; they are public. 1000 at most.
    epsilon : number
        The privacy loss of all labels together, greater than 0; each has an equal share.
    model : str
        What anomalous means: knn-distance(n_neighbors=5, radius=1.0), tail-rank(n_beyond=5), or
        the name of a plugged-in one with its parameters.
    """

    name: ClassVar[str] = "model-labels"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "Which of these new records would be anomalous by this model?"

    columns: tuple[str, ...]
    records: tuple[tuple[float, ...], ...]
    epsilon: ExactNumber = ExactNumber(positive)
    model: str = "tail-rank(n_beyond=5)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "records", checked_records(self.records, len(self.columns)))
        whole_number(len(self.records), "the number of records", 1, MOST_RECORDS)
        object.__setattr__(self, "model", str(edit_model(self.model)))

    @property
    def label_epsilon(self) -> Fraction:
        """The loss of one label: one record may move all of them."""
        return self.epsilon / len(self.records)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        alone = self._alone_error
        clear = CLEAR.get(edit_model(self.model).name, WHATEVER)
        words = (
            f"The label of a record {clear} will be wrong with a probability of {alone:.2g}."
            f" {self._at_worst}."
        )
        return Preview("The label", wrong_label=alone, words=words)

    def check(self, domain: Domain) -> None:
        columns = domain.numeric(numeric_columns(domain, self.columns))
        for record in self.records:
            edit_model(self.model).try_out(columns, np.array(record))

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        # The points, and four arrays of their shape; a model of somebody's own may take more.
        return 5 * 8 * records * len(self.columns) + likeness_bytes(records, 1)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        """A model is shown the columns asked about, side by side."""
        return len(self.columns)

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        points, model = table.numbers(self.columns), edit_model(self.model)
        margins = [model.margin(points, np.array(record)) for record in self.records]
        labels = tuple(
            answer_by_edits(margin >= 0, self.edits(margin), self.label_epsilon, randomness)
            for margin in margins
        )
        return self.release(labels, randomness)

    def edits(self, margin: int) -> int:
        """A bound of the records that must come or go until the verdict changes; not private."""
        return min(margin + 1 if margin >= 0 else -margin, self.most_edits)

    def error(self, margin: int) -> float:
        """The probability of a wrong label; not private."""
        return chance_of_error(self.edits(margin), self.label_epsilon)

    def sentence(self, value: tuple[bool, ...]) -> str:
        which = said_to_be(value, "new record", "new records")
        return f"{which} anomalous by {self.model}. {self._at_worst}."

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric()[:2]
        if not columns:
            return ()
        records = tuple(tuple(_part(one, part) for one in columns) for part in (0.5, 0.99))
        names = tuple(one.name for one in columns)
        radius = float(f"{max(one.high - one.low for one in columns) / 20:.3g}")
        near = f"knn-distance(n_neighbors=10, radius={radius!r})"
        return (
            cls(columns=names, records=records, epsilon="0.5"),
            cls(columns=names, records=records, epsilon="0.5", model=near),
        )

    @property
    def _alone_error(self) -> float:
        """How often a label is wrong at most, where the data hold nothing near the record."""
        model, nothing = edit_model(self.model), np.empty((0, len(self.columns)))
        margins = [model.margin(nothing, np.array(record)) for record in self.records]
        return self.error(max(0, min(margins)))  # a model may call what stands alone normal

    @property
    def _at_worst(self) -> str:
        return (
            f"A label is wrong with a probability of at most {chance_in_words(self.error(0))}, and"
            f" e to the {float(self.label_epsilon):.3g} times more rarely for each further record"
            " between it and the border"
        )


def _part(column: Numeric, share: float) -> float:
    """A public value of a column, for examples."""
    return column.low + share * (column.high - column.low)
