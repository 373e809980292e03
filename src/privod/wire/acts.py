"""Acts as JSON: the body of each, its answer, and how that is read."""

from __future__ import annotations

import re
from dataclasses import field, make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from privod import wire
from privod.curator import BudgetState, Charge, Request
from privod.ledger.acts import Act, Part, parts_of
from privod.wire.codec import decode
from privod.wire.nouns import Plain
from privod.wire.reading import read
from privod.wire.requests import STRICT, Name, Number

Done = TypeVar("Done")

TYPES: dict[str, Any] = {"text": Name, "number": Number, "count": int, "flag": bool}
TYPES |= {"adjacency": Plain}
NOUNS: dict[Any, Any] = {BudgetState: wire.Budget, Charge: Charge, Request: Request}
"""What is shown of what comes of an act."""


def in_path(act: type[Act[Any]]) -> list[str]:
    """The parts of an act that its address names."""
    return re.findall(r"{(\w+)}", act.path or "")


@cache
def body_of(act: type[Act[Any]]) -> type:
    """The class of an act's body, of which the server's framework makes its document."""
    told = [part for part in parts_of(act) if part.name not in in_path(act)]
    found: list[Any] = [(part.name, _type(part)) for part in told if part.required]
    found += [
        (part.name, _type(part), field(default=part.default)) for part in told if not part.required
    ]
    if act.asks():
        found.append(("confirmed", bool, field(default=False)))
    about = {"__pydantic_config__": STRICT, "__doc__": act.__doc__, "__module__": __name__}
    return make_dataclass(act.__name__, found, frozen=True, namespace=about)


def _type(part: Part) -> Any:
    if part.choices:
        return Literal[part.choices]
    kind = TYPES[part.kind]
    return kind if part.required or part.default is not None else kind | None


def sent(act: Act[Any], confirmed: bool) -> dict[str, Any]:
    """The body that asks a server to do an act."""
    told = {name: value for name, value in act.told().items() if name not in in_path(type(act))}
    return {**told, "confirmed": True} if confirmed and act.asks() else told


def _done(act: type[Act[Any]]) -> tuple[Any, bool]:
    """What comes of an act, and whether several."""
    kind = get_type_hints(act.apply)["return"]
    several = get_origin(kind) is tuple
    return (get_args(kind)[0] if several else kind), several


@cache
def answer_type(act: type[Act[Any]]) -> Any:
    """The type of what a server answers."""
    kind, several = _done(act)
    if kind in NOUNS:
        noun = NOUNS[kind]
        return GenericAlias(list, (noun,)) if several else noun
    return dict[str, int] if kind is int else dict[str, bool]


def shown(act: Act[Done], done: Done) -> Any:
    """What came of an act, as nouns."""
    kind, several = _done(type(act))
    if kind in NOUNS:
        made = wire.Budget.of if kind is BudgetState else lambda one: one
        return [made(one) for one in cast(Any, done)] if several else made(done)
    return {act.result: True if done is None else done}


def read_done(act: Act[Done], data: Any) -> Done:
    """The same, read from what a server answered."""
    kind, several = _done(type(act))
    if kind in NOUNS:
        nouns = [decode(NOUNS[kind], one) for one in (data if several else [data])]
        found = [read(BudgetState, one) for one in nouns] if kind is BudgetState else nouns
        return cast(Done, tuple(found) if several else found[0])
    return cast(Done, int(data[act.result]) if kind is int else None)
