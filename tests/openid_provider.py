"""A small OpenID Connect provider on loopback: it signs in whoever comes, as the test says."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT, SECRET = "privod-test", "a secret of the test"


@dataclass
class OpenIdProvider:
    """What the provider knows; a test changes what it will say next."""

    issuer: str = ""
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    signs_with: Any = None
    algorithm: str = "ES256"
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims besides, or instead of, those of an honest answer; None leaves one out."""
    named: str = ""
    """What it calls itself, if not what it is."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def description(self) -> dict[str, str]:
        """Where everything is."""
        return {
            "issuer": self.named or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def keys(self) -> dict[str, Any]:
        """The public key."""
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": "first", "use": "sig", "alg": "ES256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Sign in, and lead the browser back with a code."""
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, str] | None:
        """A signed token for a code, once, if the verifier and the secret are right."""
        asked = self.codes.pop(form.get("code", ""), None)
        basic = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).decode().rstrip("=")
        right = (
            asked is not None
            and authorization == basic
            and form.get("redirect_uri") == asked["redirect_uri"]
            and asked["code_challenge_method"] == "S256"
            and asked["code_challenge"] == challenge
        )
        if asked is None or not right:
            self.refused.append(form.get("code", ""))
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "ada-1815",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "name": "Ada Lovelace",
            "privod_roles": ["something-else", "analyst"],
            **self.claims,
        }
        told = {name: value for name, value in claims.items() if value is not None}
        key = self.key if self.signs_with is None else self.signs_with
        signed = jwt.encode(told, key, self.algorithm, headers={"kid": "first"})
        return {"id_token": signed, "access_token": "x", "token_type": "Bearer"}


@contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    """The provider, serving for the length of a test."""
    provider = OpenIdProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/.well-known/openid-configuration":
                self._send(provider.description())
            elif parts.path == "/keys":
                self._send(provider.keys())
            elif parts.path == "/authorize":
                self.send_response(302)
                self.send_header("location", provider.authorize(asked))
                self.end_headers()
            else:
                self._send({}, 404)

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(sent).items()}
            told = provider.token(form, self.headers.get("authorization", ""))
            self._send(told or {"error": "invalid_grant"}, 200 if told else 400)

        def _send(self, data: Any, status: int = 200) -> None:
            written = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
