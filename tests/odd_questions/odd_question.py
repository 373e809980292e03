"""A question that takes as long, or ends as badly, as a test wants: what a worker must withstand.

It stands outside privod's own folder, as another package's question would, so that worker processes
find it by its entry point; `tests.odd` puts the folder on the path.
"""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from privod.data import Domain, Numeric, Table
from privod.mechanisms import DiscreteLaplace, Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Guarantee, Loss, positive
from privod.progress import report
from privod.query.checks import checked_truth
from privod.query.query import Query, Release
from privod.query.release_file import checked_columns
from privod.query.scorer import Scorable
from privod.registry import Question

DETECTOR = Question(
    name="odd-detector",
    query="odd_question:OddDetector",
    picture="odd_question:draw_center",
    worst_cases="odd_question:worst_cases",
    value="odd_question:NoisyCenter",
)
QUESTION = Question(
    name="odd",
    query="odd_question:Odd",
    picture="odd_question:draw",
    worst_cases="odd_question:worst_cases",
)
PATIENCE = 300.0
STEPS = 16  # to a unit of the column


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
        What to do on the way: wait, raise, die, grow, swell, doze (when it is drawn) or nothing.
    gate : str
        A path: the answer begins by making the file, and waits until `gate`.open is there.
    """

    name: ClassVar[str] = "odd"
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
        while True:  # all of the processor's time that it gets
            pass
    elif query.deed == "doze":
        while not Path(f"{query.gate}.open").exists():
            time.sleep(0.01)
    return blank("odd")[0]


def draw_center(release: Release[NoisyCenter]) -> Any:
    """An empty picture."""
    from privod.pictures.canvas import blank

    return blank(release.sentence())[0]


def worst_cases() -> tuple[Any, ...]:
    """None: it is asked in tests alone."""
    return ()


@dataclass(frozen=True, eq=False)
class NoisyCenter(Scorable):
    """A noisy number of records and a noisy sum of one column: what another package may release."""

    question = "odd-detector"
    added = ("sums", "noise")

    column: Numeric
    sums: Any
    noise: MergedNoise
    guarantee: Guarantee
    seeded: bool
    orders: bool = False

    @property
    def columns(self) -> tuple[Numeric, ...]:
        return (self.column,)

    @property
    def center(self) -> float:
        return float(self.sums[1] / max(self.sums[0], 1) / STEPS)

    def scores(self, records: Any) -> Any:
        """How far a record lies from the mean, in the column's unit."""
        return np.abs(np.asarray(records, dtype=np.float64)[:, 0] - self.center)

    def threshold(self, share: float) -> float | None:
        """As if records were spread evenly; none where it only orders them."""
        if self.orders:
            return None
        return (1 - share) * (self.column.high - self.column.low) / 2

    def header(self) -> dict[str, Any]:
        return {
            "column": self.column.to_json(),
            "noise": self.noise.to_json(),
            "orders": self.orders,
        }

    def arrays(self) -> dict[str, Any]:
        return {"sums": self.sums}

    @classmethod
    def build(cls, header: dict[str, Any], array: Any) -> NoisyCenter:
        (column,) = checked_columns([header["column"]])
        promise = Guarantee.from_json(header["guarantee"])
        sums, noise = array("sums", "<i8", (2,)), MergedNoise.from_json(header["noise"])
        seeded, orders = (checked_truth(header[name]) for name in ("seeded", "orders"))
        return cls(column, sums, noise, promise, seeded, orders)


@dataclass(frozen=True, kw_only=True)
class OddDetector(Query[NoisyCenter]):
    """How far from the mean of one column is a new record?

    Guarantee
    ---------
    Every record is protected.

    Parameters
    ----------
    column : str
        The column.
    epsilon : number
        The privacy loss.
    orders : bool
        Whether its release only orders records, and knows no threshold.
    """

    name: ClassVar[str] = "odd-detector"
    question: ClassVar[str] = "How far from the mean of one column is a new record?"

    column: str
    epsilon: Any
    orders: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    def noise(self, largest: int) -> DiscreteLaplace:
        """Of a count, which changes by 1, and a sum, which changes by at most `largest`."""
        return DiscreteLaplace.for_loss(Fraction(self.epsilon), 1 + largest)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), AddRemove())

    def check(self, domain: Domain) -> None:
        domain.numeric((self.column,))

    def answer(self, table: Table, randomness: Randomness) -> Release[NoisyCenter]:
        (column,) = table.domain.numeric((self.column,))
        steps = np.rint(table.numbers((self.column,))[:, 0] * STEPS).astype(np.int64)
        noise = self.noise(math.ceil(max(abs(column.low), abs(column.high)) * STEPS))
        sums = noise.add_to(np.array([len(steps), steps.sum()]), randomness)
        drawn, promise = MergedNoise.of(noise), self.guarantee()
        value = NoisyCenter(column, sums, drawn, promise, randomness.seeded, self.orders)
        return self.release(value, randomness)

    def sentence(self, value: NoisyCenter) -> str:
        return f"The mean of {self.column} is about {value.center:.3g}."

    def value_to_json(self, value: NoisyCenter) -> Any:
        return value.to_json()

    def value_from_json(self, data: Any) -> NoisyCenter:
        return NoisyCenter.from_json(data)

    @classmethod
    def examples(cls, domain: Domain) -> tuple[OddDetector, ...]:
        return tuple(cls(column=name, epsilon="0.5") for name in domain.numeric_names[:1])
