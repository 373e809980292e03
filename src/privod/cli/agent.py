"""Serve an analyst's questions to a software agent."""

from __future__ import annotations

from typing import Annotated

import typer

from privod.cli.app import LOCATION_VARIABLE, app, server_at


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
