"""How many bytes went where, and how long it took: counted per step at every participant."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any


@dataclass(frozen=True)
class Step:
    """One exchange with the aggregator, as its party saw it.

    Attributes
    ----------
    phase : str
        What was exchanged.
    sent, received : int
        Bytes, frame headers included, TLS and HTTP/2 not.
    worked, waited : float
        Seconds of own work before the exchange, and of the exchange itself.
    """

    phase: str
    sent: int
    received: int
    worked: float
    waited: float


@dataclass
class Traffic:
    """The steps so far."""

    steps: list[Step] = field(default_factory=list)
    _last: float = field(default_factory=monotonic)

    def add(self, phase: str, sent: int, received: int, started: float) -> None:
        """Note an exchange that began at `started` and ends now."""
        now = monotonic()
        self.steps.append(Step(phase, sent, received, started - self._last, now - started))
        self._last = now

    @property
    def sent(self) -> int:
        """All bytes sent."""
        return sum(step.sent for step in self.steps)

    @property
    def received(self) -> int:
        """All bytes received."""
        return sum(step.received for step in self.steps)

    @property
    def seconds(self) -> float:
        """All seconds, own work and waiting."""
        return sum(step.worked + step.waited for step in self.steps)

    def phases(self) -> list[Step]:
        """The steps added up by phase, in the order of their first appearance."""
        found: dict[str, Step] = {}
        for step in self.steps:
            so_far = found.get(step.phase, Step(step.phase, 0, 0, 0.0, 0.0))
            found[step.phase] = Step(
                step.phase,
                so_far.sent + step.sent,
                so_far.received + step.received,
                so_far.worked + step.worked,
                so_far.waited + step.waited,
            )
        return list(found.values())

    def to_json(self) -> list[dict[str, Any]]:
        """The phases as plain values."""
        return [
            {
                "phase": phase.phase,
                "sent": phase.sent,
                "received": phase.received,
                "worked": round(phase.worked, 4),
                "waited": round(phase.waited, 4),
            }
            for phase in self.phases()
        ]

    def lines(self) -> list[str]:
        """The phases as a table for people."""
        rows = [f"{'phase':<22}{'sent':>14}{'received':>14}{'work s':>9}{'wait s':>9}"]
        total = Step("in all", self.sent, self.received, 0.0, 0.0)
        for phase in self.phases():
            total = Step(
                "in all",
                self.sent,
                self.received,
                total.worked + phase.worked,
                total.waited + phase.waited,
            )
            rows.append(_line(phase))
        return [*rows, _line(total)]


def _line(step: Step) -> str:
    return (
        f"{step.phase:<22}{step.sent:>14,}{step.received:>14,}"
        f"{step.worked:>9.2f}{step.waited:>9.2f}"
    )
