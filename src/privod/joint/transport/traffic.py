"""Bytes and seconds of every phase of a run, counted at every participant."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any


@dataclass
class Traffic:
    """The exchanges so far, by phase.

    Bytes sent and received include frame headers, not TLS and HTTP/2. Two more numbers are seconds:
    of work before the exchanges, and of the exchanges themselves.
    """

    phases: dict[str, list[float]] = field(default_factory=dict)
    exchanges: int = 0
    _last: float = field(default_factory=monotonic)

    def add(self, phase: str, sent: int, received: int, started: float) -> None:
        """Note an exchange that began at `started` and ends now."""
        now = monotonic()
        so_far = self.phases.setdefault(phase, [0, 0, 0.0, 0.0])
        more = sent, received, started - self._last, now - started
        self.phases[phase] = [one + other for one, other in zip(so_far, more, strict=True)]
        self.exchanges += 1
        self._last = now

    @property
    def sent(self) -> int:
        """All bytes sent."""
        return int(self._total(0))

    @property
    def received(self) -> int:
        """All bytes received."""
        return int(self._total(1))

    def _total(self, place: int) -> float:
        return sum(counted[place] for counted in self.phases.values())

    def to_json(self) -> list[dict[str, Any]]:
        """The phases as plain values."""
        names = ("sent", "received", "worked", "waited")
        return [
            {"phase": phase, **dict(zip(names, (round(one, 4) for one in counted), strict=True))}
            for phase, counted in self.phases.items()
        ]

    def lines(self) -> list[str]:
        """The phases as a table for people."""
        rows = {**self.phases, "in all": [self._total(place) for place in range(4)]}
        return [
            f"{'phase':<22}{'sent':>14}{'received':>14}{'work s':>9}{'wait s':>9}",
            *(
                f"{phase:<22}{sent:>14,}{received:>14,}{worked:>9.2f}{waited:>9.2f}"
                for phase, (sent, received, worked, waited) in rows.items()
            ),
        ]
