"""Questions about the records that meet some conditions.

A record that is replaced can come to meet the conditions, or cease to. So a question takes them
only if its loss under Replace covers a record that comes or goes, and nothing it tells follows from
how many records there are. Proof in docs/proofs/conditions.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

from privod.data import Domain, Table
from privod.data.conditions import Conditions
from privod.query.query import Query

Value = TypeVar("Value")


class GivenConditions:
    """A field of a frozen dataclass: given as conditions are written, stored in canonical form."""

    def __get__(self, instance: object, owner: type | None = None) -> tuple[tuple[Any, ...], ...]:
        return () if instance is None else vars(instance)["where"]

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)["where"] = Conditions.read(value).entries


@dataclass(frozen=True, kw_only=True)
class Conditional(Query[Value]):
    """A question that can be asked about some of the records.

    Whatever a subclass answers, it looks only at records that meet the conditions, refuses those
    that do not fit the data, and names them in its sentence.

    Parameters
    ----------
    where : tuple
        Which records are looked at; all where nothing is said. Conditions on different columns must
        all be met: `{"country": ["DE", "FR"], "amount": {"from": 10000}}`, or in the shell
        `amount >= 10000 and country in DE, FR`. Both ends of a range belong to it.
    """

    later: ClassVar[dict[str, Any]] = {"where": []}

    where: GivenConditions = GivenConditions()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, around in (
            ("check", _checking),
            ("answer", _looking),
            ("counts_before_noise", _looking),
            ("preview", _previewing),
            ("sentence", _saying),
        ):
            if name in vars(cls):
                setattr(cls, name, around(vars(cls)[name]))

    @property
    def conditions(self) -> Conditions:
        """What the records that are looked at must meet."""
        return Conditions(self.where)


def _checking(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(self: Conditional[Any], domain: Domain) -> Any:
        self.conditions.check(domain)
        return method(self, domain)

    return checked


def _looking(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def looked(self: Conditional[Any], table: Table, *rest: Any, **options: Any) -> Any:
        return method(self, table.where(self.conditions), *rest, **options)

    return looked


def _previewing(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def previewed(self: Conditional[Any], domain: Domain) -> Any:
        found = method(self, domain)
        return replace(found, words=_named(self, found.sentence())) if self.where else found

    return previewed


def _saying(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def said(self: Conditional[Any], *values: Any, **options: Any) -> str:
        return _named(self, method(self, *values, **options))

    return said


def _named(query: Conditional[Any], text: str) -> str:
    """A sentence about the records that meet the conditions."""
    about = f"Of the records where {query.conditions.words()}: "
    return text if not query.where or text.startswith(about) else about + text
