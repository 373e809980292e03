"""Who asks: tokens stored hashed, browser sessions, and forms that are really ours."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from privod.curator import Curator, Role, Token
from privod.curator.server_notes import ServerNotes
from privod.curator.tokens import token_id
from privod.errors import NotAllowed, NotFound, Unavailable

TOKEN_BYTES = 32
IDLE_SECONDS = 3600.0
LONGEST_SESSION = 12 * 3600.0
SEEN_SECONDS = 60.0  # between two notes that a session is used: it may end so much earlier
MOST_SESSIONS = 10_000
SESSION = "session"
HELD_SECONDS = 600.0
MOST_HELD = 1000


@dataclass(frozen=True)
class Visitor:
    """Someone whose token is known: what they may do, and with which data."""

    id: str
    """Which token: its hash, which opens nothing."""
    role: Role
    of: str | None
    """The one data set it is for, or None for all of them."""
    name: str

    @property
    def token(self) -> str | None:
        """The name of the token in the ledger; None at the curator's own machine."""
        return token_id(self.id) or None

    def sees(self, dataset: str) -> bool:
        """Whether the token is for this data set."""
        return self.of is None or self.of == dataset


EVERYONE = Visitor("", "owner", None, "owner")
"""Whoever sits at the curator's own machine."""


def token_hash(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def create_token(
    curator: Curator, role: str, of: str | None, name: str, expires: str | None = None
) -> str:
    """Make a token and store its hash; the token itself is only ever returned here."""
    token = f"privod_{role}_{secrets.token_urlsafe(TOKEN_BYTES)}"
    curator.store.add_token(token_hash(token), role, of, name.strip(), expires=expires)
    return token


def revoke_token(curator: Curator, visitor: Visitor, shown: str) -> None:
    """Revoke the token with this short name, if it is one that the visitor may revoke."""
    for token in tokens_seen(curator, visitor):
        if token.id == shown:
            curator.store.revoke_token(token.hash)
            return
    raise NotFound("There is no such token. See the list of tokens (`privod token list`).")


def tokens_seen(curator: Curator, visitor: Visitor) -> list[Token]:
    """The tokens that an owner handed out: of one data set, or all."""
    return [one for one in curator.store.tokens() if visitor.of is None or one.of == visitor.of]


def find_visitor(curator: Curator, hashed: str) -> Visitor | None:
    """Whose token has this hash, if it is known and not revoked."""
    found = curator.store.find_token(hashed)
    if found is None or not hmac.compare_digest(found.hash, hashed):
        return None
    return Visitor(found.hash, found.role, found.of, found.name)


class Sessions:
    """Browsers that are signed in, by the hash of their cookie; in memory where a disk is full."""

    def __init__(self, notes: ServerNotes) -> None:
        self._notes = notes
        self._held: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, hashed: str) -> str:
        """Begin a session for a token; returns the cookie's value, always a new one."""
        cookie = secrets.token_urlsafe(TOKEN_BYTES)
        now = self._notes.clock()
        written = json.dumps({"token": hashed, "began": now})
        kept = token_hash(cookie)
        try:
            self._notes.put(SESSION, kept, written, MOST_SESSIONS, now - IDLE_SECONDS)
        except Unavailable:
            self._held[kept] = (hashed, now + HELD_SECONDS)
            if len(self._held) > MOST_HELD:
                self._held.popitem(last=False)
        return cookie

    def token_of(self, cookie: str) -> str | None:
        """The hash of the token behind a cookie, unless its session has ended."""
        kept, now = token_hash(cookie), self._notes.clock()
        if kept in self._held:
            hashed, end = self._held[kept]
            return hashed if now < end else None
        found = self._notes.find(SESSION, kept)
        if found is None:
            return None
        session = json.loads(found.value)
        if now - found.time > IDLE_SECONDS or now - session["began"] > LONGEST_SESSION:
            return None  # the next session that begins takes its note away
        if now - found.time > SEEN_SECONDS:
            with suppress(Unavailable):  # a page can be read where nothing can be written
                self._notes.refresh(SESSION, kept)
        return str(session["token"])

    def end(self, cookie: str) -> None:
        """End a session."""
        if cookie and self._held.pop(token_hash(cookie), None) is None:
            self._notes.take(SESSION, token_hash(cookie))


def form_code(secret: bytes, cookie: str) -> str:
    """The code that a form must carry to be taken as sent from a page of this browser."""
    return hmac.new(secret, cookie.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def check_form(secret: bytes, cookie: str, code: str) -> None:
    """Refuse a form that was not sent from one of our pages."""
    expected = form_code(secret, cookie)
    if not cookie or not hmac.compare_digest(expected.encode(), code.encode("utf-8", "replace")):
        raise NotAllowed("The form has expired or did not come from this console. Send it again.")
