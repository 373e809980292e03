"""The console's pages about answers: finding them, scoring records against them, their code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.errors import InvalidData, PrivodError
from privod.query import as_code
from privod.query.parameters import Parameter, parameters_of
from privod.query.query import Query, canonical_json
from privod.server.http.authorization import form_of
from privod.server.http.streaming import send
from privod.server.jobs.answers import Summary
from privod.server.jobs.encoding import Form
from privod.server.site import site_of, visitor_of
from privod.server.views.dialects import dialect_choices, dialect_sent
from privod.server.views.media import CSV, JSON, NOTEBOOK, PICTURE_HEADERS, SVG
from privod.server.views.pages import answer_path, page, page_of, sought_in

MOST_SCORED = 1000


def written(query: Query[Any], domain: Domain | None = None) -> list[tuple[str, str]]:
    """The parameters of a question as people read them, with the columns' titles if known."""
    known = {parameter.name: parameter for parameter in parameters_of(type(query))}
    return [
        (name.replace("_", " "), _written(known[name], value, domain) or "none")
        for name, value in query.parameters().items()
    ]


def _written(parameter: Parameter, value: Any, domain: Domain | None) -> str:
    if domain is not None and value and parameter.kind in ("column", "columns"):
        names = (value,) if isinstance(value, str) else value
        return ", ".join(domain.called(names))
    return parameter.written(value) if value not in ([], ()) else ""


async def answers(request: Request) -> Response:
    """All answers about a data set, the newest first; a search looks at what was asked."""
    of = request.path_params["dataset"]
    found, sought, place = await run_in_threadpool(_found, request)
    here = found[place["first"] : place["end"]]
    shown = await site_of(request).answers.summaries(of, here, visitor_of(request).id)
    return await run_in_threadpool(
        page,
        request,
        "answers.html",
        dataset=site_of(request).curator.dataset(of),
        answers=shown,
        found=len(found),
        sought=sought,
        place=place,
    )


def _found(request: Request) -> tuple[list[str], str, dict[str, Any]]:
    """The keys of the answers that fit a search, what was sought, and the page's place."""
    sought = sought_in(request)
    known = site_of(request).answered(request.path_params["dataset"])
    found = [key for key, query in known if fits(query, sought)]
    return found, sought, page_of(request, len(found))


def fits(query: Query[Any], sought: str, also: str = "") -> bool:
    """Whether every word of a search occurs in what was asked, or in what else is known of it."""
    if not sought:
        return True
    read = " ".join(f"{name} {text}" for name, text in written(query))
    exact = canonical_json(query.parameters())
    asked = f"{query.name} {query.question} {read} {exact} {also}".casefold()
    return all(word in asked for word in sought.casefold().split())


async def score(request: Request) -> Response:
    """The answer's page with the visitor's own records scored: nothing is kept, nothing charged."""
    of, key = request.path_params["dataset"], request.path_params["key"]
    asker = visitor_of(request).id
    try:
        records, dialect = await run_in_threadpool(_sent, request)
        answers = site_of(request).answers
        scored = await answers.scored(of, key, records, dialect, MOST_SCORED, asker)
        if "problem" in scored:
            raise InvalidData(scored["problem"])
    except PrivodError as problem:
        return await answer(request, problem=str(problem), status=422)
    return await answer(request, scored=scored)


async def answer(
    request: Request,
    scored: dict[str, Any] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    """An answer: in a sentence, as a picture, with its guarantee."""
    of, key = request.path_params["dataset"], request.path_params["key"]
    shown = await site_of(request).answers.summary(of, key, visitor_of(request).id)
    return await run_in_threadpool(_drawn_page, request, shown, scored, problem, status)


def _drawn_page(
    request: Request,
    shown: Summary,
    scored: dict[str, Any] | None,
    problem: str | None,
    status: int,
) -> Response:
    of, query, address = request.path_params["dataset"], shown.query, _address(request)
    domain = site_of(request).curator.dataset(of).domain
    return page(
        request,
        "answer.html",
        status,
        dataset=of,
        answer=shown,
        title=domain.title,
        parameters=written(query, domain),
        here=answer_path(of, query),
        python=as_code.as_python(query, of, address),
        shell=as_code.as_shell(query, of, address),
        scored=scored,
        most_scored=MOST_SCORED,
        problem=problem,
        typed=str(request.scope.get("form", {}).get("records", "")),
        **dialect_choices(request),
    )


def _sent(request: Request) -> tuple[bytes, CsvDialect]:
    """The records that were typed or sent as a file, as CSV, and how they are written.

    What is typed comes as a browser sends it, whatever encoding is chosen for files.
    """
    form, dialect = form_of(request), dialect_sent(request)
    sent, typed = form.get("file"), form.get("records", "")
    data = b""
    if isinstance(sent, UploadFile):
        data = sent.file.read()
    if not data.strip():
        data, dialect = str(typed).encode(), replace(dialect, encoding="utf-8")
    if not data.strip():
        raise InvalidData("Nothing was sent. Type a header and a record below it, or pick a file.")
    return data, dialect


async def answer_json(request: Request) -> Response:
    """The release as JSON, as every privod reads it back."""
    return await _form(request, "release", JSON, _saved("json"))


async def answer_csv(request: Request) -> Response:
    """The answer as a table."""
    return await _form(request, "csv", CSV, _saved("csv"))


def answer_notebook(request: Request) -> Response:
    """A notebook that asks the same question, for free."""
    of, key = request.path_params["dataset"], request.path_params["key"]
    query = site_of(request).answers.query(of, key)
    text = as_code.as_notebook(query, of, _address(request))
    return Response(text, media_type=NOTEBOOK, headers=_saved("ipynb"))


async def answer_svg(request: Request) -> Response:
    """The answer as a picture."""
    headers = PICTURE_HEADERS | (_saved("svg") if "download" in request.query_params else {})
    return await _form(request, "svg", SVG, headers)


async def _form(request: Request, form: Form, kind: str, headers: dict[str, str]) -> Response:
    of, key = request.path_params["dataset"], request.path_params["key"]
    found = await site_of(request).answers.encoded(of, key, form, visitor_of(request).id)
    return send(request, found, kind, headers)


def _address(request: Request) -> str:
    """Where this server is reached, for code that asks it."""
    site = site_of(request)
    scheme = "https" if site.secure else request.url.scheme
    return f"{scheme}://{request.url.netloc}{site.prefix}"


def _saved(ending: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="privod-answer.{ending}"'}
