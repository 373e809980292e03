"""Whom do narrow promises protect?

The report looks at rows and is exact: it is shown to the owner of the data set alone.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from privod import wire
from privod.curator.protection import FOR_OWNER
from privod.errors import InvalidParameter, PrivodError
from privod.privacy import adjacency_from_json, adjacency_from_text
from privod.server.failures import status_of
from privod.server.site import site_of
from privod.server.views.pages import page

Dataset = Annotated[str, Path(max_length=1000)]

MOST_SAMPLED = 1000  # each is compared with all rows, or taken out of them
SHOWN_SAMPLE = 100


def protected(request: Request, dataset: Dataset, form: wire.WhoIsProtected) -> dict[str, Any]:
    """Whom narrow promises protect among the rows: exact, not private, for the owner alone."""
    if not 1 <= form.sample <= MOST_SAMPLED:
        rule = f"must lie between 1 and {MOST_SAMPLED}"
        raise InvalidParameter("sample", rule, form.sample, "Try 100.")
    adjacency = None if form.adjacency is None else adjacency_from_json(form.adjacency)
    found = site_of(request).reports.who_is_protected(dataset, adjacency, sample=form.sample)
    return {"warning": FOR_OWNER, "protected": [one.to_json() for one in found]}


def protected_page(request: Request) -> Response:
    """The same for people: of the allowances that are open, and of one that the owner thinks of."""
    site, of = site_of(request), request.path_params["dataset"]
    written = request.query_params.get("adjacency", "").strip()
    dataset, sentences, problem, status = site.curator.dataset(of), [], None, 200
    try:
        adjacency = adjacency_from_text(written) if written else None
        found = site.reports.who_is_protected(of, adjacency, sample=SHOWN_SAMPLE)
        sentences = [one.sentences() for one in found]
    except PrivodError as wrong:
        problem, status = str(wrong), status_of(wrong)
    return page(
        request,
        "protected.html",
        status,
        dataset=dataset,
        warning=FOR_OWNER,
        found=sentences,
        adjacency=written,
        problem=problem,
    )
