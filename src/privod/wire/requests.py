"""What does a program send to a server? One class for each kind of body, the server's forms too.

The limits on a text stand in its annotation: the server, whose framework asks an annotation for its
schema, holds every body to them, and the OpenAPI document says them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from .nouns import Plain, Role

__all__ = [
    "Admit",
    "AllowExact",
    "Ask",
    "AskPrice",
    "ChargeAhead",
    "CloseBudget",
    "Decide",
    "FileRequest",
    "LimitToken",
    "MakeToken",
    "NoteHead",
    "OpenBudget",
    "RaiseBudget",
    "Retire",
    "Verify",
    "WhoIsProtected",
]

LONGEST_WAIT = 60.0


class Limited:
    """Limits of a text or a number, in the words that JSON Schema has for them."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        """Asked for by the server's framework, of which nothing has to be imported here."""
        return {**handler(kind), **self._limits}


Name = Annotated[str, Limited(min_length=1, max_length=200)]
Number = Annotated[str, Limited(min_length=1, max_length=100)]  # such as 0.5 or 1/3
RequestId = Annotated[str, Limited(min_length=1, max_length=100)]
STRICT = {"extra": "forbid"}  # a field that is not known is a mistake, and said so


@dataclass(frozen=True)
class OpenBudget:
    """A budget to be opened."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    epsilon: Number
    delta: Number = "0"
    confirmed: bool = False
    accounting: Literal["sums", "zcdp"] = "sums"


@dataclass(frozen=True)
class CloseBudget:
    """A budget to be closed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    reason: Name
    confirmed: bool = False


@dataclass(frozen=True)
class RaiseBudget:
    """A new and larger limit of a budget."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    epsilon: Number
    reason: Name
    delta: Number = "0"


@dataclass(frozen=True)
class Admit:
    """A person, as the adjacency that a question about that person's contexts states."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    person: Plain
    reason: Name
    confirmed: bool = False
    isolating: bool = False


@dataclass(frozen=True)
class AllowExact:
    """How many counts of records that an allowance does not protect may be told exactly, in all."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    counts: int
    reason: Name
    confirmed: bool = False


@dataclass(frozen=True)
class WhoIsProtected:
    """A narrow promise that an owner thinks of, beside those that are open."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain | None = None
    sample: int = 100


@dataclass(frozen=True)
class LimitToken:
    """How much of a budget the questions of one token may cost, by its id."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    token: Name
    epsilon: Number
    delta: Number = "0"


@dataclass(frozen=True)
class FileRequest:
    """What an analyst needs: a budget up to a loss, or, without an epsilon, a person admitted."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    reason: Name
    epsilon: Number | None = None
    delta: Number = "0"


@dataclass(frozen=True)
class Decide:
    """What an owner decides about a request."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    approve: bool
    reason: Name
    confirmed: bool = False


@dataclass(frozen=True)
class ChargeAhead:
    """A loss under an adjacency that is about to be made without the curator, by a fit or a run."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    adjacency: Plain
    epsilon: Number
    reason: Name
    delta: Number = "0"


@dataclass(frozen=True)
class NoteHead:
    """Where another curator's ledger ends, to be remembered."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    head: Name


@dataclass(frozen=True)
class Retire:
    """A data set whose rows are to be deleted for good."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    reason: Name
    confirmed: bool = False


@dataclass(frozen=True)
class AskPrice:
    """A question to be priced."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    query: Plain


@dataclass(frozen=True)
class Ask:
    """A question to be asked.

    With a request id, asking again never pays twice. An answer that takes longer than `wait`
    seconds becomes a job.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    query: Plain
    request_id: RequestId | None = None
    wait: Annotated[float, Limited(ge=0, le=LONGEST_WAIT)] = 10.0


@dataclass(frozen=True)
class Verify:
    """A head noted earlier and elsewhere, which the ledger must still contain."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    expected_head: Name | None = None


@dataclass(frozen=True)
class MakeToken:
    """A token to be made; without a data set it is for all, without a date it does not expire."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
    role: Role
    name: Name
    dataset: Name | None = None
    expires: Name | None = None
