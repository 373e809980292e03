"""Requests made at random from the OpenAPI document: no 5xx, and what is answered is documented."""

from __future__ import annotations

# slow: left out by `make quick`
import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from privod.query.catalog import QUERIES
from privod.query.parameters import parameters_of
from privod.server.app import API, V1
from privod.server.http.authorization import Route
from tests.patience import PATIENCE
from tests.running_server import DOMAIN, Running, running

EXAMPLES = int(os.environ.get("PRIVOD_FUZZ_EXAMPLES", "8"))  # of each kind; `make soak` tries more
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fuzz")) as server:
        yield server


@pytest.fixture(scope="module")
def schema(server: Running) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}{V1}/openapi.json")


def test_the_document_describes_every_route_of_the_table(schema: Any) -> None:
    described = {(method.upper(), path) for path, item in schema.items() for method in item}
    assert described == {(route.method, route.path) for route in API}


TRIED = [
    pytest.param(route, mode, id=f"{mode.value} {route.method} {route.path}")
    for route in API
    for mode in GenerationMode
    if route.access.roles or mode == GenerationMode.POSITIVE  # an open route takes nothing to break
]


@pytest.mark.parametrize(("route", "mode"), TRIED)
def test_no_request_makes_the_server_fail(
    server: Running, schema: Any, route: Route, mode: GenerationMode
) -> None:
    operation = schema[route.path][route.method]
    known = {"dataset": "patients"} if "{dataset}" in route.path else {}
    role = route.access.roles[0] if route.access.roles else "analyst"
    headers = {"authorization": f"Bearer {server.token(role)}"}
    with requests.Session() as session:

        @bounded
        @given(
            case=st.one_of(
                operation.as_strategy(mode), operation.as_strategy(mode, path_parameters=known)
            )
        )
        def fuzz(case: Any) -> None:
            case.call_and_validate(
                headers=headers, checks=CHECKS, session=session, timeout=PATIENCE
            )

        fuzz()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("name", QUERIES)
def test_no_parameter_of_any_question_makes_the_server_fail(server: Running, name: str) -> None:
    """Good questions with some parameters replaced by anything that JSON can carry."""
    kind = QUERIES[name]
    names = [parameter.name for parameter in parameters_of(kind)]
    good = [example.parameters() for example in kind.examples(DOMAIN)] or [{}]
    with server.api(server.token("analyst")) as api:

        @bounded
        @given(
            base=st.sampled_from(good),
            changed=st.dictionaries(st.sampled_from(names), JSON, max_size=2),
        )
        def fuzz(base: dict[str, Any], changed: dict[str, Any]) -> None:
            query = {"name": name, **base, **changed}
            for action, form in [("price", {}), ("ask", {"wait": 5})]:
                try:
                    sent = api.build_request(
                        "POST", f"/datasets/patients/{action}", json={"query": query, **form}
                    )
                except ValueError:
                    return  # a float that JSON cannot carry
                response = api.send(sent)
                assert response.status_code < 500, (query, response.text)
                assert response.is_success or set(response.json()) == {"error"}

        fuzz()
