"""Charge what no question of this ledger revealed: about to be made, or made already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.acts.act import Act
from privod.ledger.acts.budgets import Reason
from privod.ledger.chain import Asked, Due, who_acts
from privod.ledger.database import Connection
from privod.ledger.prices import ELSEWHERE, charges_due, price_of
from privod.ledger.values import Charge
from privod.privacy import Guarantee, Statement
from privod.query.query import canonical_json


def _charges_due(
    connection: Connection, of: str, guarantee: Guarantee, name: str, revealed: bool
) -> list[Due]:
    dataset = store.find_dataset(connection, of)
    budgets = ledger.budgets_of(connection, dataset.root)
    return charges_due((Statement.of(guarantee),), budgets, dataset.domain, name, of, revealed)


def _entered(guarantee: Guarantee, reason: str) -> str:
    told = {"name": ELSEWHERE, "guarantee": guarantee.to_json(), "reason": reason}
    return canonical_json(told)


def _said(charges: tuple[Charge, ...]) -> str:
    told = "; ".join(f"{each.loss} to {each.adjacency.name}" for each in charges)
    return f"Charged: {told}."


@dataclass(frozen=True)
class ChargeAhead(Act[tuple[Charge, ...]]):
    """Charge what is about to be revealed without the curator: by a fit, or a joint run.

    Like a question: refused if a budget lacks it, or if nothing bounds it under one that is open,
    and never given back. Charge first, then look at the rows.
    """

    name: ClassVar[str] = "charge-ahead"
    path: ClassVar[str] = "charges"
    title: ClassVar[str] = "Charge it ahead"
    reveals: ClassVar[bool] = True
    guarantee: Guarantee
    reason: Reason

    def apply(self, connection: Connection) -> tuple[Charge, ...]:
        due = _charges_due(connection, self.of, self.guarantee, self.reason, revealed=False)
        rows = store.find_dataset(connection, self.of).domain.max_rows_per_person
        name, token = who_acts()
        lost = _entered(self.guarantee, self.reason)
        return ledger.charge(connection, Asked(self.of, lost, name, None, token, rows), due)

    def said(self, done: tuple[Charge, ...]) -> str:
        return _said(done)


@dataclass(frozen=True)
class ChargeElsewhere(Act[tuple[Charge, ...]]):
    """Charge what was revealed without the ledger: before a restore, or outside the curator.

    It is charged in full even where less is left: to refuse it would leave what is left to be spent
    on top. Such a budget says what was spent, past its limit, and pays for nothing more.
    """

    name: ClassVar[str] = "charge"
    title: ClassVar[str] = "Charge it"
    guarantee: Guarantee
    reason: Reason

    def _due(self, connection: Connection) -> list[Due]:
        return _charges_due(connection, self.of, self.guarantee, ELSEWHERE, revealed=True)

    def gives_up(self, connection: Connection) -> str:
        lines = []
        for charge in price_of(self._due(connection)).charges:
            left = (
                "nothing, and it would answer nothing new" if charge.left is None else charge.left
            )
            lines.append(f"{charge.loss} to {charge.adjacency.name}, which leaves {left}")
        told = "; ".join(lines)
        return f"This would charge {self.of!r}, for good: {told}. Confirm it to charge."

    def apply(self, connection: Connection) -> tuple[Charge, ...]:
        name, token = who_acts()
        asked = Asked(self.of, _entered(self.guarantee, self.reason), name, None, token)
        return ledger.enter_charges(connection, asked, self._due(connection))

    def said(self, done: tuple[Charge, ...]) -> str:
        return _said(done)
