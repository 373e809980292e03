"""Signing in with an OpenID Connect provider, which a test starts; and what is refused."""

from __future__ import annotations

# slow: left out by `make quick`
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from privod.curator import Curator
from privod.curator.server_notes import ServerNotes
from privod.errors import InvalidParameter, NotAllowed, Unavailable
from privod.server import provider as provider_module
from privod.server.authentication import token_hash
from privod.server.provider import Account, Provider, visitor_for
from tests.openid_provider import CLIENT, SECRET, OpenIdProvider, openid_provider
from tests.patience import PATIENCE
from tests.running_server import Browser, Running, running


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Running, OpenIdProvider]]:
    with openid_provider() as openid:
        provider = Provider(openid.issuer, CLIENT, SECRET)
        with running(tmp_path_factory.mktemp("openid"), provider=provider) as server:
            yield server, openid


@pytest.fixture
def server(both: tuple[Running, OpenIdProvider]) -> Running:
    return both[0]


@pytest.fixture
def openid(both: tuple[Running, OpenIdProvider]) -> Iterator[OpenIdProvider]:
    """The provider, honest again after each test."""
    yield both[1]
    both[1].claims, both[1].signs_with, both[1].algorithm = {}, None, "ES256"


def returned(browser: Browser, onward: str = "/") -> str:
    """Follow the way to the provider; the address that leads back."""
    browser.get("/sign-in")
    there = browser.get(f"/sign-in/provider?next={onward}")
    assert there.status_code == 303
    return httpx.get(there.headers["location"], timeout=PATIENCE).headers["location"]


def test_an_analyst_signs_in_asks_and_stands_in_the_ledger_by_name(
    server: Running, openid: OpenIdProvider
) -> None:
    with server.browser() as browser:
        assert "organization's account" in browser.get("/sign-in").text
        before = browser.cookies["privod"]
        back = browser.get(returned(browser, "/data/patients"))
        assert back.status_code == 303
        assert back.headers["location"] == "/data/patients"
        assert browser.cookies["privod"] != before  # whoever knew the old one knows nothing
        assert "patients" in browser.get("/").text
        asked = browser.ask("/data/patients/ask/histogram", columns="age", epsilon="0.5")
        assert asked.status_code == 303
        assert browser.get("/tokens").status_code == 403
    charged = [entry for entry in server.curator.history("patients") if entry.kind == "charge"]
    assert charged[-1].asked_by == "Ada Lovelace"
    assert not openid.refused


def test_signing_in_again_is_the_same_account_and_a_revoked_one_stays_out(
    server: Running, openid: OpenIdProvider
) -> None:
    openid.claims = {"sub": "bob", "name": "Bob\x1b[31m"}
    for _ in range(2):
        with server.browser() as browser:
            assert browser.get(returned(browser)).status_code == 303
    (record,) = [one for one in server.curator.store.tokens() if one.name.startswith("Bob")]
    assert record.name == "Bob[31m"
    server.curator.store.revoke_token(record.hash)
    with server.browser() as browser:
        refused = browser.get(returned(browser))
        assert refused.status_code == 403
        assert "revoked this account" in refused.text


def test_a_role_may_be_for_one_data_set(server: Running, openid: OpenIdProvider) -> None:
    openid.claims = {"sub": "cyd", "privod_roles": "owner:patients"}
    with server.browser() as browser:
        browser.get(returned(browser))
        assert browser.get("/data/patients/budgets/new").status_code == 200
        assert browser.get("/data/new").status_code == 403


def test_roles_in_another_order_are_the_same_account(server: Running) -> None:
    roles = ("auditor", "analyst:patients", "auditor:patients")
    ids = {
        visitor_for(server.curator, Account("https://login.example.org", "dan", "Dan", given)).id
        for given in permutations(roles)
    }
    assert len(ids) == 1


def test_unknown_keys_are_looked_for_once_a_minute(openid: OpenIdProvider) -> None:
    now = [0.0]
    provider = Provider(openid.issuer, CLIENT, SECRET, clock=lambda: now[0])
    looks: list[bool] = []
    look = provider._description

    def counted(*, again: bool = False) -> Any:
        looks.append(again)
        return look(again=again)

    provider._description = counted  # type: ignore[method-assign]
    for _ in range(10):
        with pytest.raises(NotAllowed):
            provider._key("no such key")
    assert looks.count(True) == 1
    now[0] = 61.0
    with pytest.raises(NotAllowed):
        provider._key("no such key")
    assert looks.count(True) == 2


def test_nobody_can_show_the_record_of_an_account_as_a_token(server: Running) -> None:
    account = Account("https://login.example.org", "eve", "Eve", ("owner",))
    visitor = visitor_for(server.curator, account)
    assert visitor.role == "owner"
    assert len(visitor.id) != len(token_hash("any"))
    with server.api(visitor.id) as api:
        assert api.get("/me").status_code == 401


FOREIGN = ec.generate_private_key(ec.SECP256R1())
LIES: dict[str, dict[str, Any]] = {
    "for another client": {"claims": {"aud": "another"}},
    "handed to another client": {"claims": {"azp": "another"}},
    "for several clients, handed to nobody": {"claims": {"aud": [CLIENT, "another"]}},
    "of another issuer": {"claims": {"iss": "https://elsewhere.example"}},
    "expired": {"claims": {"exp": int(time.time()) - 3600}},
    "without an end": {"claims": {"exp": None}},
    "of another sign-in": {"claims": {"nonce": "another"}},
    "without a nonce": {"claims": {"nonce": None}},
    "of nobody": {"claims": {"sub": None}},
    "signed by another": {"signs_with": FOREIGN},
    "not signed": {"signs_with": "", "algorithm": "none"},
    "signed with a shared secret": {"signs_with": SECRET * 2, "algorithm": "HS256"},
    "without a role": {"claims": {"privod_roles": []}},
    "with a role for a data set without a name": {"claims": {"privod_roles": ["owner:"]}},
    "with a role unknown here": {"claims": {"privod_roles": ["admin", 7]}},
    "with roles that are no list": {"claims": {"privod_roles": {"owner": True}}},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_of_the_provider_is_refused(
    server: Running, openid: OpenIdProvider, lie: str
) -> None:
    for name, value in LIES[lie].items():
        setattr(openid, name, value)
    with server.browser() as browser:
        refused = browser.get(returned(browser))
        assert refused.status_code == 403
        assert browser.get("/").headers["location"] == "/sign-in"


def test_a_way_back_works_once_and_in_the_browser_that_began(
    server: Running,
    openid: OpenIdProvider,
) -> None:
    with server.browser() as victim, server.browser() as attacker:
        victim.get("/sign-in")
        stolen = returned(attacker)
        assert victim.get(stolen).status_code == 403
        assert attacker.get(stolen).status_code == 403  # the state is used up
        back = returned(victim)
        assert victim.get(back).status_code == 303
        assert victim.get(back).status_code == 403
        assert victim.get("/sign-in/return?state=x&code=y").status_code == 403


def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    with running(tmp_path, data=False) as server, server.browser() as browser:
        assert "organization" not in browser.get("/sign-in").text
        for path in ("/sign-in/provider", "/sign-in/return"):
            assert browser.get(path).status_code == 404


def test_a_provider_that_is_gone_or_calls_itself_otherwise_is_told(server: Running) -> None:
    notes = server.site.notes
    with openid_provider() as openid:
        gone = Provider(openid.issuer, CLIENT)
        other = Provider(openid.issuer, CLIENT)
        openid.named = "https://elsewhere.example"
        with pytest.raises(NotAllowed, match="names itself otherwise"):
            other.way_there(notes, "browser", "back", "/")
    with pytest.raises(Unavailable, match="cannot be reached"):
        gone.way_there(notes, "browser", "back", "/")


@pytest.mark.parametrize("issuer", ["http://login.example.org", "ftp://x", "login.example.org"])
def test_a_provider_is_asked_over_https_only(issuer: str) -> None:
    with pytest.raises(InvalidParameter, match="https"):
        Provider(issuer, CLIENT)


def test_ways_to_the_provider_are_forgotten_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provider_module, "MOST_PENDING", 3)
    moment = [0.0]
    with openid_provider() as openid, Curator.open(tmp_path) as curator:
        notes = ServerNotes(curator.database, clock=lambda: moment[0])
        provider = Provider(openid.issuer, CLIENT, SECRET)
        back, states = f"{openid.issuer}/back", []
        for _ in range(5):
            moment[0] += 1
            way = provider.way_there(notes, "browser", back, "/")
            states.append(parse_qs(urlsplit(way).query)["state"][0])
        kept = [notes.find(provider_module.WAY, token_hash(state)) for state in states]
        assert [note is None for note in kept] == [True, True, False, False, False]
        moment[0] += provider_module.PENDING_SECONDS + 1
        with pytest.raises(NotAllowed, match="too long ago"):
            provider.way_back(notes, "browser", back, states[-1], "code")
