"""Slow, obvious twins of the context kernels: one population at a time, straight from the rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import Context, population

Floats = NDArray[np.float64]


def all_contexts(record: Context) -> Iterator[Context]:
    """Every context that contains the record, given as the context of its own values."""
    for bits in itertools.product("01", repeat=len(record.bits)):
        if all(bit >= own for bit, own in zip(bits, record.bits, strict=True)):
            yield Context(record.attributes, "".join(bits))


def others_of(context: Context, table: Table, column: str, value: float, own: Context) -> Floats:
    """The values of the context's population, without one copy of the record."""
    values = list(table.numbers((column,))[population(context, table), 0])
    mine = table.numbers((column,))[population(own, table), 0]
    if value in mine:
        values.remove(value)
    return np.array(values)


def lof(others: Floats, value: float, n_neighbors: int) -> float:
    """The local outlier factor, from its definition; the lower of two equally distant neighbors."""
    everyone = [value, *sorted(others)]
    k = min(n_neighbors, len(others))
    if k == 0:
        return 1.0

    def neighbors(i: int) -> list[int]:
        rest = [j for j in range(len(everyone)) if j != i]
        rest.sort(key=lambda j: (abs(everyone[j] - everyone[i]), everyone[j]))
        return rest[:k]

    def far(i: int) -> float:
        return float(max(abs(everyone[j] - everyone[i]) for j in neighbors(i)))

    def density(i: int) -> float:
        reach = [max(abs(everyone[j] - everyone[i]), far(j)) for j in neighbors(i)]
        return 1.0 / (math.fsum(reach) / k + 1e-10)

    return math.fsum(density(j) for j in neighbors(0)) / k / density(0)


def grubbs(others: Floats, value: float, critical_value: Callable[[int], float]) -> bool:
    """Whether the value lies more than the critical value of standard deviations off the mean."""
    everyone = np.append(others, value)
    if len(everyone) < 3 or everyone.std(ddof=1) == 0:
        return False
    statistic = abs(value - everyone.mean()) / everyone.std(ddof=1)
    return bool(statistic > critical_value(len(everyone)))


def histogram(others: Floats, value: float, share: float) -> bool:
    """Whether the value's bin holds less than its share of the population."""
    everyone = np.append(others, value)
    low, high = everyone.min(), everyone.max()
    if low == high:
        return False
    bins = math.ceil(math.sqrt(len(everyone)))
    scale = bins / (high - low)
    place = np.minimum(np.floor((everyone - low) * scale), bins - 1)
    return bool((place == place[-1]).sum() < share * len(everyone))


def one_value_away(context: Context) -> Iterator[Context]:
    """The contexts that choose one value more or less, ranges or not."""
    for place, bit in enumerate(context.bits):
        bits = context.bits[:place] + ("0" if bit == "1" else "1") + context.bits[place + 1 :]
        with suppress(InvalidParameter):  # the last value of an attribute was taken away
            yield Context(context.attributes, bits)
