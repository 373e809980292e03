"""How a question is asked through the server: stored answers at once, new ones as jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from privod.curator import Answer
from privod.queries.query import Query
from privod.server.authentication import Visitor
from privod.server.jobs.estimates import check_work
from privod.server.jobs.jobs import Job, Turn
from privod.server.site import Site
from privod.wire import answer_key

__all__ = ["answer_of", "begin", "may_stop"]


async def begin(
    site: Site, visitor: Visitor, query: Query[Any], of: str, request_id: str | None
) -> Job[Answer] | None:
    """Start a job, or join the one that answers this question; None if the answer is stored.

    What cannot be paid, or would not end in time, is refused at once. Only jobs wait for rows or
    for each other: the threads that everybody's requests share never do.
    """
    named = None if request_id is None else f"{visitor.id[:16]}:{request_id}"
    key = (of, answer_key(query))

    def ask(turn: Turn) -> Answer:
        token = visitor.id[:16] or None
        turn.prepare()
        return site.curator.ask(
            query,
            of,
            request_id=named,
            asked_by=visitor.label,
            token=token,
            wait_for_release_time=turn.wait_for_release_time,
            look=turn.look,
        )

    price = await run_in_threadpool(site.curator.price, query, of)
    if price.already_answered:
        return None
    check_work(query, site.curator.dataset(of).domain, site.limits)
    if not price.affordable and not site.jobs.has(key):
        await run_in_threadpool(site.curator.check_budget, query, of, request_id=named)
    return site.jobs.start(ask, asker=visitor.id, key=key, question=query.name)


def answer_of(job: Job[Answer]) -> Answer:
    """A job's answer; it cost nothing to those who joined in."""
    answer = job.result()
    return answer if job.leads else replace(answer, charges=(), stored=True)


def may_stop(visitor: Visitor, job: Job[Answer]) -> bool:
    """Whether a job is the visitor's own, or about the data of a visiting owner."""
    return job.asker == visitor.id or (visitor.role == "owner" and visitor.sees(job.of))
