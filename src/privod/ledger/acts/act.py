"""What an act is: one thing that people do to a ledger, as a frozen value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from privod.errors import InvalidParameter
from privod.ledger import chain as ledger
from privod.ledger.budget_state import Accounting, BudgetState
from privod.ledger.database import Connection
from privod.ledger.store import short_text
from privod.privacy import Adjacency, Guarantee, Loss, adjacency_from_json
from privod.query.query import canonical_json

Done = TypeVar("Done")

Kind = Literal["text", "number", "count", "flag", "adjacency", "choice"]


@dataclass(frozen=True)
class Told:
    """How a field is told: `first` without an option's name, `usual` if nothing is typed."""

    doc: str
    first: bool = False
    usual: str | None = None


@dataclass(frozen=True)
class Part:
    """One thing to be typed or sent: a loss is two of them, epsilon and delta."""

    name: str
    kind: Kind
    doc: str
    first: bool = False
    required: bool = True
    default: Any = None
    usual: str | None = None
    choices: tuple[str, ...] = ()


RELATION = "add-remove, replace, or JSON with a name and parameters."
EPSILON = Part("epsilon", "number", "How much, such as 2 or 1/3.")
NO_EPSILON = replace(EPSILON, doc="How much, such as 2 or 1/3; none for a person.", required=False)
DELTA = Part("delta", "number", "Added to the bound, as 1e-6.", required=False, default="0")
UNDER = Part("adjacency", "adjacency", RELATION, usual="add-remove")

ACTS: dict[str, type[Act[Any]]] = {}
"""Every act, by its name."""


@dataclass(frozen=True)
class Act(ABC, Generic[Done]):
    """One thing that an owner, or an analyst, does about a data set."""

    name: ClassVar[str]
    """As it is typed behind `privod`."""
    path: ClassVar[str | None] = None
    """Of its JSON route, below that of the data set; None where it is done at the machine alone."""
    role: ClassVar[Literal["owner", "analyst"]] = "owner"
    title: ClassVar[str]
    """A heading, and the question before it is done."""
    result: ClassVar[str] = ""
    """What a number that comes of it is called, or that it was done, in JSON."""
    reveals: ClassVar[bool] = False
    """Whether something may leave at once: then it waits for the witness, as an answer does."""

    of: Annotated[str, Told("The data set.", first=True)]

    def __post_init__(self) -> None:
        if "reason" in vars(self):
            short_text(vars(self)["reason"], "reason")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls):
            ACTS[cls.name] = cls

    @classmethod
    def asks(cls) -> bool:
        """Whether it may give something up, which must be confirmed."""
        return cls.gives_up is not Act.gives_up

    def gives_up(self, connection: Connection) -> str:  # noqa: ARG002 - most give nothing up
        """What must be confirmed first, in a sentence; "" if nothing."""
        return ""

    @abstractmethod
    def apply(self, connection: Connection) -> Done:
        """Do it, inside a transaction that the caller opened."""

    def enter(
        self,
        connection: Connection,
        kind: str,
        details: Mapping[str, Any],
        budget: int | None = None,
        adjacency: Adjacency | None = None,
        loss: Loss | None = None,
        ask: int | None = None,
    ) -> int:
        """Make its entry about the data set, and return its number."""
        return ledger.append(
            connection,
            kind=kind,
            dataset=self.of,
            budget=budget,
            adjacency=None if adjacency is None else canonical_json(adjacency.to_json()),
            ask=ask,
            details=canonical_json(details),
            **({} if loss is None else loss.to_json()),
        )

    def after(self, curator: Any, done: Done) -> None:
        """Do what follows once it is on disk."""

    def means(self, curator: Any) -> str:  # noqa: ARG002 - most need no words
        """What it means for those in the data, where nothing has to be confirmed; "" if nothing."""
        return ""

    @abstractmethod
    def said(self, done: Done) -> str:
        """What was done, in a sentence."""

    def brings(self, connection: Connection) -> tuple[Adjacency, ...]:  # noqa: ARG002
        """Narrow guarantees that the owner's report will read from now on."""
        return ()

    def told(self) -> dict[str, Any]:
        """What it was told besides the data set, as plain JSON values."""
        written: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Guarantee):
                written |= {"adjacency": value.adjacency.to_json(), **value.loss.to_json()}
            elif isinstance(value, Loss):
                written |= value.to_json()
            elif isinstance(value, Adjacency):
                written[field.name] = value.to_json()
            elif value is not None and field.name != "of":
                written[field.name] = value
        return written

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"act": self.name, "of": self.of, **self.told()}

    @classmethod
    def read(cls, of: str, told: Mapping[str, Any]) -> Self:
        """Build it from the data set and what was told."""
        hints = get_type_hints(cls)
        given = {
            field.name: _read(hints[field.name], field.name, told)
            for field in fields(cls)
            if field.name != "of"
        }
        return cls(of, **given)


def parts_of(act: type[Act[Any]]) -> tuple[Part, ...]:
    """What an act must or may be told besides the data set, in the order of its fields."""
    hints = get_type_hints(act, include_extras=True)
    found: list[Part] = []
    for field in fields(act):
        if field.name == "of":
            continue
        hint, how = hints[field.name], Told("")
        if get_origin(hint) is Annotated:
            hint, how = get_args(hint)
        if hint is Guarantee:
            found += [UNDER, EPSILON, DELTA]
        elif hint is Loss:
            found += [EPSILON, DELTA]
        elif get_origin(hint) is UnionType:
            found += [NO_EPSILON, DELTA]
        else:
            kind, choices = _kind(hint)
            doc = how.doc or (RELATION if kind == "adjacency" else "")
            default = None if field.default is MISSING else field.default
            required = field.default is MISSING
            found.append(
                Part(field.name, kind, doc, how.first, required, default, how.usual, choices)
            )
    return tuple(found)


def _kind(hint: Any) -> tuple[Kind, tuple[str, ...]]:
    if hint == Accounting:
        return "choice", get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Adjacency):
        return "adjacency", ()
    kinds: dict[Any, Kind] = {str: "text", int: "count", bool: "flag"}
    return kinds[hint], ()


def _read(hint: Any, name: str, told: Mapping[str, Any]) -> Any:
    if hint is Guarantee:
        return Guarantee(_loss(told), adjacency_from_json(told["adjacency"]))
    if hint is Loss:
        return _loss(told)
    if get_origin(hint) is UnionType:
        return None if told.get("epsilon") is None else _loss(told)
    if isinstance(hint, type) and issubclass(hint, Adjacency):
        found = adjacency_from_json(told[name])
        if not isinstance(found, hint):
            way_out = "Give the adjacency that the question about the person states."
            raise InvalidParameter(name, "must be a person", found.name, way_out)
        return found
    return told[name]


def _loss(told: Mapping[str, Any]) -> Loss:
    return Loss(told["epsilon"], told.get("delta") or "0")


def names_of(states: tuple[BudgetState, ...]) -> str:
    """Budgets by their adjacencies, in a list."""
    return ", ".join(state.adjacency.name for state in states)
