"""The result of verifying a ledger; plain values, so that a thin client has the same class."""

from __future__ import annotations

from dataclasses import dataclass

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
            f"The ledger is intact: {self.entries} entries, {self.questions} questions,"
            f" {self.releases} answers, {self.datasets} data sets."
        ]
        if self.without_rows:
            told.append(f"Rows that are not here were not checked: {', '.join(self.without_rows)}.")
        if self.restored:
            entries = ", ".join(map(str, self.restored))
            told.append(f"It was accepted as restored in entry {entries}: {GAP}")
        if self.is_copy:
            told.append(COPY)
        return " ".join([*told, f"Note its head elsewhere: {self.head}"])
