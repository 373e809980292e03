"""The console for analysts: picking a question, its price, asking it, what became of it."""

from __future__ import annotations

import io
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from privod.curator import fitting
from privod.curator.work import JobRecord
from privod.data.mock import mock_rows
from privod.errors import InvalidParameter, NoPromise, PrivodError
from privod.ledger.prices import BEGUN
from privod.privacy import Guarantee
from privod.query.catalog import kind_of, query_from_json
from privod.query.offers import GOALS, offers
from privod.query.parameters import gets_of, parameters_of, promise_of
from privod.query.preview import time_told, worth
from privod.query.query import Query, canonical_json
from privod.query.size import size_offer, size_question
from privod.server.asking import begin, failure_of, find_job, state_of, stop
from privod.server.http.authorization import form_of, text_of
from privod.server.jobs.estimates import check_work
from privod.server.jobs.jobs import Job
from privod.server.site import Paid, site_of, visitor_of
from privod.server.views.answers import fits, written
from privod.server.views.forms import boxes_of, query_from_form
from privod.server.views.media import CSV
from privod.server.views.pages import (
    answer_path,
    fragment,
    page,
    page_of,
    redirect,
    segment,
    sought_in,
)
from privod.wire import answer_key

QUICK_SECONDS = 0.6  # an answer that is there by then needs no page about waiting
MOST_SEARCHED = 5000  # of one's own questions, the newest
LONGEST_NEW = 40  # letters of what an example has that those before it have not
LONGEST_ASKED = 160  # letters that a list shows of what was asked
UNREADABLE = "This version of the server cannot read this question any more."
MOCK_RECORDS = 1000
MOCK_CELLS = 200_000  # of many columns fewer records are made up
STATES = {"waiting": "waiting", "answering": "under way", "done": "answered", "failed": "failed"}


def questions(request: Request) -> Response:
    """The questions that these columns allow by goal, each with what a useful answer costs."""
    site, token = site_of(request), visitor_of(request).token
    dataset = site.dataset(request.path_params["dataset"])
    price = partial(site.curator.price, of=dataset.name, token=token)
    key = ("offers", dataset.name, token)
    found = site.kept.figure(key, lambda: offers(dataset.domain, price))
    goals = [{"id": goal, "title": GOALS[goal], "offers": some} for goal, some in found.items()]
    budgets = [one for one in site.budget(dataset.name, token) if one.closed is None]
    return page(request, "questions.html", dataset=dataset, budgets=budgets, goals=goals)


def ask_form(request: Request) -> Response:
    """A question's form, filled with an example."""
    dataset = site_of(request).curator.dataset(request.path_params["dataset"])
    examples = kind_of(request.path_params["question"]).examples(dataset.domain)
    chosen = request.query_params.get("example", "0")
    place = int(chosen) if chosen.isascii() and chosen.isdigit() and len(chosen) < 4 else 0
    query = examples[min(place, len(examples) - 1)] if examples else None
    query = size_question(dataset.domain) if chosen == "size" else query
    if query and "epsilon" in request.query_params:
        given = {**query.parameters(), "epsilon": request.query_params["epsilon"]}
        query = type(query).from_parameters(given)
    return _question_page(request, query.parameters() if query else {}, query)


def price_page(request: Request) -> Response:
    """The form again with its price."""
    typed = _typed(request)
    try:
        return _question_page(request, typed, _query(request))
    except PrivodError as problem:
        return _question_page(request, typed, None, problem)


def price(request: Request) -> Response:
    """The price alone, for the page's script."""
    query = None
    try:
        query = _query(request)
        return fragment(request, "price.html", **_priced(request, query))
    except PrivodError as problem:
        return fragment(request, "price.html", **_unpriced(request, query, problem))


async def ask(request: Request) -> Response:
    """Ask, once the price is confirmed: on to the answer, or to the page of the job.

    The form leads to a page that names the price and has no field to press Enter in; only its
    button carries the question's key, without which nothing is charged.
    """
    of = request.path_params["dataset"]
    query = None
    try:
        query = await run_in_threadpool(_query, request)
        if text_of(request, "confirmed") != answer_key(query):
            shown = await run_in_threadpool(_unconfirmed, request, query)
            if shown is not None:
                return shown
        request_id = text_of(request, "request_id")[:100] or None
        begun = await begin(site_of(request), visitor_of(request), query, of, request_id)
        if begun is not None:
            if not await begun.wait(QUICK_SECONDS):
                return redirect(f"/jobs/{begun.id}")
            begun.result()  # raises what went wrong
    except PrivodError as problem:
        typed = _typed(request)
        return await run_in_threadpool(_question_page, request, typed, query, problem)
    return redirect(answer_path(of, query))


def _unconfirmed(request: Request, query: Query[Any]) -> Response | None:
    """The page that asks for a confirmation; None if nothing would be charged or all is refused."""
    curator = site_of(request).curator
    dataset = curator.dataset(request.path_params["dataset"])
    price = curator.price(query, dataset.name, token=visitor_of(request).token)
    if price.already_answered or not price.affordable:
        return None
    sent = [
        (name, value)
        for name, value in form_of(request).multi_items()
        if isinstance(value, str) and name not in ("code", "confirmed")
    ]
    return page(
        request,
        "confirm.html",
        dataset=dataset,
        kind=type(query),
        parameters=written(query, dataset.domain),
        fields=sent,
        confirmed=answer_key(query),
        **_priced(request, query),
    )


def _query(request: Request) -> Query[Any]:
    query = query_from_form(kind_of(request.path_params["question"]), form_of(request))
    return site_of(request).curator.adapted(query, request.path_params["dataset"])


def _typed(request: Request) -> dict[str, Any]:
    """What was typed, to be shown again."""
    form = form_of(request)
    typed: dict[str, Any] = {}
    for parameter in parameters_of(kind_of(request.path_params["question"])):
        texts = [value for value in form.getlist(parameter.name) if isinstance(value, str)]
        typed[parameter.name] = texts if parameter.kind == "columns" else "".join(texts[:1])
    return typed


def _question_page(
    request: Request,
    values: dict[str, Any],
    query: Query[Any] | None,
    problem: PrivodError | None = None,
) -> Response:
    curator = site_of(request).curator
    dataset = curator.dataset(request.path_params["dataset"])
    kind = kind_of(request.path_params["question"])
    budgets = site_of(request).budget(dataset.name, visitor_of(request).token)
    wrong = problem if isinstance(problem, InvalidParameter) else None
    boxes = boxes_of(kind, dataset.domain, budgets, values, wrong)
    at_box = any(box.problem for box in boxes)
    shown = _unpriced(request, query, None)
    if query is not None:
        try:
            shown = _priced(request, query)
        except PrivodError as unpriced:
            shown = _unpriced(request, query, unpriced)
    return page(
        request,
        "question.html",
        200 if problem is None else 422,
        dataset=dataset,
        kind=kind,
        promise=promise_of(kind),
        gets=gets_of(kind),
        examples=_named(kind.examples(dataset.domain), dataset.domain.titles),
        boxes=boxes,
        problem=str(problem) if problem and not at_box else None,
        request_id=secrets.token_urlsafe(16),
        **shown,
    )


def _named(examples: Sequence[Query[Any]], titles: Mapping[str, str]) -> list[str]:
    """Examples in a few words: their columns, and what is new where these repeat."""
    names: list[str] = []
    seen: set[tuple[str, str]] = set()
    for example in examples:
        words = example.parameters().get("columns") or example.parameters().get("group_columns", [])
        name = ", ".join(titles.get(word, word) for word in words[:3]) or example.name
        told = written(example)
        new = [f"{key} {text}" for key, text in told if (key, text) not in seen]
        names.append(f"{name}: {shorten(new[0], LONGEST_NEW)}" if name in names and new else name)
        seen.update(told)
    return names


def _priced(request: Request, query: Query[Any]) -> dict[str, Any]:
    """What the price panel shows."""
    site, of = site_of(request), request.path_params["dataset"]
    curator = site.curator
    query = curator.adapted(query, of)  # what is promised is what would be charged
    price = curator.price(query, of, token=visitor_of(request).token)
    domain = curator.dataset(of).domain
    if not price.already_answered:
        check_work(curator, query, of, site.limits)
    token = visitor_of(request).token
    budgets = {state.adjacency: state for state in site.budget(of, token)}
    lines = [
        {
            "state": budgets[charge.adjacency],
            "cost": charge.loss,
            "left": charge.left,
            "fitting": fitting(charge.questions_left),
            "needed": told["name"] if len(told) == 1 else canonical_json(told),
        }
        for charge in price.charges
        if charge.adjacency in budgets
        for told in [charge.adjacency.to_json()]
    ]
    guarantee, most = query.guarantee(), price.records or price.most_records
    offer, size = size_offer(price, domain)
    priced = {
        "stored": price.already_answered,
        "begun": BEGUN if price.begun else "",
        "cost": " and ".join(dict.fromkeys(str(line["cost"]) for line in lines)),
        "lines": lines,
        "worth": worth(query, domain, most),
        "time": time_told(price),
        "offer": "" if query == size else offer,
        "count_at": f"/data/{segment(of)}/ask/histogram?example=size",
        "sentence": guarantee.of_persons(domain.max_rows_per_person).sentence(),
        "not_protected": price.not_protected,
    }
    return {"priced": priced, "price_problem": None, "requests_at": _requests_at(request)}


def _unpriced(
    request: Request, query: Query[Any] | None, problem: PrivodError | None
) -> dict[str, Any]:
    """What the price panel shows when there is no price, and which budget would give one."""
    needed = None
    if query is not None and isinstance(problem, NoPromise):
        guarantee = query.guarantee()
        states = site_of(request).budget(request.path_params["dataset"])
        opened = [state.adjacency for state in states if state.closed is None]
        if isinstance(guarantee, Guarantee) and guarantee.adjacency not in opened:
            needed = canonical_json(guarantee.adjacency.to_json())
    said = None if problem is None else str(problem)
    at = _requests_at(request)
    return {"priced": None, "price_problem": said, "needed_budget": needed, "requests_at": at}


def _requests_at(request: Request) -> str:
    return f"/data/{segment(request.path_params['dataset'])}/requests"


def my_questions(request: Request) -> Response:
    """What one's token asked in the last weeks, answered or not, the newest first."""
    site, visitor = site_of(request), visitor_of(request)
    sought = sought_in(request)
    records = site.curator.job_records
    in_all = records.count_by(visitor.id)
    if sought:
        looked_at = records.asked_by(visitor.id, most=MOST_SEARCHED)
        hits = [pair for pair in map(_with_query, looked_at) if _is_sought(*pair, sought)]
        found = len(hits)
        place = page_of(request, found)
        listed = hits[place["first"] : place["end"]]
    else:
        found = in_all
        place = page_of(request, found)
        on_it = records.asked_by(visitor.id, place["first"], place["end"] - place["first"])
        listed = [_with_query(record) for record in on_it]
    shown = []
    for record, query in listed:
        state = state_of(site, record)
        told = failure_of(record) or ""
        one: dict[str, Any] = {"record": record, "told": told}
        if query is None:
            one |= {"question": record.query.get("name"), "at": None}
            asked = UNREADABLE
        else:
            at = answer_path(record.dataset, query) if state == "done" else f"/jobs/{record.id}"
            one |= {"question": query.question, "at": None if told else at}
            asked = ", ".join(f"{name} {text}" for name, text in written(query) if text != "none")
        shown.append(one | {"state": STATES[state], "asked": shorten(asked, LONGEST_ASKED)})
    return page(
        request,
        "my_questions.html",
        section="questions",
        asked=shown,
        found=found,
        searched=MOST_SEARCHED if sought and in_all > MOST_SEARCHED else None,
        in_all=in_all,
        sought=sought,
        place=place,
    )


def _with_query(record: JobRecord) -> tuple[JobRecord, Query[Any] | None]:
    """A record and what was asked; None if this version cannot read it."""
    try:
        return record, query_from_json(record.query)
    except PrivodError:
        return record, None


def _is_sought(record: JobRecord, query: Query[Any] | None, sought: str) -> bool:
    if query is not None:
        return fits(query, sought, also=record.dataset)
    known = f"{canonical_json(record.query)} {record.dataset}".casefold()
    return all(word in known for word in sought.casefold().split())


def mock_data(request: Request) -> Response:
    """Made-up records with the same columns, from what is public alone."""
    domain = site_of(request).curator.dataset(request.path_params["dataset"]).domain
    records = max(1, min(MOCK_RECORDS, MOCK_CELLS // len(domain.columns)))
    file = io.BytesIO()
    pa_csv.write_csv(pa.table(mock_rows(domain, records)), file)
    headers = {"content-disposition": 'attachment; filename="privod-mock.csv"'}
    return Response(file.getvalue(), media_type=CSV, headers=headers)


def job(request: Request) -> Response:
    """A job's page, or on to its answer once that is there."""
    found = find_job(site_of(request), visitor_of(request), request.path_params["job"])
    if found.state() in ("done", "failed"):
        found.result()  # raises what went wrong
        return redirect(f"/data/{segment(found.of)}/answers/{found.work.key[1]}")
    return page(request, "job.html", job=found, words=_words(found), tenths=found.tenths())


def job_progress(request: Request) -> Response:
    """How far a job has come, for the page's script."""
    found = find_job(site_of(request), visitor_of(request), request.path_params["job"])
    ended = found.state() in ("done", "failed")
    return JSONResponse({"tenths": found.tenths(), "words": _words(found), "ended": ended})


def stop_job(request: Request) -> Response:
    """Stop one's own job, and go on to where it says what was charged."""
    stop(site_of(request), visitor_of(request), request.path_params["job"])
    return redirect("/questions")


def _words(job: Job[Paid]) -> str:
    words = {
        "waiting": "Waiting for its turn.",
        "answering": "Looking at the data and adding noise to the answer.",
        "done": "Done.",
        "failed": "It ended without an answer.",
    }
    return words[job.state()]
