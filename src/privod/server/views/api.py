"""The JSON interface: each view calls the curator, and nothing below it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from fastapi import File, Form, Path, Query, Request, Response, UploadFile
from starlette.concurrency import run_in_threadpool

from privod import wire
from privod.curator import Head, acting
from privod.data import Domain
from privod.data.csv_file import CsvDialect
from privod.data.intake import IntakeReport
from privod.engines.size import UNLESS_DECLARED
from privod.errors import LedgerDamaged, NotFound, PrivodError, Unavailable
from privod.ledger.witness import kept_for
from privod.query.catalog import QUERIES, query_from_json
from privod.server import authentication as auth
from privod.server.asking import Paid, begin, failure_of, find_job, paid_by, state_of, stop
from privod.server.http.streaming import send
from privod.server.jobs import encoding, uploads
from privod.server.jobs.estimates import check_work
from privod.server.jobs.jobs import Job
from privod.server.metrics import exposition
from privod.server.site import Site, site_of, visitor_of
from privod.server.views.forms import DECLARED, read_json
from privod.server.views.media import CSV, JSON, METRICS, PICTURE_HEADERS, SVG
from privod.server.views.watching import gathered
from privod.wire.reading import describe

Dataset = Annotated[
    str, Path(max_length=200, description="A data set's name; a slash in it is %252F.")
]
STORED = b'{"charges": [], "stored": true, '  # before what is encoded of an answer
Key = Annotated[str, Path(max_length=64, description="An answer's key.")]


def kept(view: Callable[..., Any]) -> Callable[..., Any]:
    """Send the text that was made for the same request since the ledger's head last moved.

    A price of what was charged and is not answered yet may change without the ledger: it is made
    anew each time.
    """

    @wraps(view)
    async def shown(request: Request, **given: Any) -> Response:
        site, visitor = site_of(request), visitor_of(request)
        asked = hashlib.sha256(repr(given).encode()).digest()
        key = (view.__name__, visitor.of, visitor.token, asked)
        text = await site.kept.look(key)
        if text is None:
            head = site.kept.head
            found = await run_in_threadpool(view, request, **given)
            text = await run_in_threadpool(lambda: wire.to_text(found).encode())
            if not getattr(found, "begun", False):
                site.kept.keep(key, text, head)
        return Response(text, media_type=JSON)

    return shown


def health() -> dict[str, str]:
    """Say that the server is up."""
    return {"status": "up"}


def ready(request: Request) -> dict[str, str]:
    """Say whether questions can be answered; why not, to owners and auditors of all data sets."""
    try:
        _check_ready(site_of(request))
    except Unavailable:
        visitor: auth.Visitor | None = request.scope["visitor"]
        if visitor is not None and visitor.of is None and visitor.role != "analyst":
            raise
        raise Unavailable("This server is not ready. Ask again later.") from None
    return {"status": "ready"}


def _check_ready(site: Site) -> None:
    """Raise unless ledger, witness and disk are as they should be."""
    try:
        site.curator.check_ledger()
    except LedgerDamaged:
        raise Unavailable("The ledger lacks what its witness saw. Verify it.") from None
    except PrivodError:
        raise Unavailable("The ledger cannot be read. Look at its database.") from None
    if shutil.disk_usage(site.curator.directory).free < site.limits.least_free_bytes:
        raise Unavailable("The disk of the curator is nearly full. Make room on it.")
    if site.jobs.closing():
        raise Unavailable("The server is stopping. Ask again when it is back.")


def metrics(request: Request) -> Response:
    """Counts for Prometheus: requests, questions, workers, charges, budgets; nothing of rows."""
    found = gathered(site_of(request), visitor_of(request))
    return Response(exposition(found), media_type=METRICS)


def openapi(request: Request) -> Response:
    """This document."""
    return Response(json.dumps(request.app.openapi()), media_type=JSON)


def me(request: Request) -> wire.Visitor:
    """Say whose token was shown."""
    visitor = visitor_of(request)
    return wire.Visitor(visitor.role, visitor.of, visitor.name)


def questions() -> list[wire.Question]:
    """List the questions that can be asked, with their parameters."""
    return [describe(kind) for kind in QUERIES.values()]


@kept
def datasets(request: Request) -> list[wire.DataSet]:
    """List the data sets that the token is for."""
    visitor = visitor_of(request)
    known = site_of(request).curator.datasets()
    return [wire.DataSet.of(dataset) for dataset in known if visitor.sees(dataset.name)]


def register(
    request: Request,
    name: Annotated[str, Form(min_length=1, max_length=200)],
    domain: Annotated[str, Form(max_length=1_000_000, description="The domain, as JSON.")],
    file: Annotated[UploadFile, File(description="A .csv or .parquet file.")],
    continues: Annotated[str | None, Form(max_length=200)] = None,
    encoding: Annotated[str, Form(max_length=20, description="Of a CSV file.")] = "utf-8",
    separator: Annotated[str, Form(max_length=1, description="Of a CSV file.")] = ",",
    decimal: Annotated[str, Form(max_length=1, description="Of a CSV file.")] = ".",
    thousands: Annotated[str | None, Form(max_length=1, description="Of a CSV file.")] = None,
    quoting: Annotated[str, Form(max_length=20, description="line or multiline.")] = "line",
    confirmed: Annotated[bool, Form(description="Even if most records are lost.")] = False,
    most_records: Annotated[int, Form(description="The most records; public.")] = UNLESS_DECLARED,
    intake: Annotated[
        str | None, Form(max_length=20_000_000, description="A client's report, as JSON.")
    ] = None,
) -> wire.Registered:
    """Register a data set, for good."""
    declared = read_json("domain", domain, DECLARED)
    report = None
    if intake is not None:
        told = read_json("intake", intake, "Write what `to_json` of a report writes.")
        report = IntakeReport.from_json(told)
    dialect = CsvDialect(
        encoding=encoding,
        separator=separator,
        decimal=decimal,
        thousands=thousands or None,
        quoting=quoting,
    )
    registered = uploads.register(
        site_of(request).curator,
        site_of(request).reports,
        name,
        Domain.from_json(declared),
        file,
        continues=continues or None,
        dialect=dialect,
        confirmed=confirmed,
        intake=report,
        most_records=most_records,
    )
    return wire.Registered.of(registered)


def report(request: Request, dataset: Dataset) -> dict[str, Any]:
    """What became of the records of a data set, for its owner alone."""
    return site_of(request).curator.report(dataset).to_json()


@kept
def dataset(request: Request, dataset: Dataset) -> wire.DataSet:
    """What is public about a data set."""
    return wire.DataSet.of(site_of(request).curator.dataset(dataset))


@kept
def budget(request: Request, dataset: Dataset) -> list[wire.Budget]:
    """The budgets of a data set and what is left in each."""
    states = site_of(request).budget(dataset, visitor_of(request).token)
    return [wire.Budget.of(state) for state in states]


@kept
def history(request: Request, dataset: Dataset) -> list[wire.Entry]:
    """The entries of the ledger about a data set and its versions, oldest first."""
    return [wire.Entry.of(entry) for entry in site_of(request).history(dataset)]


@kept
def price(request: Request, dataset: Dataset, form: wire.AskPrice) -> wire.Price:
    """What a question would cost; nothing is looked at and nothing is charged."""
    site = site_of(request)
    query = site.curator.adapted(query_from_json(form.query), dataset)
    token = visitor_of(request).token
    found = site.curator.price(query, dataset, token=token)  # also finds out if it may be asked
    domain = site.curator.dataset(dataset).domain
    if not found.already_answered:
        check_work(site.curator, query, dataset, site.limits)
    return wire.Price.about(found, query, domain)


async def ask(request: Request, dataset: Dataset, form: wire.Ask) -> Response:
    """Ask a question: 200 with the answer, or 202 with a job if it takes longer than `wait`."""
    site, visitor = site_of(request), visitor_of(request)
    query = query_from_json(form.query)
    ready = site.answers.ready(dataset, query)  # stored as it is asked, or not at all
    if ready is None:
        query = await run_in_threadpool(site.curator.adapted, query, dataset)
        ready = site.answers.ready(dataset, query)
    if ready is not None:
        return send(request, ready, JSON, before=STORED)
    begun = await begin(site, visitor, query, dataset, form.request_id)
    if begun is None:
        return await answer(request, dataset, wire.answer_key(query))
    if await begun.wait(form.wait):
        return await _answered(request, begun)
    return Response(wire.to_text(_shown(begun)), 202, media_type=JSON)


def jobs(
    request: Request, first: Annotated[int, Query(ge=0, le=2**31)] = 0
) -> list[wire.JobListed]:
    """What one's token asked in the last weeks, newest first, answered or not.

    At most a thousand are listed, from the first one wanted on.
    """
    site = site_of(request)
    return [
        wire.JobListed(
            job=record.id,
            dataset=record.dataset,
            query=record.query,
            time=record.time,
            state=state_of(site, record),
            message=failure_of(record),
        )
        for record in site.curator.job_records.asked_by(visitor_of(request).id, first)
    ]


async def job(request: Request, job: Annotated[str, Path(max_length=64)]) -> Response:
    """How far one's own job has come, and its answer once it is done."""
    site, visitor = site_of(request), visitor_of(request)
    found = await run_in_threadpool(find_job, site, visitor, job)
    if found.state() == "failed":
        found.result()  # raises what went wrong, in the one error shape
    text = wire.to_text(_shown(found)).encode()
    if found.state() != "done":
        return Response(text, media_type=JSON)
    return await _answered(request, found, before=text.removesuffix(b"null}"), after=b"}")


def stop_job(request: Request, job: Annotated[str, Path(max_length=64)]) -> dict[str, bool]:
    """Stop one's own job, or as an owner one about one's data; what was charged stays charged."""
    stop(site_of(request), visitor_of(request), job)
    return {"stopped": True}


def _shown(job: Job[Paid]) -> wire.Job:
    return wire.Job(job=job.id, state=job.state(), tenths=job.tenths(), answer=None)


async def _answered(
    request: Request, job: Job[Paid], before: bytes = b"", after: bytes = b""
) -> Response:
    """The answer of a job that is done, with what it cost who asked first."""
    paid = paid_by(job)  # raises what went wrong
    of, key = job.of, job.work.key[1]
    found = await site_of(request).answers.encoded(of, key, "answer", visitor_of(request).id)
    charges = wire.to_text(paid.charges)
    opening = f'{{"charges": {charges}, "stored": {json.dumps(paid.stored)}, '
    return send(request, found, JSON, before=before + opening.encode(), after=after)


@kept
def answers(request: Request, dataset: Dataset) -> list[wire.AnswerListed]:
    """The answered questions about a data set, newest first, each with its answer's key."""
    found = site_of(request).answered(dataset)
    return [wire.AnswerListed(key, query.to_json()) for key, query in found]


async def answer(request: Request, dataset: Dataset, key: Key) -> Response:
    """A stored answer."""
    return await _form(request, dataset, key, "answer", JSON, before=STORED)


async def answer_csv(request: Request, dataset: Dataset, key: Key) -> Response:
    """A stored answer as a table."""
    return await _form(request, dataset, key, "csv", CSV)


async def answer_svg(request: Request, dataset: Dataset, key: Key) -> Response:
    """A stored answer as a picture."""
    return await _form(request, dataset, key, "svg", SVG, PICTURE_HEADERS)


async def _form(
    request: Request,
    of: str,
    key: str,
    form: encoding.Form,
    kind: str,
    headers: dict[str, str] | None = None,
    before: bytes = b"",
) -> Response:
    found = await site_of(request).answers.encoded(of, key, form, visitor_of(request).id)
    return send(request, found, kind, headers, before=before)


def verify(request: Request, form: wire.Verify | None = None) -> wire.Verification:
    """Recompute the whole ledger; what is told of it is about the token's data sets alone."""
    head = None if form is None else form.expected_head
    return site_of(request).verify(visitor_of(request), head)


@kept
def admitted(request: Request, dataset: Dataset) -> list[dict[str, Any]]:
    """The persons about whom contexts may be asked, which is public."""
    return [person.to_json() for person in site_of(request).curator.admitted(dataset)]


@kept
def requests(request: Request, dataset: Dataset) -> list[wire.Request]:
    """What analysts asked for about a data set and its versions, and what became of it."""
    return list(site_of(request).curator.requests(dataset))


def witness(request: Request, witness: Key) -> dict[str, str | None]:
    """Where the ledger of another curator ended when it was last noted here."""
    noted = kept_for(site_of(request).curator.directory, witness).read()
    return {"head": None if noted is None else str(noted)}


def note_head(request: Request, witness: Key, form: wire.NoteHead) -> dict[str, str | None]:
    """Remember where the ledger of another curator ends, unless a later head is known."""
    kept = kept_for(site_of(request).curator.directory, witness)
    kept.note(Head.read(form.head))
    return {"head": str(kept.read())}


def tokens(request: Request) -> list[wire.Token]:
    """The tokens handed out; the tokens themselves are kept nowhere."""
    seen = auth.tokens_seen(site_of(request).curator, visitor_of(request))
    return [wire.Token.of(token) for token in seen]


def make_token(request: Request, form: wire.MakeToken) -> wire.NewToken:
    """Hand out a token; it is shown this once."""
    visitor = visitor_of(request)
    of = form.dataset if visitor.of is None else form.dataset or visitor.of
    if of is not None and not visitor.sees(of):
        raise NotFound(f"There is no data set {of!r} that this token is for.")
    curator = site_of(request).curator
    with acting(visitor.name, visitor.token):
        made = auth.create_token(curator, form.role, of, form.name, form.expires)
    return wire.NewToken(token=made)


def revoke_token(request: Request, token: Annotated[str, Path(max_length=64)]) -> dict[str, bool]:
    """Revoke a token, from the next request on."""
    visitor = visitor_of(request)
    with acting(visitor.name, visitor.token):
        auth.revoke_token(site_of(request).curator, visitor, token)
    return {"revoked": True}


RESPONSES: dict[Any, dict[int | str, dict[str, Any]]] = {
    ask: {
        200: {"model": wire.Answer, "description": "The answer."},
        202: {"model": wire.Job, "description": "The answer is on its way."},
    },
    metrics: {200: {"content": {"text/plain": {}}, "description": "Prometheus text format."}},
    answer: {200: {"model": wire.Answer, "description": "The answer."}},
    job: {200: {"model": wire.Job, "description": "The job."}},
    answer_csv: {200: {"content": {"text/csv": {}}, "description": "The answer."}},
    answer_svg: {200: {"content": {SVG: {}}, "description": "The answer."}},
}
"""What the views answer whose return type does not say it."""
