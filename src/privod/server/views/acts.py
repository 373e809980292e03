"""What people do to a ledger, over the network: a JSON route and a form for each act.

What gives something up is done only when the sentence that says so was confirmed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from privod.curator import acting
from privod.errors import InvalidParameter, NeedsConfirmation, NotFound, PrivodError
from privod.ledger.acts import (
    ACTS,
    Act,
    AdmitPerson,
    AllowExactCounts,
    Approve,
    CloseBudget,
    Decline,
    FileRequest,
    LimitToken,
    Part,
    RaiseBudget,
    Retire,
    parts_of,
)
from privod.privacy import adjacency_from_text
from privod.server import authentication as auth
from privod.server.http.authorization import ANALYST, OWNER, Route, form_of, text_of
from privod.server.site import site_of, visitor_of
from privod.server.views.media import JSON
from privod.server.views.pages import page, redirect, segment
from privod.wire import to_text
from privod.wire.acts import answer_type, body_of, in_path, shown

Done = TypeVar("Done")
Dataset = Annotated[str, Path(max_length=1000)]


def do(request: Request, act: Act[Done], *, confirmed: bool) -> Done:
    """Do an act for whoever sent the request, whose name its entries say."""
    visitor, curator = visitor_of(request), site_of(request).curator
    if isinstance(act, LimitToken):  # another owner's token is nobody's business
        seen = [token.id for token in auth.tokens_seen(curator, visitor)]
        if act.token not in seen:
            raise NotFound("There is no such token. See the list of tokens (`privod token list`).")
    with acting(visitor.name, visitor.token):
        return curator.do(act, confirmed=confirmed)


def check_confirmed(request: Request, act: Act[Any], *, confirmed: bool) -> None:
    """Let a person read what an act means and gives up before it is done."""
    curator = site_of(request).curator
    with curator.database.reading() as connection:
        lost = act.gives_up(connection)
    if not confirmed and (told := lost or act.means(curator)):
        raise NeedsConfirmation(told)


# ---- for programs ------------------------------------------------------------------------------


def json_routes(prefix: str) -> list[Route]:
    """The routes of all acts that can be done over the network."""
    access = {"owner": OWNER, "analyst": ANALYST}
    return [
        Route("POST", f"{prefix}/{act.path}", _json_view(act), access[act.role])
        for act in ACTS.values()
        if act.path is not None
    ]


def _json_view(act: type[Act[Any]]) -> Callable[..., Any]:
    def view(request: Request, dataset: str, form: Any, **placed: Any) -> Any:
        told = {**vars(form), **placed}
        confirmed = told.pop("confirmed", False)
        one = act.read(dataset, told)
        done = shown(one, do(request, one, confirmed=confirmed))
        return Response(to_text(done), media_type=JSON)

    taken = {"request": Request, "dataset": Dataset, "form": body_of(act)}
    taken |= dict.fromkeys(in_path(act), int)
    view.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for name, kind in taken.items()
        ],
        return_annotation=answer_type(act),
    )
    view.__name__ = re.sub(r"(?<!^)(?=[A-Z])", "_", act.__name__).lower()
    view.__doc__ = act.__doc__
    return view


# ---- for people --------------------------------------------------------------------------------

ON_PAGE = (RaiseBudget, CloseBudget, LimitToken, AdmitPerson, AllowExactCounts, Retire)


def form_routes(path: str) -> list[Route]:
    """The routes of the forms on an owner's page about a data set."""
    return [
        Route("POST", f"{path}/{act.name}", _form_view(act), OWNER)
        for act in (*ON_PAGE, Approve, Decline)
    ]


def _form_view(act: type[Act[Any]]) -> Callable[[Request], Response]:
    def view(request: Request) -> Response:
        of = request.path_params["dataset"]
        try:
            one, confirmed = read_form(request, act), text_of(request, "confirmed") == "yes"
            check_confirmed(request, one, confirmed=confirmed)
            do(request, one, confirmed=confirmed)
        except NeedsConfirmation as needed:
            return _manage_page(request, gives_up=str(needed))
        except PrivodError as problem:
            return _manage_page(request, problem=str(problem))
        return redirect(f"/data/{segment(of)}/manage")

    return view


def read_form(request: Request, act: type[Act[Done]]) -> Act[Done]:
    """The act that a form describes."""
    told = {part.name: _typed(request, part) for part in parts_of(act)}
    return act.read(request.path_params["dataset"], told)


def _typed(request: Request, part: Part) -> Any:
    text = text_of(request, part.name).strip()
    if part.kind == "adjacency":
        return (
            _chosen(request)
            if "budget" in form_of(request)
            else adjacency_from_text(text).to_json()
        )
    if part.kind == "flag":
        return text == "yes"
    if part.kind != "count":
        return text or part.default or ""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidParameter(part.name, "must be a whole number", text[:20], "Try 10.")
    return int(text)


def _chosen(request: Request) -> dict[str, Any]:
    """The adjacency of the budget that was picked, by its number."""
    picked = text_of(request, "budget")
    for state in site_of(request).curator.budget(request.path_params["dataset"]):
        if str(state.number) == picked:
            return state.adjacency.to_json()
    raise NotFound("There is no such budget. See the list of budgets.")


def manage(request: Request) -> Response:
    """An owner's page about what becomes of a data set and its budgets."""
    return _manage_page(request)


def _manage_page(request: Request, problem: str | None = None, gives_up: str = "") -> Response:
    curator, of = site_of(request).curator, request.path_params["dataset"]
    sent = dict(form_of(request)) if problem or gives_up else {}
    seen = auth.tokens_seen(curator, visitor_of(request))
    tokens = [token for token in seen if token.role == "analyst" and token.revoked is None]
    budgets = [state for state in curator.budget(of) if state.closed is None]
    choices = dict.fromkeys(ON_PAGE[:3], budgets)
    choices[AllowExactCounts] = [state for state in budgets if state.role == "allowance"]
    listed = [state for state in budgets if state.adjacency.name == "admitted-contexts"]
    choices[AdmitPerson] = listed
    forms = [
        {
            "name": act.name,
            "title": act.title,
            "about": (act.__doc__ or "").partition("\n")[0],
            "parts": parts_of(act),
            "budgets": choices.get(act, []),
        }
        for act in ON_PAGE
        if (act is Retire or choices.get(act)) and (act is not LimitToken or tokens)
    ]
    return page(
        request,
        "manage.html",
        dataset=curator.dataset(of),
        forms=forms,
        requests=curator.requests(of),
        tokens=[(token.id, token.name) for token in tokens],
        problem=problem,
        gives_up=gives_up,
        sent={name: value for name, value in sent.items() if name not in ("code", "confirmed")},
    )


def request_form(request: Request) -> Response:
    """What was asked of the owner, and a form to ask for more; sends what was typed there."""
    curator, of = site_of(request).curator, request.path_params["dataset"]
    sent = dict.fromkeys(("epsilon", "delta", "reason"), "")
    written, problem = request.query_params.get("adjacency", ""), None
    if request.method == "POST":
        written = text_of(request, "adjacency")
        sent = {name: text_of(request, name) for name in sent}
        try:
            do(request, read_form(request, FileRequest), confirmed=False)
        except PrivodError as wrong:
            problem = str(wrong)
        else:
            return redirect(f"/data/{segment(of)}/requests")
    return page(
        request,
        "requests.html",
        dataset=curator.dataset(of),
        requests=curator.requests(of),
        budgets=site_of(request).budget(of),
        adjacency=written or "add-remove",
        sent=sent,
        problem=problem,
    )
