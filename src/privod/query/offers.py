"""What can be asked of a data set? Questions by what people want, each with a useful epsilon.

From public things alone: the domain, how many records were declared or counted with noise, and what
is left of the budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from privod.data import Domain
from privod.errors import InvalidParameter, NoPromise, PrivodError
from privod.query.catalog import QUERIES
from privod.query.preview import enough_epsilon
from privod.query.query import Query

GOALS = {
    "score": "Score new records",
    "count": "Count outliers",
    "find": "Find where the outliers are",
    "person": "Ask about one person or group",
    "describe": "Describe the data",
}
LEAST_PART = Fraction(1, 4)  # of an example's epsilon: with less, counts alone are still useful
NEVER = "not possible here"  # said of an example: with other columns the question may be
CLEAR = 2  # times as large as its margin of error is what is counted, where an answer is useful


@dataclass(frozen=True)
class Offer:
    """A question, an example of it that is worth its price, and whether that can be paid.

    `cost` is the epsilon that is charged, more than the question's where a person may have several
    rows; `refused` says why it cannot be asked now, "" if it can; `why` says it in two words.
    """

    query: Query[Any]
    epsilon: Fraction
    cost: Fraction = Fraction(0)
    refused: str = ""
    why: str = ""


def offers(domain: Domain, price: Callable[[Query[Any]], Any]) -> dict[str, list[Offer]]:
    """What can be asked of data in this domain, by goal; `price` prices one question."""
    found: dict[str, list[Offer]] = {goal: [] for goal in GOALS}
    for kind in QUERIES.values():
        for example in kind.examples(domain)[:1]:
            found[kind.goal].append(_offer(domain, example, price))
    return found


def _offer(domain: Domain, example: Any, price: Callable[[Query[Any]], Any]) -> Offer:
    try:
        first = price(example)
        epsilon = useful_epsilon(example, domain, first.records or first.most_records)
        query = replace(example, epsilon=epsilon)
        priced = price(query)
        cost = max((one.loss.epsilon for one in priced.charges), default=Fraction(0))
        if priced.affordable:
            return Offer(query, epsilon, cost)
    except PrivodError as problem:
        why = "needs an allowance" if isinstance(problem, NoPromise) else NEVER
        return Offer(example, example.epsilon, refused=str(problem), why=why)
    refused = "It costs more than is left of the budget."
    return Offer(query, epsilon, cost, refused, "more than is left")


@lru_cache(maxsize=512)
def useful_epsilon(example: Any, domain: Domain, records: int | None) -> Fraction:
    """About the least epsilon at which an answer is worth its price, in data of this size."""
    least = example.epsilon * LEAST_PART
    try:
        enough = enough_epsilon(example, domain, None if records is None else records // CLEAR)
    except InvalidParameter:  # no epsilon is known to do
        return Fraction(example.epsilon)
    return Fraction(max(least, enough))
