"""What makes a context a good answer: its population, its overlap with another, or your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from privod.data import Numeric
from privod.errors import InvalidParameter
from privod.mechanisms.selection import LARGEST_UTILITY
from privod.outliers.contexts.contexts import Context, ContextSpace
from privod.outliers.contexts.detectors import made_up
from privod.plug_ins import new_name, tried_out

GROUP = "privod.context_utilities"
"""The entry point group by which other packages bring utilities: a `ContextUtility` each."""

Worth = Callable[[Context, NDArray[np.float64]], int]


@dataclass(frozen=True)
class ContextUtility:
    """A utility of contexts, known by a name.

    No context changes by more than `sensitivity` when one record comes or goes; `monotone` says
    that it is proved that none loses when one comes. The function takes the context and the numeric
    column's values in its population, sorted, the record's own included, and returns a whole
    number, cut at 2^61. It is tried on made-up values before a charge; where it fails later it
    counts as 0. The two utilities without one are counted as they are.
    """

    name: str
    sensitivity: int = 1
    monotone: bool = False
    function: Worth | None = None

    def worth(self, context: Context, values: NDArray[np.float64]) -> int:
        """What a function of somebody's own makes of a context; 0 where it fails for its rows."""
        assert self.function is not None  # noqa: S101 - asked of plugged-in ones only
        try:
            return _whole(self.function(context, values))
        except Exception:  # a charged question never fails because of rows
            return 0

    def try_out(self, space: ContextSpace, column: Numeric) -> None:
        """Refuse a function that fails on made-up populations, before anything is charged."""
        if self.function is None:
            return
        rule = "must give a whole number for every group and never fail"
        for context in (space.everyone, space.own_cell):
            for values in made_up(column):
                with tried_out("utility", rule, self.name):
                    _whole(self.function(space.context(context), np.sort(values)))


# A record that comes adds 1 to the contexts it belongs to and nothing to the others.
POPULATION = ContextUtility("population", monotone=True)
OVERLAP = ContextUtility("overlap", monotone=True)

_known = {utility.name: utility for utility in (POPULATION, OVERLAP)}


def plug_in_utility(name: str, function: Worth, *, sensitivity: int) -> ContextUtility:
    """Make a utility of your own known; a name never changes its meaning.

    The promise rests on the declared sensitivity; it is not checked, and nothing is assumed about
    the direction of change, so a choice costs twice what it costs with a monotone utility.
    """
    new_name(name, _known)
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 1:
        rule = "must be a whole number of at least 1"
        raise InvalidParameter("sensitivity", rule, sensitivity, "Scale the utility to fit.")
    _known[name] = ContextUtility(name, sensitivity, monotone=False, function=function)
    return _known[name]


def context_utility(name: str) -> ContextUtility:
    """The utility of that name; one of another package by an entry point of `GROUP`."""
    if name not in _known:
        for point in entry_points(group=GROUP, name=name):
            found = point.load()
            if isinstance(found, ContextUtility) and found.function is not None:
                plug_in_utility(name, found.function, sensitivity=found.sensitivity)
    if name not in _known:
        way_out = f"Known are {', '.join(_known)}; make your own known with plug_in_utility."
        raise InvalidParameter("utility", "must be a known one", name, way_out)
    return _known[name]


def _whole(number: int) -> int:
    """A whole number within the public interval that can be weighed; an error for what is none."""
    return int(max(-LARGEST_UTILITY, min(LARGEST_UTILITY, number)))
