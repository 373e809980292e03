"""Can this release be trusted? It knows its records, its noise and its cells, and says so itself.

Everything here looks at released numbers only, so it costs nothing and tells nothing new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privod.data import Categorical, Date, Numeric
from privod.query.score_counts import between, chance_of_missing
from privod.questions.detector_profile.ranges import OUTSIDE, is_fine, vague
from privod.texts import some

if TYPE_CHECKING:
    from privod.questions.detector_profile.release import NoisyProfile

FEWEST = 5.0  # records to the noise of a count, below which counts show next to nothing
MUCH_OUTSIDE = 0.2  # of a column's records, below or above its range ...
MUCH_AT_END = 0.5  # ... or above an end that was declared, where its own records lie, too
MUCH_MISSING = 0.5
SOME = 0.05  # of the records: worth a word
SURE = 2.0  # deviations of noise that a share must exceed to be spoken of
MISSED = 0.25  # the chance that a threshold flags less than half or more than twice the share
TOO_FULL = 2.0  # times the share that is asked for, in one bin of scores
FEW_NAMES = 5


class Remark(NamedTuple):
    """One sentence about a release, and whether it makes scores or labels unreliable.

    `about` is seed, records, ranges, columns or threshold.
    """

    about: str
    words: str
    serious: bool


class Health(tuple[Remark, ...]):
    """What a release says about itself; printed as sentences."""

    __slots__ = ()

    @property
    def reliable(self) -> bool:
        """Whether nothing serious is said."""
        return not any(remark.serious for remark in self)

    def serious(self, *about: str) -> str:
        """The serious sentences, of some subjects or of all."""
        return " ".join(
            one.words for one in self if one.serious and (one.about in about or not about)
        )

    def __str__(self) -> str:
        return "\n".join(("! " if one.serious else "  ") + one.words for one in self)

    __repr__ = __str__


def health_of(value: NoisyProfile, share: float) -> Health:
    """All remarks; `share` is the part of the records that a threshold is to flag."""
    told = (_records(value), *_ranges(value), *_columns(value), threshold_told(value, share))
    seed = Remark("seed", "Made with a test seed: it protects nobody.", serious=False)
    return Health((seed, *told) if value.seeded else told)


def _records(value: NoisyProfile) -> Remark:
    margin, records = value.noise_of_counts.quantile(0.95), value.records
    words = f"About {records:,.0f} records; each count is within {margin:,} (95 % confidence)."
    if records >= FEWEST * value.noise_of_counts.deviation:
        return Remark("records", words, serious=False)
    more = " That is too few for this epsilon: scores mostly follow what is usual elsewhere."
    return Remark("records", words + more, serious=True)


def _ranges(value: NoisyProfile) -> list[Remark]:
    """Ranges that were not found, and columns that lie outside theirs."""
    layout, share_of = value.layout, _sure_share(value)
    every, shown = np.split(value.counts, layout.starts[1:-1]), value.shown or repeat(True)
    lost, wide, past = [], [], {}
    spans = zip(layout.numeric, layout.ranges, layout.declared, shown, strict=False)
    for place, (low, high), (_, highest), known in spans:
        column, own = value.columns[place], every[place]
        if not known:
            lost.append(column.name)
            continue
        assert isinstance(column, Numeric)  # noqa: S101 - for the type checker
        share, limit = share_of(float(own[0] + own[-2]), 2), MUCH_OUTSIDE
        if high >= highest:  # values at an end lie in the cell above it
            two_values = share_of(float(own[1]), 1) and share_of(float(own[1] + own[-2]), 2)
            limit = 1.0 if two_values > 1 - SOME else MUCH_AT_END
        there = max(1 - OUTSIDE - share_of(float(own[-1]), 1), 0.0)
        one_cell = share_of(float(own[:-1].max()), 1) > there
        varies = isinstance(column, Date) or low <= 0 <= high  # others may well be one number
        low, high = layout.number(place, low), layout.number(place, high)
        if vague(column) and one_cell and varies and not is_fine(column, (low, high)):
            wide.append(column.name)
        if share > limit:
            outside = f"below {low:.4g} or from {high:.4g} on"
            past[column.name] = f"{100 * share:.0f} % of {column.name!r} {outside}"
    found = []
    if lost:
        words = f"The range of {_named(lost)} was not found: noise hides it. Declare it in bounds."
        found.append(words)
    if wide:
        words = f"Nearly all values of {_named(wide)} lie in one cell: if they are not alike, the"
        found.append(f"{words} range that was found is far too wide. Declare it in bounds.")
    if past:
        first, *others = past
        told = f"{past[first]}, and of {_named(others)} too" if others else past[first]
        found.append(f"Many values lie outside their range: {told}. Declare a wider one.")
    return [Remark("ranges", words, serious=True) for words in found]


def _columns(value: NoisyProfile) -> list[Remark]:
    """Columns that are missing, undeclared or constant."""
    share_of = _sure_share(value)
    missing, other = dict[str, float](), dict[str, float]()
    alike = []
    every = np.split(value.counts, value.layout.starts[1:-1])
    for column, cells in zip(value.layout.columns, every, strict=True):
        name = column.name
        missing[name] = share_of(float(cells[-1]), 1)
        if isinstance(column, Categorical) and column.other:
            other[name] = share_of(float(cells[-2]), 1)
        elif missing[name] <= MUCH_MISSING:
            there = (1 - SOME) * (1 - missing[name])
            alike += [name] if share_of(float(cells[:-1].max()), 1) > there else []
    most = [name for name, share in missing.items() if share > MUCH_MISSING]
    some = [name for name, share in missing.items() if SOME < share <= MUCH_MISSING]
    beyond = [name for name, share in other.items() if share > SOME]
    listed = {
        one.name for one in value.layout.columns if type(one) is Categorical and not one.other
    }
    why = " A category that is not declared counts as missing." if listed & {*most, *some} else ""
    told: tuple[tuple[list[str], dict[str, float], str], ...] = (
        (most, missing, f"Most records miss {{}}.{why}"),
        (some, missing, f"Some records miss {{}}.{why}"),
        (beyond, other, "Values that were not declared are common in {}."),
        (alike, {}, "Nearly all values are one, or lie in one cell, of {}."),
    )
    return [
        Remark("columns", words.format(_named(names, shares)), serious=names is most)
        for names, shares, words in told
        if names
    ]


def threshold_told(value: NoisyProfile, share: float) -> Remark:
    """How far off the threshold for this share of the records may be."""
    noise = value.noise_of_scores
    if noise is None:
        words = "The threshold is a guess: too few records to count them by their scores."
        return Remark("threshold", words, serious=True)
    score = value.threshold(share)
    unit, known = value.layout.score_unit, value.share_beyond(score)
    missed, held = chance_of_missing(value.believed_tails, score / unit, share)
    told = "comes from counts of their scores"
    if known is not None:
        told = f"flags {between(known)} of them (95 % confidence)"
    words = f"The threshold for {share:.3g} of the records {told}."
    if missed > MISSED:
        words += " It may well flag less than half or more than twice as many as asked for:"
        words += f" an estimate puts the chance at {100 * missed:.0f} %."
    if held > TOO_FULL * share:
        words += f" About {100 * held:.0f} % of them score alike, near the threshold."
    return Remark("threshold", words, serious=missed > MISSED or held > TOO_FULL * share)


def _sure_share(value: NoisyProfile) -> Callable[[float, int], float]:
    """About which share of the records a count is; 0 if noise in one of the columns explains it."""
    sure = SURE + math.sqrt(2 * math.log(len(value.columns)))
    explained, records = sure * value.noise_of_counts.deviation, value.records

    def share(count: float, n_cells: int) -> float:
        told = count > explained * math.sqrt(n_cells)
        return float(np.clip(count / records, 0.0, 1.0)) if told else 0.0

    return share


def _named(names: list[str], shares: Mapping[str, float] | None = None) -> str:
    """A few names, with their shares where they are known."""
    told = [f"{one!r} ({100 * shares[one]:.0f} %)" if shares else repr(one) for one in names]
    return some(told, FEW_NAMES)
