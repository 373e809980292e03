"""Answers that were charged and are not stored yet, and how one of them is begun again.

An answer that somebody else works on for the curator, as a server's worker does, may lose that
somebody for reasons that have nothing to do with rows: a server is stopped, a host is lost. Then it
is begun again, from the key of its noise that was drawn and stored with its charge. The same key
gives the same answer, so nothing is lost a second time, and nothing is charged. The key is erased
with the release, or when the answer failed. Proof: docs/proofs/again.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from privod.ledger.chain import Charge, charges_of
from privod.ledger.database import Connection
from privod.mechanisms.randomness import KEY_BYTES

MOST_RUNS = 4  # the first one and three more


@dataclass(frozen=True)
class Begun:
    """An answer whose charge stands: what was charged, and the key of its noise.

    Without a key the noise comes from the system, and the answer is never begun again.
    """

    charges: tuple[Charge, ...]
    request: str | None = None
    key: bytes | None = field(default=None, repr=False)


def begin(
    connection: Connection, question: str, charges: tuple[Charge, ...], request: str | None
) -> Begun:
    """Draw the key of an answer, in the transaction that charges it.

    Parameters
    ----------
    connection : Connection
        That transaction.
    question : str
        The key of the question about its data set.
    charges : tuple of Charge
        What was charged.
    request : str, optional
        Under which id.
    """
    key = os.urandom(KEY_BYTES)
    erase(connection, question)
    connection.execute(
        "INSERT INTO unfinished (question, ask, request, noise_key, runs) VALUES (?, ?, ?, ?, 1)",
        *(question, charges[0].entry, request, key.hex()),
    )
    return Begun(charges, request, key)


def begin_again(connection: Connection, question: str) -> Begun | None:
    """Go on with an answer that was left, and count it; None if there is none, or no more runs."""
    rows = connection.execute(
        "SELECT ask, request, noise_key, runs FROM unfinished WHERE question = ?", question
    )
    if not rows:
        return None
    ask, request, key, runs = rows[0]
    if runs >= MOST_RUNS:
        erase(connection, question)
        return None
    connection.execute("UPDATE unfinished SET runs = runs + 1 WHERE question = ?", question)
    return Begun(charges_of(connection, ask), request, bytes.fromhex(key))


def is_unfinished(connection: Connection, question: str) -> bool:
    """Whether a question was charged and its answer may still be begun again."""
    found = "SELECT 1 FROM unfinished WHERE question = ? AND runs < ?"
    return bool(connection.execute(found, question, MOST_RUNS))


def erase(connection: Connection, question: str) -> None:
    """Erase the key of a question's answer, which is stored or has failed for good."""
    connection.execute("DELETE FROM unfinished WHERE question = ?", question)


def erase_key(connection: Connection, question: str, key: bytes | None) -> None:
    """The same for the answer that was begun from this key, and for no later one."""
    if key is not None:
        erasing = "DELETE FROM unfinished WHERE question = ? AND noise_key = ?"
        connection.execute(erasing, question, key.hex())


def erase_charged(connection: Connection, question: str, request: str) -> None:
    """The same for the answer that was charged under this request id."""
    connection.execute(
        "DELETE FROM unfinished WHERE question = ? AND request = ?", question, request
    )


def stands(connection: Connection, question: str, key: bytes) -> bool:
    """Whether an answer from this key may still be stored: it neither is nor was given up."""
    found = "SELECT 1 FROM unfinished WHERE question = ? AND noise_key = ?"
    return bool(connection.execute(found, question, key.hex()))


def waiting_for(connection: Connection, of: str, query: str, request: str | None) -> int:
    """How many open jobs, at any server process, ask this question under this request id."""
    ((count,),) = connection.execute(
        "SELECT COUNT(*) FROM jobs"
        " WHERE dataset = ? AND query = ? AND request = ? AND outcome IS NULL",
        *(of, query, request),
    )
    return int(count)


def erase_all(connection: Connection) -> None:
    """Erase every key: in a copy, where nobody goes on with anything."""
    connection.execute("DELETE FROM unfinished")
