"""How a question goes through the server's door: stored answers at once, new ones as jobs."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool

from privod.curator import Answer
from privod.queries.query import Query
from privod.server.auth import Visitor
from privod.server.jobs import Job
from privod.server.site import Site

__all__ = ["begin"]


async def begin(
    site: Site, visitor: Visitor, query: Query[Any], of: str, request_id: str | None
) -> Answer | Job[Answer]:
    """Give the stored answer, refuse at once what cannot be paid, or start a job.

    Only a question that is new and affordable looks at rows, so only it becomes a job, whose
    duration is hidden.
    """
    named = None if request_id is None else f"{visitor.id[:16]}:{request_id}"

    def ask() -> Answer:
        return site.curator.ask(query, of, request_id=named, asked_by=visitor.label)

    price = await run_in_threadpool(site.curator.price, query, of)
    if price.already_answered or not price.affordable:
        return await run_in_threadpool(ask)
    return site.jobs.start(ask, asker=visitor.id, of=of, question=query.name)
