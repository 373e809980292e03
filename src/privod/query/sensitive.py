"""Sensitive privacy: records in a crowd are protected, rare counts are told exactly [Asif 2020].

What questions share that protect whoever is normal within an `edit_margin`: whom that is, and
counts that get noise one record before anybody is protected; proof in docs/proofs/lookahead.md.
"""

from __future__ import annotations

from fractions import Fraction

from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace
from privod.outliers.crowds.anomalies import protected_crowd
from privod.privacy import AddRemove, Adjacency, Guarantee, InCrowd
from privod.query.checks import ExactNumber

__all__ = ["ExactWhereRare", "crowd_adjacency"]

LEAST_EXACT_EPSILON = Fraction(1, 10)  # ten exact answers from an allowance of 1, not 10^9
COUNT_SENSITIVITY = 1  # a record has one combination of values, so it lies in one count


def crowd_adjacency(
    radius: float, columns: tuple[str, ...], max_crowd: int, edit_margin: int | None
) -> Adjacency:
    """Who is protected: everyone in a crowd of max_crowd + 1 - edit_margin, or everyone."""
    crowd = 1 if edit_margin is None else protected_crowd(max_crowd, edit_margin)
    return AddRemove() if crowd <= 1 else InCrowd(radius, columns, crowd)


class ExactWhereRare:
    """What counts share of which rare ones are told exactly, and others with noise."""

    columns: tuple[str, ...]
    max_crowd: int
    epsilon: ExactNumber
    edit_margin: int

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of a count that is not rare."""
        return DiscreteLaplace.for_loss(self.epsilon, COUNT_SENSITIVITY)

    @property
    def noisy_from(self) -> int:
        """Counts from here on are noisy, one record before anyone is protected; 0 if all are."""
        looked_ahead = self.edit_margin + 1  # n = k + 1, so that both of an adjacent pair are
        return max(0, protected_crowd(self.max_crowd, looked_ahead))

    def guarantee(self) -> Guarantee:
        adjacency = crowd_adjacency(0.0, self.columns, self.max_crowd, self.edit_margin)
        return Guarantee(self.noise.loss(COUNT_SENSITIVITY), adjacency)

    def check_exactness(self) -> None:
        """Refuse to tell rare counts exactly for next to nothing.

        What is told exactly does not depend on epsilon; only the price keeps one from asking about
        everybody.
        """
        if self.noisy_from > 0 and self.epsilon < LEAST_EXACT_EPSILON:
            rule = "must be at least 0.1 where rare counts are told exactly"
            way_out = "Pay that, or choose an edit_margin at which every count is noisy."
            raise InvalidParameter("epsilon", rule, f"{float(self.epsilon):.3g}", way_out)

    def told_exactly(self, values: str, members: str) -> str:
        """What those lose whose values, or combinations, are so rare that a count has no noise."""
        if self.noisy_from == 0:
            return ""
        rare = (
            f"Of {values} with fewer than {self.noisy_from} {members} the count is told exactly"
            if self.noisy_from > 1
            else f"Of {values} without any {members} this is told exactly"
        )
        return (
            f"{rare}, whatever epsilon is: whether a person with such {values} is in the data is"
            " told exactly."
        )
