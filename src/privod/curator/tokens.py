"""Tokens: hashes, each with a role and, if limited, a data set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from privod.errors import AlreadyExists, InvalidParameter, NotFound
from privod.ledger.chain import append, now, token_id
from privod.ledger.database import Connection, Database
from privod.ledger.store import find_dataset, short_text
from privod.query.query import canonical_json

__all__ = ["ROLES", "Role", "Token", "TokenStore", "token_id"]

Role = Literal["owner", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)

_TOKEN = "SELECT hash, role, dataset, name, created, revoked, expires FROM tokens"  # noqa: S105 - a statement, no secret


@dataclass(frozen=True)
class Token:
    """A token's record; the token itself is kept nowhere."""

    hash: str
    role: Role
    of: str | None
    name: str
    created: str
    revoked: str | None
    expires: str | None = None

    @property
    def expired(self) -> bool:
        """Whether it opens nothing any more because its time is over."""
        return self.expires is not None and self.expires <= now()

    @property
    def id(self) -> str:
        """The name of the token in lists and in the ledger; it opens nothing."""
        return token_id(self.hash)


class TokenStore:
    """Who may come in: hashes of tokens, with a role and, if limited, a data set."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_token(
        self, hash: str, role: str, of: str | None, name: str, *, expires: str | None = None
    ) -> Token:
        """Let the holder of the token with this hash in, until it expires (UTC, ISO 8601)."""
        if role not in ROLES:
            way_out = "An analyst asks, an auditor reads the ledger, an owner does everything."
            raise InvalidParameter("role", f"must be one of {', '.join(ROLES)}", role, way_out)
        short_text(name, "name")
        until = None if expires is None else _moment(expires)
        with self._database.writing() as connection:
            if of is not None:
                find_dataset(connection, of)
            if connection.execute("SELECT 1 FROM tokens WHERE hash = ?", hash):
                raise AlreadyExists("This token is known already. Draw a new one.")
            number = connection.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM tokens")[0][0]
            token = Token(hash, role, of, name, now(), None, until)
            connection.execute(
                "INSERT INTO tokens (number, hash, role, dataset, name, created, expires)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                number,
                hash,
                role,
                of,
                name,
                token.created,
                until,
            )
            _enter(connection, "token", token)
        return token

    def tokens(self) -> tuple[Token, ...]:
        """Every token ever added, revoked ones too."""
        with self._database.reading() as connection:
            return tuple(Token(*row) for row in connection.execute(f"{_TOKEN} ORDER BY number"))

    def find_token(self, hash: str) -> Token | None:
        """The token with this hash, unless it was revoked or has expired."""
        with self._database.lookup() as connection:
            rows = connection.execute(
                f"{_TOKEN} WHERE hash = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?)",
                hash,
                now(),
            )
        return Token(*rows[0]) if rows else None

    def revoke_token(self, hash: str) -> Token:
        """Shut the holder of this token out, from the next request on."""
        with self._database.writing() as connection:
            rows = connection.execute(f"{_TOKEN} WHERE hash = ?", hash)
            if not rows:
                raise NotFound("There is no such token. List them (`privod token list`).")
            if Token(*rows[0]).revoked is None:
                connection.execute("UPDATE tokens SET revoked = ? WHERE hash = ?", now(), hash)
                _enter(connection, "revoke", Token(*rows[0]))
            rows = connection.execute(f"{_TOKEN} WHERE hash = ?", hash)
        return Token(*rows[0])


def _enter(connection: Connection, kind: str, token: Token) -> None:
    """Say in the ledger who may come in, so that a name in it cannot be forged."""
    details = {"name": token.name, "role": token.role, "expires": token.expires}
    append(
        connection,
        kind=kind,
        dataset=token.of or "",
        token=token.id,
        details=canonical_json(details),
    )


def _moment(text: str) -> str:
    way_out = "Write 2027-01-31T12:00:00Z."
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidParameter("expires", "must be a date and time", text, way_out) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    written = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if written <= now():
        raise InvalidParameter("expires", "must lie in the future", text, way_out)
    return written
