"""Are these records in the data, and anomalous there? Sensitive privacy and plain DP [Asif 2020].

The true answer is told but for a coin that lies the more rarely, the more edits it would take to
change it. Proofs in docs/proofs/anomaly_labels.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from privod.data import Categorical, Domain, Numeric, Table
from privod.mechanisms import Randomness
from privod.outliers.crowds.anomalies import (
    edits_to_flip,
    is_anomalous,
    protected_crowd,
    sensitive_edits_to_flip,
)
from privod.privacy import AddRemove, Adjacency, CrowdAdjacency, Guarantee, Loss, positive
from privod.query.checks import (
    LARGEST_COUNT,
    ExactNumber,
    column_names,
    typical_radius,
    whole_number,
)
from privod.query.labels import Labels, answer_by_edits, chance_in_words, chance_of_error, labeled
from privod.query.likeness import Entry, end_of
from privod.query.near import Alike, Distance, Near, near_of, tenths
from privod.query.preview import Preview
from privod.query.query import Query, Release


@dataclass(frozen=True, kw_only=True)
class AnomalyLabels(Labels, Query[tuple[bool, ...]]):
    """A noisy yes or no for each record you list: whether it is in the data and an outlier there.

    Guarantee
    ---------
    With an `edit_margin`, everyone is protected who has a crowd of at least max_crowd + 1 -
    edit_margin records; a record that stays anomalous gets less, the smaller its crowd the less.
    Without one, every record is protected. "No" covers absent and normal alike.

    Parameters
    ----------
    columns : tuple of str
        The columns that records are compared by.
    records : tuple of (str, int or float, ...)
        The records asked about, a value for each column; they are public.
    max_crowd : int
        A record is anomalous with at most this many records in its crowd, itself included.
    epsilon : number
        The privacy loss of all labels together, greater than 0. Records asked about whose crowds
        one record can belong to share it; others do not.
    near : str
        Which records make up a crowd. distance(radius=0.5): those within this Euclidean distance
        over numeric columns. alike(max_distance=1, tolerances={"age": 5}, weights={"ward": 2}):
        those that differ in columns whose weights (1 each, if not named) sum up to max_distance (0)
        at most; numbers differ by more than their tolerance (0), categories if they are not equal.
        tail(): those as far out or farther, on the side of a numeric column where they are fewest.
    edit_margin : int or None
        Within how many edits a protected record is normal, from 1. None protects every record.
    """

    name: ClassVar[str] = "anomaly-labels"
    question: ClassVar[str] = "Which of these records are outliers in the data?"
    goal: ClassVar[str] = "person"

    columns: tuple[str, ...]
    records: tuple[tuple[Entry, ...], ...]
    max_crowd: int
    epsilon: ExactNumber = ExactNumber(positive)
    near: str
    edit_margin: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns))
        near = near_of(self.near)
        object.__setattr__(self, "near", str(near))
        object.__setattr__(self, "records", near.records(self.records, self.columns))
        whole_number(self.max_crowd, "max_crowd", at_least=1, at_most=LARGEST_COUNT)
        if self.edit_margin is not None:
            whole_number(self.edit_margin, "edit_margin", at_least=1)
        near.adjacency(self.columns, 2)  # refuses what no crowd can be made of

    @cached_property
    def judge(self) -> Near:
        return near_of(self.near)

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        margin = self.edit_margin
        crowd = 1 if margin is None else protected_crowd(self.max_crowd, margin)
        return AddRemove() if crowd <= 1 else self.judge.adjacency(self.columns, crowd)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)

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
    def lone_error(self) -> float:
        """How often the label of a record with nobody around is wrong, present or not."""
        return self.error(crowd=0, copies=0)

    def not_protected(self) -> str:
        adjacency = self.adjacency
        if not isinstance(adjacency, CrowdAdjacency):
            return ""
        return (
            f"{adjacency.gives_up} The label of a record {self.judge.lone} is wrong with a"
            f" probability of at most {chance_in_words(self.lone_error)}, so it tells that surely"
            " whether the record is in the data."
        )

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        return Preview("The label", wrong_label=self.lone_error)

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[bool, ...]]:
        far = self.max_crowd + self.most_edits  # all larger crowds are as many edits away
        labels = tuple(
            answer_by_edits(
                is_anomalous(crowd, copies, self.max_crowd),
                self.edits(crowd, copies),
                self.label_epsilon,
                randomness,
            )
            for crowd, copies in self.judge.states(table, self.columns, self.records, far)
        )
        return self.release(labels, randomness)

    def sentence(self, value: tuple[bool, ...]) -> str:
        text = (
            f"{labeled(value, 'record')} in the data ('no' also covers records that are"
            f" not in the data). An outlier has {self.judge.few(self.max_crowd)}, itself included."
            f" A label is wrong with probability at most {chance_in_words(self.largest_error)}"
        )
        if self.lone_error < self.largest_error:
            text += f", that of a record {self.judge.lone} {chance_in_words(self.lone_error)}"
        return f"{text}."

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        found: list[Self] = []
        plane = domain.numeric()[:2]
        if plane:
            corners = tuple(
                tuple(one.low + share * (one.high - one.low) for one in plane)
                for share in (0.1, 0.5, 0.9)
            )
            names = tuple(one.name for one in plane)
            asked: dict[str, Any] = {"columns": names, "records": corners, "max_crowd": 10}
            near = str(Distance(typical_radius(domain, names)))
            found += [
                cls(**asked, near=near, epsilon=1),
                cls(**asked, near=near, epsilon="0.5", edit_margin=2),
                cls(**asked, near="tail()", epsilon=1, edit_margin=2),
            ]
        columns: list[Categorical | Numeric] = [*domain.categorical()[:2], *domain.numeric()[:1]]
        if domain.categorical():
            alike = Alike(1 if len(columns) > 1 else 0, tenths(columns))
            found.append(
                cls(
                    columns=tuple(column.name for column in columns),
                    records=tuple(
                        tuple(end_of(one, last=last) for one in columns) for last in (0, 1)
                    ),
                    max_crowd=10,
                    epsilon=1,
                    near=str(alike),
                    edit_margin=2,
                )
            )
        return tuple(found)
