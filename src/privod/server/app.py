"""The server on one page: every route, who may use it, and which view answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Scope

from privod.errors import InvalidParameter, LimitReached, NotFound, PrivodError
from privod.server.asking import resume
from privod.server.failures import UnknownToken, status_of
from privod.server.http.authorization import (
    ANALYST,
    ANYONE,
    AUDITORS,
    OPEN,
    OWNER,
    READERS,
    SERVER_OWNER,
    Access,
    Route,
    api_route,
    console_route,
)
from privod.server.http.middleware import API_PREFIX, Middleware
from privod.server.jobs.workers import load_library
from privod.server.limits import BeingDrawn
from privod.server.site import Site
from privod.server.views import acts, analyst, answers, api, comparing, console, narrow, owner
from privod.server.views.pages import error_page
from privod.wire import Failure, kind_of, problem_of

V1 = "/api/v1"
WITNESSES = Access(("owner", "auditor"), everywhere=True)

API = (
    Route("GET", f"{V1}/health", api.health, OPEN),
    Route("GET", f"{V1}/ready", api.ready, OPEN),
    Route("GET", f"{V1}/openapi.json", api.openapi, OPEN),
    Route("GET", f"{V1}/metrics", api.metrics, AUDITORS),
    Route("GET", f"{V1}/me", api.me, ANYONE),
    Route("GET", f"{V1}/questions", api.questions, ANYONE),
    Route("GET", f"{V1}/datasets", api.datasets, ANYONE),
    Route("POST", f"{V1}/datasets", api.register, SERVER_OWNER, upload=True),
    Route("GET", f"{V1}/datasets/{{dataset}}", api.dataset, ANYONE),
    Route("GET", f"{V1}/datasets/{{dataset}}/report", api.report, OWNER),
    Route("GET", f"{V1}/datasets/{{dataset}}/admitted", api.admitted, ANYONE),
    Route("POST", f"{V1}/datasets/{{dataset}}/protected", narrow.protected, OWNER),
    Route("GET", f"{V1}/datasets/{{dataset}}/requests", api.requests, ANYONE),
    *acts.json_routes(f"{V1}/datasets/{{dataset}}"),
    Route("GET", f"{V1}/datasets/{{dataset}}/budget", api.budget, ANYONE),
    Route("GET", f"{V1}/datasets/{{dataset}}/history", api.history, ANYONE),
    Route("POST", f"{V1}/datasets/{{dataset}}/price", api.price, READERS),
    Route("POST", f"{V1}/datasets/{{dataset}}/ask", api.ask, ANALYST),
    Route("GET", f"{V1}/datasets/{{dataset}}/answers", api.answers, READERS),
    Route("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}", api.answer, READERS),
    Route("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}/csv", api.answer_csv, READERS),
    Route("GET", f"{V1}/datasets/{{dataset}}/answers/{{key}}/svg", api.answer_svg, READERS),
    Route("GET", f"{V1}/jobs", api.jobs, ANALYST),
    Route("GET", f"{V1}/jobs/{{job}}", api.job, ANALYST),
    Route("DELETE", f"{V1}/jobs/{{job}}", api.stop_job, READERS),
    Route("POST", f"{V1}/verify", api.verify, AUDITORS),
    Route("GET", f"{V1}/witnesses/{{witness}}", api.witness, WITNESSES),
    Route("POST", f"{V1}/witnesses/{{witness}}", api.note_head, WITNESSES),
    Route("GET", f"{V1}/tokens", api.tokens, OWNER),
    Route("POST", f"{V1}/tokens", api.make_token, OWNER),
    Route("DELETE", f"{V1}/tokens/{{token}}", api.revoke_token, OWNER),
)

CONSOLE = (
    Route("GET", "/static/{file}", console.static, OPEN),
    Route("GET", "/robots.txt", console.robots, OPEN),
    Route("GET", "/sign-in", console.sign_in_form, OPEN),
    Route("POST", "/sign-in", console.sign_in, OPEN),
    Route("GET", "/sign-in/provider", console.provider_sign_in, OPEN),
    Route("GET", "/sign-in/return", console.provider_return, OPEN),
    Route("POST", "/sign-out", console.sign_out, OPEN),
    Route("GET", "/", console.data_sets, ANYONE),
    Route("GET", "/data/new", owner.register_form, SERVER_OWNER),
    Route("POST", "/data/new", owner.register, SERVER_OWNER, upload=True),
    Route("POST", "/data/new/preview", owner.preview, SERVER_OWNER),
    Route("POST", "/data/new/edit", owner.edit_columns, SERVER_OWNER),
    Route("GET", "/data/{dataset}", console.data_set, ANYONE),
    Route("GET", "/data/{dataset}/history", console.history, ANYONE),
    Route("GET", "/data/{dataset}/report", owner.report, OWNER),
    Route("GET", "/data/{dataset}/budgets/new", owner.open_budget_form, OWNER),
    Route("POST", "/data/{dataset}/budgets/new", owner.open_budget, OWNER),
    Route("GET", "/data/{dataset}/budgets/{budget:int}.svg", console.budget_picture, ANYONE),
    Route("GET", "/data/{dataset}/manage", acts.manage, OWNER),
    *acts.form_routes("/data/{dataset}/manage"),
    Route("GET", "/data/{dataset}/protected", narrow.protected_page, OWNER),
    Route("GET", "/data/{dataset}/requests", acts.request_form, ANALYST),
    Route("POST", "/data/{dataset}/requests", acts.request_form, ANALYST),
    Route("GET", "/data/{dataset}/ask", analyst.questions, ANALYST),
    Route("GET", "/data/{dataset}/ask/{question}", analyst.ask_form, ANALYST),
    Route("POST", "/data/{dataset}/ask/{question}", analyst.ask, ANALYST),
    Route("POST", "/data/{dataset}/ask/{question}/price", analyst.price_page, ANALYST),
    Route("POST", "/data/{dataset}/price/{question}", analyst.price, ANALYST),
    Route("GET", "/data/{dataset}/mock.csv", analyst.mock_data, READERS),
    Route("GET", "/data/{dataset}/compare", comparing.compare, READERS),
    Route("GET", "/data/{dataset}/answers", answers.answers, READERS),
    Route("POST", "/data/{dataset}/answers", answers.answers, READERS),
    Route("GET", "/data/{dataset}/answers/{key}.json", answers.answer_json, READERS),
    Route("GET", "/data/{dataset}/answers/{key}.csv", answers.answer_csv, READERS),
    Route("GET", "/data/{dataset}/answers/{key}.svg", answers.answer_svg, READERS),
    Route("GET", "/data/{dataset}/answers/{key}.ipynb", answers.answer_notebook, READERS),
    Route("GET", "/data/{dataset}/answers/{key}", answers.answer, READERS),
    Route("POST", "/data/{dataset}/answers/{key}", answers.score, READERS),
    Route("GET", "/questions", analyst.my_questions, ANALYST),
    Route("POST", "/questions", analyst.my_questions, ANALYST),
    Route("GET", "/jobs/{job}", analyst.job, ANALYST),
    Route("GET", "/jobs/{job}/progress", analyst.job_progress, ANALYST),
    Route("POST", "/jobs/{job}/stop", analyst.stop_job, ANALYST),
    Route("GET", "/tokens", owner.tokens, OWNER),
    Route("POST", "/tokens", owner.make_token, OWNER),
    Route("POST", "/tokens/{token}/revoke", owner.revoke_token, OWNER),
    Route("GET", "/verify", console.verify_form, AUDITORS),
    Route("POST", "/verify", console.verify, AUDITORS),
)

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Failure, "description": "What was wrong, in the one error shape."},
    "5XX": {"model": Failure, "description": "What failed, in the one error shape."},
}


def make_app(site: Site) -> FastAPI:
    """The server as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(resume, site)
        loading = asyncio.create_task(asyncio.to_thread(load_library))
        yield
        await loading
        await asyncio.to_thread(site.jobs.close)  # requests are answered meanwhile
        await asyncio.to_thread(site.answers.close)
        await asyncio.to_thread(site.reports.close)
        await asyncio.to_thread(site.leave)

    # A proxy may take the prefix off, or not: what comes in must show which.
    own = {route.path.split("/")[1] for route in (*API, *CONSOLE)}
    if site.prefix and site.prefix.split("/")[1] in own:
        rule = "must not begin like a page of the server"
        raise InvalidParameter("prefix", rule, site.prefix, "Try /privod.")
    app = FastAPI(
        title="privod",
        version="1",
        description="Questions about private data, each answer with its promise.",
        docs_url=None,  # these pages load scripts from third parties
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # they would leave out the prefix, and repeat what was posted
        lifespan=lifespan,
    )
    app.state.site = site
    app.router.routes.extend(_routes())
    app.add_exception_handler(PrivodError, _privod_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    document = app.openapi()
    if site.prefix:
        document["servers"] = [{"url": site.prefix}]
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    uploads = frozenset(route.path for route in (*API, *CONSOLE) if route.upload)
    app.add_middleware(Middleware, site=site, failure=_failure(app), uploads=uploads)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Every way in: the same for all sites of a process, and slow to make."""
    documented = (api_route(route, **_documented(route)) for route in API)
    return [*documented, *map(console_route, CONSOLE)]


def _documented(route: Route) -> dict[str, Any]:
    secured: dict[str, Any] = {"security": [{"token": []}]} if route.access.roles else {}
    operation = f"{route.method.lower()}_{route.view.__name__}"
    responses = ERRORS | api.RESPONSES.get(route.view, {})
    return {"operation_id": operation, "openapi_extra": secured, "responses": responses}


def _failure(app: FastAPI) -> Any:
    def failure(scope: Scope, problem: PrivodError) -> Response:
        return _told(Request({**scope, "app": app}), problem)

    return failure


def _told(request: Request, problem: PrivodError, status: int | None = None) -> Response:
    """The error as JSON in the interface, as a page in the console."""
    request.app.state.site.metrics.count("refusals_total", kind=kind_of(problem))
    status = status or status_of(problem)
    if request.url.path.startswith(API_PREFIX):
        response: Response = JSONResponse(problem_of(problem), status)
    else:
        response = error_page(request, problem, status)
    if isinstance(problem, LimitReached | BeingDrawn):
        response.headers["retry-after"] = "5"
    if isinstance(problem, BeingDrawn):
        response.headers["refresh"] = "5"  # who opened the picture by itself sees it then
    if isinstance(problem, UnknownToken):
        response.headers["www-authenticate"] = "Bearer"
    return response


def _privod_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, PrivodError)  # noqa: S101 - what it is registered for
    return _told(request, problem)


EXAMPLES: dict[str, Any] = {
    "query": {"name": "histogram", "columns": ["age"], "epsilon": "0.1"},
    "epsilon": "0.1",
    "name": "visits",
    "role": "analyst",
    "reason": "asked for by the study",
}
"""What a field that was not sent may look like."""


def _validation_error(request: Request, problem: Exception) -> Response:
    """The first thing that does not fit, named; its value is repeated only if it is short."""
    assert isinstance(problem, RequestValidationError)  # noqa: S101 - what it is registered for
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    rule, way_out = f"does not fit: {first['msg']}", "See openapi.json."
    if first["type"] == "missing":
        rule = "must be given"
        example = EXAMPLES.get(str(first["loc"][-1]), "...")
        way_out = f"Send {json.dumps({str(first['loc'][-1]): example})}, or see openapi.json."
    return _told(request, InvalidParameter(where, rule, "what was sent", way_out))


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
