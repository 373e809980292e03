"""Sign in with OpenID Connect: Authorization Code with PKCE [RFC 7636], the role from a claim."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from privod.curator import ROLES, Curator
from privod.curator.server_notes import ServerNotes
from privod.errors import AlreadyExists, InvalidParameter, NotAllowed, Unavailable
from privod.query.query import canonical_json
from privod.server.authentication import Visitor, find_visitor, token_hash
from privod.texts import LONGEST_NAME

try:
    import httpx
    import jwt
except ImportError:
    raise Unavailable(
        "Signing in with a provider is not installed. Install it with: pip install 'privod[oidc]'"
    ) from None

ALGORITHMS = ["RS256", "ES256", "EdDSA"]  # of public keys only: a shared secret would sign for us
PENDING_SECONDS = 600.0  # from the way to the provider until the way back
MOST_PENDING = 10_000
WAY = "way"  # the kind of a note about somebody under way
KNOWN_SECONDS = 3600.0  # that the provider's description and keys are kept
PROVIDER_SECONDS = 10.0
AGAIN_SECONDS = 60.0  # between two looks for a key that is not known
LEEWAY_SECONDS = 60
REQUIRED = ["iss", "sub", "aud", "exp", "iat", "nonce"]
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Account:
    """Who signed in, as the provider says, and which roles the provider says they have."""

    issuer: str
    subject: str
    name: str
    roles: tuple[str, ...]


@dataclass(frozen=True)
class _Pending:
    """Somebody on their way to the provider and back."""

    browser: str
    """The hash of its cookie."""
    nonce: str
    verifier: str
    onward: str


class Provider:
    """An OpenID Connect provider, asked over HTTPS."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str = "",
        role_claim: str = "privod_roles",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_address(issuer, "issuer")
        self.issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._role_claim = role_claim
        self._clock = clock
        self._asked_again = -AGAIN_SECONDS
        self._known: tuple[float, dict[str, Any], jwt.PyJWKSet] | None = None

    def way_there(self, notes: ServerNotes, browser: str, back: str, onward: str) -> str:
        """Where a browser is sent to sign in; `back` is where the provider sends it afterwards."""
        described, _ = self._description()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        pending = _Pending(token_hash(browser), nonce, verifier, onward)
        oldest = notes.clock() - PENDING_SECONDS
        notes.put(WAY, token_hash(state), json.dumps(asdict(pending)), MOST_PENDING, oldest)
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": back,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        address = str(described["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    def way_back(
        self, notes: ServerNotes, browser: str, back: str, state: str, code: str
    ) -> tuple[Account, str]:
        """Who came back, and where they wanted to go; each way back works once."""
        known = notes.find(WAY, token_hash(state)) is not None  # a stranger's guess writes nothing
        found = notes.take(WAY, token_hash(state)) if known else None
        fresh = found is not None and notes.clock() - found.time <= PENDING_SECONDS
        pending = _Pending(**json.loads(found.value)) if found is not None and fresh else None
        if pending is None or not hmac.compare_digest(pending.browser, token_hash(browser)):
            raise NotAllowed("This sign-in was not begun here, or too long ago. Begin again.")
        claims = self._claims(self._id_token(code, back, pending.verifier))
        if not hmac.compare_digest(str(claims["nonce"]).encode(), pending.nonce.encode()):
            raise NotAllowed("The provider's answer belongs to another sign-in. Begin again.")
        return self._account(claims), pending.onward

    def _account(self, claims: dict[str, Any]) -> Account:
        roles = claims.get(self._role_claim, [])
        given = [roles] if isinstance(roles, str) else roles
        texts = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
        name = claims.get("name") or claims.get("preferred_username") or claims["sub"]
        return Account(self.issuer, str(claims["sub"]), str(name), tuple(texts))

    def _id_token(self, code: str, back: str, verifier: str) -> str:
        described, _ = self._description()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
            "client_id": self._client_id,
        }
        who = (self._client_id, self._client_secret) if self._client_secret else None
        try:
            told = httpx.post(
                str(described["token_endpoint"]), data=form, auth=who, timeout=PROVIDER_SECONDS
            )
            answer = told.json()
        except (httpx.HTTPError, ValueError):
            raise _unavailable() from None
        if told.status_code >= 500:
            raise _unavailable()
        if not told.is_success or not isinstance(answer, dict) or "id_token" not in answer:
            raise NotAllowed("The provider did not confirm this sign-in. Begin again.")
        return str(answer["id_token"])

    def _claims(self, id_token: str) -> dict[str, Any]:
        """What a signed token says, if it is the provider's, for us, and valid now."""
        try:
            wanted = jwt.get_unverified_header(id_token).get("kid")
            found = self._key(wanted)
            claims: dict[str, Any] = jwt.decode(
                id_token,
                found,
                algorithms=ALGORITHMS,
                audience=self._client_id,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED},
            )
        except jwt.PyJWTError:
            raise NotAllowed("The provider's answer is not valid. Begin again.") from None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._client_id) != self._client_id:
            raise NotAllowed("The provider's answer was made for another client. Begin again.")
        return claims

    def _key(self, wanted: str | None) -> jwt.PyJWK:
        for again in (False, True):  # keys change: an unknown one is looked up once more
            if again and self._clock() - self._asked_again < AGAIN_SECONDS:
                break  # strangers may send any key id
            if again:
                self._asked_again = self._clock()
            _, keys = self._description(again=again)
            for key in keys.keys:
                if wanted is None or key.key_id == wanted:
                    return key
        raise NotAllowed("The provider's answer is not valid. Begin again.")

    def _description(self, *, again: bool = False) -> tuple[dict[str, Any], jwt.PyJWKSet]:
        """What the provider says of itself, and its public keys."""
        if self._known is not None and not again:
            moment, described, keys = self._known
            if self._clock() - moment < KNOWN_SECONDS:
                return described, keys
        try:
            address = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            described = httpx.get(address, timeout=PROVIDER_SECONDS).raise_for_status().json()
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                _check_address(str(described[name]), name)
            listed = httpx.get(str(described["jwks_uri"]), timeout=PROVIDER_SECONDS)
            keys = jwt.PyJWKSet.from_dict(listed.raise_for_status().json())
        except (httpx.HTTPError, jwt.PyJWTError, ValueError, KeyError, TypeError):
            raise _unavailable() from None
        if described.get("issuer") != self.issuer:
            raise NotAllowed("The provider names itself otherwise. Tell the operator.")
        self._known = (self._clock(), described, keys)
        return described, keys


def visitor_for(curator: Curator, account: Account) -> Visitor:
    """The record of an account among the tokens, made when it first signs in."""
    role, of = _role(account)
    told = canonical_json([account.issuer, account.subject, role, of])
    hashed = "oidc-" + hashlib.sha256(told.encode()).hexdigest()  # no hash of any token
    visitor = find_visitor(curator, hashed)
    if visitor is not None:
        return visitor
    if any(token.hash == hashed for token in curator.store.tokens()):
        raise NotAllowed("An owner revoked this account here. Ask the owner.")
    name = "".join(letter for letter in account.name if letter.isprintable()).strip()
    with suppress(AlreadyExists):  # somebody signs in twice at the same moment
        curator.store.add_token(hashed, role, of, (name or "account")[:LONGEST_NAME])
    visitor = find_visitor(curator, hashed)
    if visitor is None:
        raise NotAllowed("An owner revoked this account here. Ask the owner.")
    return visitor


def _role(account: Account) -> tuple[str, str | None]:
    """The role that privod names first, in whatever order the provider tells them."""
    known = []
    for given in account.roles:
        role, colon, of = given.partition(":")
        if role in ROLES and bool(colon) == bool(of):  # "owner:" names nothing: no role
            known.append((ROLES.index(role), of))
    if known:
        place, of = min(known)
        return ROLES[place], of or None
    raise NotAllowed("Your account has no role here. Ask the owner of the data.")


def _check_address(address: str, name: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        rule = "must be an https address"
        raise InvalidParameter(name, rule, address[:200], "Write https://login.example.org.")


def _unavailable() -> Unavailable:
    return Unavailable("The provider cannot be reached. Sign in with a token, or try again.")
