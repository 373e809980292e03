"""How a question is asked through the server: stored answers at once, new ones as jobs."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from privod.curator.asking import Asker
from privod.curator.results import NO_ANSWER
from privod.curator.tokens import token_id
from privod.curator.work import JobRecord, Room
from privod.errors import AnswerFailed, LimitReached, NotFound, PrivodError, Unavailable
from privod.ledger.chain import now
from privod.query.catalog import query_from_json
from privod.query.query import Query
from privod.server.authentication import Visitor
from privod.server.jobs.estimates import allowed, check_work, is_long
from privod.server.jobs.jobs import Job, Turn, new_id, recalled
from privod.server.site import PRESENT_SECONDS, Paid, Site
from privod.wire import JobState, Problem, answer_key, problem_of

__all__ = ["Paid", "begin", "failure_of", "find_job", "paid_by", "resume", "state_of", "stop"]

LOG = logging.getLogger("privod.server")
WATCH_SECONDS = 5.0  # between two looks for server processes that may end before this one
NOT_TAKEN_OVER = (
    "The server that worked on this question ended, and no other could go on with it."
    " The ledger says whether it was charged."
)


async def begin(
    site: Site, visitor: Visitor, query: Query[Any], of: str, request_id: str | None
) -> Job[Paid] | None:
    """Start a job, or join the one that answers this question; None if the answer is stored."""
    return await run_in_threadpool(_begin, site, visitor, query, of, request_id)


def _begin(
    site: Site, visitor: Visitor, query: Query[Any], of: str, request_id: str | None
) -> Job[Paid] | None:
    query = site.curator.adapted(query, of)  # for good: a restart asks the same
    job_id = new_id()
    token = visitor.token or ""
    named = f"{token}:{request_id}" if request_id is not None else f"{token}:job:{job_id}"
    key = (of, answer_key(query))
    price = site.curator.price(query, of, token=token or None)
    if price.already_answered:
        return None
    own = site.jobs.own(key, visitor.id)
    if own is not None:
        return own
    if not site.is_present:
        raise Unavailable(
            "The server cannot write to its disk or database now, so nothing new can be asked."
            " Nothing was charged. Stored answers can be read."
        )
    check_work(site.curator, query, of, site.limits)
    dataset = site.curator.dataset(of)
    site.curator.asking.state(query, dataset, named)  # refuses an id that another has
    if not price.affordable and not site.jobs.has(key):
        site.curator.asking.check_budget(query, dataset, named, token or None)
    records = site.curator.job_records
    record = JobRecord(
        id=job_id,
        server=site.id,
        asker=visitor.id,
        asked_by=visitor.name,
        dataset=of,
        query=query.to_json(),
        request=named,
        time=now(),
    )
    limits = site.limits
    try:
        records.add(record, Room(limits.waiting_jobs, limits.waiting_jobs_per_token))
        job = _start(site, query, record)
    except LimitReached:  # nothing was noted
        raise
    except PrivodError:
        site.end_record(job_id, None)
        raise
    if job.id != job_id:  # asked twice at the same moment
        site.end_record(job_id, None)
    return job


def _start(
    site: Site,
    query: Query[Any],
    record: JobRecord,
    *,
    was_left: bool = False,
    was_charged: bool = False,
) -> Job[Paid]:
    def ask(turn: Turn) -> Paid:
        turn.prepare()
        most = allowed(site.curator, query, record.dataset, site.limits)
        answer = site.curator.asking.ask(
            query,
            site.curator.dataset(record.dataset),
            Asker(record.asked_by, record.request, token_id(record.asker) or None),
            wait_for_release_time=turn.wait_for_release_time,
            look=partial(turn.look, allowed=most),
            go_on=turn.go_on,
        )
        return Paid(answer.charges, answer.stored)

    key = (record.dataset, answer_key(query))
    return site.jobs.start(
        ask,
        asker=record.asker,
        key=key,
        question=query.name,
        job_id=record.id,
        is_long=is_long(site.curator, query, record.dataset),
        was_left=was_left,
        was_charged=was_charged,
    )


def resume(site: Site) -> None:
    """Say that this server process is there, and take over from those that end before it."""
    database = site.curator.database
    own = site.presence.enter_context(ExitStack())

    def is_held() -> bool:
        return False

    known = {site.id}
    mutex = threading.Lock()
    is_leaving = False

    def stay() -> None:
        """Note again that this process is there, and hold its lock, unless it is leaving."""
        nonlocal is_held
        with mutex:
            if is_leaving:
                return
            site.be_present()
            if not is_held():
                own.close()
                is_held = own.enter_context(database.alone(_lock(site.id)))
                if is_leaving:  # whoever took over held the lock until now
                    own.close()
            site.is_present = not is_leaving

    def leave() -> None:
        """Never again take the lock or note that this process is there, however late a look is.

        A look that waits for the lock is not waited for: it lets go of it as soon as it has it.
        """
        nonlocal is_leaving
        is_leaving = True
        if mutex.acquire(timeout=WATCH_SECONDS):
            mutex.release()

    def take_over(gone: str) -> None:
        try:
            with suppress(PrivodError):  # the database is away: the next look begins again
                _take_over(site, gone)
        finally:
            known.discard(gone)

    def watch() -> None:
        while not site.jobs.closing():
            try:
                stay()
                site.note_ends()
                for other in site.curator.job_records.servers() - known:
                    known.add(other)
                    threading.Thread(target=take_over, args=(other,), daemon=True).start()
            except PrivodError:  # the database is away, or its disk full: the next look finds it
                site.is_present = False
            site.jobs.wait_for_closing(WATCH_SECONDS)

    with suppress(PrivodError):  # a full disk: what is stored can be read meanwhile
        stay()
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    site.presence.callback(site.take_note_away)  # before the lock is let go, so that it is believed
    site.presence.callback(watching.join, WATCH_SECONDS)
    site.presence.callback(leave)


def _lock(server: str) -> str:
    return f"server-{server}"


def _take_over(site: Site, gone: str) -> None:
    """Wait until another server process has ended, and go on with what it left behind.

    Its lock may be free because it lost it. Then it takes it again and notes that it is there; so
    where that may be, nothing is taken over before it noted nothing for a while.
    """
    database = site.curator.database
    with database.alone(_lock(gone)):
        seen = site.last_seen(gone)
    if database.loses_locks:
        deadline = time.monotonic() + PRESENT_SECONDS
        while time.monotonic() < deadline and seen is not None and site.last_seen(gone) == seen:
            site.jobs.wait_for_closing(WATCH_SECONDS)
            if site.jobs.closing():
                return
    with database.alone(_lock(gone)):
        if site.last_seen(gone) in (seen, None) and not site.jobs.closing():
            for record in _adopted(site, gone):
                _resume(site, record)


def _adopted(site: Site, gone: str) -> list[JobRecord]:
    """What another process left behind, and is ours now.

    An error does not tell whether it is: the change may stand although its way to the disk failed.
    So the database is asked once it is there again.
    """
    records = site.curator.job_records
    left = {record.id for record in records.under_way_at(gone)}
    try:
        return records.adopt(gone, site.id)
    except PrivodError:
        ours: list[JobRecord] | None = None
        while ours is None and not site.jobs.closing():
            site.jobs.wait_for_closing(WATCH_SECONDS)
            with suppress(PrivodError):
                ours = records.under_way_at(site.id)
        return [record for record in ours or () if record.id in left]


def _resume(site: Site, record: JobRecord) -> None:
    """Go on with a job; it waits while the database is away, and for the next server if we stop."""
    while not site.jobs.closing():
        try:
            _go_on(site, record)
            break
        except Unavailable:
            site.jobs.wait_for_closing(WATCH_SECONDS)


def _go_on(site: Site, record: JobRecord) -> None:
    try:
        query = query_from_json(record.query)
        with suppress(NotFound):  # whatever became of the budgets that paid for it
            site.curator.stored_release(record.dataset, query)
            site.end_record(record.id, "")
            return
        dataset = site.curator.dataset(record.dataset)
        state = site.curator.asking.state(query, dataset, record.request)
        if state == "failed":
            raise AnswerFailed(NO_ANSWER)
        _start(site, query, record, was_left=True, was_charged=state == "charged")
    except Unavailable:
        raise
    except PrivodError as problem:
        site.end_record(record.id, json.dumps(problem_of(problem)["error"]))
    except Exception as problem:
        LOG.error("a job could not be taken over: %s", type(problem).__name__)
        lost = problem_of(AnswerFailed(NOT_TAKEN_OVER))
        site.end_record(record.id, json.dumps(lost["error"]))


def find_job(site: Site, visitor: Visitor, job_id: str) -> Job[Paid]:
    """One's own job, also one that another server process worked on."""
    try:
        return site.jobs.find(job_id, visitor.id)
    except NotFound:
        record = site.curator.job_records.find(job_id)
        if record is None or record.asker != visitor.id:
            raise
    query = query_from_json(record.query)
    key = (record.dataset, answer_key(query))
    outcome: Paid | PrivodError | None = None
    if record.outcome:
        outcome = Problem(**json.loads(record.outcome)).exception()
    elif record.outcome == "":
        outcome = Paid()
    return recalled(job_id, record.asker, key, query.name, outcome)


def stop(site: Site, visitor: Visitor, job_id: str) -> None:
    """Stop a job, wherever it is worked on; what was charged stays charged."""
    try:
        owner = visitor.role == "owner"
        site.jobs.stop(
            job_id, lambda job: job.asker == visitor.id or (owner and visitor.sees(job.of))
        )
    except NotFound:
        record = site.curator.job_records.find(job_id)
        own = record is not None and record.asker == visitor.id
        owns = record is not None and visitor.role == "owner" and visitor.sees(record.dataset)
        if record is None or record.outcome is not None or not (own or owns):
            raise
        site.stop_elsewhere(job_id)


def state_of(site: Site, record: JobRecord) -> JobState:
    """Where a job stands, in a list of them."""
    if record.outcome is not None:
        return "failed" if record.outcome else "done"
    try:
        return site.jobs.find(record.id, record.asker).state()
    except NotFound:
        return "waiting"


def failure_of(record: JobRecord) -> str | None:
    """Why there is no answer, of a job that has failed."""
    return json.loads(record.outcome)["message"] if record.outcome else None


def paid_by(job: Job[Paid]) -> Paid:
    """What a job cost whoever asked for it; nothing to those who joined in."""
    paid = job.result()
    return paid if job.leads else Paid()
