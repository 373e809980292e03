"""How a question is asked through the server: stored answers at once, new ones as jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from privod.curator import Answer
from privod.queries.query import Query
from privod.server.authentication import Visitor
from privod.server.jobs.jobs import Job, WaitForRelease
from privod.server.site import Site
from privod.wire import answer_key

__all__ = ["answer_of", "begin"]


async def begin(
    site: Site, visitor: Visitor, query: Query[Any], of: str, request_id: str | None
) -> Job[Answer] | None:
    """Start a job, or join the one that answers this question; None if the answer is stored.

    What cannot be paid is refused at once. Only jobs wait for rows or for each other: the threads
    that everybody's requests share never do.
    """
    named = None if request_id is None else f"{visitor.id[:16]}:{request_id}"
    key = (of, answer_key(query))
    token = visitor.id[:16] or None

    def ask(wait: WaitForRelease) -> Answer:
        return site.curator.ask(
            query,
            of,
            request_id=named,
            asked_by=visitor.label,
            token=token,
            wait_for_release_time=wait,
        )

    price = await run_in_threadpool(site.curator.price, query, of, token=token)
    if price.already_answered:
        return None
    if not price.affordable and not site.jobs.has(key):
        check = site.curator.check_budget
        await run_in_threadpool(check, query, of, request_id=named, token=token)
    return site.jobs.start(ask, asker=visitor.id, key=key, question=query.name)


def answer_of(job: Job[Answer]) -> Answer:
    """A job's answer; it cost nothing to those who joined in."""
    answer = job.result()
    return answer if job.leads else replace(answer, charges=(), stored=True)
