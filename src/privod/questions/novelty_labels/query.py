"""Would these new records be anomalous among the private ones? Numbers and categories [Asif 2020].

The variant of anomaly labels in which the record asked about is added to the data: whether it is in
there already makes no difference to whom the answer protects, so plain differential privacy labels
lone records almost surely right. Proof in docs/proofs/novelty_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import Randomness
from privod.privacy import AddRemove, Guarantee, Loss, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    whole_number,
)
from privod.query.labels import (
    Labels,
    answer_by_edits,
    chance_in_words,
    chance_of_error,
    said_to_be,
)
from privod.query.likeness import Entry, Likeness, checked_entries, end_of
from privod.query.memory import likeness_bytes
from privod.query.preview import Preview
from privod.query.query import Query, Release

__all__ = ["NoveltyLabels"]


@dataclass(frozen=True, kw_only=True)
class NoveltyLabels(Labels, Query[tuple[bool, ...]]):
    """Which of these new records would be anomalous among the records at hand?

    Guarantee
    ---------
    Every record is protected, including whether it is in the data at all. A label is wrong the more
    rarely, the more records would have to come or go for the answer to change.

    Parameters
    ----------
    columns : tuple of str
        The columns that records are compared by, numeric and categorical ones, 200 at most.
    records : tuple of (str, int or float, ...)
        The new records, a value for each column; they are public. 1000 at most.
    max_crowd : int
        A record is anomalous with at most this many records near it, itself included.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about that one
        record can be near to share it; others do not.
    max_distance : int
        Records are near if the weights of the columns in which they differ sum up to this at most.
        0 asks for the same values in all columns.
    tolerances : tuple of (str, number)
        Rows of a numeric column and how far apart two numbers may be that count as the same, 0 if
        it is not named.
    weights : tuple of (str, int)
        Rows of a column and its weight, a whole number from 0; 1 if it is not named. With all
        weights 1 the distance is the number of columns that differ (Hamming).
    """

    name: ClassVar[str] = "novelty-labels"
    question: ClassVar[str] = "Which of these new records would be anomalous among those at hand?"

    columns: tuple[str, ...]
    records: tuple[tuple[Entry, ...], ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    max_distance: int = 0
    tolerances: tuple[tuple[str | float, ...], ...] = ()
    weights: tuple[tuple[str | int, ...], ...] = ()

    def __post_init__(self) -> None:
        like = Likeness.asked(self.columns, self.max_distance, self.tolerances, self.weights)
        for name in ("columns", "tolerances", "weights"):
            object.__setattr__(self, name, getattr(like, name))
        object.__setattr__(self, "records", checked_entries(self.records, len(self.columns)))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)

    @cached_property
    def likeness(self) -> Likeness:
        """Which records are near."""
        return Likeness(self.columns, self.max_distance, self.tolerances, self.weights)

    @cached_property
    def labels_moved(self) -> int:
        """At most how many labels one record can move."""
        return self.likeness.labels_moved(self.records)

    @cached_property
    def label_epsilon(self) -> Fraction:
        """The loss of one label."""
        return self.epsilon / self.labels_moved

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return Preview("The label", wrong_label=self.error(others=0))

    def check(self, domain: Domain) -> None:
        self.likeness.check(domain, self.records)

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        return likeness_bytes(records, len(self.columns))

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        held = self.likeness.held(table)
        labels = []
        for record in self.records:
            near = int(self.likeness.near(held, record).sum())
            truth = self.is_anomalous(near)
            labels.append(answer_by_edits(truth, self.edits(near), self.label_epsilon, randomness))
        return self.release(tuple(labels), randomness)

    def is_anomalous(self, others: int) -> bool:
        """Whether a record with so many others near it is; not private."""
        return others + 1 <= self.max_crowd

    def edits(self, others: int) -> int:
        """The fewest records to add or remove until the answer changes; not private."""
        crowd = others + 1
        found = self.max_crowd + 1 - crowd if crowd <= self.max_crowd else crowd - self.max_crowd
        return min(found, self.most_edits)

    def error(self, others: int) -> float:
        """The probability of a wrong label; not private."""
        return chance_of_error(self.edits(others), self.label_epsilon)

    def sentence(self, value: tuple[bool, ...]) -> str:
        return (
            f"{said_to_be(value, 'new record', 'new records')}"
            f" anomalous among those at hand (at most {self.max_crowd} near it, itself"
            " included); a label is wrong with a probability of at most"
            f" {chance_in_words(self.largest_error)}, and the label of a record with no other"
            f" near it with a probability of at most {chance_in_words(self.error(others=0))}."
        )

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns: list[Categorical | Numeric] = [*domain.categorical()[:2], *domain.numeric()[:2]]
        if not columns:
            return ()
        numeric = [column for column in columns if isinstance(column, Numeric)]
        tolerances = tuple((one.name, float(f"{(one.high - one.low) / 10:.3g}")) for one in numeric)
        return (
            cls(
                columns=tuple(column.name for column in columns),
                records=tuple(tuple(end_of(one, last=last) for one in columns) for last in (0, 1)),
                max_crowd=10,
                epsilon="0.5",
                max_distance=1 if len(columns) > 1 else 0,
                tolerances=tolerances,
            ),
        )
