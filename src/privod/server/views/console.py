"""The console for everyone: signing in, what data there is, its budgets, their history."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from privod.curator import Entry
from privod.errors import InvalidParameter, LedgerDamaged, NotAllowed, NotFound, Unavailable
from privod.privacy import Loss
from privod.query.as_code import typed
from privod.query.catalog import query_from_json
from privod.server.authentication import find_visitor, token_hash
from privod.server.http.authorization import text_of
from privod.server.http.middleware import address_of
from privod.server.jobs.answers import Summary
from privod.server.site import site_of, visitor_of
from privod.server.views.media import PICTURE_HEADERS, SVG
from privod.server.views.pages import (
    STATIC,
    answer_path,
    page,
    page_of,
    redirect,
    rendered,
    sent,
    set_cookie,
)

if TYPE_CHECKING:
    from privod.server.provider import Provider

SHOWN_ANSWERS = 20
SHOWN_ENTRIES = 200
LONGEST_PATH = 2000  # that a visitor is led to after signing in
LONGEST_TITLE = 40  # of a data set's name above a picture
YEAR = "public, max-age=31536000, immutable"


def static(request: Request) -> Response:
    """A style sheet, a script or a picture that belongs to the console itself."""
    name = request.path_params["file"]
    if name not in STATIC:
        raise NotFound("There is no such file.")
    data, media_type = STATIC[name]
    return Response(data, media_type=media_type, headers={"cache-control": YEAR})


def robots(_request: Request) -> Response:
    """Nothing here is for search engines."""
    return Response("User-agent: *\nDisallow: /\n", media_type="text/plain")


def sign_in_form(request: Request) -> Response:
    """Ask for a token."""
    if request.scope["visitor"] is not None:
        return redirect("/")
    onward = _own_path(request.query_params.get("next", "/"))
    return page(request, "sign_in.html", next=onward, provider=site_of(request).provider)


def sign_in(request: Request) -> Response:
    """Begin a session: a new cookie, whatever the browser had before."""
    site = site_of(request)
    token, onward = text_of(request, "token").strip(), _own_path(text_of(request, "next"))
    hashed = token_hash(token)
    if find_visitor(site.curator, hashed) is None:
        site.failures.take(address_of(request.scope))
        problem = "This token is unknown or revoked. Ask the owner for a new one."
        told = {"problem": problem, "provider": site.provider}
        return page(request, "sign_in.html", 403, next=onward, **told)
    with suppress(Unavailable):  # a full disk: the browser forgets the old cookie anyway
        site.sessions.end(request.scope["cookie"])
    response = redirect(onward)
    set_cookie(site, response, site.sessions.begin(hashed))
    return response


def provider_sign_in(request: Request) -> Response:
    """Lead a browser to the provider."""
    provider, browser = _provider(request), request.scope["cookie"]
    if not browser:
        return redirect("/sign-in")  # which gives it a cookie to come back with
    onward = _own_path(request.query_params.get("next", "/"))
    return redirect(provider.way_there(site_of(request).notes, browser, _back(request), onward))


def provider_return(request: Request) -> Response:
    """Begin a session for whom the provider says has signed in."""
    from privod.server.provider import visitor_for

    site, asked = site_of(request), request.query_params
    try:
        account, onward = _provider(request).way_back(
            site.notes,
            request.scope["cookie"],
            _back(request),
            asked.get("state", ""),
            asked.get("code", ""),
        )
        visitor = visitor_for(site.curator, account)
    except NotAllowed as problem:
        site.failures.take(address_of(request.scope))
        return page(request, "sign_in.html", 403, next="/", problem=str(problem), provider=True)
    site.sessions.end(request.scope["cookie"])
    response = redirect(onward)
    set_cookie(site, response, site.sessions.begin(visitor.id))
    return response


def _provider(request: Request) -> Provider:
    provider = site_of(request).provider
    if provider is None:
        raise NotFound("There is no such page.")
    return provider


def _back(request: Request) -> str:
    """Where the provider sends a browser back to; the host was checked before."""
    site = site_of(request)
    scheme = "https" if site.secure else "http"
    return f"{scheme}://{request.headers['host']}{site.prefix}/sign-in/return"


def _own_path(text: str) -> str:
    """A path of this server; anything that could lead elsewhere becomes the start page."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain and len(text) <= LONGEST_PATH else "/"


def sign_out(request: Request) -> Response:
    """End the session."""
    site = site_of(request)
    site.sessions.end(request.scope["cookie"])
    response = redirect("/sign-in")
    response.delete_cookie(site.cookie_name, path="/", secure=site.secure, httponly=True)
    return response


def data_sets(request: Request) -> Response:
    """The data sets that the token is for, each with its first budget."""
    curator, visitor = site_of(request).curator, visitor_of(request)
    shown = [
        {"dataset": dataset, "budgets": site_of(request).budget(dataset.name, visitor.token)}
        for dataset in curator.datasets()
        if visitor.sees(dataset.name)
    ]
    may_register = visitor.role == "owner" and visitor.of is None
    return page(request, "data_sets.html", data_sets=shown, may_register=may_register)


async def data_set(request: Request) -> Response:
    """One data set: what is public, its budgets, what was answered."""
    site, visitor, of = site_of(request), visitor_of(request), request.path_params["dataset"]
    shown_to = ("page", of, visitor, site.is_present)
    text = await site.kept.look(shown_to)
    if text is None:
        head, answers = site.kept.head, None
        if visitor.role != "auditor":
            known = await run_in_threadpool(site.answered, of)
            keys = [key for key, _ in known[:SHOWN_ANSWERS]]
            answers = await site.answers.summaries(of, keys, visitor.id)
        text = await run_in_threadpool(_data_set, request, answers)
        site.kept.keep(shown_to, text, head)
    return sent(request, text)


def _data_set(request: Request, answers: list[Summary] | None) -> str:
    site, visitor = site_of(request), visitor_of(request)
    dataset = site.dataset(request.path_params["dataset"])
    budgets = site.budget(dataset.name, visitor.token)
    asked = [one for one in site.curator.requests(dataset.name) if one.decision == "open"]
    shown = {"dataset": dataset, "budgets": budgets, "answers": answers, "asked": len(asked)}
    return rendered(request, "data_set.html", shown)


def history(request: Request) -> Response:
    """Every entry of the ledger about a data set, and its budgets over time as pictures."""
    site = site_of(request)
    dataset = site.curator.dataset(request.path_params["dataset"])
    entries = tuple(reversed(site.history(dataset.name)))
    place = page_of(request, len(entries), SHOWN_ENTRIES)
    shown = [
        (entry, _answer_of(entry), typed(entry.query) if entry.query else "")
        for entry in entries[place["first"] : place["end"]]
    ]
    budgets = site.budget(dataset.name)
    return page(
        request, "history.html", dataset=dataset, budgets=budgets, entries=shown, place=place
    )


def _answer_of(entry: Entry) -> str | None:
    """Where the answer is that an entry stored."""
    if entry.kind != "release" or entry.query is None or entry.dataset is None:
        return None
    return answer_path(entry.dataset, query_from_json(entry.query))


async def budget_picture(request: Request) -> Response:
    """A budget over time."""
    of = request.path_params["dataset"]
    found = await run_in_threadpool(_charged, request, request.path_params["budget"])
    drawn = await site_of(request).answers.history_picture(of, *found, visitor_of(request).id)
    return Response(drawn, media_type=SVG, headers=PICTURE_HEADERS)


def _charged(request: Request, number: int) -> tuple[str, Loss, list[tuple[str, Loss]]]:
    """A budget's title, its limit, and what it was charged."""
    site, of = site_of(request), request.path_params["dataset"]
    for state in site.budget(of):
        if state.number == number:
            paid = [entry for entry in site.history(of) if entry.budget == number]
            charges = [_charge(entry) for entry in paid if entry.kind in ("charge", "carry")]
            short = of if len(of) <= LONGEST_TITLE else f"{of[: LONGEST_TITLE - 1]}…"
            return f"{short}: {state.adjacency.name}", state.budget, charges
    raise NotFound(f"{of!r} has no such budget.")


def _charge(entry: Entry) -> tuple[str, Loss]:
    name = "earlier questions" if entry.query is None else str(entry.query["name"])
    return name, entry.loss or Loss(0)


def verify_form(request: Request) -> Response:
    """Offer to verify the ledger."""
    return page(request, "verify.html", section="verify", found=None)


def verify(request: Request) -> Response:
    """Verify the ledger and say what was found."""
    try:
        head = text_of(request, "head").strip() or None
        checked = site_of(request).verify(visitor_of(request), head)
        found = {"intact": True, "sentence": checked.sentence()}
    except (LedgerDamaged, InvalidParameter) as problem:
        damaged = isinstance(problem, LedgerDamaged)
        found = {"intact": False, "damaged": damaged, "sentence": str(problem)}
    return page(request, "verify.html", section="verify", found=found)
