"""Start the server: on loopback unless told otherwise, never open, never bare on a network."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from privod.curator import Curator
from privod.errors import InvalidParameter, NotAllowed
from privod.server.app import make_app
from privod.server.http.connections import Connections, PromptProtocol
from privod.server.jobs.uploads import remove_leftovers
from privod.server.limits import Limits
from privod.server.metrics import log_to_stderr
from privod.server.site import LOOPBACK_HOSTS, Site
from privod.wire.connection import is_loopback

if TYPE_CHECKING:
    from privod.server.provider import Provider

GRACE_SECONDS = 10
KEEP_ALIVE_SECONDS = 15
IDLE_CONNECTIONS = 1000  # kept open by browsers between requests


@dataclass(frozen=True)
class Listening:
    """Where the server listens, and how browsers reach it.

    Port 0 takes any free one. `names` are further host names that it answers to. The proxy speaks
    TLS with the world, is trusted to say who asks, and shows the server under the path `prefix`.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", self.prefix) or "/." in self.prefix:
            rule = "must be a path of letters, digits and -._~, without a slash at its end"
            raise InvalidParameter("prefix", rule, self.prefix, "Try /privod.")
        if (self.certificate is None) != (self.key is None):
            way_out = "Give both --certificate and --key."
            raise InvalidParameter("certificate", "needs its key, and the key it", None, way_out)
        if self.certificate is not None:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate, self.key)
            except OSError:
                rule = "must be a readable PEM file with its key"
                raise InvalidParameter(
                    "certificate", rule, str(self.certificate), "Check both files."
                ) from None
        if not self.secure and not is_loopback(self.host):
            raise NotAllowed(
                f"Tokens would travel in the clear over {self.host!r}. Give a certificate and its"
                " key, or name the proxy that speaks TLS in front of this server."
            )

    @property
    def secure(self) -> bool:
        """Whether browsers reach it over TLS."""
        return self.certificate is not None or self.proxy is not None

    @property
    def hosts(self) -> frozenset[str]:
        """Every name it answers to."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return LOOPBACK_HOSTS | {own.lower()} | {name.lower() for name in self.names}


def configured(
    curator: Curator, listening: Listening, limits: Limits, provider: Provider | None = None
) -> uvicorn.Config:
    """The server, ready to run; refused if nobody could sign in or anybody could."""
    if not any(token.revoked is None and token.role == "owner" for token in curator.store.tokens()):
        raise NotAllowed(
            "There is no owner's token yet, and this server never stands open."
            " Make one with: privod token add owner --name NAME"
        )
    remove_leftovers(curator.directory)
    site = Site(curator, limits, listening.hosts, listening.secure, provider, listening.prefix)
    app: Any = make_app(site)
    proxy: Any = ProxyHeadersMiddleware(app, listening.proxy or "").trusted_hosts
    protocol: Any = partial(PromptProtocol, counted=Connections(limits.connections_each, proxy))
    return uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        proxy_headers=listening.proxy is not None,
        forwarded_allow_ips=listening.proxy or "",
        limit_concurrency=IDLE_CONNECTIONS + limits.at_once + limits.strangers_at_once,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        access_log=False,  # it would log addresses of pages; the middleware logs what is harmless
        log_config=None,
        server_header=False,
        http=protocol,
        ws="none",
    )


def serve(
    curator: Curator,
    listening: Listening,
    limits: Limits | None = None,
    *,
    provider: Provider | None = None,
    json_logs: bool = False,
) -> None:
    """Serve until interrupted."""
    log_to_stderr(as_json=json_logs)
    config = configured(curator, listening, limits or Limits(), provider)
    uvicorn.Server(config).run()
