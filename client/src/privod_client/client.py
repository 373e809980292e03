"""What can an analyst do from a machine that has no privod? Read, price, ask, look again.

Questions are names and parameters as JSON has them, answers are nouns: a sentence, a guarantee,
what was charged, and the release as plain values, which privod reads back where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import wire
from .wire.connection import AWAY_SECONDS, Connection, as_noun, as_nouns, path_of

__all__ = ["Client", "connect", "question"]


def connect(
    url: str,
    token: str,
    *,
    authority: str | Path | None = None,
    away_seconds: float = AWAY_SECONDS,
) -> Client:
    """Connect to a curator behind an address.

    Parameters
    ----------
    url : str
        Such as https://curator.example; plain http only to this very machine.
    token : str
        What its owner handed out.
    authority : path, optional
        A PEM file with the certificate authority to trust, if it is not a public one.
    away_seconds : float
        How long `ask` waits for a server that was there, and went away, to be back.
    """
    return Client(Connection(url, token, authority=authority, away_seconds=away_seconds))


def question(name: str, /, **parameters: Any) -> dict[str, Any]:
    """A question by its name and parameters; exact numbers are written as text.

    >>> question("histogram", columns=("ward",), epsilon=Fraction(1, 3))
    {'name': 'histogram', 'columns': ['ward'], 'epsilon': '1/3'}
    """
    return {"name": name, **{key: _plain(value) for key, value in parameters.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


class Client:
    """A curator on a server; see `connect`."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def close(self) -> None:
        """Close the connection; happens by itself when the client is forgotten."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._server.url!r})"

    def visitor(self) -> wire.Visitor:
        """Whose token this is: its role, the data set it is for, its name."""
        return as_noun(wire.Visitor, self._server.get("/me"))

    def questions(self) -> list[wire.Question]:
        """What can be asked, with every parameter explained."""
        return as_nouns(wire.Question, self._server.get("/questions"))

    def datasets(self) -> list[wire.DataSet]:
        """Every data set that the token is for, with its public domain."""
        return as_nouns(wire.DataSet, self._server.get("/datasets"))

    def budget(self, of: str) -> list[wire.Budget]:
        """The budgets that count for a data set, and what is left in each."""
        return as_nouns(wire.Budget, self._server.get(path_of(of, "budget")))

    def price(self, question: Mapping[str, Any], of: str) -> wire.Price:
        """What a question would cost and be worth; looks at no data and charges nothing."""
        asked = wire.AskPrice(dict(question))
        return as_noun(wire.Price, self._server.post(path_of(of, "price"), asked))

    def ask(
        self, question: Mapping[str, Any], of: str, *, request_id: str | None = None
    ) -> wire.Answer:
        """Answer a question, at the price that `price` says; a long answer is waited for."""
        return self._server.ask(question, of, request_id)

    def jobs(self) -> list[wire.JobListed]:
        """What this token asked in the last weeks, newest first, and where each stands."""
        return as_nouns(wire.JobListed, self._server.get("/jobs"))

    def answers(self, of: str) -> list[wire.AnswerListed]:
        """What was asked about a data set, newest first, each with its answer's key."""
        return as_nouns(wire.AnswerListed, self._server.get(path_of(of, "answers")))

    def answer(self, of: str, key: str) -> wire.Answer:
        """A stored answer, for nothing."""
        return as_noun(wire.Answer, self._server.get(path_of(of, "answers", key)))

    def picture(self, of: str, key: str) -> bytes:
        """A stored answer as a picture, in SVG."""
        return self._server.get_bytes(path_of(of, "answers", key, "svg"))

    def table(self, of: str, key: str) -> str:
        """A stored answer as a table, in CSV."""
        return self._server.get_bytes(path_of(of, "answers", key, "csv")).decode()

    def history(self, of: str) -> list[wire.Entry]:
        """The entries of the ledger about a data set and its versions, oldest first."""
        return as_nouns(wire.Entry, self._server.get(path_of(of, "history")))

    def verify(self, expected_head: str | None = None) -> wire.Verification:
        """Have the whole ledger recomputed; raises `LedgerDamaged` if it does not hold."""
        asked = wire.Verify(expected_head)
        return as_noun(wire.Verification, self._server.post("/verify", asked))

    def request(
        self, of: str, adjacency: Mapping[str, Any], reason: str, epsilon: str, delta: str = "0"
    ) -> wire.Request:
        """Ask the owner for a budget up to a loss."""
        asked = {"adjacency": dict(adjacency), "reason": reason}
        asked |= {"epsilon": epsilon, "delta": delta}
        return as_noun(wire.Request, self._server.act(path_of(of, "requests"), asked))
