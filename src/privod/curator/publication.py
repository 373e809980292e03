"""Store the answer found in the rows: only what is stored is ever shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privod.curator.questions import Question
from privod.curator.results import NO_ANSWER
from privod.curator.rows import KeptRows
from privod.curator.witnessed_ledger import WitnessedLedger
from privod.curator.work import PendingAnswer, erase, is_charged
from privod.errors import AnswerFailed, LedgerDamaged, SeededRelease, Unavailable
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.store import ReleaseText
from privod.ledger.values import Charge
from privod.ledger.witness import Head
from privod.query.catalog import release_from_json
from privod.query.query import Query, Release, canonical_json

Look = Callable[[Question, KeptRows, bytes | None], ReleaseText]
"""Looks at rows and answers by `written`, from a key if there is one; in a server, by a worker."""


NOT_STORED = (
    "The answer could not be stored. The charge stands, and asking again once the ledger can be"
    " reached costs nothing more."
)


class Interrupted(Unavailable):
    """Whoever looked at rows was ended, or could not store what was found, whatever they say.

    The charge stands. The answer is not lost: who asks again, at no charge, has it begun again.
    """


class GivenUp(AnswerFailed):
    """Whoever looked at rows was ended because nobody who asked them waits any more.

    The charge stands. The answer has failed, unless whoever paid waits for it elsewhere.
    """


@dataclass(frozen=True)
class Published:
    """A stored answer to a question and what it cost; its release is not read yet."""

    query: Query[Any]
    release: ReleaseText
    charges: tuple[Charge, ...]
    stored: bool
    head: str


def found(question: Question, rows: KeptRows, look: Look, key: bytes | None) -> ReleaseText:
    """Look at the rows; whatever goes wrong there is told in one and the same sentence."""
    found: ReleaseText | None = None
    try:
        found = look(question, rows, key)
    except (Interrupted, GivenUp, SeededRelease):
        raise
    except Exception:  # noqa: S110 - what failed may quote a row, so nothing of it is kept
        pass
    asked = f'"query":{question.query.canonical}'
    if not isinstance(found, ReleaseText) or asked not in found.text:
        raise AnswerFailed(NO_ANSWER)
    return found


def written(query: Query[Any], rows_per_person: int, found: Release[Any]) -> ReleaseText:
    """A release as it is stored, if it is one to this question and can be read back."""
    if found.seeded:
        raise SeededRelease(
            "This release was made with a test seed, so its noise can be replayed. It is not"
            " published. Ask again with the curator's own randomness."
        )
    release = found.of_persons(rows_per_person)
    promised = query.promised.of_persons(rows_per_person)
    if release.query != query or release.guarantee != promised:
        raise AnswerFailed(NO_ANSWER)
    text = canonical_json(release.to_json())
    release_from_json(json.loads(text))  # what cannot be read back is not entered
    return ReleaseText(text, release)


def publish(
    witnessed: WitnessedLedger,
    question: Question,
    found: ReleaseText,
    begun: PendingAnswer,
    asked_by: str,
) -> Published:
    """Store the release and erase its key; only what is stored is ever shown."""
    of, ask = question.dataset.name, begun.charges[0].entry
    try:
        with witnessed.database.writing() as connection:
            stored = store.find_release(connection, question.key)
            # Two were charged after a lock was lost: the first release counts.
            if stored is None:
                if begun.key is not None and not is_charged(connection, question.key, begun.key):
                    raise AnswerFailed(NO_ANSWER)
                asked = question.query.canonical
                store.enter_release(connection, of, asked, found.text, ask, asked_by)
            erase(connection, question.key)
            head = Head(*ledger.read_head(connection))
        witnessed.witnesses.note(head)
    except (Unavailable, LedgerDamaged) as problem:
        if begun.key is not None and isinstance(problem, Unavailable):
            raise Interrupted(NOT_STORED) from problem
        raise AnswerFailed(NO_ANSWER) from problem
    release = found if stored is None else stored.release
    return Published(question.query, release, begun.charges, False, str(head))
