"""Who may use which route: checked before a body is read, from one table of routes."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as StarletteRoute

from privod.curator import Role
from privod.errors import InvalidData, NotAllowed, NotFound
from privod.server.authentication import Visitor, check_form
from privod.server.failures import UnknownToken
from privod.server.site import site_of
from privod.texts import check_text, check_texts, did_you_mean, is_text

MOST_FIELDS = 1000
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Access:
    """Which roles may enter; with none, nobody needs a token. `everywhere`: for all data sets."""

    roles: tuple[Role, ...] = ()
    everywhere: bool = False


OPEN = Access()
ANYONE = Access(("owner", "analyst", "auditor"))
OWNER = Access(("owner",))
SERVER_OWNER = Access(("owner",), everywhere=True)
ANALYST = Access(("analyst",))
READERS = Access(("owner", "analyst"))
AUDITORS = Access(("owner", "auditor"))


@dataclass(frozen=True)
class Route:
    """One line of the table of routes."""

    method: str
    path: str
    view: Callable[..., Any]
    access: Access
    upload: bool = False
    """Whether a file comes in here, which may be large."""

    def check(self, request: Request) -> None:
        """Refuse the request unless the visitor may use this route."""
        request.scope["pattern"] = self.path
        if "dataset" in request.path_params:
            # A slash comes as %252F: the web's own decoding has already taken one layer off.
            request.path_params["dataset"] = unquote(request.path_params["dataset"])
        given = [value for value in request.path_params.values() if isinstance(value, str)]
        if not all(map(is_text, given)):
            raise NotFound("There is no such page.")
        if not self.access.roles:
            return
        visitor: Visitor | None = request.scope["visitor"]
        if visitor is None:
            raise UnknownToken("Show a token that is known and not revoked.")
        if visitor.role not in self.access.roles:
            allowed = " or ".join(self.access.roles)
            raise NotAllowed(f"This needs the token of an {allowed}; yours is an {visitor.role}'s.")
        if self.access.everywhere and visitor.of is not None:
            raise NotAllowed("This needs a token for the whole server, not for one data set.")
        dataset = request.path_params.get("dataset")
        if dataset is not None and not visitor.sees(dataset):
            near = did_you_mean(dataset, [visitor.of] if visitor.of else [])
            raise NotFound(f"There is no data set {dataset!r} that this token is for.{near}")


def api_route(route: Route, **documented: Any) -> APIRoute:
    """A route of the JSON interface; who may use it is checked before the body is read."""

    class AuthorizedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            inner = super().get_route_handler()

            async def handler(request: Request) -> Response:
                route.check(request)
                await _check_body(request)
                return await inner(request)

            return handler

    return AuthorizedRoute(route.path, route.view, methods=[route.method], **documented)


def console_route(route: Route) -> StarletteRoute:
    """A route of the console: strangers are led to the sign-in page, forms must be ours."""

    async def endpoint(request: Request) -> Response:
        try:
            route.check(request)
        except UnknownToken:
            asked = request.url.path if request.method in SAFE_METHODS else "/"
            onward = "" if asked == "/" else f"?next={quote(asked, safe='/')}"
            return RedirectResponse(f"/sign-in{onward}", status_code=303)
        try:
            if route.method not in SAFE_METHODS:
                await _read_form(request)
            if iscoroutinefunction(route.view):
                response: Response = await route.view(request)
            else:
                response = await run_in_threadpool(route.view, request)
            return response
        finally:
            await request.close()

    return StarletteRoute(route.path, endpoint, methods=[route.method])


def form_of(request: Request) -> FormData:
    """The form that came with a request, already known to be ours."""
    form: FormData = request.scope["form"]
    return form


def text_of(request: Request, name: str) -> str:
    """A text field of the form that was sent."""
    value = form_of(request).get(name, "")
    return "" if isinstance(value, UploadFile) else value


async def _check_body(request: Request) -> None:
    """Refuse a JSON body in which a text could not be stored; the view reads the body once more."""
    if request.method in SAFE_METHODS or "json" not in request.headers.get("content-type", ""):
        return
    try:
        data = json.loads(await request.body())
    except (ValueError, RecursionError):
        return  # the framework says what is wrong with it
    check_texts(data, "the body")


async def _read_form(request: Request) -> None:
    # Refuse what a browser says another site sent, whatever code it carries.
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if site not in ("same-origin", "none") or foreign:
        raise NotAllowed("The form was sent from another site. Send it from the console.")
    try:
        form = await request.form(max_files=1, max_fields=MOST_FIELDS)
    except (MultiPartException, UnicodeDecodeError, ValueError):
        raise InvalidData("The form could not be read. Send it from the console.") from None
    for name, value in form.multi_items():
        if isinstance(value, str):
            check_text(value, name if is_text(name) else "a field", lines=True)
    check_form(site_of(request).secret, request.scope["cookie"], str(form.get("code", "")))
    request.scope["form"] = form
