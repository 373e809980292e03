"""Every route refuses the wrong role: the tests are generated from the table of routes."""

from __future__ import annotations

# slow: left out by `make quick`
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from privod.curator import ROLES
from privod.server.app import API, CONSOLE
from privod.server.http.authorization import Route
from tests.running_server import DOMAIN, ROWS, Browser, Running, running

AUTHORIZED = [route for route in (*API, *CONSOLE) if route.access.roles]
OPEN = [route for route in (*API, *CONSOLE) if not route.access.roles]
ABOUT_A_DATA_SET = [route for route in AUTHORIZED if "{dataset}" in route.path]
REFUSED = (401, 403)


@dataclass
class House:
    """A server with a token of every kind."""

    server: Running
    tokens: dict[str, str]
    """Role, or role and data set, to token."""
    visitors: dict[str | None, tuple[httpx.Client, Browser]] = field(default_factory=dict)

    def visit(self, route: Route, token: str | None, dataset: str = "patients") -> httpx.Response:
        """Visit a route, with nothing in hand but the token."""
        path = route.path.replace("{dataset}", dataset)
        for part in ("{key}", "{job}", "{token}", "{file}", "{question}"):
            path = path.replace(part, "histogram" if part == "{question}" else "nothing")
        for part, given in (("{budget:int}", "2"), ("{number}", "2"), ("{witness}", "far")):
            path = path.replace(part, given)
        if token not in self.visitors:
            self.visitors[token] = (self.server.api(token), self.server.browser(token))
        api, browser = self.visitors[token]
        if route in API:
            return api.request(route.method, self.server.url + path)
        return browser.get(path) if route.method == "GET" else browser.post(path)

    def close(self) -> None:
        """Send every visitor home."""
        for clients in self.visitors.values():
            for client in clients:
                client.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with running(tmp_path_factory.mktemp("roles")) as server:
        server.curator.register("others", ROWS, DOMAIN)
        tokens = {str(role): server.token(role) for role in ROLES}
        tokens |= {f"{role} of patients": server.token(role, "patients") for role in ROLES}
        house = House(server, tokens)
        yield house
        house.close()


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", AUTHORIZED, ids=named)
def test_a_stranger_is_sent_away(house: House, route: Route) -> None:
    response = house.visit(route, None)
    if route in API:
        assert response.status_code == 401
        assert response.json()["error"]["kind"] == "unknown-token"
        assert response.headers["www-authenticate"] == "Bearer"
    else:
        assert response.status_code == 303
        assert response.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", AUTHORIZED, ids=named)
def test_a_role_enters_where_the_table_says_and_nowhere_else(
    house: House, route: Route, role: str
) -> None:
    response = house.visit(route, house.tokens[role])
    assert (response.status_code in REFUSED) == (role not in route.access.roles)


@pytest.mark.parametrize("route", [d for d in AUTHORIZED if d.access.everywhere], ids=named)
def test_an_owner_of_one_data_set_does_not_run_the_server(house: House, route: Route) -> None:
    assert house.visit(route, house.tokens["owner of patients"]).status_code == 403


@pytest.mark.parametrize("route", ABOUT_A_DATA_SET, ids=named)
def test_a_token_of_one_data_set_does_not_even_see_another(house: House, route: Route) -> None:
    for role in route.access.roles:
        token = house.tokens[f"{role} of patients"]
        elsewhere = house.visit(route, token, "others")
        nowhere = house.visit(route, token, "unheard-of")
        assert elsewhere.status_code == nowhere.status_code == 404
        if route in API:
            said = elsewhere.json()["error"]["message"]
            assert said.replace("others", "unheard-of") == nowhere.json()["error"]["message"]


@pytest.mark.parametrize("route", OPEN, ids=named)
def test_what_is_open_shows_no_data(house: House, route: Route) -> None:
    response = house.visit(route, None)
    assert response.status_code < 500
    assert "patients" not in response.text


def test_the_list_of_data_sets_is_cut_to_the_token(house: House) -> None:
    with house.server.api(house.tokens["analyst of patients"]) as api:
        assert [data["name"] for data in api.get("/datasets").json()] == ["patients"]
    with house.server.browser(house.tokens["analyst of patients"]) as browser:
        assert "others" not in browser.get("/").text


@pytest.mark.parametrize("role", ["owner", "auditor"])
def test_a_token_of_one_data_set_verifies_the_ledger_and_hears_of_no_other(
    house: House, role: str
) -> None:
    curator, token = house.server.curator, house.tokens[f"{role} of patients"]
    house.server.token("owner")  # a later entry, of no data set
    own = curator.history("patients")
    with house.server.api(token) as api, house.server.browser(token) as browser:
        found = api.post("/verify").json()
        assert found["head"] == f"{own[-1].number}:{own[-1].hash}"
        assert (found["entries"], found["datasets"]) == (len(own), 1)
        assert (found["questions"], found["releases"]) == (0, 0)
        assert api.post("/verify", json={"expected_head": found["head"]}).is_success
        page = browser.post("/verify").text
        assert f"{len(own)} entries" in page
        for whole in (curator.head(), f"{len(curator.history())} entries"):
            assert whole not in page
        # That a head is wrong is told, and not what stands there in its place.
        length = len(curator.history())
        for head in (f"{length}:{'0' * 64}", f"{length + 1}:{'0' * 64}"):
            wrong = api.post("/verify", json={"expected_head": head})
            assert wrong.json()["error"]["kind"] == "ledger-damaged"
            assert "all data sets" in wrong.json()["error"]["message"]
            assert str(length) not in wrong.json()["error"]["message"]
    with house.server.api(house.tokens[role]) as api:
        assert api.post("/verify").json()["head"] == curator.head()


def test_an_owner_of_one_data_set_hands_out_tokens_for_it_alone(house: House) -> None:
    with house.server.api(house.tokens["owner of patients"]) as api:
        foreign = {"role": "analyst", "name": "x", "dataset": "others"}
        assert api.post("/tokens", json=foreign).status_code == 404
        made = api.post("/tokens", json={"role": "analyst", "name": "y"}).json()["token"]
        assert {token["dataset"] for token in api.get("/tokens").json()} == {"patients"}
    with house.server.api(made) as api:
        assert api.get("/me").json() == {"role": "analyst", "dataset": "patients", "name": "y"}


def test_an_owner_of_one_data_set_cannot_revoke_the_tokens_of_others(house: House) -> None:
    with house.server.api(house.tokens["owner"]) as api:
        foreign = next(each for each in api.get("/tokens").json() if each["dataset"] is None)
    with house.server.api(house.tokens["owner of patients"]) as api:
        assert api.delete(f"/tokens/{foreign['id']}").status_code == 404


def test_a_job_is_seen_by_nobody_but_who_asked(house: House) -> None:
    query = {"name": "histogram", "columns": ["age"], "epsilon": "0.001"}
    with house.server.api(house.tokens["analyst"]) as api:
        asked = api.post("/datasets/patients/ask", json={"query": query, "wait": 0})
        assert asked.status_code == 202
        assert api.get(f"/jobs/{asked.json()['job']}").status_code == 200
    with house.server.api(house.tokens["analyst of patients"]) as api:
        assert api.get(f"/jobs/{asked.json()['job']}").status_code == 404
