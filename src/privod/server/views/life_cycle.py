"""What becomes of budgets and data sets, over the network: close, raise, admit, limit, decide.

The same verbs as JSON for programs and as forms for people. What gives something up is done only
when the sentence that says so was confirmed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from privod import wire
from privod.curator import Curator, Head, acting
from privod.errors import InvalidParameter, NeedsConfirmation, NotFound, PrivodError
from privod.privacy import Adjacency, Guarantee, Loss, SameContexts, adjacency_from_json
from privod.server import authentication as auth
from privod.server.http.authorization import text_of
from privod.server.site import site_of, visitor_of
from privod.server.views.pages import page, redirect, segment

__all__ = [
    "admit",
    "admitted",
    "charge_ahead",
    "close_budget",
    "decide",
    "file_request",
]
__all__ += ["limit_token", "manage", "manage_admit", "manage_allow_exact", "manage_close"]
__all__ += ["manage_decide", "manage_limit", "manage_raise", "manage_retire", "raise_budget"]
__all__ += ["request_form", "requests", "retire", "send_request"]

Dataset = Annotated[str, Path(max_length=1000)]
Witnessed = Annotated[str, Path(max_length=64)]


@contextmanager
def _acting(request: Request) -> Iterator[Curator]:
    """The curator, whose entries name the visitor meanwhile."""
    visitor = visitor_of(request)
    with acting(visitor.name, visitor.token):
        yield site_of(request).curator


def _person(data: dict[str, Any]) -> SameContexts:
    adjacency = adjacency_from_json(data)
    if not isinstance(adjacency, SameContexts):
        way_out = "Give what the price of a question about contexts says."
        raise InvalidParameter("person", "must be a person", adjacency.name, way_out)
    return adjacency


def _check_token(request: Request, shown: str) -> None:
    """Refuse a token that this owner did not hand out."""
    seen = auth.tokens_seen(site_of(request).curator, visitor_of(request))
    if shown not in [token.id for token in seen]:
        raise NotFound("There is no such token. See the list of tokens.")


# ---- for programs ------------------------------------------------------------------------------


def close_budget(request: Request, dataset: Dataset, form: wire.CloseBudget) -> list[wire.Budget]:
    """Close a budget, and those that would break its promise with it."""
    adjacency = adjacency_from_json(form.adjacency)
    with _acting(request) as curator:
        closed = curator.close_budget(dataset, adjacency, form.reason, confirmed=form.confirmed)
        numbers = {state.number for state in closed}
        now = [state for state in curator.budget(dataset) if state.number in numbers]
    return [wire.Budget.of(state) for state in now]


def raise_budget(request: Request, dataset: Dataset, form: wire.RaiseBudget) -> wire.Budget:
    """Allow more than before; what was charged so far counts."""
    adjacency, limit = adjacency_from_json(form.adjacency), Loss(form.epsilon, form.delta)
    with _acting(request) as curator:
        return wire.Budget.of(curator.raise_budget(dataset, adjacency, limit, form.reason))


def admit(request: Request, dataset: Dataset, form: wire.Admit) -> dict[str, int]:
    """Allow questions about the contexts of one person; narrows who is protected."""
    with _acting(request) as curator:
        entry = curator.admit_person(
            dataset,
            _person(form.person),
            form.reason,
            confirmed=form.confirmed,
            isolating=form.isolating,
        )
    return {"entry": entry}


def admitted(request: Request, dataset: Dataset) -> list[dict[str, Any]]:
    """The persons about whom contexts may be asked, which is public."""
    return [person.to_json() for person in site_of(request).curator.admitted(dataset)]


def limit_token(request: Request, dataset: Dataset, form: wire.LimitToken) -> dict[str, bool]:
    """Set how much of a budget the questions of one token may cost."""
    _check_token(request, form.token)
    adjacency, limit = adjacency_from_json(form.adjacency), Loss(form.epsilon, form.delta)
    with _acting(request) as curator:
        curator.limit_token(dataset, adjacency, form.token, limit)
    return {"limited": True}


def file_request(request: Request, dataset: Dataset, form: wire.FileRequest) -> wire.Request:
    """Ask the owner for a budget or allowance, or, without an epsilon, for a person."""
    loss = None if form.epsilon is None else Loss(form.epsilon, form.delta)
    with _acting(request) as curator:
        return wire.Request.of(
            curator.request(dataset, adjacency_from_json(form.adjacency), loss, form.reason)
        )


def requests(request: Request, dataset: Dataset) -> list[wire.Request]:
    """What analysts asked for about a data set and its versions, and what became of it."""
    return [wire.Request.of(one) for one in site_of(request).curator.requests(dataset)]


def decide(request: Request, dataset: Dataset, number: int, form: wire.Decide) -> wire.Request:
    """Approve a request, which does what it asks for, or decline it."""
    with _acting(request) as curator:
        decided = curator.decide(
            dataset, number, approve=form.approve, reason=form.reason, confirmed=form.confirmed
        )
    return wire.Request.of(decided)


def charge_ahead(request: Request, dataset: Dataset, form: wire.ChargeAhead) -> list[wire.Charge]:
    """Charge what is about to be revealed without the curator, by a fit or a joint run."""
    lost = Guarantee(Loss(form.epsilon, form.delta), adjacency_from_json(form.adjacency))
    with _acting(request) as curator:
        return [wire.Charge.of(one) for one in curator.charge_ahead(dataset, lost, form.reason)]


def retire(request: Request, dataset: Dataset, form: wire.Retire) -> dict[str, bool]:
    """Delete the rows of a data set for good; its ledger and its releases are kept."""
    with _acting(request) as curator:
        curator.retire(dataset, form.reason, confirmed=form.confirmed)
    return {"retired": True}


def witness(request: Request, witness: Witnessed) -> dict[str, str | None]:
    """Where the ledger of another curator ended when it was last noted here."""
    noted = site_of(request).curator.witness_for(witness).read()
    return {"head": None if noted is None else str(noted)}


def note_head(request: Request, witness: Witnessed, form: wire.NoteHead) -> dict[str, str | None]:
    """Remember where the ledger of another curator ends, unless a later head is known."""
    kept = site_of(request).curator.witness_for(witness)
    kept.note(Head.read(form.head))
    return {"head": str(kept.read())}


# ---- for people --------------------------------------------------------------------------------


def manage(request: Request) -> Response:
    """An owner's page about what becomes of a data set and its budgets."""
    return _manage_page(request)


def manage_close(request: Request) -> Response:
    """Close a budget."""
    return _do(
        request,
        lambda curator, of, confirmed: curator.close_budget(
            of, _chosen(request), text_of(request, "reason"), confirmed=confirmed
        ),
    )


def manage_raise(request: Request) -> Response:
    """Raise a budget."""
    return _do(
        request,
        lambda curator, of, _: curator.raise_budget(
            of, _chosen(request), _amount(request), text_of(request, "reason")
        ),
    )


def manage_admit(request: Request) -> Response:
    """Admit a person."""
    return _do(
        request,
        lambda curator, of, confirmed: curator.admit_person(
            of,
            _person(_read(text_of(request, "person"), "person")),
            text_of(request, "reason"),
            confirmed=confirmed,
        ),
    )


def manage_allow_exact(request: Request) -> Response:
    """Allow rare counts to be told exactly, up to a number of counts."""
    counts = text_of(request, "counts").strip()
    if not (counts.isascii() and counts.isdigit() and len(counts) < 10):
        return _manage_page(request, problem=f"counts must be a whole number, got {counts[:20]!r}.")
    return _do(
        request,
        lambda curator, of, confirmed: curator.allow_exact_counts(
            of, _chosen(request), int(counts), text_of(request, "reason"), confirmed=confirmed
        ),
    )


def manage_limit(request: Request) -> Response:
    """Limit a token."""

    def act(curator: Curator, of: str, _confirmed: bool) -> None:
        token = text_of(request, "token")
        _check_token(request, token)
        curator.limit_token(of, _chosen(request), token, _amount(request))

    return _do(request, act)


def manage_decide(request: Request) -> Response:
    """Approve or decline a request."""
    number = text_of(request, "number")
    return _do(
        request,
        lambda curator, of, confirmed: curator.decide(
            of,
            int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0,
            approve=text_of(request, "decision") == "approve",
            reason=text_of(request, "reason"),
            confirmed=confirmed,
        ),
    )


def manage_retire(request: Request) -> Response:
    """Retire the data set."""
    return _do(
        request,
        lambda curator, of, confirmed: curator.retire(
            of, text_of(request, "reason"), confirmed=confirmed
        ),
    )


def _do(request: Request, act: Callable[[Curator, str, bool], object]) -> Response:
    """Do what a form asks for; show what it gives up first, and what is wrong with it."""
    of = request.path_params["dataset"]
    try:
        with _acting(request) as curator:
            act(curator, of, text_of(request, "confirmed") == "yes")
    except NeedsConfirmation as needed:
        return _manage_page(request, gives_up=str(needed))
    except PrivodError as problem:
        return _manage_page(request, problem=str(problem))
    return redirect(f"/data/{segment(of)}/manage")


FIELDS = ("budget", "epsilon", "delta", "reason", "person", "token", "number", "decision", "counts")


def _manage_page(request: Request, problem: str | None = None, gives_up: str = "") -> Response:
    curator, of = site_of(request).curator, request.path_params["dataset"]
    sent = {name: text_of(request, name) for name in FIELDS} if problem or gives_up else {}
    seen = auth.tokens_seen(curator, visitor_of(request))
    tokens = [token for token in seen if token.role == "analyst" and token.revoked is None]
    return page(
        request,
        "manage.html",
        422 if problem else 200,
        dataset=curator.dataset(of),
        budgets=[state for state in curator.budget(of) if state.closed is None],
        requests=curator.requests(of),
        admitted=curator.admitted(of),
        tokens=[(token.id, token.name) for token in tokens],
        problem=problem,
        gives_up=gives_up,
        sent={name: value for name, value in sent.items() if value},
    )


def _chosen(request: Request) -> Adjacency:
    """The adjacency of the budget that was picked, by its number."""
    picked = text_of(request, "budget")
    for state in site_of(request).curator.budget(request.path_params["dataset"]):
        if str(state.number) == picked:
            return state.adjacency
    raise NotFound("There is no such budget. See the list of budgets.")


def _amount(request: Request) -> Loss:
    return Loss(text_of(request, "epsilon"), text_of(request, "delta").strip() or "0")


def _read(text: str, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        way_out = 'Write {"name": "add-remove"}, or what the price of a question says.'
        raise InvalidParameter(name, "must be JSON", text[:100], way_out)
    return data


def request_form(request: Request) -> Response:
    """What was asked of the owner, and a form to ask for more."""
    return _request_page(request, request.query_params.get("adjacency", ""))


def send_request(request: Request) -> Response:
    """Send a request to the owner."""
    of, written = request.path_params["dataset"], text_of(request, "adjacency")
    try:
        adjacency = adjacency_from_json(_read(written, "adjacency"))
        loss = None if isinstance(adjacency, SameContexts) else _amount(request)
        with _acting(request) as curator:
            curator.request(of, adjacency, loss, text_of(request, "reason"))
    except PrivodError as problem:
        return _request_page(request, written, str(problem))
    return redirect(f"/data/{segment(of)}/requests")


def _request_page(request: Request, adjacency: str, problem: str | None = None) -> Response:
    curator, of = site_of(request).curator, request.path_params["dataset"]
    return page(
        request,
        "requests.html",
        422 if problem else 200,
        dataset=curator.dataset(of),
        requests=curator.requests(of),
        adjacency=adjacency or '{"name": "add-remove"}',
        problem=problem,
    )
