"""The server on one page: every route, who may use it, and which view answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from privod.errors import InvalidParameter, LimitReached, NotFound, PrivodError
from privod.server.failures import UnknownToken, described, status_of
from privod.server.http.authorization import (
    ANALYST,
    ANYONE,
    AUDITORS,
    OPEN,
    OWNER,
    READERS,
    SERVER_OWNER,
    Door,
    api_route,
    console_route,
)
from privod.server.http.middleware import API_PREFIX, Gate
from privod.server.shapes import ErrorShape
from privod.server.site import Site
from privod.server.views import analyst, api, console, owner
from privod.server.views.pages import error_page

__all__ = ["API", "CONSOLE", "make_app"]

V1 = "/api/v1"

API = (
    Door("GET", f"{V1}/health", api.health, OPEN),
    Door("GET", f"{V1}/openapi.json", api.openapi, OPEN),
    Door("GET", f"{V1}/me", api.me, ANYONE),
    Door("GET", f"{V1}/questions", api.questions, ANYONE),
    Door("GET", f"{V1}/datasets", api.datasets, ANYONE),
    Door("POST", f"{V1}/datasets", api.register, SERVER_OWNER, upload=True),
    Door("GET", f"{V1}/datasets/{{dataset}}", api.dataset, ANYONE),
    Door("GET", f"{V1}/datasets/{{dataset}}/report", api.report, OWNER),
    Door("POST", f"{V1}/datasets/{{dataset}}/budgets", api.open_budget, OWNER),
    Door("GET", f"{V1}/datasets/{{dataset}}/budget", api.budget, ANYONE),
    Door("GET", f"{V1}/datasets/{{dataset}}/history", api.history, ANYONE),
    Door("POST", f"{V1}/datasets/{{dataset}}/price", api.price, READERS),
    Door("POST", f"{V1}/datasets/{{dataset}}/ask", api.ask, ANALYST),
    Door("GET", f"{V1}/datasets/{{dataset}}/answers", api.answers, READERS),
    Door("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}", api.answer, READERS),
    Door("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}/csv", api.answer_csv, READERS),
    Door("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}/svg", api.answer_svg, READERS),
    Door("GET", f"{V1}/jobs/{{job}}", api.job, ANALYST),
    Door("POST", f"{V1}/verify", api.verify, AUDITORS),
    Door("GET", f"{V1}/tokens", api.tokens, OWNER),
    Door("POST", f"{V1}/tokens", api.make_token, OWNER),
    Door("DELETE", f"{V1}/tokens/{{token}}", api.revoke_token, OWNER),
)

CONSOLE = (
    Door("GET", "/static/{file}", console.static, OPEN),
    Door("GET", "/robots.txt", console.robots, OPEN),
    Door("GET", "/sign-in", console.sign_in_form, OPEN),
    Door("POST", "/sign-in", console.sign_in, OPEN),
    Door("POST", "/sign-out", console.sign_out, OPEN),
    Door("GET", "/", console.data_sets, ANYONE),
    Door("GET", "/data/new", owner.register_form, SERVER_OWNER),
    Door("POST", "/data/new", owner.register, SERVER_OWNER, upload=True),
    Door("POST", "/data/new/preview", owner.preview, SERVER_OWNER),
    Door("POST", "/data/new/edit", owner.edit_columns, SERVER_OWNER),
    Door("GET", "/data/{dataset}", console.data_set, ANYONE),
    Door("GET", "/data/{dataset}/history", console.history, ANYONE),
    Door("GET", "/data/{dataset}/report", owner.report, OWNER),
    Door("GET", "/data/{dataset}/budgets/new", owner.open_budget_form, OWNER),
    Door("POST", "/data/{dataset}/budgets/new", owner.open_budget, OWNER),
    Door("GET", "/data/{dataset}/budgets/{budget:int}.svg", console.budget_picture, ANYONE),
    Door("GET", "/data/{dataset}/ask", analyst.questions, ANALYST),
    Door("GET", "/data/{dataset}/ask/{question}", analyst.ask_form, ANALYST),
    Door("POST", "/data/{dataset}/ask/{question}", analyst.ask, ANALYST),
    Door("POST", "/data/{dataset}/ask/{question}/price", analyst.price_page, ANALYST),
    Door("POST", "/data/{dataset}/price/{question}", analyst.price, ANALYST),
    Door("GET", "/data/{dataset}/answers/{key}.json", analyst.answer_json, READERS),
    Door("GET", "/data/{dataset}/answers/{key}.csv", analyst.answer_csv, READERS),
    Door("GET", "/data/{dataset}/answers/{key}.svg", analyst.answer_svg, READERS),
    Door("GET", "/data/{dataset}/answers/{key}", analyst.answer, READERS),
    Door("GET", "/jobs/{job}", analyst.job, ANALYST),
    Door("GET", "/jobs/{job}/progress", analyst.job_progress, ANALYST),
    Door("GET", "/tokens", owner.tokens, OWNER),
    Door("POST", "/tokens", owner.make_token, OWNER),
    Door("POST", "/tokens/{token}/revoke", owner.revoke_token, OWNER),
    Door("GET", "/verify", console.verify_form, AUDITORS),
    Door("POST", "/verify", console.verify, AUDITORS),
)

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorShape, "description": "What was wrong, in the one error shape."},
    "5XX": {"model": ErrorShape, "description": "What failed, in the one error shape."},
}


def make_app(site: Site) -> FastAPI:
    """The server as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(site.jobs.close)  # requests are answered meanwhile

    app = FastAPI(
        title="privod",
        version="1",
        description="Questions about private data, each answer with its promise.",
        docs_url=None,  # these pages load scripts from third parties
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.site = site
    for door in API:
        app.router.routes.append(api_route(door, **_documented(door)))
    app.router.routes.extend(console_route(door) for door in CONSOLE)
    app.add_exception_handler(PrivodError, _privod_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    uploads = frozenset(door.path for door in (*API, *CONSOLE) if door.upload)
    app.add_middleware(Gate, site=site, failure=_failure(app), uploads=uploads)
    return app


def _documented(door: Door) -> dict[str, Any]:
    secured: dict[str, Any] = {"security": [{"token": []}]} if door.access.roles else {}
    operation = f"{door.method.lower()}_{door.view.__name__}"
    responses = ERRORS | api.RESPONSES.get(door.view, {})
    return {"operation_id": operation, "openapi_extra": secured, "responses": responses}


def _failure(app: FastAPI) -> Any:
    def failure(scope: Scope, problem: PrivodError) -> Response:
        return _told(Request({**scope, "app": app}), problem)

    return failure


def _told(request: Request, problem: PrivodError, status: int | None = None) -> Response:
    """The error as JSON in the interface, as a page in the console."""
    status = status or status_of(problem)
    if request.url.path.startswith(API_PREFIX):
        response: Response = JSONResponse(described(problem), status)
    else:
        response = error_page(request, problem, status)
    if isinstance(problem, LimitReached):
        response.headers["retry-after"] = "5"
    if isinstance(problem, UnknownToken):
        response.headers["www-authenticate"] = "Bearer"
    return response


def _privod_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, PrivodError)  # noqa: S101 - what it is registered for
    return _told(request, problem)


def _validation_error(request: Request, problem: Exception) -> Response:
    """The first thing that does not fit, named; its value is repeated only if it is short."""
    assert isinstance(problem, RequestValidationError)  # noqa: S101 - what it is registered for
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    rule = f"does not fit: {first['msg']}"
    return _told(request, InvalidParameter(where, rule, "what was sent", "See openapi.json."))


def _http_error(request: Request, problem: Exception) -> Response:
    """What the framework refuses: unknown paths, methods, unreadable bodies."""
    assert isinstance(problem, HTTPException)  # noqa: S101 - what it is registered for
    told: PrivodError = NotFound("There is no such page.")
    if problem.status_code != 404:
        rule = "does not fit"
        told = InvalidParameter("the request", rule, problem.status_code, "See openapi.json.")
    response = _told(request, told, problem.status_code)
    response.headers.update(problem.headers or {})
    return response
