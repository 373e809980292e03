"""Run the curator as a server, hand out the tokens that open it, and offer it to agents."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from privod import wire
from privod.cli.app import app
from privod.cli.options import (
    DEFAULT_LOCATION,
    ENGINE_VARIABLE,
    LOCATION_VARIABLE,
    WITNESS_VARIABLE,
    AsJson,
    DatabaseUrl,
    Directory,
    server_at,
)
from privod.cli.output import emit, moment, table, words
from privod.errors import InvalidParameter, Unavailable

token = typer.Typer(help="Hand out, list and revoke the tokens of a server.", no_args_is_help=True)
app.add_typer(token, name="token")


def _curator(
    at: str, database: str | None, engine: str | None = None, *, create: bool = False
) -> Any:
    from privod.curator import Curator

    witness = os.environ.get(WITNESS_VARIABLE) or None
    return Curator.open(at, database=database, witness=witness, engine=engine, create=create)


@app.command()
def serve(
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    engine: Annotated[
        str | None,
        typer.Option(
            envvar=ENGINE_VARIABLE,
            help="A Dask (tls://host:port) or Spark (sc://host:port) cluster that adds up over"
            " rows not held in memory.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0: any free one.")] = 8000,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name it answers to; may be repeated.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A TLS certificate, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key, PEM.")] = None,
    proxy: Annotated[
        str | None, typer.Option(help="The address of a trusted proxy that speaks TLS.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="The path under which the proxy shows it, such as /privod.")
    ] = "",
    max_upload: Annotated[
        int, typer.Option(min=1, max=10**7, help="The largest file to register, in MB.")
    ] = 512,
    workers: Annotated[int, typer.Option(min=1, max=1000, help="Answers computed at once.")] = 2,
    answer_seconds: Annotated[
        float,
        typer.Option(
            help="Refuse what may take longer, in seconds, on as many records as were declared."
            " What was accepted has all the time it takes."
        ),
    ] = 6 * 3600,
    answer_numbers: Annotated[
        int, typer.Option(help="Refuse, before the charge, answers that may hold more numbers.")
    ] = 1_000_000,
    worker_memory: Annotated[
        int | None,
        typer.Option(
            help="How much memory a worker may take, in MB; what may need more is refused. By"
            " default an equal share of the machine's, less a reserve."
        ),
    ] = None,
    oidc_issuer: Annotated[
        str | None, typer.Option(help="The address of an OpenID Connect provider to sign in with.")
    ] = None,
    oidc_client: Annotated[str, typer.Option(help="How the provider knows this server.")] = "",
    oidc_secret_file: Annotated[
        Path | None, typer.Option(help="A file with the client's secret at the provider.")
    ] = None,
    oidc_role_claim: Annotated[
        str, typer.Option(help="The claim with roles: analyst, or analyst:patients.")
    ] = "privod_roles",
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Log JSON, one a line.")] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Serve sample data from a temporary directory.")
    ] = False,
) -> None:
    """Run the curator as a server with a console, on this machine only unless told otherwise."""
    try:
        from privod.curator.curator import local_directory
        from privod.server.limits import Limits, share_of_memory
        from privod.server.sample import sample as sampled
        from privod.server.serve import Listening
        from privod.server.serve import serve as run
    except ImportError:
        raise Unavailable(
            "The server is not installed. Install it with: pip install 'privod[server]'"
        ) from None

    if not sample:
        local_directory(at)
        if engine is not None and engine.startswith(("local:", "spark:")):
            way_out = "Leave it out: this server counts with all cores of its machine."
            raise InvalidParameter("engine", "must be the address of a cluster", engine, way_out)
    listening = Listening(host, port, tuple(name or ()), certificate, key, proxy, prefix)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as problem:
        why = os.strerror(problem.errno or 0)
        told = f"Cannot listen at {host}:{port} ({why}). Try --port {port + 1}."
        raise Unavailable(told) from None
    limits = Limits(
        upload_bytes=max_upload * 1024**2,
        workers=workers,
        answer_seconds=answer_seconds,
        answer_numbers=answer_numbers,
        answer_bytes=share_of_memory(workers) if worker_memory is None else worker_memory * 2**20,
    )
    provider = None
    if oidc_issuer is not None:
        from privod.server.provider import Provider

        secret = "" if oidc_secret_file is None else oidc_secret_file.read_text("utf-8").strip()
        provider = Provider(oidc_issuer, oidc_client, secret, oidc_role_claim)
    if not sample:
        curator = _curator(at, database, engine, create=True)
        run(curator, listening, limits, provider=provider, json_logs=json_logs)
        return
    with tempfile.TemporaryDirectory(prefix="privod-sample-") as directory:
        made = sampled(Path(directory))
        typer.echo(f"Open http://{host}:{port} and sign in with one of these:")
        for role in ("owner", "analyst", "auditor"):
            typer.echo(f"  {role:8} {getattr(made, role)}")
        typer.echo(f"Until the server stops, its ledger and rows are in {directory}")
        run(made.curator, listening, limits, provider=provider, json_logs=json_logs)


@token.command(name="add")
def add_token(
    role: Annotated[str, typer.Argument(help="owner, analyst or auditor.")],
    name: Annotated[str, typer.Option(help="For whom; stands in the ledger beside what they ask.")],
    of: Annotated[str | None, typer.Option(help="One data set; all of them if none.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="From when on it opens nothing, such as 2027-01-31.")
    ] = None,
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a token; it is printed this once, and only its hash is kept."""
    from privod.server.authentication import create_token

    made = create_token(_curator(at, database, create=True), role, of, name, expires)
    emit(wire.NewToken(made), as_json, words(made))


@token.command(name="list")
def list_tokens(
    at: Directory = DEFAULT_LOCATION, database: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """List the tokens handed out, revoked ones too."""
    data = [wire.Token.of(each) for each in _curator(at, database).store.tokens()]
    rows = [
        [
            *(each.id, each.role, each.dataset or "", each.name),
            *(moment(one or "") for one in (each.created, each.revoked, each.expires)),
        ]
        for each in data
    ]
    headings = ["id", "role", "data set", "for", "created", "revoked", "expires"]
    emit(data, as_json, table("Tokens", headings, rows, whole=["id"]))


@token.command(name="revoke")
def revoke_token(
    shown: Annotated[str, typer.Argument(metavar="ID", help="As 'privod token list' shows it.")],
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a token; a running server refuses it from the next request on."""
    from privod.server import authentication as auth

    auth.revoke_token(_curator(at, database), auth.EVERYONE, shown)
    emit({"revoked": shown}, as_json, words(f"Revoked {shown}."))


@app.command()
def mcp(
    at: Annotated[
        str,
        typer.Option("--at", envvar=LOCATION_VARIABLE, help="The address of a curator's server."),
    ],
    most_epsilon: Annotated[
        str, typer.Option(help="What all questions of this process may cost together.")
    ] = "1",
    most_delta: Annotated[str, typer.Option(help="The same of delta.")] = "1e-6",
    alone: Annotated[
        str, typer.Option(help="Above this epsilon the agent asks nothing without a person.")
    ] = "0.1",
) -> None:
    """Offer tools to an agent over standard input and output, with the token in PRIVOD_TOKEN.

    The token must be an analyst's. Give it an allowance of its own on the server as well: the
    limits here last as long as the process.
    """
    from privod.agent import Agent, Allowance, agent_server
    from privod.privacy import Loss

    allowance = Allowance(Loss(most_epsilon, most_delta), Loss(alone, most_delta))
    with server_at(at) as client:
        agent_server(Agent(client, allowance)).run()
