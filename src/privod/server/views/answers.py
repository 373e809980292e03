"""The console's pages about answers: finding them, scoring records against them, their code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from privod.data import Domain
from privod.data.csv_file import CsvBytes, CsvDialect
from privod.errors import InvalidData, PrivodError
from privod.query import as_code, scoring
from privod.query.parameters import Parameter, parameters_of
from privod.query.query import Query, Release, canonical_json
from privod.query.scorer import Scorable
from privod.server.http.authorization import form_of
from privod.server.site import site_of
from privod.server.views.dialects import dialect_choices, dialect_sent
from privod.server.views.media import CSV, JSON, NOTEBOOK, PICTURE_HEADERS, SVG
from privod.server.views.pages import answer_path, page, page_of

__all__ = ["answer", "answer_csv", "answer_json", "answer_notebook", "answer_svg"]
__all__ += ["answers", "fits", "score", "written"]

LONGEST_SEARCH = 200
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
    return parameter.written(value)


def answers(request: Request) -> Response:
    """All answers about a data set, the newest first; a search looks at what was asked."""
    site, of = site_of(request), request.path_params["dataset"]
    dataset = site.curator.dataset(of)
    sought = request.query_params.get("find", "")[:LONGEST_SEARCH]
    found = [key for key, query in site.answers.questions(of) if fits(query, sought)]
    place = page_of(request, len(found))
    shown = [site.answers.summary(of, key) for key in found[place["first"] : place["end"]]]
    return page(
        request,
        "answers.html",
        dataset=dataset,
        answers=shown,
        found=len(found),
        sought=sought,
        place=place,
    )


def fits(query: Query[Any], sought: str, also: str = "") -> bool:
    """Whether every word of a search occurs in what was asked, or in what else is known of it."""
    if not sought:
        return True
    read = " ".join(f"{name} {text}" for name, text in written(query))
    exact = canonical_json(query.parameters())
    asked = f"{query.name} {query.question} {read} {exact} {also}".casefold()
    return all(word in asked for word in sought.casefold().split())


def answer(request: Request) -> Response:
    """An answer: in a sentence, as a picture, with its promise."""
    return _page(request)


async def score(request: Request) -> Response:
    """The answer's page with the visitor's own records scored: nothing is kept, nothing charged."""
    of, key = request.path_params["dataset"], request.path_params["key"]
    try:
        taken = await run_in_threadpool(_taken, request)
        scored = await site_of(request).answers.scored(of, key, taken)
    except PrivodError as problem:
        return await run_in_threadpool(_page, request, problem=str(problem), status=422)
    return await run_in_threadpool(_page, request, scored=scored)


def _page(
    request: Request,
    scored: dict[str, Any] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    of, release = request.path_params["dataset"], _release(request)
    address, domain = _address(request), site_of(request).curator.dataset(of).domain
    columns = release.value.columns if isinstance(release.value, Scorable) else ()
    return page(
        request,
        "answer.html",
        status,
        dataset=of,
        release=release,
        title=domain.title,
        parameters=written(release.query, domain),
        here=answer_path(of, release.query),
        python=as_code.as_python(release.query, of, address),
        shell=as_code.as_shell(release.query, of, address),
        scored=scored,
        scored_columns=[column.name for column in columns],
        most_scored=MOST_SCORED,
        problem=problem,
        **dialect_choices(request),
    )


def _taken(request: Request) -> scoring.NewRecords:
    """What was sent, read as registered rows are."""
    release = _release(request)
    if not isinstance(release.value, Scorable):
        raise InvalidData("This answer cannot score records.")
    records, dialect = _sent(request)
    taken = scoring.read_records(records, release.value.scorer(), dialect)
    if len(taken.rows) > MOST_SCORED:
        raise InvalidData(
            f"At most {MOST_SCORED} records are scored here. Download the answer as JSON and score"
            " more with `privod score`."
        )
    return taken


def _sent(request: Request) -> tuple[CsvBytes, CsvDialect]:
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
    return CsvBytes(data, "sent here"), dialect


def answer_json(request: Request) -> Response:
    """The release as JSON, as every privod reads it back."""
    release = _release(request)
    return Response(canonical_json(release.to_json()), media_type=JSON, headers=_saved("json"))


async def answer_csv(request: Request) -> Response:
    """The answer as a table."""
    return Response(await _form(request, "csv"), media_type=CSV, headers=_saved("csv"))


def answer_notebook(request: Request) -> Response:
    """A notebook that asks the same question, for free."""
    of, release = request.path_params["dataset"], _release(request)
    text = as_code.as_notebook(release.query, of, _address(request))
    return Response(text, media_type=NOTEBOOK, headers=_saved("ipynb"))


async def answer_svg(request: Request) -> Response:
    """The answer as a picture."""
    headers = PICTURE_HEADERS | (_saved("svg") if "download" in request.query_params else {})
    return Response(await _form(request, "svg"), media_type=SVG, headers=headers)


async def _form(request: Request, form: Literal["svg", "csv"]) -> bytes:
    of, key = request.path_params["dataset"], request.path_params["key"]
    return await site_of(request).answers.written(of, key, form)


def _address(request: Request) -> str:
    """Where this server is reached, for code that asks it."""
    site = site_of(request)
    scheme = "https" if site.secure else request.url.scheme
    return f"{scheme}://{request.url.netloc}{site.prefix}"


def _release(request: Request) -> Release[Any]:
    return site_of(request).answers.release(
        request.path_params["dataset"], request.path_params["key"]
    )


def _saved(ending: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="privod-answer.{ending}"'}
