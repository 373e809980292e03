"""The console's page that puts stored answers side by side: what was asked, and what was told."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from privod.data import Domain
from privod.errors import InvalidData
from privod.server.jobs.answers import Summary
from privod.server.site import site_of, visitor_of
from privod.server.views.answers import written
from privod.server.views.pages import answer_path, page

MOST_COMPARED = 4


async def compare(request: Request) -> Response:
    """Some answers about a data set, side by side; of two histograms each cell as well."""
    site, of, asker = site_of(request), request.path_params["dataset"], visitor_of(request).id
    keys = list(dict.fromkeys(request.query_params.getlist("key")))
    if not 2 <= len(keys) <= MOST_COMPARED:
        raise InvalidData(
            f"From 2 to {MOST_COMPARED} answers are compared, got {len(keys)}. Tick them in the"
            " list of answers."
        )
    shown = await site.answers.summaries(of, keys, asker)
    cells = await site.answers.compared(of, keys, asker) if len(keys) == 2 else None
    return await run_in_threadpool(_page, request, shown, cells)


def _page(request: Request, shown: list[Summary], cells: dict[str, Any] | None) -> Response:
    dataset = site_of(request).curator.dataset(request.path_params["dataset"])
    return page(
        request,
        "compare.html",
        dataset=dataset,
        answers=[(answer_path(dataset.name, one.query), one) for one in shown],
        facts=_facts(shown, dataset.domain),
        cells=cells,
    )


def _facts(shown: list[Summary], domain: Domain) -> list[dict[str, Any]]:
    """Every parameter that any of them has, and whether they agree on it."""
    asked = [{"question": one.query.name} | dict(written(one.query, domain)) for one in shown]
    names = list(dict.fromkeys(name for one in asked for name in one))
    rows = [(name, [one.get(name, "") for one in asked]) for name in names]
    return [{"name": name, "values": texts, "same": len(set(texts)) == 1} for name, texts in rows]
