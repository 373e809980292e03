"""Which of these records, with categories, are in the data and rare there? [Asif 2020]

Anomaly labels for records that are compared by numbers and categories: an exact match, the number
of columns that differ (Hamming) or weighted columns. Under sensitive privacy lone records are
labeled almost surely right, and are not protected. Proof in docs/proofs/mixed_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.outliers.crowds.anomalies import (
    is_anomalous,
    protected_crowd,
)
from privod.privacy import AddRemove, Adjacency, Guarantee, InAlikeCrowd, Loss, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    whole_number,
)
from privod.query.labels import CrowdLabels, answer_by_edits, chance_in_words
from privod.query.likeness import Entry, Likeness, checked_entries, end_of
from privod.query.memory import likeness_bytes
from privod.query.preview import Preview
from privod.query.query import Query, Release

__all__ = ["MixedLabels"]


@dataclass(frozen=True, kw_only=True)
class MixedLabels(CrowdLabels, Query[tuple[bool, ...]]):
    """Which of these records, with numbers and categories, are in the data and anomalous there?

    Guarantee
    ---------
    With an `edit_margin`, everyone is protected who has at least max_crowd + 1 - edit_margin
    records alike, itself included; a record that stays anomalous gets less, the fewer are alike it
    the less. Without one, every record is protected. "No" covers absent and normal alike.

    Parameters
    ----------
    columns : tuple of str
        The columns that records are compared by, numeric and categorical ones, 200 at most.
    records : tuple of (str, int or float, ...)
        The records asked about, a value for each column; they are public. 1000 at most.
    max_crowd : int
        A record is anomalous with at most this many records alike it, itself included.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about that one
        record can be alike share it; others do not.
    edit_margin : int or None
        Within how many edits a protected record is normal, from 1; None protects every record.
    max_distance : int
        Records are alike if the weights of the columns in which they differ sum up to this at most.
        0 asks for the same values in all columns.
    tolerances : tuple of (str, number)
        Rows of a numeric column and how far apart two numbers may be that count as the same, 0 if
        it is not named.
    weights : tuple of (str, int)
        Rows of a column and its weight, a whole number from 1; 1 if it is not named. With all
        weights 1 the distance is the number of columns that differ (Hamming).
    """

    name: ClassVar[str] = "mixed-labels"
    question: ClassVar[str] = "Which of these records are in the data, with few alike them?"

    columns: tuple[str, ...]
    records: tuple[tuple[Entry, ...], ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    edit_margin: int | None = None
    max_distance: int = 0
    tolerances: tuple[tuple[str | float, ...], ...] = ()
    weights: tuple[tuple[str | int, ...], ...] = ()

    def __post_init__(self) -> None:
        like = Likeness.asked(self.columns, self.max_distance, self.tolerances, self.weights)
        for name in ("columns", "tolerances", "weights"):
            object.__setattr__(self, name, getattr(like, name))
        for column, weight in like.weights:
            if weight < 1:
                rule = f"must be at least 1, for {column} too"
                raise InvalidParameter("weights", rule, weight, "Leave the column out.")
        object.__setattr__(self, "records", checked_entries(self.records, len(self.columns)))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        if self.edit_margin is not None:
            whole_number(self.edit_margin, "edit_margin", at_least=1)

    @cached_property
    def likeness(self) -> Likeness:
        """Which records are alike."""
        return Likeness(self.columns, self.max_distance, self.tolerances, self.weights)

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        margin = self.edit_margin
        crowd = 1 if margin is None else protected_crowd(self.max_crowd, margin)
        if crowd <= 1:
            return AddRemove()
        like = self.likeness
        return InAlikeCrowd(like.columns, crowd, like.max_distance, like.tolerances, like.weights)

    @cached_property
    def labels_moved(self) -> int:
        """At most how many labels one record can move."""
        return self.likeness.labels_moved(self.records)

    @cached_property
    def label_epsilon(self) -> Fraction:
        """The loss of one label."""
        return self.epsilon / self.labels_moved

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)

    def not_protected(self) -> str:
        if not isinstance(self.adjacency, InAlikeCrowd):
            return ""
        return (
            f"{self.adjacency.gives_up} The label of a record that no other is alike is wrong with"
            f" a probability of at most {chance_in_words(self.lone_error)}, so it tells that surely"
            " whether the record is in the data."
        )

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return Preview("The label", wrong_label=self.lone_error)

    def check(self, domain: Domain) -> None:
        self.likeness.check(domain, self.records)

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        return likeness_bytes(records, len(self.columns))

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        equal = Likeness(self.columns, 0)
        held = self.likeness.held(table)
        labels = []
        for record in self.records:
            crowd = int(self.likeness.near(held, record).sum())
            copies = int(equal.near(held, record).sum())
            truth = is_anomalous(crowd, copies, self.max_crowd)
            edits = self.edits(crowd, copies)
            labels.append(answer_by_edits(truth, edits, self.label_epsilon, randomness))
        return self.release(tuple(labels), randomness)

    def anomalous_in_words(self) -> str:
        return f"with at most {self.max_crowd} records alike, themselves included"

    def lone_in_words(self) -> str:
        return "that no other is alike"

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns: list[Categorical | Numeric] = [*domain.categorical()[:2], *domain.numeric()[:1]]
        if not columns:
            return ()
        numeric = [column for column in columns if isinstance(column, Numeric)]
        asked: dict[str, Any] = {
            "columns": tuple(column.name for column in columns),
            "records": tuple(tuple(end_of(one, last=last) for one in columns) for last in (0, 1)),
            "max_crowd": 10,
            "epsilon": 1,
            "tolerances": tuple(
                (one.name, float(f"{(one.high - one.low) / 10:.3g}")) for one in numeric
            ),
        }
        return (cls(**asked), cls(**asked, edit_margin=2, max_distance=1))
