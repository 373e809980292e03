"""The accuracy of an answer before it is paid for, from public parameters alone.

Where the noise follows the rows, a preview names the least that it can be. A public guess of the
number of records, or of those counted, lets it say whether the answer would be mostly noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privod.errors import InvalidParameter
from privod.privacy import decimal_text

if TYPE_CHECKING:
    from privod.data import Domain
    from privod.mechanisms import (
        DiscreteGaussian,
        DiscreteLaplace,
        ExponentialMechanism,
        PermuteAndFlip,
    )

CERTAINTY = 0.95  # of every margin that is stated
FEW = 0.01  # of the records stand apart in data that an outlier question is worth asking of
WORTHLESS_LABEL = 1 / 3  # a label that is wrong more often is worth little
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 10**6), Fraction(10**6)
DIGITS = 2  # of the epsilon that is proposed
SEARCHED_BELOW, TRIED_RATIO = 1000, Fraction(21, 20)  # where less epsilon may do than a bit less


@dataclass(frozen=True)
class Preview:
    """How far off an answer may be, with 95 % certainty.

    `margin` is what it is right to within, None where that depends on the rows; then the noise has
    at least `least_deviation`, and an answer, or a count beside a choice, states about
    `least_margin` at least. Answers usually stay far within a `loose` margin. Two groups are told
    apart whose sizes differ by more than twice `apart`. A count of this kind typically holds
    `typical_share` of the records. `wrong_label` is the chance that the label of a clear outlier,
    with no other record near it, is wrong. `words` is the sentence, where it is none of the usual
    ones.
    """

    about: str
    margin: int | None = None
    apart: int | None = None
    typical_share: float = FEW
    loose: bool = False
    least_deviation: float | None = None
    wrong_label: float | None = None
    words: str = ""
    least_margin: int | None = None

    @property
    def noise(self) -> int | None:
        """What must be counted at least so that the answer is more than noise; None: not known."""
        known = [size for size in (self.margin, self.least_margin) if size is not None]
        return max(known, default=None)

    def is_noise(self, records: int | None, expected: int | None = None) -> bool:
        """Whether the answer would be mostly noise, in data of about so many records.

        What is counted then is taken to be `expected`, or a typical share of the records.
        """
        if self.wrong_label is not None:
            return self.wrong_label > WORTHLESS_LABEL
        if expected is None and records is not None:
            counted: float | None = self.typical_share * records
        else:
            counted = expected
        return counted is not None and self.noise is not None and self.noise >= counted

    def sentence(self) -> str:
        """The preview in words."""
        if self.words:
            return self.words
        if self.wrong_label is not None:
            return (
                f"{self.about} of a clear outlier will be wrong with probability"
                f" {self.wrong_label:.2g}."
            )
        if self.margin is None and self.least_deviation is None:
            return f"How far off {self.about} will be depends on the records and is not told."
        if self.margin is None:
            return (
                f"How far off {self.about} will be depends on the records; its noise has a standard"
                f" deviation of at least {self.least_deviation:.3g}."
            )
        text = f"{self.about[0].upper()}{self.about[1:]} will have a margin of ± {self.margin:,}"
        text += " (95 % confidence)."
        if self.apart is not None:
            text += f" Groups that differ by more than {2 * self.apart:,} can be told apart."
        return text


def of_counts(noise: DiscreteLaplace | DiscreteGaussian, n_counts: int, about: str = "") -> Preview:
    """The preview of so many counts that get this noise each."""
    one = "the count" if n_counts == 1 else f"each of the {n_counts:,} counts"
    both = 1 - (1 - CERTAINTY) / 2  # two counts are within it, by a union bound
    return Preview(
        about or one,
        noise.quantile(CERTAINTY),
        noise.quantile(both) if n_counts > 1 else None,
        1 / n_counts if n_counts > 1 else FEW,
    )


def of_choice(choice: ExponentialMechanism | PermuteAndFlip, n_candidates: int) -> int:
    """By how much a choice falls short of the best candidate at most, with 95 % certainty."""
    return math.ceil(choice.surely_within(n_candidates, 1 - CERTAINTY))


def worth(query: Any, domain: Domain, records: int | None, expected: int | None = None) -> str:
    """The preview in words, and whether that is noise: under what assumption, in every case."""
    preview = query.preview(domain)
    told = str(preview.sentence())
    if records is not None and preview.noise is not None and preview.noise >= records:
        told = f"Nothing can be said about {preview.about}: the noise is larger than all records."
    remark = noise_remark(query, domain, records, expected)
    remark = remark or _assumed(preview, records, expected)
    return f"{told} {remark}" if remark else told


def _assumed(preview: Preview, records: int | None, expected: int | None) -> str:
    """How little would be noise, and how much is taken to be there; "" where nothing is."""
    if preview.wrong_label is not None or not preview.noise:
        return ""
    if expected is None and records is None:
        return ""
    unsure = "may not" if preview.loose else "cannot"
    few = f"{preview.noise:,} record{'s' * (preview.noise != 1)}"
    told = f"Up to {few} {unsure} be told from noise"
    counted = _counted(preview, records, expected)
    return f"{told}. {'Assumed' if expected is None else 'Expected'}: {counted}."


def _counted(preview: Preview, records: int | None, expected: int | None) -> str:
    """What is taken to be counted, in words."""
    if expected is None:  # and then records are known
        return f"{100 * preview.typical_share:.3g} % of {records:,} records"
    return f"{expected:,} record{'s' if expected > 1 else ''}"


def noise_remark(
    query: Any, domain: Domain, records: int | None, expected: int | None = None
) -> str:
    """That such an answer is mostly noise, under what assumption, and the epsilon that would do.

    It is made for data of about so many records, a public number, unless it is said how many of
    them are `expected` in what is counted; without either there is none.
    """
    if expected is not None and expected < 1:
        raise InvalidParameter("expect", "must be at least 1", expected, "Try 20.")
    preview = query.preview(domain)
    if (records is None and expected is None) or not preview.is_noise(records, expected):
        return ""
    noise = f"such an answer {'may be' if preview.loose else 'is'} mostly noise"
    if preview.wrong_label is None:
        noise = f"if what is counted is {_counted(preview, records, expected)}, {noise}"
    noise = noise[0].upper() + noise[1:]
    try:
        enough = enough_epsilon(query, domain, records, expected)
    except InvalidParameter:
        return f"{noise}, whatever epsilon is."
    if replace(query, epsilon=enough).preview(domain).least_margin is not None:
        return f"{noise}: it takes epsilon {decimal_text(enough)} at least, and more for some data."
    return f"{noise}: epsilon {decimal_text(enough)} would do."


def duration(seconds: float) -> str:
    """So many seconds in words, rounded up."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds > 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return "1 second" if seconds <= 1 else f"{math.ceil(seconds)} seconds"


def time_told(price: Any) -> str:
    """How long an answer usually takes and may take at worst, where that is worth saying."""
    if price.about_seconds is None or price.about_seconds <= 1:
        return ""
    usual, most = duration(price.usual_seconds), f"{price.most_records:,} records"
    on = most if price.records is None else f"{price.records:,} records"
    return (
        f"An answer usually takes about {usual} on {on}. It never takes more than about"
        f" {duration(price.about_seconds)}, the worst case for the declared {most}."
    )


def epsilon_within(query: Any, domain: Domain, margin: int) -> Fraction:
    """The least epsilon, in two digits, at which the answer is right to within the margin.

    Raises `InvalidParameter` where no epsilon does, or where the margin depends on the rows.
    """
    if isinstance(margin, bool) or not isinstance(margin, int) or margin < 0:
        raise InvalidParameter("within", "must be a whole number from 0", margin, "Try 10.")

    def enough(preview: Preview) -> bool:
        return preview.margin is not None and preview.margin <= margin

    return _least(query, domain, enough, f"no epsilon makes {query.name} right to within it")


def enough_epsilon(
    query: Any, domain: Domain, records: int | None, expected: int | None = None
) -> Fraction:
    """The least epsilon, in two digits, at which the answer is no longer mostly noise."""
    rule = f"no epsilon makes the answer of {query.name} worth its price"
    return _least(query, domain, lambda preview: not preview.is_noise(records, expected), rule)


def _least(query: Any, domain: Domain, enough: Any, rule: str) -> Fraction:
    def does(epsilon: Fraction) -> bool:
        try:
            asked = replace(query, epsilon=epsilon)
            asked.check(domain)
            return bool(enough(asked.preview(domain)))
        except InvalidParameter:  # so small, or so large, that no such noise is drawn
            return epsilon > 1

    low, high = LEAST_EPSILON, MOST_EPSILON
    if not does(high):
        raise InvalidParameter("within", rule, "epsilon up to 10^6", "Ask `privod price` without.")
    low, high = _bisected(does, low, high)
    if getattr(query, "noise", "") == "auto":  # another noise, from some epsilon on: less may do
        low = high / SEARCHED_BELOW
        for step in range(1, math.ceil(math.log(SEARCHED_BELOW) / math.log(TRIED_RATIO))):
            tried = (high / SEARCHED_BELOW * TRIED_RATIO**step).limit_denominator(10**9)
            if does(tried):
                found = _rounded_up(_bisected(does, low, tried)[1])
                if does(found):
                    return found
            low = tried
    return _rounded_up(high)


def _bisected(
    does: Callable[[Fraction], bool], low: Fraction, high: Fraction
) -> tuple[Fraction, Fraction]:
    """The two ends, a hundredth apart: the higher one does, the lower one does not."""
    while high > low * Fraction(101, 100):
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**9)
        low, high = (low, middle) if does(middle) else (middle, high)
    return low, high


def _rounded_up(number: Fraction) -> Fraction:
    """The next number above with few digits."""
    step = Fraction(10) ** (math.floor(math.log10(number)) - DIGITS + 1)
    return math.ceil(number / step) * step
