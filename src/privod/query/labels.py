"""Labels of records, told by a coin that lies the more rarely, the more edits would change them.

What every question shares that labels records [Asif 2020, Constr. 1]: the coin, how often it lies,
and how its labels are told; proof in docs/proofs/anomaly_labels.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from privod.data import Domain
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.mechanisms.coins import EditCoin
from privod.query.checks import ExactNumber
from privod.query.frames import of_records

SURE = 100  # e^-100 < 2^-144
MOST_NAMED = 20  # records that a sentence names
SMALLEST_LOG = 800  # e^-800 is 0 as a float


def answer_by_edits(truth: bool, edits: int, epsilon: Fraction, randomness: Randomness) -> bool:
    """The paper's Construction 1, for any model of anomalies.

    `edits` must be at least 1, at most the true number of edits that change the answer, and differ
    by at most 1 between adjacent data sets; then the answer loses epsilon under that adjacency. It
    is wrong with probability exactly e^(-epsilon (edits - 1)) / (1 + e^epsilon).
    """
    if edits < 1:
        raise InvalidParameter("edits", "must be at least 1", edits, "Check the bound of edits.")
    return bool(randomness.draw(EditCoin(epsilon), (truth, edits)))


def chance_of_error(edits: int, epsilon: Fraction) -> float:
    """e^(-epsilon (edits - 1)) / (1 + e^epsilon), which is 0 where floats end."""
    damped = float(min(epsilon * edits, Fraction(SMALLEST_LOG)))
    plain = float(min(epsilon, Fraction(SMALLEST_LOG)))
    return math.exp(-damped) / (1 + math.exp(-plain))


def chance_in_words(chance: float) -> str:
    """A bound of a probability, as many digits as help, rounded up."""
    if chance >= 0.001:
        return f"{math.ceil(1000 * chance) / 10:.1f} %"
    zeros = 300 if chance < 1e-300 else math.floor(-math.log10(chance))
    return f"1 in 10^{zeros}"


def labeled(labels: Sequence[bool], one: str) -> str:
    """How a sentence about labels begins: how many records are labeled outliers, and which."""
    if len(labels) == 1:
        return f"The {one} is {'' if labels[0] else 'not '}labeled an outlier"
    places = [str(place) for place, label in enumerate(labels, start=1) if label]
    if not places:
        return f"None of the {len(labels):,} {one}s is labeled an outlier"
    number, told = "numbers", "are labeled outliers"
    if len(places) == 1:
        number, told = "number", "is labeled an outlier"
    named = f" ({number} {', '.join(places)})" if len(places) <= MOST_NAMED else ""
    return f"{len(places):,} of the {len(labels):,} {one}s{named} {told}"


class Labels:
    """What all labels share: a loss of each, a limit of edits, and how they are told."""

    columns: tuple[str, ...]
    records: tuple[tuple[Any, ...], ...]
    epsilon: ExactNumber

    @property
    def judge(self) -> Any:
        """What says which records are near: a `Near`, or a model of somebody's own."""
        raise NotImplementedError

    @cached_property
    def labels_moved(self) -> int:
        """At most how many of the labels one record can move."""
        return int(self.judge.labels_moved(self.columns, self.records))

    @cached_property
    def label_epsilon(self) -> Fraction:
        """The loss of one label."""
        return self.epsilon / self.labels_moved

    def check(self, domain: Domain) -> None:
        self.judge.check(domain, self.columns, self.records)

    def held_per_record(self, domain: Domain) -> int:  # noqa: ARG002
        return int(self.judge.held_per_record(self.columns))

    def most_bytes(self, domain: Domain, records: int) -> int:  # noqa: ARG002
        return int(self.judge.most_bytes(records, len(self.columns), len(self.records)))

    @cached_property
    def most_edits(self) -> int:
        """More edits are not told apart: at so many the coin lies less than once in 2^144 times."""
        return 1 + math.ceil(SURE / self.label_epsilon)

    @property
    def largest_error(self) -> float:
        """No label is wrong with a larger probability, whatever the data."""
        return chance_of_error(1, self.label_epsilon)

    def table(self, value: tuple[bool, ...]) -> dict[str, list[Any]]:
        return of_records(self.columns, self.records, {"said anomalous": value})

    def value_to_json(self, value: tuple[bool, ...]) -> Any:
        return list(value)

    def value_from_json(self, data: Any) -> tuple[bool, ...]:
        return tuple(bool(label) for label in data)
