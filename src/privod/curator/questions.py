"""Every public check of a question, the same for its price and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privod.curator.work import State, is_charged
from privod.errors import InvalidParameter
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.admissions import check_admitted, check_exact_counts
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import Due
from privod.ledger.coexistence import check_unit, is_beyond_add_remove
from privod.ledger.database import Connection
from privod.ledger.prices import charges_due, is_paid_for
from privod.ledger.store import DataSet
from privod.privacy import Cost, Loss, Zcdp
from privod.query.catalog import QUERIES
from privod.query.query import Query
from privod.texts import check_texts, is_plain_json

FREE = Cost(Loss(0), Zcdp(Fraction(0)))  # what was paid for already


def adapted(query: Query[Any], budgets: Sequence[BudgetState]) -> Query[Any]:
    """The question as it is asked of a data set with these budgets.

    Noise "auto" takes what is best for how its main budgets count, closed ones too: so that closing
    one does not change what was asked. A delta that is left open is taken of what they allow.
    """
    main = [state for state in budgets if state.role == "main"]
    zcdp = {state.accounting for state in main} == {"zcdp"}
    allowed = min((state.budget.delta for state in main), default=Fraction(0))
    return query.within("zcdp" if zcdp else "sums", allowed)


def not_of_the_catalog(asked: object) -> InvalidParameter:
    """What to raise where something else is asked than a question of the catalog."""
    way_out = "Build one from the catalog, such as Histogram(columns='age', epsilon=0.1)."
    rule = "must be a question of the catalog"
    return InvalidParameter("query", rule, type(asked).__name__, way_out)


@dataclass(frozen=True)
class Question:
    """A query about a data set, and one key for both; `check` holds it against the public side."""

    query: Query[Any]
    dataset: DataSet
    key: str

    @property
    def rows_per_person(self) -> int:
        """How many rows a person may have there."""
        return self.dataset.domain.max_rows_per_person

    def check(self) -> None:
        """Refuse what cannot be asked of such data; no row is looked at."""
        if QUERIES.get(self.query.name) is not type(self.query):
            raise not_of_the_catalog(self.query)
        self.query.check(self.dataset.domain)
        if not is_plain_json(self.query.canonical):
            check_texts(self.query.to_json(), "query")

    def charges_due(self, connection: Connection) -> list[Due]:
        """Which budgets pay for it, and how much each."""
        budgets = ledger.budgets_of(connection, self.dataset.root)
        name, dataset = self.query.name, self.dataset
        statements = self.query.statements(dataset.domain)
        if is_beyond_add_remove(statements):
            check_unit(statements[0].adjacency, store.versions_of(connection, dataset.root))
        due = charges_due(statements, budgets, dataset.domain, name, dataset.name)
        check_admitted(connection, dataset.root, statements[0].adjacency, due)
        check_exact_counts(connection, dataset, self.query, due)
        if is_paid_for(connection, dataset.name, self.query):
            return [(state, FREE) for state, _ in due]
        return due

    def paid_before(self, connection: Connection, request_id: str | None) -> bool:
        """Whether this request was charged already; it may not have been for another question."""
        if request_id is None:
            return False
        rows = connection.execute("SELECT dataset, query FROM entries WHERE request=?", request_id)
        if rows and rows[0] != (self.dataset.name, self.query.canonical):
            way_out = "Use a new id for a new question."
            rule = "was used for another question"
            raise InvalidParameter("request_id", rule, request_id, way_out)
        return bool(rows)

    def state(self, connection: Connection, request_id: str | None) -> State:
        """How far its answer has come: charged by this request, or by anybody if it is None."""
        paid = self.paid_before(connection, request_id)
        if store.has_release(connection, self.key):
            return "stored"
        if (paid or request_id is None) and is_charged(connection, self.key):
            return "charged"
        return "failed" if paid else "waiting"
