"""Take a data set out of use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from privod.errors import AlreadyExists
from privod.ledger import store
from privod.ledger.acts.act import Act
from privod.ledger.acts.budgets import Reason
from privod.ledger.database import Connection


@dataclass(frozen=True)
class Retire(Act[None]):
    """Delete the rows of a data set for good; its ledger and its releases are kept."""

    name: ClassVar[str] = "retire"
    path: ClassVar[str] = "retire"
    title: ClassVar[str] = "Retire this data set"
    result: ClassVar[str] = "retired"
    reason: Reason

    def _checked(self, connection: Connection) -> None:
        if store.find_dataset(connection, self.of).retired:
            raise AlreadyExists(f"{self.of!r} was retired already.")

    def gives_up(self, connection: Connection) -> str:
        self._checked(connection)
        return (
            f"The rows of {self.of!r} are deleted for good. Its ledger and its releases are kept,"
            " and stored answers stay free. Confirm it to retire the data set."
        )

    def apply(self, connection: Connection) -> None:
        self._checked(connection)
        number = self.enter(connection, "retire", {"reason": self.reason})
        connection.execute("UPDATE datasets SET retired = ? WHERE name = ?", number, self.of)

    def after(self, curator: Any, done: None) -> None:  # noqa: ARG002
        curator.forget_rows(self.of)

    def said(self, done: None) -> str:  # noqa: ARG002
        return f"{self.of!r} is retired. Stored answers stay free."
