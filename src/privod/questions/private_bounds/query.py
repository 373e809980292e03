"""Buy column ranges with budget, for those who cannot declare them.

First the three octaves in a row with most records by noisy counts, then zooms: the stretch of equal
bins with the largest sum of noisy counts less a penalty. Every look is a noisy histogram, every
choice post-processing; proof and error in docs/proofs/private_bounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privod.arrays import Floats
from privod.data import Domain, Numeric, Table
from privod.data.binning import Equal, Octaves
from privod.data.columns import column_from_json
from privod.data.fineness import rounded
from privod.errors import InvalidParameter
from privod.mechanisms import Randomness
from privod.mechanisms.merged import MergedNoise
from privod.privacy import AddRemove, Adjacency, positive
from privod.query.checks import ExactNumber, whole_number
from privod.query.count_query import CountQuery
from privod.query.preview import CERTAINTY, Preview
from privod.query.query import Release
from privod.texts import some

MOST_ZOOMS = 50  # past these a float has no more bits to find
OCTAVES = 96  # magnitudes looked at, from the largest declared one down
ABREAST = 3  # octaves taken together: seven eighths of a uniform column
WIDEN = 2  # the fullest octaves of a normal column end at one to three deviations: reach past them
BINS = 16  # few, so that each holds enough records to rise above the noise
PENALTY = 1.5  # noise scales a bin must hold on average to be worth its place
MARGIN = 0.25  # of the stretch found, added at both ends for the tails too thin to be seen


@dataclass(frozen=True, kw_only=True)
class PrivateBounds(CountQuery[tuple[Numeric, ...]]):
    """An estimated range for each column, within which most of its records lie.

    Guarantee
    ---------
    Every record is protected (AddRemove), or what every record says (Replace). The ranges come from
    noisy histograms within the declared ranges, never from the rows themselves.

    Parameters
    ----------
    columns : tuple of str
        The numeric columns whose ranges are estimated; declared ranges may be very wide.
    epsilon : number
        The privacy loss of all ranges together, greater than 0.
    zooms : int
        How often to look closer after the first look at magnitudes, at least 1. More zooms find
        narrow ranges far from zero, with more noise in each look.
    """

    name: ClassVar[str] = "private-bounds"
    column_kinds: ClassVar[dict[str, Any]] = {"columns": Numeric}
    question: ClassVar[str] = "Between which values do most records lie?"

    columns: tuple[str, ...]
    epsilon: ExactNumber = ExactNumber(positive)
    zooms: int = 1
    adjacency: Adjacency = AddRemove()

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.zooms, "zooms", at_least=1)
        if self.zooms > MOST_ZOOMS:
            rule = f"must be at most {MOST_ZOOMS}"
            raise InvalidParameter("zooms", rule, self.zooms, "One or two are enough.")
        self.guarantee()

    @property
    def n_histograms(self) -> int:
        return len(self.columns) * (1 + self.zooms)  # one a column and look

    @property
    def records_cut(self) -> int:
        """At most so many records zooms cut off at an end of a column, with 95 % certainty.

        Bins beside the stretch found have no sum above the penalty of each, noise included: by
        the union bound over ends, numbers of bins and zooms [docs/proofs/private_bounds.md].
        """
        outside = BINS - 1
        noise = MergedNoise(((self.laplace_noise.scale, outside),))
        off = noise.quantile(1 - (1 - CERTAINTY) / (outside * self.zooms))
        penalties = math.ceil(PENALTY * outside * float(self.laplace_noise.scale))
        return self.zooms * (penalties + off)

    def preview(self, domain: Domain) -> Preview:  # noqa: ARG002
        margin = self.count_noise.quantile(CERTAINTY)
        words = (
            f"Each count that the ranges are read off will have a margin of ± {margin:,} (95 %"
            f" confidence). Up to about {self.records_cut:,} records may be cut off at either end"
            " of a column. Values more than twice as large as the three octaves with the most"
            " records are cut off, however many they are."
        )
        return Preview("each count", margin, typical_share=1 / BINS, words=words)

    def check(self, domain: Domain) -> None:
        domain.numeric(self.columns)

    def answer(self, table: Table, randomness: Randomness) -> Release[tuple[Numeric, ...]]:
        declared = table.domain.numeric(self.columns)
        found = tuple(self._range(table, column, randomness) for column in declared)
        return self.release(found, randomness)

    def sentence(self, value: tuple[Numeric, ...]) -> str:
        ranges = [f"{one.name} from {one.shown(one.low)} to {one.shown(one.high)}" for one in value]
        return (
            f"Most records lie within {some(ranges, 6)}. Up to about {self.records_cut:,} may lie"
            " beyond either end of a column, and any number of far larger ones. A range as wide as"
            " the declared one means that nothing narrower was found."
        )

    def table(self, value: tuple[Numeric, ...]) -> dict[str, list[Any]]:
        return {
            "column": [column.name for column in value],
            "from": [column.to_json().get("low") for column in value],
            "to": [column.to_json().get("high") for column in value],
        }

    def value_to_json(self, value: tuple[Numeric, ...]) -> Any:
        return [column.to_json() for column in value]

    def value_from_json(self, data: Any) -> tuple[Numeric, ...]:
        return Domain(tuple(column_from_json(column) for column in data)).numeric()

    @classmethod
    def examples(cls, domain: Domain) -> tuple[Self, ...]:
        columns = domain.numeric_names[:3]
        return (cls(columns=columns, epsilon="0.5"),) if columns else ()

    def _range(self, table: Table, declared: Numeric, randomness: Randomness) -> Numeric:
        low, high = self._magnitude(table, declared, randomness)
        for _ in range(self.zooms):
            low, high = self._zoom(table, declared.name, low, high, randomness)
            low, high = max(low, declared.low), min(high, declared.high)  # a margin reaches past it
        low, high = float(rounded(low)), float(rounded(high))
        return declared.between(low, high) if low < high else declared

    def _magnitude(
        self, table: Table, declared: Numeric, randomness: Randomness
    ) -> tuple[float, float]:
        """The declared range, cut to a few times the size that most records have."""
        top = math.frexp(max(abs(declared.low), abs(declared.high)))[1]
        octaves = table.counts([(declared.name, Octaves(top, OCTAVES))])  # zero lies in any range
        counts = self.count_noise.add_to(octaves, randomness)
        together = np.convolve(counts, np.ones(ABREAST, dtype=np.int64))[ABREAST - 1 :]
        largest = top - int(np.argmax(together))
        size = math.ldexp(float(WIDEN), largest) if largest < 1000 else math.inf
        return max(declared.low, -size), min(declared.high, size)

    def _zoom(
        self, table: Table, column: str, low: float, high: float, randomness: Randomness
    ) -> tuple[float, float]:
        """The stretch of bins that holds the most, each bin paying a penalty, and a margin."""
        width = (high - low) / BINS
        counts = self.count_noise.add_to(
            table.counts([(column, Equal(low, high, BINS))]), randomness
        )
        penalty = PENALTY * float(self.laplace_noise.scale)
        first, last = _best_stretch(counts.astype(np.float64) - penalty)
        margin = MARGIN * (last - first + 1) * width
        return low + first * width - margin, low + (last + 1) * width + margin


def _best_stretch(gains: Floats) -> tuple[int, int]:
    """The first and last place of the run with the largest sum [Kadane]."""
    best, best_run, start, running = -math.inf, (0, 0), 0, 0.0
    for place, gain in enumerate(gains.tolist()):
        if running <= 0:
            start, running = place, 0.0
        running += gain
        if running > best:
            best, best_run = running, (start, place)
    return best_run
