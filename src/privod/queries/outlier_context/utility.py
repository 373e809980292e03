"""What makes a context a good answer: its population, its overlap with another, or your own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import Context

__all__ = ["OVERLAP", "POPULATION", "ContextUtility", "context_utility", "plug_in_utility"]

Worth = Callable[[Context, NDArray[np.float64]], int]


@dataclass(frozen=True)
class ContextUtility:
    """A utility of contexts, known by a name.

    Parameters
    ----------
    name : str
        What queries call it.
    sensitivity : int
        The most it changes, for any context, when one record comes or goes.
    monotone : bool
        Whether it is proved that no context loses when a record comes.
    function : callable, optional
        Takes the context and the numeric column's values in its population, sorted, the record's
        own included, and returns a whole number; past 2^61 it counts as 2^61, below -2^61 as that.
        None for the two that are counted as they are.
    """

    name: str
    sensitivity: int = 1
    monotone: bool = False
    function: Worth | None = None


# A record that comes adds 1 to the contexts it belongs to and nothing to the others.
POPULATION = ContextUtility("population", monotone=True)
OVERLAP = ContextUtility("overlap", monotone=True)

_known = {utility.name: utility for utility in (POPULATION, OVERLAP)}


def plug_in_utility(name: str, function: Worth, *, sensitivity: int) -> ContextUtility:
    """Make a utility of your own known; a name never changes its meaning.

    The promise rests on the declared sensitivity; it is not checked, and nothing is assumed about
    the direction of change, so a choice costs twice what it costs with a monotone utility.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in _known:
        rule = "must be new, of small letters, digits and hyphens"
        raise InvalidParameter("name", rule, name, "Try 'women-in-it-2'.")
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 1:
        rule = "must be a whole number of at least 1"
        raise InvalidParameter("sensitivity", rule, sensitivity, "Scale the utility to fit.")
    _known[name] = ContextUtility(name, sensitivity, monotone=False, function=function)
    return _known[name]


def context_utility(name: str) -> ContextUtility:
    """The utility of that name."""
    if name not in _known:
        way_out = f"Known are {', '.join(_known)}; make your own known with plug_in_utility."
        raise InvalidParameter("utility", "must be a known one", name, way_out)
    return _known[name]
