"""The console for owners: registering data, opening budgets, handing out tokens."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from privod.curator import Registered, acting
from privod.curator.protection import crowd_figures
from privod.data import Domain
from privod.data.intake import LossyIntake
from privod.engines.size import UNLESS_DECLARED, SizeClass
from privod.errors import (
    InvalidData,
    InvalidParameter,
    LimitReached,
    NeedsConfirmation,
    NotFound,
    PrivodError,
)
from privod.ledger.acts import OpenBudget
from privod.privacy import AddRemove, Replace, adjacency_from_text
from privod.server import authentication as auth
from privod.server.http.authorization import form_of, text_of
from privod.server.jobs import uploads
from privod.server.site import site_of, visitor_of
from privod.server.views.acts import check_confirmed, do
from privod.server.views.dialects import dialect_choices, dialect_sent
from privod.server.views.forms import DECLARED, Choice, read_json, with_header
from privod.server.views.pages import page, redirect, segment

BLANK = {"name": "", "domain": "", "continues": "", "most_records": str(UNLESS_DECLARED)}


def register_form(request: Request) -> Response:
    """Ask what the data is called and what is public about it."""
    return _register_page(request, BLANK)


def edit_columns(request: Request) -> Response:
    """The declaration as it was typed, with a draft of the columns that a header names besides."""
    form = _typed(request)
    try:
        form["domain"] = with_header(form["domain"], text_of(request, "header"))
    except PrivodError as problem:
        return _register_page(request, form, problem)
    return _register_page(request, form)


def preview(request: Request) -> Response:
    """Show what would become public, and ask for the file."""
    form = _typed(request)
    try:
        domain = _domain(form)
        _most_records(form)
    except PrivodError as problem:
        return _register_page(request, form, problem)
    return _file_page(request, form, domain)


def register(request: Request) -> Response:
    """Register the file."""
    form = _typed(request)
    file = form_of(request).get("file")
    try:
        domain = _domain(form)
    except PrivodError as problem:
        return _register_page(request, form, problem)
    try:
        if not isinstance(file, UploadFile) or not file.filename:
            raise InvalidData("No file was sent. Choose a CSV or Parquet file.")
        uploads.register(
            site_of(request).curator,
            site_of(request).reports,
            form["name"],
            domain,
            file,
            continues=form["continues"] or None,
            dialect=dialect_sent(request),
            confirmed=text_of(request, "confirmed") == "yes",
            most_records=_most_records(form),
        )
    except LossyIntake as lossy:
        return _file_page(request, form, domain, str(lossy), lossy.report.sentences())
    except PrivodError as problem:
        return _file_page(request, form, domain, str(problem))
    return redirect(f"/data/{segment(form['name'])}/report")


def _file_page(
    request: Request,
    form: dict[str, str],
    domain: Domain,
    problem: str | None = None,
    lost: tuple[str, ...] = (),
) -> Response:
    """What becomes public, and the file; what most of was lost must be confirmed."""
    return page(
        request,
        "register.html",
        form=form,
        domain=domain,
        problem=problem,
        lost=lost,
        **dialect_choices(request),
    )


def report(request: Request) -> Response:
    """What became of the records, for the owner alone."""
    curator = site_of(request).curator
    dataset = curator.dataset(request.path_params["dataset"])
    told = Registered(dataset, curator.report(dataset.name), curator.same_rows_as(dataset.name))
    return page(request, "report.html", dataset=dataset, sentences=told.sentences())


def _typed(request: Request) -> dict[str, str]:
    return {name: text_of(request, name) for name in BLANK}


def _most_records(form: dict[str, str]) -> int:
    typed = form["most_records"].strip()
    if not typed:
        return UNLESS_DECLARED
    if not (typed.isascii() and typed.isdigit() and len(typed) < 20):
        raise InvalidParameter("most_records", "must be a whole number", typed, "Try 100000.")
    return SizeClass(int(typed)).most_records


def _domain(form: dict[str, str]) -> Domain:
    if not form["name"].strip():
        raise InvalidParameter("name", "must not be empty", "", "Try 'patients-2026'.")
    return Domain.from_json(read_json("domain", form["domain"], DECLARED))


def _register_page(
    request: Request, form: dict[str, str], problem: PrivodError | None = None
) -> Response:
    known = [dataset.name for dataset in site_of(request).curator.datasets()]
    at = problem.parameter if isinstance(problem, InvalidParameter) else ""
    shown: dict[str, Any] = {"form": form, "domain": None, "known": known}
    shown |= {"problem": str(problem) if problem else None, "at": at if at in BLANK else "domain"}
    return page(request, "register.html", **shown)


ADJACENCIES = (
    Choice("add-remove", f"add-remove: {AddRemove().protected}"),
    Choice("replace", f"replace: {Replace().protected}"),
    Choice("other", "another, written below"),
)
ACCOUNTINGS = (
    Choice("sums", "sums: epsilons and deltas add up"),
    Choice("zcdp", "zcdp: squares add up too, for many small questions"),
)
BLANK_BUDGET = {
    "adjacency": "add-remove",
    "other": "",
    "epsilon": "1",
    "delta": "0",
    "accounting": "sums",
}


def open_budget_form(request: Request) -> Response:
    """Ask for a budget."""
    chosen = request.query_params.get("adjacency", "")
    form = {**BLANK_BUDGET, "adjacency": "other", "other": chosen} if chosen else BLANK_BUDGET
    return _budget_page(request, form)


def open_budget(request: Request) -> Response:
    """Open the budget, once what it gives up is confirmed."""
    of = request.path_params["dataset"]
    form = {name: text_of(request, name) for name in BLANK_BUDGET}
    confirmed = text_of(request, "confirmed") == "yes"
    try:
        other = form["other"] if form["adjacency"] == "other" else form["adjacency"]
        adjacency = adjacency_from_text(other).to_json()
        told = {"adjacency": adjacency, "accounting": form["accounting"] or "sums"}
        act = OpenBudget.read(of, form | told)
        check_confirmed(request, act, confirmed=confirmed)
        do(request, act, confirmed=confirmed)
    except NeedsConfirmation as needed:
        try:
            figures = crowd_figures(site_of(request).reports, of, act.adjacency)
        except LimitReached as busy:
            return _budget_page(request, form, problem=str(busy))
        return _budget_page(request, form, gives_up=str(needed), figures=figures)
    except PrivodError as problem:
        return _budget_page(request, form, problem=str(problem))
    return redirect(f"/data/{segment(of)}")


def _budget_page(
    request: Request,
    form: dict[str, str],
    problem: str | None = None,
    gives_up: str = "",
    figures: tuple[str, ...] = (),
) -> Response:
    dataset = site_of(request).curator.dataset(request.path_params["dataset"])
    return page(
        request,
        "open_budget.html",
        dataset=dataset,
        form=form,
        adjacencies=ADJACENCIES,
        accountings=ACCOUNTINGS,
        problem=problem,
        gives_up=gives_up,
        figures=figures,
    )


BLANK_TOKEN = {"name": "", "role": "analyst", "of": "", "expires": ""}


def tokens(request: Request) -> Response:
    """The tokens handed out, and a form for another."""
    of = request.query_params.get("of", "")
    return _tokens_page(request, {**BLANK_TOKEN, "of": of})


def make_token(request: Request) -> Response:
    """Make a token and show it this once."""
    curator, visitor = site_of(request).curator, visitor_of(request)
    form = {name: text_of(request, name) for name in BLANK_TOKEN}
    of = form["of"] or visitor.of
    try:
        if of is not None and not visitor.sees(of):
            raise NotFound(f"There is no data set {of!r} that your token is for.")
        expires = form["expires"] or None
        with acting(visitor.name, visitor.token):
            token = auth.create_token(curator, form["role"], of, form["name"], expires)
    except PrivodError as problem:
        return _tokens_page(request, form, problem=str(problem))
    return _tokens_page(request, {**BLANK_TOKEN, "of": form["of"]}, token=token)


def revoke_token(request: Request) -> Response:
    """Revoke a token."""
    visitor = visitor_of(request)
    with acting(visitor.name, visitor.token):
        auth.revoke_token(site_of(request).curator, visitor, request.path_params["token"])
    return redirect("/tokens")


def _tokens_page(
    request: Request, form: dict[str, str], problem: str | None = None, token: str = ""
) -> Response:
    curator, visitor = site_of(request).curator, visitor_of(request)
    known = [
        {"id": each.id, "mine": each.hash == visitor.id, "token": each, "expired": each.expired}
        for each in auth.tokens_seen(curator, visitor)
    ]
    names = [each.name for each in curator.datasets() if visitor.sees(each.name)]
    return page(
        request,
        "tokens.html",
        section="tokens",
        form=form,
        tokens=known,
        data_sets=names,
        token=token,
        problem=problem,
    )
