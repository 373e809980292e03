"""Tokens, sessions and forms: what is stored, what a cookie is worth, which forms are ours."""

from __future__ import annotations

# slow: left out by `make quick`
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from privod.curator import Curator
from privod.curator.backups import backup
from privod.curator.server_notes import ServerNotes
from privod.errors import InvalidParameter, NotAllowed, NotFound
from privod.server import authentication
from privod.server.authentication import (
    IDLE_SECONDS,
    LONGEST_SESSION,
    Sessions,
    check_form,
    create_token,
    form_code,
    token_hash,
)
from privod.server.limits import Limits, Rate
from tests.patience import PATIENCE
from tests.running_server import GENEROUS, Browser, Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("auth")) as server:
        yield server


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_random_names_its_role_and_is_stored_as_a_hash_only(server: Running) -> None:
    first, second = server.token("analyst"), server.token("analyst")
    assert first != second
    assert first.startswith("privod_analyst_")
    assert len(first.removeprefix("privod_analyst_")) >= 43  # 32 bytes
    stored = server.curator.store.find_token(token_hash(first))
    assert stored is not None
    assert first not in repr(stored)


def test_no_file_of_the_curator_holds_a_token(server: Running) -> None:
    token = server.token("owner")
    files = [file for file in Path(server.curator.directory).rglob("*") if file.is_file()]
    assert files
    assert not any(token.encode() in file.read_bytes() for file in files)
    assert any(token_hash(token).encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize(("role", "name"), [("king", "x"), ("analyst", ""), ("analyst", "a\nb")])
def test_a_token_needs_a_known_role_and_a_name(server: Running, role: str, name: str) -> None:
    with pytest.raises(InvalidParameter):
        create_token(server.curator, role, None, name)


def test_a_token_is_for_a_data_set_that_exists(server: Running) -> None:
    with pytest.raises(NotFound):
        create_token(server.curator, "analyst", "unheard-of", "x")


@pytest.mark.parametrize("shown", ["x", "privod_analyst_" + "A" * 43, "é" * 20, "a" * 5000])
def test_an_unknown_token_opens_nothing(server: Running, shown: str) -> None:
    headers = {b"authorization": f"Bearer {shown}".encode()}
    response = httpx.get(f"{server.url}/api/v1/datasets", headers=headers, timeout=PATIENCE)
    assert response.status_code == 401


def test_a_revoked_token_is_refused_from_the_next_request_on(server: Running) -> None:
    token = server.token("analyst")
    with server.api(token) as api, server.browser(token) as browser:
        assert api.get("/datasets").status_code == 200
        assert browser.get("/").status_code == 200
        server.curator.store.revoke_token(token_hash(token))
        assert api.get("/datasets").status_code == 401
        assert browser.get("/").headers["location"] == "/sign-in"
        assert browser.post("/sign-in", token=token).status_code == 403


def test_an_owner_revokes_a_token_over_the_interface_and_in_the_console(server: Running) -> None:
    first, second = server.token("analyst"), server.token("analyst")
    with server.api(server.token("owner")) as api:
        assert api.delete(f"/tokens/{token_hash(first)[:16]}").json() == {"revoked": True}
        assert api.delete("/tokens/unknown").status_code == 404
    with server.browser(server.token("owner")) as browser:
        path = f"/tokens/{token_hash(second)[:16]}/revoke"
        assert browser.post(path).headers["location"] == "/tokens"
    for token in (first, second):
        with server.api(token) as api:
            assert api.get("/me").status_code == 401


def test_signing_in_makes_a_new_session_whatever_the_browser_had_before(server: Running) -> None:
    browser = Browser(server.url)
    browser.cookies.set("privod", "planted-by-somebody-else", domain="127.0.0.1")
    response = browser.post("/sign-in", token=server.token("analyst"))
    assert response.status_code == 303
    assert browser.cookies["privod"] != "planted-by-somebody-else"
    with Browser(server.url) as attacker:
        attacker.cookies.set("privod", "planted-by-somebody-else", domain="127.0.0.1")
        assert attacker.get("/").headers["location"] == "/sign-in"
    browser.close()


def test_signing_in_again_ends_the_session_before(server: Running) -> None:
    token = server.token("analyst")
    with server.browser(token) as browser:
        before = browser.cookies["privod"]
        browser.post("/sign-in", token=token)
        assert browser.cookies["privod"] != before
        assert server.site.sessions.token_of(before) is None


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server: Running) -> None:
    with Browser(server.url) as browser:
        cookie = browser.post("/sign-in", token=server.token("analyst")).headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age"):
        assert part in cookie
    assert "Domain" not in cookie


def test_a_cookie_does_not_open_the_interface_nor_a_token_the_console(server: Running) -> None:
    token = server.token("analyst")
    with server.browser(token) as browser:
        assert browser.get("/api/v1/datasets").status_code == 401
    shown = httpx.get(
        f"{server.url}/", headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE
    )
    assert shown.status_code == 303


def test_signing_out_ends_the_session_on_the_server_too(server: Running) -> None:
    with server.browser(server.token("analyst")) as browser:
        cookie = browser.cookies["privod"]
        assert browser.post("/sign-out").headers["location"] == "/sign-in"
        assert server.site.sessions.token_of(cookie) is None
        browser.cookies.set("privod", cookie, domain="127.0.0.1")
        assert browser.get("/").headers["location"] == "/sign-in"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/sign-in", {"token": "x"}),
        ("/sign-out", {}),
        ("/tokens", {"name": "x", "role": "analyst"}),
        (
            "/data/patients/budgets/new",
            {"epsilon": "1", "adjacency": "replace", "confirmed": "yes"},
        ),
        ("/verify", {}),
    ],
)
@pytest.mark.parametrize("code", ["", "0" * 64, "é"])
def test_a_form_without_its_code_is_refused(
    server: Running, path: str, fields: dict[str, str], code: str
) -> None:
    with server.browser(server.token("owner")) as browser:
        tokens, budgets = len(server.curator.store.tokens()), len(server.curator.budget("patients"))
        response = browser.request("POST", path, data={"code": code, **fields})
        assert response.status_code == 403
        assert "did not come from this console" in response.text
        assert len(server.curator.store.tokens()) == tokens
        assert len(server.curator.budget("patients")) == budgets


def test_the_code_of_another_session_is_refused(server: Running) -> None:
    with (
        server.browser(server.token("owner")) as mine,
        server.browser(server.token("owner")) as his,
    ):
        response = mine.request("POST", "/verify", data={"code": his.code()})
        assert response.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_from_another_site_is_refused_even_with_its_code(
    server: Running, headers: dict[str, str]
) -> None:
    with server.browser(server.token("owner")) as browser:
        data = {"code": browser.code()}
        assert browser.request("POST", "/verify", data=data, headers=headers).status_code == 403
        ours = {"origin": server.url, "sec-fetch-site": "same-origin"}
        assert browser.request("POST", "/verify", data=data, headers=ours).status_code == 200


@pytest.mark.parametrize(
    ("asked", "led_to"),
    [
        ("/data/patients", "/data/patients"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\n/evil", "/"),
        ("", "/"),
        ("/data/" + "x" * 2000, "/"),
    ],
)
def test_after_signing_in_one_stays_on_this_server(
    server: Running, asked: str, led_to: str
) -> None:
    with Browser(server.url) as browser:
        response = browser.post("/sign-in", token=server.token("analyst"), next=asked)
        assert response.headers["location"] == led_to


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_a_foreign_host_name_is_refused(server: Running, host: str) -> None:
    response = httpx.get(f"{server.url}/api/v1/health", headers={"host": host}, timeout=PATIENCE)
    assert response.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:8000", "[::1]"])
def test_every_name_of_this_machine_is_answered_to(server: Running, host: str) -> None:
    response = httpx.get(f"{server.url}/api/v1/health", headers={"host": host}, timeout=PATIENCE)
    assert response.status_code == 200


def test_guessing_tokens_is_slowed_down_and_locks_nobody_out(tmp_path: Path) -> None:
    limits = Limits(requests=GENEROUS.requests, failures=Rate(0.001, 5))
    with running(tmp_path, limits) as server:
        token, guess = server.token("analyst"), "guess"
        tried = [
            httpx.get(
                f"{server.url}/api/v1/me",
                headers={"authorization": f"Bearer {place}"},
                timeout=PATIENCE,
            )
            for place in range(7)
        ]
        assert [response.status_code for response in tried] == [401] * 5 + [429] * 2
        assert "retry-after" in tried[-1].headers
        with Browser(server.url) as browser:
            assert browser.post("/sign-in", token=guess).status_code == 429
            assert browser.post("/sign-in", token=token).status_code == 303
        known = {"authorization": f"Bearer {token}"}
        assert (
            httpx.get(f"{server.url}/api/v1/me", headers=known, timeout=PATIENCE).status_code == 200
        )


@pytest.fixture
def clocked(tmp_path: Path) -> Iterator[tuple[Sessions, Clock]]:
    """Sessions in a database of their own, and the clock they go by."""
    clock = Clock()
    with Curator.open(tmp_path) as curator:
        yield Sessions(ServerNotes(curator.database, clock)), clock


def test_a_session_ends_when_it_is_not_used(clocked: tuple[Sessions, Clock]) -> None:
    sessions, clock = clocked
    cookie = sessions.begin("hash")
    clock.now = IDLE_SECONDS - 1
    assert sessions.token_of(cookie) == "hash"
    clock.now += IDLE_SECONDS + 1
    assert sessions.token_of(cookie) is None


def test_a_session_ends_after_half_a_day_even_if_it_is_used(
    clocked: tuple[Sessions, Clock],
) -> None:
    sessions, clock = clocked
    cookie = sessions.begin("hash")
    while clock.now < LONGEST_SESSION - IDLE_SECONDS:
        clock.now += IDLE_SECONDS / 2
        assert sessions.token_of(cookie) == "hash"
    clock.now = LONGEST_SESSION + 1
    assert sessions.token_of(cookie) is None


def test_sessions_do_not_fill_the_database(
    clocked: tuple[Sessions, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "MOST_SESSIONS", 3)
    sessions, clock = clocked
    first = sessions.begin("first")
    for _ in range(3):
        clock.now += 1
        last = sessions.begin("other")
    assert sessions.token_of(first) is None
    assert sessions.token_of(last) == "other"


def test_a_form_code_belongs_to_one_cookie_and_one_server() -> None:
    code = form_code(b"secret", "cookie")
    check_form(b"secret", "cookie", code)
    for secret, cookie, shown in [
        (b"secret", "other", code),
        (b"other", "cookie", code),
        (b"secret", "", form_code(b"secret", "")),
    ]:
        with pytest.raises(NotAllowed):
            check_form(secret, cookie, shown)


def test_whoever_signed_in_at_one_server_process_is_signed_in_at_all(tmp_path: Path) -> None:
    with running(tmp_path) as one, running(tmp_path, data=False) as other:
        token = one.token("analyst")
        with one.browser(token) as here, Browser(other.url) as there:
            there.cookies.set("privod", here.cookies["privod"])
            assert there.get("/").status_code == 200
            assert here.code() == there.code()  # a form of one is taken by the other
            assert there.post("/sign-out").status_code == 303
            assert here.get("/").status_code == 303, "signed out at all"


def test_a_copy_of_the_ledger_takes_no_session_along(tmp_path: Path) -> None:
    with Curator.open(tmp_path / "first") as curator:
        cookie = Sessions(curator.server_notes).begin("hash")
        secret = curator.server_notes.secret("forms")
        assert secret == curator.server_notes.secret("forms")
        backup(curator, tmp_path / "copy")
    with Curator.open(tmp_path / "copy", restoring=True) as copy:
        assert Sessions(copy.server_notes).token_of(cookie) is None
        assert copy.server_notes.secret("forms") != secret
