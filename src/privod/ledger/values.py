"""Values of the ledger that are sent as they are: a thin client, without NumPy, has them, too."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..privacy import Adjacency, Loss, SameContexts

GAP = "what was asked after the backup and before that entry counts only as its owner charged it."
COPY = (
    "It is a backup, or a restored copy that nobody accepted, and answers no new questions: it"
    " lacks what was asked after it was made. To go on with it, see that nobody asks the original"
    " any more, charge what it lacks (`privod charge`) and accept it (`privod accept-restored`)."
)


@dataclass(frozen=True)
class Verification:
    """A ledger that holds: where it ends, and how much was looked at.

    `head` is what to note elsewhere, for `Curator.verify(expected_head=...)`. `without_rows` names
    data sets whose rows are not in this directory, so were not looked at. `is_copy` says that the
    ledger is a backup, or a restored one that nobody accepted yet. `restored` lists the entries
    that accepted it as restored.
    """

    head: str
    entries: int
    questions: int
    releases: int
    datasets: int
    without_rows: tuple[str, ...]
    is_copy: bool
    restored: tuple[int, ...]

    def sentence(self) -> str:
        """What was found, and what to do next."""
        told = [
            f"The ledger is intact: {self.entries:,} entries, {self.questions:,} questions,"
            f" {self.releases:,} answers; data sets: {self.datasets}."
        ]
        if self.without_rows:
            told.append(f"Rows that are not here were not checked: {', '.join(self.without_rows)}.")
        if self.restored:
            entries = ", ".join(map(str, self.restored))
            told.append(f"It was accepted as restored in entry {entries}: {GAP}")
        if self.is_copy:
            told.append(COPY)
        return " ".join([*told, f"Note its head elsewhere: {self.head}"])


@dataclass(frozen=True)
class Charge:
    """What a question cost one budget, and under which number that is entered.

    `rho` is what it cost a budget that is counted by zcdp, None for others.
    """

    entry: int
    adjacency: Adjacency
    loss: Loss
    rho: Fraction | None = None


@dataclass(frozen=True)
class PricedCharge:
    """What a question would cost one budget, and what would be left there; None if too much.

    `rho` is what it would cost a budget that is counted by zcdp. `questions_left` says how many
    questions of this kind can still be paid, this one included; None if there is no end to them.
    """

    adjacency: Adjacency
    loss: Loss
    left: Loss | None
    rho: Fraction | None = None
    questions_left: int | None = None


@dataclass(frozen=True)
class Request:
    """What an analyst asked the owner for, and what became of it.

    `decision` is "open", "approved" or "declined"; `loss` is None where a person is to be admitted.
    """

    number: int
    dataset: str
    adjacency: Adjacency
    loss: Loss | None
    reason: str
    asked_by: str
    decision: str

    @property
    def wish(self) -> str:
        """What is asked for, in words."""
        if isinstance(self.adjacency, SameContexts):
            by = f"{self.adjacency.column} ({self.adjacency.detector})"
            return f"questions about the contexts of a person, by {by}."
        return f"{self.loss} under {self.adjacency.name}. {self.adjacency.protected}."
