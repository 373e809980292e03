"""Is this record in the data, and anomalous there? Sensitive privacy and plain DP [Asif 2020].

The true answer is told but for a coin that lies the more rarely, the more edits it would take to
change the answer. Under sensitive privacy only edits of records that stand in a crowd count, so
records far out are labeled almost surely right; proofs in docs/proofs/anomaly.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.engines.size import IN_MEMORY
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness, damped_logistic
from privod.outliers.crowds.anomalies import (
    edits_to_flip,
    is_anomalous,
    protected_crowd,
    sensitive_edits_to_flip,
)
from privod.outliers.crowds.lookup import crowds_and_copies
from privod.outliers.crowds.public_cover import most_in_one_ball
from privod.privacy import AddRemove, Adjacency, Guarantee, InCrowd, Loss, positive
from privod.queries.checks import (
    LARGEST_COUNT,
    ExactNumber,
    checked_radius,
    checked_records,
    column_names,
    labeled,
    numeric_columns,
    said_to_be,
    typical_radius,
    whole_number,
)
from privod.queries.memory import crowd_bytes
from privod.queries.preview import Preview
from privod.queries.query import Query, Release

__all__ = [
    "SURE",
    "AnomalyLabels",
    "CrowdLabels",
    "answer_by_edits",
    "chance_in_words",
    "chance_of_error",
    "crowd_adjacency",
]

SURE = 100  # e^-100 < 2^-144
LABEL_BYTES = 1 << 12  # of a record asked about: its numbers, its crowd and its label
SMALLEST_LOG = 800  # e^-800 is 0 as a float


def answer_by_edits(truth: bool, edits: int, epsilon: Fraction, randomness: Randomness) -> bool:
    """The paper's Construction 1, for any model of anomalies.

    `edits` must be at least 1, at most the true number of edits that change the answer, and differ
    by at most 1 between adjacent data sets; then the answer loses epsilon under that adjacency. It
    is wrong with probability exactly e^(-epsilon (edits - 1)) / (1 + e^epsilon).
    """
    if edits < 1:
        raise InvalidParameter("edits", "must be at least 1", edits, "Check the bound of edits.")
    lie = damped_logistic(epsilon * (edits - 1), epsilon, randomness)
    return truth != lie


def chance_of_error(edits: int, epsilon: Fraction) -> float:
    """e^(-epsilon (edits - 1)) / (1 + e^epsilon), which is 0 where floats end."""
    damped = float(min(epsilon * edits, Fraction(SMALLEST_LOG)))
    plain = float(min(epsilon, Fraction(SMALLEST_LOG)))
    return math.exp(-damped) / (1 + math.exp(-plain))


class CrowdLabels:
    """What labels by the size of a crowd share: how sure they are, and how they are told."""

    columns: tuple[str, ...]
    records: tuple[tuple[Any, ...], ...]
    max_crowd: int
    edit_margin: int | None

    @property
    def label_epsilon(self) -> Fraction:
        """The loss of one label."""
        raise NotImplementedError

    def anomalous_in_words(self) -> str:
        """What is said of a record in the data that is labeled."""
        raise NotImplementedError

    def lone_in_words(self) -> str:
        """Which record has nobody around."""
        raise NotImplementedError

    @cached_property
    def most_edits(self) -> int:
        """More edits are not told apart: at so many the coin lies less than once in 2^144 times."""
        return 1 + math.ceil(SURE / self.label_epsilon)

    def edits(self, crowd: int, copies: int) -> int:
        """The bound of the edits that would flip a label; not private."""
        if self.edit_margin is None:
            found = edits_to_flip(crowd, copies, self.max_crowd)
        else:
            found = sensitive_edits_to_flip(crowd, copies, self.max_crowd, self.edit_margin)
        return min(found, self.most_edits)

    def error(self, crowd: int, copies: int) -> float:
        """The probability of a wrong label; not private."""
        return chance_of_error(self.edits(crowd, copies), self.label_epsilon)

    @property
    def largest_error(self) -> float:
        """No label is wrong with a larger probability, whatever the data."""
        return chance_of_error(1, self.label_epsilon)

    @property
    def lone_error(self) -> float:
        """How often the label of a record with nobody around is wrong, present or not."""
        return self.error(crowd=0, copies=0)

    def sentence(self, value: tuple[bool, ...]) -> str:
        text = said_to_be(value, "record asked about", "records asked about")
        text += (
            f" in the data {self.anomalous_in_words()}; a label is wrong with a probability of at"
            f" most {chance_in_words(self.largest_error)}"
        )
        if self.lone_error < self.largest_error:
            text += (
                f", that of a record {self.lone_in_words()} of {chance_in_words(self.lone_error)}"
            )
        return f"{text}."

    def table(self, value: tuple[bool, ...]) -> dict[str, list[Any]]:
        return labeled(self.columns, self.records, value)

    def value_to_json(self, value: tuple[bool, ...]) -> Any:
        return list(value)

    def value_from_json(self, data: Any) -> tuple[bool, ...]:
        return tuple(bool(label) for label in data)


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

    name: ClassVar[str] = "anomaly-labels-1"
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
            " with no other near it is wrong with a probability of"
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
            cls(records=corners, columns=columns, radius=radius, max_crowd=10, epsilon="0.5"),
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


def chance_in_words(chance: float) -> str:
    """A probability, as many digits as help."""
    if chance >= 0.001:
        return f"{chance:.1%}"
    zeros = 300 if chance < 1e-300 else math.floor(-math.log10(chance))
    return f"less than 1 in 10^{zeros}"


def crowd_adjacency(
    radius: float, columns: tuple[str, ...], max_crowd: int, edit_margin: int | None
) -> Adjacency:
    """Who is protected: everyone in a crowd of max_crowd + 1 - edit_margin, or everyone."""
    crowd = 1 if edit_margin is None else protected_crowd(max_crowd, edit_margin)
    return AddRemove() if crowd <= 1 else InCrowd(radius, columns, crowd)
