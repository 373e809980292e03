"""Turning templates into pages: what every page shows, how numbers and times are written."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from privod.errors import PrivodError
from privod.privacy import Adjacency, decimal_text
from privod.query.catalog import QUERIES
from privod.query.parameters import gets_of
from privod.query.query import Query
from privod.server.authentication import LONGEST_SESSION, form_code
from privod.server.failures import status_of
from privod.server.site import Site, site_of
from privod.wire import answer_key

ON_A_PAGE = 50
LONGEST_SEARCH = 200
HEADINGS = {
    401: "Please sign in",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible",
    408: "Too slow",
    409: "Not possible",
    413: "Too large",
    422: "That does not fit",
    429: "Slow down, please",
    500: "Something went wrong",
    503: "Not available",
}
SHELL = re.compile(r" \((?:[^()]*(?:`|--)[^()]*)\)")
PROBLEMS = ("problem", "price_problem")  # what a page shows of an error
CODE_MARK = secrets.token_hex(32)  # that nobody can write into a page
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


STATIC: dict[str, tuple[bytes, str]] = {
    file.name: (file.read_bytes(), MEDIA_TYPES[file.name[file.name.rindex(".") :]])
    for file in (resources.files("privod.server") / "static").iterdir()
}
"""Every static file: name to bytes and type."""

STATIC_VERSION = hashlib.sha256(b"".join(data for data, _ in STATIC.values())).hexdigest()[:12]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("privod.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static_version"] = STATIC_VERSION
    filters: dict[str, Callable[..., str]] = {
        "gets": lambda query: gets_of(type(query)),
        "day": lambda time: time[:10],
        "decimal": _decimal,
        "moment": lambda time: f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M:%S}",
        "plain": lambda value: f"{value:g}" if isinstance(value, float) else str(value),
        "question": lambda name: QUERIES[name].question if name in QUERIES else name,
        "segment": segment,
        "settings": _settings,
    }
    environment.filters.update(filters)
    return environment


def segment(text: str) -> str:
    """A name as one part of an address; a slash in it is encoded twice, see `Route.check`."""
    return quote(text.replace("%", "%25").replace("/", "%2F"), safe="")


def _settings(adjacency: Adjacency) -> str:
    """What tells two budgets of one name apart."""
    given = {key: value for key, value in adjacency.to_json().items() if key != "name"}
    return ", ".join(
        f"{key} {', '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in given.items()
    )


def _decimal(number: Fraction) -> str:
    """A number as short as it can be written exactly, or rounded where that is long."""
    text = decimal_text(number)
    return text if len(text) <= 12 else f"about {float(number):.4g}"


def page(request: Request, template: str, status: int = 0, **shown: Any) -> Response:
    """A page of the console, 422 with a problem; its forms carry the code of this browser."""
    status = status or (422 if shown.get("problem") else 200)
    return sent(request, rendered(request, template, shown), status)


def rendered(request: Request, template: str, shown: Mapping[str, Any]) -> str:
    """A page before it is sent, with a mark where the code of a browser stands in its forms."""
    field = Markup('<input type="hidden" name="code" value="{}">').format(CODE_MARK)
    common = _common(request, {**shown, "code_field": lambda: field})
    return _environment().get_template(template).render(common)


def sent(request: Request, text: str, status: int = 200) -> Response:
    """A page for one browser."""
    site, cookie = site_of(request), request.scope.get("cookie", "")
    fresh = "" if cookie else secrets.token_urlsafe(32)
    code = form_code(site.secret, cookie or fresh)
    response = HTMLResponse(text.replace(CODE_MARK, code), status)
    if fresh:
        set_cookie(site, response, fresh)
    return response


def fragment(request: Request, template: str, **shown: Any) -> Response:
    """A piece of a page."""
    return HTMLResponse(_environment().get_template(template).render(_common(request, shown)))


def error_page(request: Request, problem: PrivodError, status: int | None = None) -> Response:
    """The one page for everything that goes wrong."""
    status = status or status_of(problem)
    heading = HEADINGS.get(status, "Not possible")
    return page(request, "error.html", status, heading=heading, problem=str(problem))


def in_browser(text: str) -> str:
    """A message without what only the shell has: that stands in parentheses, wherever it does."""
    return SHELL.sub("", text)


def redirect(path: str) -> RedirectResponse:
    """Lead the browser on, after a form."""
    return RedirectResponse(path, status_code=303)


def set_cookie(site: Site, response: Response, value: str) -> None:
    """Give the browser its one cookie, which no script and no other site can use."""
    response.set_cookie(
        site.cookie_name,
        value,
        max_age=int(LONGEST_SESSION),
        path="/",
        secure=site.secure,
        httponly=True,
        samesite="lax",
    )


def _common(request: Request, shown: Mapping[str, Any]) -> dict[str, Any]:
    site = site_of(request)
    blank: dict[str, Any] = {
        "problem": None,
        "section": "data",
        "root": site.prefix,
        "cannot_write": not site.is_present,
    }
    told = {name: in_browser(shown[name]) for name in PROBLEMS if shown.get(name)}
    return blank | {"visitor": request.scope.get("visitor")} | dict(shown) | told


def answer_path(of: str, query: Query[Any]) -> str:
    """Where an answer is found."""
    return f"/data/{segment(of)}/answers/{answer_key(query)}"


def sought_in(request: Request) -> str:
    """What is searched for: sent as a form, since addresses are kept in histories and logs."""
    return str(request.scope.get("form", {}).get("find", ""))[:LONGEST_SEARCH]


def page_of(request: Request, n_items: int, on_a_page: int = ON_A_PAGE) -> dict[str, Any]:
    """Which page of a long list was asked for, and which there are."""
    typed = str(request.scope.get("form", request.query_params).get("page", "1"))
    last = max(1, -(-n_items // on_a_page))
    number = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 8 else 1
    number = min(max(number, 1), last)
    first = (number - 1) * on_a_page
    return {"number": number, "last": last, "first": first, "end": first + on_a_page}
