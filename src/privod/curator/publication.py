"""Store the answer found in the rows: only what is stored is ever shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from privod.curator.questions import Question
from privod.curator.results import NO_ANSWER, Answer
from privod.curator.rows import KeptRows
from privod.curator.witnessed_ledger import WitnessedLedger
from privod.curator.work import PendingAnswer, erase, is_charged
from privod.errors import AnswerFailed, LedgerDamaged, Unavailable
from privod.ledger import chain as ledger
from privod.ledger import store
from privod.ledger.store import refuse_seeded
from privod.ledger.witness import Head
from privod.query.catalog import release_from_json
from privod.query.query import Query, Release, canonical_json

Look = Callable[[Query[Any], KeptRows, bytes | None], Release[Any]]
"""Looks at rows and answers, from a key where there is one; a server does it in a worker."""


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


def found(question: Question, rows: KeptRows, look: Look, key: bytes | None) -> Release[Any]:
    """Look at the rows; whatever goes wrong there is told in one and the same sentence."""
    found: Release[Any] | None = None
    try:
        found = look(question.query, rows, key)
    except (Interrupted, GivenUp):
        raise
    except Exception:  # noqa: S110 - what failed may quote a row, so nothing of it is kept
        pass
    if not isinstance(found, Release):
        raise AnswerFailed(NO_ANSWER)
    return found


def publish(
    witnessed: WitnessedLedger,
    question: Question,
    found: Release[Any],
    begun: PendingAnswer,
    asked_by: str,
) -> Answer:
    """Store the release and erase its key; only what is stored is ever shown.

    What was given up while this run went on, as where a lock was lost, is not stored any more.
    """
    of, ask = question.dataset.name, begun.charges[0].entry
    try:
        with witnessed.database.writing() as connection:
            release = store.find_release(connection, question.key, question.query)
            # Two were charged after a lock was lost: the first release counts.
            if release is None:
                if begun.key is not None and not is_charged(connection, question.key, begun.key):
                    raise AnswerFailed(NO_ANSWER)
                release = found.of_persons(question.guarantee.rows_per_person)
                text = _text_of(question, release)
                store.enter_release(connection, of, question.text, text, ask, asked_by)
            erase(connection, question.key)
            head = Head(*ledger.read_head(connection))
        witnessed.witnesses.note(head)
    except (Unavailable, LedgerDamaged) as problem:
        if begun.key is not None and isinstance(problem, Unavailable):
            raise Interrupted(NOT_STORED) from problem
        raise AnswerFailed(NO_ANSWER) from problem
    return Answer(release, begun.charges, stored=False, head=str(head))


def _text_of(question: Question, release: Release[Any]) -> str:
    """The release as it is stored, if it is one to this question."""
    refuse_seeded(release)
    if release.query != question.query or release.guarantee != question.guarantee:
        raise AnswerFailed(NO_ANSWER)
    text = None
    with suppress(Exception):
        written = canonical_json(release.to_json())
        release_from_json(json.loads(written))  # what cannot be read back is not entered
        text = written
    if text is None:
        raise AnswerFailed(NO_ANSWER)
    return text
