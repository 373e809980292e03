"""A question that takes as long, or ends as badly, as a test wants: what a worker must withstand.

It stands outside privod's own folder, as another package's question would, so that worker processes
find it by its entry point; `tests.odd` puts the folder on the path.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from privod.data import Domain, Table
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.privacy import AddRemove, Guarantee, positive
from privod.progress import report
from privod.query.query import Query, Release
from privod.registry import Question

QUESTION = Question(
    name="odd-1", query="odd_question:Odd", picture="odd_question:draw", games="odd_question:games"
)
PATIENCE = 300.0


@dataclass(frozen=True, kw_only=True)
class Odd(Query[int]):
    """How many records are there, after an odd deed?

    Guarantee
    ---------
    Every record is protected.

    Parameters
    ----------
    epsilon : number
        The privacy loss.
    deed : str
        What to do on the way: wait, raise, die, grow, swell or nothing.
    gate : str
        A path: the answer begins by making the file, and waits until `gate`.open is there.
    """

    name: ClassVar[str] = "odd-1"
    question: ClassVar[str] = "How many records are there, after an odd deed?"

    epsilon: Any
    deed: str = "nothing"
    gate: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace.for_loss(Fraction(self.epsilon), 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.noise.loss(1), AddRemove())

    def check(self, domain: Domain) -> None:
        pass

    def answer(self, table: Table, randomness: Randomness) -> Release[int]:
        if self.gate:
            Path(self.gate).touch()
        if self.deed == "raise":
            raise ValueError(f"row 3 holds {table.codes(('sex',))[:3]}")
        if self.deed == "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.deed == "grow":
            held = [np.ones(2**24) for _ in range(64)]  # 8 GB
            raise AssertionError(len(held))
        if self.deed == "wait":
            report("waiting", 4, 10)
            deadline = time.monotonic() + PATIENCE
            while not Path(f"{self.gate}.open").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        noisy = self.noise.add_to(np.array([len(table)]), randomness)
        return self.release(int(noisy[0]), randomness)

    def sentence(self, value: int) -> str:
        return f"There are about {value} records."

    def value_to_json(self, value: int) -> Any:
        return {"count": value, "swollen": "x" * 10**7 if self.deed == "swell" else ""}

    def value_from_json(self, data: Any) -> int:
        return int(data["count"])

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Odd, ...]:  # noqa: ARG003 - any will do
        return (cls(epsilon="0.5"),)


def draw(release: Release[int]) -> Any:
    """A picture that is drawn as its question was answered, and noted each time."""
    from privod.pictures.canvas import blank

    query = release.query
    assert isinstance(query, Odd)
    with Path(f"{query.gate}.drawn").open("a") as file:
        file.write("drawn\n")
    if query.deed == "wait":
        time.sleep(PATIENCE)
    return blank("odd")[0]


def games() -> tuple[Any, ...]:
    """None: it is asked in tests alone."""
    return ()
