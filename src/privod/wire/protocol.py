"""The protocol of a curator, here or elsewhere: `Curator` and `Client` both implement it.

Whoever takes a `CuratorProtocol` works with a directory and with an address alike; mypy checks both
against it at the end of this module.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from privod.curator import (
    Accounting,
    Answer,
    BudgetState,
    Curator,
    DataSet,
    Entry,
    Price,
    Protection,
    Registered,
    Request,
    Verification,
)
from privod.data import CsvDialect, Domain, IntakeReport
from privod.ledger.acts import Act
from privod.privacy import Adjacency, Loss, SameContexts
from privod.query.query import Query, Release

Done = TypeVar("Done")


class CuratorProtocol(Protocol):
    """A curator, wherever it runs; see `Curator` for what each verb does."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None: ...

    def register(
        self,
        name: str,
        source: Any,
        domain: Domain,
        *,
        continues: str | None = None,
        dialect: CsvDialect | None = None,
        confirmed: bool = False,
        most_records: int = ...,
    ) -> Registered: ...

    def report(self, of: str) -> IntakeReport: ...

    def datasets(self) -> tuple[DataSet, ...]: ...

    def dataset(self, name: str) -> DataSet: ...

    def open_budget(
        self,
        of: str,
        adjacency: Adjacency,
        budget: Loss,
        *,
        accounting: Accounting = "sums",
        confirmed: bool = False,
    ) -> BudgetState: ...

    def do(self, act: Act[Done], *, confirmed: bool = False) -> Done: ...

    def admitted(self, of: str) -> tuple[SameContexts, ...]: ...

    def who_is_protected(
        self, of: str, adjacency: Adjacency | None = None, *, sample: int = ...
    ) -> tuple[Protection, ...]: ...

    def requests(self, of: str) -> tuple[Request, ...]: ...

    def adapted(self, query: Query[Any], of: str) -> Query[Any]: ...

    def price(self, query: Query[Any], of: str) -> Price: ...

    def ask(self, query: Query[Any], of: str, *, request_id: str | None = None) -> Answer: ...

    def budget(self, of: str) -> tuple[BudgetState, ...]: ...

    def history(self, of: str | None = None) -> tuple[Entry, ...]: ...

    def releases(self, of: str) -> tuple[Release[Any], ...]: ...

    def release(self, of: str, query: Query[Any]) -> Release[Any]: ...

    def head(self) -> str: ...

    def verify(self, expected_head: str | None = None) -> Verification: ...


if TYPE_CHECKING:
    _here: type[CuratorProtocol] = Curator  # the client's line is in its own module
