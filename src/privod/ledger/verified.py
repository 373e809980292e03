"""The result of verifying a ledger; plain values, so that a thin client has the same class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """A ledger that holds: where it ends, and how much was looked at.

    `head` is what to note elsewhere, for `Curator.verify(expected_head=...)`. `without_rows` names
    data sets whose rows are not in this directory, so were not looked at.
    """

    head: str
    entries: int
    questions: int
    releases: int
    datasets: int
    without_rows: tuple[str, ...]
