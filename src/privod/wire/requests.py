"""The bodies that a program sends to a server, one class for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from .nouns import Plain, Role

__all__ = ["Ask", "AskPrice", "MakeToken", "NoteHead", "Verify", "WhoIsProtected"]

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


class Body:
    """What every body is held to."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True)
class WhoIsProtected(Body):
    """A narrow promise that an owner thinks of, beside those that are open."""

    adjacency: Plain | None = None
    sample: int = 100


@dataclass(frozen=True)
class NoteHead(Body):
    """Where another curator's ledger ends, to be remembered."""

    head: Name


@dataclass(frozen=True)
class AskPrice(Body):
    """A question to be priced."""

    query: Plain


@dataclass(frozen=True)
class Ask(Body):
    """A question to be asked.

    With a request id, asking again never pays twice. An answer that takes longer than `wait`
    seconds becomes a job.
    """

    query: Plain
    request_id: RequestId | None = None
    wait: Annotated[float, Limited(ge=0, le=LONGEST_WAIT)] = 10.0


@dataclass(frozen=True)
class Verify(Body):
    """A head noted earlier and elsewhere, which the ledger must still contain."""

    expected_head: Name | None = None


@dataclass(frozen=True)
class MakeToken(Body):
    """A token to be made; without a data set it is for all, without a date it does not expire."""

    role: Role
    name: Name
    dataset: Name | None = None
    expires: Name | None = None
