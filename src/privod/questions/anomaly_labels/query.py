"""Is this record in the data, and anomalous there? Sensitive privacy and plain DP [Asif 2020].

The true answer is told but for a coin that lies the more rarely, the more edits it would take to
change the answer. Under sensitive privacy only edits of records that stand in a crowd count, so
records far out are labeled almost surely right; proofs in docs/proofs/anomaly_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.engines.size import IN_MEMORY
from privod.mechanisms import Randomness
from privod.outliers.crowds.anomalies import is_anomalous
from privod.outliers.crowds.lookup import crowds_and_copies
from privod.outliers.crowds.public_cover import most_in_one_ball
from privod.privacy import Adjacency, Guarantee, InCrowd, Loss, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_radius,
    checked_records,
    column_names,
    crowd_adjacency,
    numeric_columns,
    typical_radius,
    whole_number,
)
from privod.query.labels import CrowdLabels, answer_by_edits, chance_in_words
from privod.query.memory import crowd_bytes
from privod.query.preview import Preview
from privod.query.query import Query, Release

__all__ = ["AnomalyLabels"]

LABEL_BYTES = 1 << 12  # of a record asked about: its numbers, its crowd and its label


@dataclass(frozen=True, kw_only=True)
class AnomalyLabels(CrowdLabels, Query[tuple[bool, ...]]):
    """Which of these records are in the data and anomalous there?

    Guarantee
    ---------
    With an `edit_margin`, everyone is protected who stands in a crowd of at least max_crowd + 1 -
    edit_margin records within the radius; a record that stays anomalous gets less, the farther out
    the less. Without one, every record is protected. "No" covers absent and normal alike.

    Parameters
    ----------
    records : tuple of tuple of float
        The records asked about, a value for each column; they are public.
    columns : tuple of str
        The numeric columns that distances are taken over.
    radius : float
        How near a record must be to belong to the crowd: the Euclidean distance over the columns.
    max_crowd : int
        A record is anomalous with at most this many records, itself included, within the radius.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about within one
        ball of the radius share it; others do not.
    edit_margin : int or None
        Within how many edits a protected record is normal, from 1; None protects every record.
    """

    name: ClassVar[str] = "anomaly-labels"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "Which of these records are in the data and anomalous there?"

    records: tuple[tuple[float, ...], ...]
    columns: tuple[str, ...]
    radius: float
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    edit_margin: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        object.__setattr__(self, "records", checked_records(self.records, len(self.columns)))
        object.__setattr__(self, "radius", checked_radius(self.radius))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        if self.edit_margin is not None:
            whole_number(self.edit_margin, "edit_margin", at_least=1)

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        return crowd_adjacency(self.radius, self.columns, self.max_crowd, self.edit_margin)

    @cached_property
    def labels_moved(self) -> int:
        """At most how many labels one record can move: those asked in one ball of the radius."""
        return most_in_one_ball(np.array(self.records, dtype=float), self.radius)

    @cached_property
    def label_epsilon(self) -> Fraction:
        """The loss of one label: one record moves at most `labels_moved` of them."""
        return self.epsilon / self.labels_moved

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)

    def not_protected(self) -> str:
        if not isinstance(self.adjacency, InCrowd):
            return ""
        return (
            f"A record with fewer than {self.adjacency.crowd} records within {self.radius:g} of it,"
            " itself included, is not protected: the farther out it is, the less. The label of one"
            " with no other near it is wrong with a probability of at most"
            f" {chance_in_words(self.lone_error)}, so it tells that surely whether the record is in"
            " the data."
        )

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return Preview("The label", wrong_label=self.lone_error)

    def check(self, domain: Domain) -> None:
        numeric_columns(domain, self.columns)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        # The index, and keys of all rows, sorted; past what memory holds, blocks of rows.
        rows = min(records, IN_MEMORY) + len(self.records)
        asked = LABEL_BYTES * len(self.records)
        return 2 * crowd_bytes(rows, len(self.columns)) + asked

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        columns = tuple(sorted(self.columns))  # the order that InCrowd adds up in
        label_epsilon = self.label_epsilon
        far = self.max_crowd + self.most_edits  # all larger crowds are as many edits away
        labels = [
            answer_by_edits(
                is_anomalous(crowd, copies, self.max_crowd),
                self.edits(crowd, copies),
                label_epsilon,
                randomness,
            )
            for crowd, copies in crowds_and_copies(
                table, columns, self.radius, self._records(), cap=far
            )
        ]
        return self.release(tuple(labels), randomness)

    def anomalous_in_words(self) -> str:
        return f"and anomalous (at most {self.max_crowd} records within {self.radius:g})"

    def lone_in_words(self) -> str:
        return "with no other near it"

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:2]
        if not columns:
            return ()
        sides = [domain[column] for column in columns]
        corners = tuple(
            tuple(c.low + share * (c.high - c.low) for c in sides if isinstance(c, Numeric))
            for share in (0.1, 0.5, 0.9)
        )
        radius = typical_radius(domain, columns)
        return (
            cls(records=corners, columns=columns, radius=radius, max_crowd=10, epsilon=1),
            cls(
                records=corners,
                columns=columns,
                radius=radius,
                max_crowd=10,
                epsilon="0.5",
                edit_margin=2,
            ),
        )

    def _records(self) -> NDArray[np.float64]:
        """The records with their columns in alphabetical order."""
        order = sorted(range(len(self.columns)), key=lambda place: self.columns[place])
        return np.ascontiguousarray(np.array(self.records, dtype=float)[:, order])
