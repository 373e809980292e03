"""Permit single things: a person asked about, counts told exactly, what one token may spend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from privod.errors import AlreadyExists, InvalidParameter, NoPromise, NotFound
from privod.ledger.acts.act import Act, Told
from privod.ledger.acts.budgets import Reason, Under, open_budget_of
from privod.ledger.admissions import admitted, exact_counts_of
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import token_id
from privod.ledger.database import Connection
from privod.outliers.contexts.detectors import LocalOutlierFactor, PluggedIn, detector
from privod.privacy import Adjacency, AdmittedContexts, Loss, SameContexts, ZcdpBudget
from privod.query.checks import LARGEST_COUNT, whole_number

FEWEST_NEIGHBORS = 10  # with fewer, one record near a person decides whether that person stands out


@dataclass(frozen=True)
class AdmitPerson(Act[int]):
    """Allow questions about the contexts of one person, which narrows who is protected.

    Whether the person is among the rows is not looked at, here or ever.
    """

    name: ClassVar[str] = "admit"
    path: ClassVar[str] = "admitted"
    title: ClassVar[str] = "Admit a person"
    result: ClassVar[str] = "entry"
    person: Annotated[
        SameContexts, Told("JSON, as 'privod guarantee outlier-context ...' prints it.", first=True)
    ]
    reason: Reason
    isolating: Annotated[bool, Told("Insist on a detector that one record decides.")] = False

    def brings(self, connection: Connection) -> tuple[Adjacency, ...]:  # noqa: ARG002
        return (self.person,)

    def _checked(self, connection: Connection) -> BudgetState:
        state = open_budget_of(connection, self.of, AdmittedContexts())
        if self.person in admitted(connection, state.dataset):
            raise AlreadyExists("This person is admitted already, with this detector and column.")
        known = detector(self.person.detector)
        few = isinstance(known, LocalOutlierFactor) and known.n_neighbors < FEWEST_NEIGHBORS
        if (few or isinstance(known, PluggedIn)) and not self.isolating:
            raise NoPromise(
                f"{self.person.detector} lets single records decide whether a person stands out, so"
                " an answer can tell whether one is in the data. Take at least"
                f" {FEWEST_NEIGHBORS} neighbors, or insist."
            )
        return state

    def gives_up(self, connection: Connection) -> str:
        self._checked(connection)
        return (
            "Admitting this person narrows who is protected: a record whose presence changes in"
            f" which contexts this person stands out by {self.person.column} is protected no"
            " longer, and an answer may tell exactly whether it is in the data. Make the list"
            " without looking at the rows. Confirm it to admit."
        )

    def apply(self, connection: Connection) -> int:
        state = self._checked(connection)
        why = {"reason": self.reason}
        return self.enter(connection, "admit", why, state.number, self.person)

    def said(self, done: int) -> str:
        return f"Admitted in entry {done}."


@dataclass(frozen=True)
class AllowExactCounts(Act[int]):
    """Allow questions to tell rare counts exactly, up to a number of counts.

    Questions such as `rare-counts` tell counts of unprotected records as they are, whatever epsilon
    is; an allowance pays for them only up to this number. A later permission replaces an earlier
    one; what was told before still counts.
    """

    name: ClassVar[str] = "allow-exact"
    path: ClassVar[str] = "exact-counts"
    title: ClassVar[str] = "Allow exact counts"
    result: ClassVar[str] = "left"
    adjacency: Annotated[Adjacency, Told("The allowance, as JSON.")]
    counts: Annotated[int, Told("How many counts in all may be told exactly; 0 stops it.")]
    reason: Reason

    def _checked(self, connection: Connection) -> BudgetState:
        whole_number(self.counts, "counts", at_least=0, at_most=LARGEST_COUNT)
        state = open_budget_of(connection, self.of, self.adjacency)
        if state.role == "main":
            rule = "must be that of an allowance"
            way_out = "What a main budget pays for has noise in every count."
            raise InvalidParameter("adjacency", rule, self.adjacency.name, way_out)
        return state

    def gives_up(self, connection: Connection) -> str:
        self._checked(connection)
        if not self.counts:
            return ""
        return (
            f"Up to {self.counts:,} counts of records that are not protected may be told exactly"
            " then, whatever epsilon is: each tells whether a person with such values is in the"
            " data. Confirm it to allow them."
        )

    def apply(self, connection: Connection) -> int:
        state = self._checked(connection)
        told = {"reason": self.reason, "counts": self.counts}
        self.enter(connection, "exact", told, state.number, self.adjacency)
        return max(0, exact_counts_of(connection, state.dataset).left(state.number))

    def said(self, done: int) -> str:
        within = self.adjacency.name
        return f"{done} more counts may be told exactly about {self.of!r} within {within}."


@dataclass(frozen=True)
class LimitToken(Act[None]):
    """Limit how much of a budget one token may spend. The budget's own limit stays."""

    name: ClassVar[str] = "limit"
    path: ClassVar[str] = "limits"
    title: ClassVar[str] = "Limit a token"
    result: ClassVar[str] = "limited"
    adjacency: Under
    token: Annotated[str, Told("The token's id, as 'privod token list' shows it.", first=True)]
    limit: Loss

    def apply(self, connection: Connection) -> None:
        state, limit = open_budget_of(connection, self.of, self.adjacency), self.limit
        if state.zcdp is not None and limit.delta:  # it is split as the budget is, and converted
            share = state.zcdp.conversion_delta / state.budget.delta
            ZcdpBudget.of(limit.epsilon, limit.delta, share)
        ids = [token_id(str(row[0])) for row in connection.execute("SELECT hash FROM tokens")]
        if self.token not in ids:
            raise NotFound("There is no such token. See the list of tokens (`privod token list`).")
        told = {"token": self.token, "limit": limit.to_json()}
        self.enter(connection, "limit", told, state.number, self.adjacency)
        connection.execute(
            "DELETE FROM token_limits WHERE budget = ? AND token = ?", state.number, self.token
        )
        connection.execute(
            "INSERT INTO token_limits (budget, token, epsilon, delta) VALUES (?, ?, ?, ?)",
            *(state.number, self.token, str(limit.epsilon), str(limit.delta)),
        )

    def said(self, done: None) -> str:  # noqa: ARG002
        return f"{self.token} may spend {self.limit} of {self.adjacency.name}."
