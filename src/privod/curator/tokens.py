"""Who may come in: hashes of tokens, each with a role and, if limited, a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from privod.errors import AlreadyExists, InvalidParameter, NotFound
from privod.ledger.chain import now
from privod.ledger.database import Database
from privod.ledger.store import find_dataset, short_text

__all__ = ["ROLES", "Role", "Token", "TokenStore"]

Role = Literal["owner", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)

_TOKEN = "SELECT hash, role, dataset, label, created, revoked FROM tokens"  # noqa: S105 - a statement, no secret


@dataclass(frozen=True)
class Token:
    """A token's record; the token itself is kept nowhere."""

    hash: str
    role: Role
    of: str | None
    label: str
    created: str
    revoked: str | None


class TokenStore:
    """Who may come in: hashes of tokens, with a role and, if limited, a data set."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_token(self, hash: str, role: str, of: str | None, label: str) -> Token:
        """Let the holder of the token with this hash in."""
        if role not in ROLES:
            way_out = "An analyst asks, an auditor reads the ledger, an owner does everything."
            raise InvalidParameter("role", f"must be one of {', '.join(ROLES)}", role, way_out)
        short_text(label, "label")
        with self._database.writing() as connection:
            if of is not None:
                find_dataset(connection, of)
            if connection.execute("SELECT 1 FROM tokens WHERE hash = ?", hash):
                raise AlreadyExists("This token is known already. Draw a new one.")
            number = connection.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM tokens")[0][0]
            token = Token(hash, role, of, label, now(), None)
            connection.execute(
                "INSERT INTO tokens (number, hash, role, dataset, label, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                number,
                hash,
                role,
                of,
                label,
                token.created,
            )
        return token

    def tokens(self) -> tuple[Token, ...]:
        """Every token ever added, revoked ones too."""
        with self._database.reading() as connection:
            return tuple(Token(*row) for row in connection.execute(f"{_TOKEN} ORDER BY number"))

    def find_token(self, hash: str) -> Token | None:
        """The token with this hash, unless it was revoked."""
        with self._database.glancing() as connection:
            rows = connection.execute(f"{_TOKEN} WHERE hash = ? AND revoked IS NULL", hash)
        return Token(*rows[0]) if rows else None

    def revoke_token(self, hash: str) -> Token:
        """Shut the holder of this token out, from the next request on."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE tokens SET revoked = ? WHERE hash = ? AND revoked IS NULL", now(), hash
            )
            rows = connection.execute(f"{_TOKEN} WHERE hash = ?", hash)
        if not rows:
            raise NotFound("There is no such token. See the list of tokens.")
        return Token(*rows[0])
