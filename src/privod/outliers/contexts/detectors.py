"""When does a value stand out in a population: Grubbs, local outlier factor, histogram, your own.

A detector is deterministic and looks at one numeric column. It is public and has a stable text,
such as ``lof(n_neighbors=20, threshold=1.5)``, from which `detector` makes it again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.metadata import entry_points
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from privod.arrays import Floats
from privod.data.columns import Numeric
from privod.errors import InvalidParameter
from privod.outliers.contexts.kernels.decide import (
    GRUBBS,
    HISTOGRAM,
    LOCAL_OUTLIER_FACTOR,
    Rule,
    grubbs_stands_out,
    histogram_stands_out,
    local_outlier_factor,
)
from privod.plug_ins import (
    Named,
    given_numbers,
    name_and_numbers,
    new_name,
    number_parameters,
    tried_out,
)

GROUP = "privod.context_detectors"
"""The entry point group by which other packages bring detectors: a function each."""

MOST_NEIGHBORS = 1000
USUAL_RECORDS = 100_000  # how many there are is not public: the number that limits are made for
WIDEST = 2.0**400  # the square of the sum of all deviations is finite, for any number of records
LARGEST = sys.float_info.max
NO_CRITICAL_VALUES = np.zeros(0)


@runtime_checkable
class Detector(Protocol):
    """What every detector can do."""

    def stands_out(self, others: Floats, value: float) -> bool:
        """Whether the value is an outlier among itself and the others."""


class BuiltIn:
    """A detector that the compiled loops know, as numbers."""

    name: ClassVar[str]

    def __str__(self) -> str:
        listed = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in listed)})"

    @property
    def steps(self) -> int:
        """How many steps one population takes about, by public numbers alone."""
        return 1

    def rule(self, value: float, n_others: int) -> Rule:
        """The detector for one value among at most `n_others` others."""
        raise NotImplementedError


@dataclass(frozen=True)
class Grubbs(BuiltIn):
    """Grubbs' two-sided test at the value [Grubbs 1969].

    It stands out if it lies more than the test's critical value of standard deviations from the
    mean, itself included in both. Where it is the farthest member this is Grubbs' test; where it is
    not, the farthest one is an outlier too. A normal population is thought to have one with
    probability `alpha`.
    """

    name: ClassVar[str] = "grubbs"
    alpha: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _between(self.alpha, "alpha", 0.0, 1.0, "Try 0.05."))

    def rule(self, value: float, n_others: int) -> Rule:
        return Rule(GRUBBS, value, 1, 0.0, squared_critical_values(self.alpha, n_others + 1), 0)

    def stands_out(self, others: Floats, value: float) -> bool:
        deviations = np.sort(others) - value
        size = len(others) + 1
        critical = squared_critical_values(self.alpha, size)
        squares = float((deviations * deviations).sum())
        return bool(grubbs_stands_out(size, float(deviations.sum()), squares, critical))


@dataclass(frozen=True)
class LocalOutlierFactor(BuiltIn):
    """The local outlier factor in one dimension, as scikit-learn has it [Breunig 2000].

    A factor above the threshold stands out. Of two equally distant neighbors of which one is
    needed, the lower one is taken; scikit-learn leaves that open.
    """

    name: ClassVar[str] = "lof"
    n_neighbors: int = 20
    threshold: float = 1.5

    def __post_init__(self) -> None:
        k = self.n_neighbors
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_NEIGHBORS:
            rule = f"must be a whole number from 1 to {MOST_NEIGHBORS}"
            raise InvalidParameter("n_neighbors", rule, k, "Try 20.")
        threshold = _between(self.threshold, "threshold", 0.0, LARGEST, "Try 1.5.")
        object.__setattr__(self, "threshold", threshold)

    @property
    def steps(self) -> int:
        return self.n_neighbors**2  # the neighbors of each neighbor

    def rule(self, value: float, n_others: int) -> Rule:
        reach = 3 * min(self.n_neighbors, max(n_others, 1))  # neighbors' neighbors' neighbors
        return Rule(
            LOCAL_OUTLIER_FACTOR, value, self.n_neighbors, self.threshold, NO_CRITICAL_VALUES, reach
        )

    def factor(self, others: Floats, value: float) -> float:
        """The local outlier factor of the value; 1 if there are no others."""
        if not len(others):
            return 1.0
        line = np.sort(np.append(others, value))
        middle = int(np.searchsorted(line, value))
        k = min(self.n_neighbors, len(others))
        starts, far = np.empty(len(line), np.int64), np.empty(len(line))
        return float(local_outlier_factor(line, middle, len(line), k, starts, far))

    def stands_out(self, others: Floats, value: float) -> bool:
        return self.factor(others, value) > self.threshold


@dataclass(frozen=True)
class Histogram(BuiltIn):
    """A nearly empty bin: of ceil(sqrt(size)) equal bins, the value's holds less than a share."""

    name: ClassVar[str] = "histogram"
    share: float = 0.0025

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", _between(self.share, "share", 0.0, 1.0, "Try 0.0025."))

    @property
    def steps(self) -> int:
        return math.ceil(self.share * USUAL_RECORDS)  # until a bin is full

    def rule(self, value: float, n_others: int) -> Rule:
        reach = math.ceil(self.share * (n_others + 1)) + 1
        return Rule(HISTOGRAM, value, 1, self.share, NO_CRITICAL_VALUES, reach)

    def stands_out(self, others: Floats, value: float) -> bool:
        line = np.sort(others)
        below = np.ascontiguousarray(line[line <= value][::-1])
        above = line[line > value]
        low, high = min((value, *line[:1])), max((value, *line[-1:]))
        return bool(
            histogram_stands_out(
                value, low, high, len(line) + 1, self.share, below, len(below), above, len(above)
            )
        )


@dataclass(frozen=True)
class PluggedIn(Named):
    """A detector of the owner's own, known by a name.

    The function takes the whole population's values, the value in question first, and that value,
    and says whether it stands out. It must depend on nothing else. It is tried on made-up values
    before a charge; where it fails later, the value does not stand out. Its keyword-only parameters
    have numbers as defaults.
    """

    def stands_out(self, others: Floats, value: float) -> bool:
        try:
            return bool(self.call(np.concatenate(([value], np.sort(others))), value))
        except Exception:  # a charged question never fails because of rows
            return False

    def try_out(self, column: Numeric) -> None:
        """Refuse a function that fails on made-up populations, before anything is charged."""
        for values in made_up(column):
            with tried_out("detector", "must judge every population and never fail", self):
                bool(self.call(values, float(values[0])))


BUILT_IN: dict[str, type[Grubbs | LocalOutlierFactor | Histogram]] = {
    kind.name: kind for kind in (LocalOutlierFactor, Grubbs, Histogram)
}
_plugged_in: dict[str, PluggedIn] = {}


def plug_in(name: str, function: Callable[..., bool]) -> PluggedIn:
    """Make a function known as a detector; a name never changes its meaning.

    Keyword-only parameters of the function are parameters of the detector: what
    ``def top(population, value, *, share=0.1)`` does is asked for as ``top(share=0.2)``.
    """
    new_name(name, (*BUILT_IN, *_plugged_in))
    _plugged_in[name] = PluggedIn(name, function, number_parameters(function))
    return _plugged_in[name]


def detector(text: str) -> Grubbs | LocalOutlierFactor | Histogram | PluggedIn:
    """The detector a text describes: ``grubbs(alpha=0.05)``, ``lof`` or a plugged-in name."""
    name, inside = name_and_numbers(text, "detector", "lof")
    if name not in _plugged_in and name not in BUILT_IN:
        for point in entry_points(group=GROUP, name=name):
            plug_in(name, point.load())
    own = _plugged_in.get(name)
    if own is not None:
        usual = dict(own.parameters)
        kinds = {key: type(number) for key, number in own.parameters}
        given = given_numbers(inside, "detector", kinds, own)
        return replace(own, parameters=tuple((usual | given).items())) if given else own
    if name not in BUILT_IN:
        known = ", ".join((*BUILT_IN, *_plugged_in))
        raise InvalidParameter("detector", "must be a known one", text, f"Known are {known}.")
    kind = BUILT_IN[name]
    kinds = {field.name: int if field.type == "int" else float for field in fields(kind)}
    return kind(**given_numbers(inside, "detector", kinds, kind()))


def made_up(column: Numeric) -> list[Floats]:
    """Populations from a column's declared range alone, to try somebody's function on."""
    ends = np.array([column.low, column.high])
    spread = np.linspace(column.low, column.high, 50)
    return [ends[:1], ends, np.full(20, column.high), spread, spread[::-1], np.repeat(ends, 30)]


def refuse_too_wide(column: Numeric) -> None:
    """Refuse a declared range in which sums could leave the floats, whatever the rows."""
    width = column.high - column.low
    if width > WIDEST:
        way_out = "Declare a narrower range, or buy one with PrivateBounds."
        rule = f"must be at most {WIDEST:.3g} wide for a detector"
        raise InvalidParameter(f"the range of {column.name!r}", rule, width, way_out)


@lru_cache(maxsize=8)
def squared_critical_values(alpha: float, largest: int) -> Floats:
    """Grubbs' two-sided critical values, squared, by population size from 0 to `largest`."""
    from scipy.special import stdtrit  # takes a while to import, and only this test needs it

    sizes = np.arange(3, max(largest, 3) + 1, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # alphas near 0: nothing stands out
        t_squared = stdtrit(sizes - 2, alpha / (2 * sizes)) ** 2
        squared = (sizes - 1) ** 2 / sizes * t_squared / (sizes - 2 + t_squared)
    return np.concatenate((np.full(3, np.inf), squared))


def _between(value: object, name: str, low: float, high: float, way_out: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
        raise InvalidParameter(name, f"must lie between {low:g} and {high:g}", value, way_out)
    return float(value)
