"""Would these new records be anomalous among the private ones, by some model? [Asif 2020].

The record asked about is added to the data, so plain differential privacy labels lone records
almost surely right. Proof in docs/proofs/novelty_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, Guarantee, Loss, positive
from privod.query.checks import ExactNumber, column_names, typical_radius
from privod.query.labels import Labels, answer_by_edits, chance_in_words, chance_of_error, labeled
from privod.query.likeness import Entry, end_of
from privod.query.near import Alike, Distance, Near, Tail, tenths
from privod.query.preview import Preview
from privod.query.query import Query, Release
from privod.questions.novelty_labels.models import CrowdModel, EditModel, model_of


@dataclass(frozen=True, kw_only=True)
class NoveltyLabels(Labels, Query[tuple[bool, ...]]):
    """A noisy yes or no for each record you list: whether it would be an outlier here.

    Guarantee
    ---------
    Every record is protected, including whether it is in the data at all. A label is wrong the more
    rarely, the more records would have to come or go for the answer to change. For a model of
    somebody's own its author vouches that its margin changes by at most 1 with one record.

    Parameters
    ----------
    columns : tuple of str
        The columns that the model looks at.
    records : tuple of (str, int or float, ...)
        The new records, a value for each column; they are public.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about that one
        record can move share it; others do not.
    model : str
        What anomalous means. crowd(max_crowd=5, near=distance(radius=1.0)): at most so many
        records in the crowd, the new one included; `near` is distance(radius), which makes it the
        k-NN distance, alike(max_distance, tolerances, weights) for numbers and categories, or
        tail() for the rank from the end of a column. Or the name of a plugged-in model with its
        parameters.
    """

    name: ClassVar[str] = "novelty-labels"
    question: ClassVar[str] = "Which of these new records would be outliers here?"
    goal: ClassVar[str] = "score"

    columns: tuple[str, ...]
    records: tuple[tuple[Entry, ...], ...]
    epsilon: ExactNumber = ExactNumber(positive)
    model: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        model = model_of(self.model)
        object.__setattr__(self, "model", str(model))
        object.__setattr__(self, "records", model.near.records(self.records, self.columns))

    @cached_property
    def _model(self) -> CrowdModel | EditModel:
        return model_of(self.model)

    @property
    def judge(self) -> Near | EditModel:
        return self._model.near

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        alone = self.error(self._model.alone_margin(self.columns, self.records))
        words = (
            f"The label of a record {self._model.alone} will be wrong with a probability of"
            f" {alone:.2g}. {self._at_worst}."
        )
        return Preview("The label", wrong_label=alone, words=words)

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        margins = self._model.margins(table, self.columns, self.records, self.most_edits)
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
        return f"{labeled(value, 'new record')}{self._model.meaning}. {self._at_worst}."

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        plane: list[Categorical | Numeric] = list(domain.numeric()[:2])
        cases: list[tuple[list[Categorical | Numeric], Near]] = []
        if plane:
            radius = typical_radius(domain, tuple(one.name for one in plane))
            cases += [(plane, Distance(radius)), (plane, Tail())]
        if domain.categorical():
            columns = [*domain.categorical()[:2], *plane]
            cases.append((columns, Alike(int(len(columns) > 1), tenths(columns))))
        return tuple(
            cls(
                columns=tuple(one.name for one in columns),
                records=tuple(tuple(end_of(one, last=last) for one in columns) for last in (0, 1)),
                epsilon="0.5",
                model=str(CrowdModel(10, near)),
            )
            for columns, near in cases
        )

    @property
    def _at_worst(self) -> str:
        return (
            f"A label is wrong with probability at most {chance_in_words(self.error(0))}. Each"
            " further record between it and the border divides that by about"
            f" e^{float(self.label_epsilon):.3g}"
        )
