"""How much work was an answer? The random bytes it drew: a stand-in for time that can be audited.

Seconds on a busy machine say little and never twice the same. What an answer draws is counted
exactly, and a sampler whose repetitions depend on rows (so that its time does) draws more on some.
Work without randomness is not seen here; the tests of kernels bound it by public sizes.
"""

from __future__ import annotations

from typing import Any

from privod.audit.callables import Mechanism
from privod.mechanisms import Randomness

__all__ = ["work_of"]


class _Counted(Randomness):
    """Another's bits, counted."""

    def __init__(self, source: Randomness) -> None:
        self._source = source
        self.seeded = source.seeded
        self.drawn = 0

    def bytes(self, n: int) -> bytes:
        self.drawn += n
        return self._source.bytes(n)


def work_of(mechanism: Mechanism) -> Mechanism:
    """The mechanism that tells how many random bytes another one draws, and nothing else."""

    def work(data: Any, randomness: Randomness, /) -> int:
        counted = _Counted(randomness)
        mechanism(data, counted)
        return counted.drawn

    return work
