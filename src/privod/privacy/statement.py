"""What is proved of one answer under one adjacency, in both currencies: loss and rho."""

from __future__ import annotations

from dataclasses import dataclass

from .adjacency import Adjacency
from .guarantee import Guarantee
from .zcdp import Cost


@dataclass(frozen=True)
class Statement:
    """A cost under an adjacency.

    Guarantee: both parts of the cost are proved of the same answer, for every pair of data sets
    adjacent under `adjacency`; a budget counts the part that its accounting needs.
    """

    cost: Cost
    adjacency: Adjacency

    @classmethod
    def of(cls, guarantee: Guarantee) -> Statement:
        """What a guarantee alone says in both currencies."""
        return cls(Cost.of_loss(guarantee.loss), guarantee.adjacency)

    def towards(self, adjacency: Adjacency, max_rows_per_person: int) -> Cost | None:
        """The cost under an adjacency within this one, for persons with so many rows.

        None if it says nothing there. Both currencies grow by the same chain of steps
        [proofs/zcdp.md, Lemma 4].
        """
        steps = adjacency.steps_of(self.adjacency)
        if steps is None:
            return None
        stepped = Guarantee(self.cost.loss.for_groups(steps), adjacency)
        restated = stepped.for_groups(max_rows_per_person)
        grown = self.cost.for_groups(steps).for_groups(max_rows_per_person)
        return Cost(restated.loss, grown.zcdp)
