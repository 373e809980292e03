"""An agent has an analyst's tools, spends no more than it may, and leaves the rest to people."""

from __future__ import annotations

# slow: left out by `make quick`
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from privod.agent import Agent, Allowance, agent_server
from privod.client import connect
from privod.errors import BudgetExceeded, NotAllowed
from privod.privacy import AddRemove, Loss
from privod.server.authentication import create_token
from tests.running_server import Running, running

if TYPE_CHECKING:  # else imported by tests: every worker would spend the time to find them
    from mcp import Client as McpClient

NAME = "an agent's"
TOOLS = {"datasets", "questions", "preview", "price", "ask", "budget", "release"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("agent")) as server:
        yield server


def spent(server: Running) -> Fraction:
    (state,) = server.curator.budget("patients")
    assert state.adjacency == AddRemove()
    return state.spent.epsilon


def histogram(epsilon: str, bins: int = 4) -> dict[str, Any]:
    parameters = {"columns": ["age"], "epsilon": epsilon, "bins": bins}
    return {"dataset": "patients", "question": "histogram", "parameters": parameters}


def talk(
    server: Running,
    visit: Callable[[McpClient], Awaitable[Any]],
    most: str = "1",
    alone: str = "0.1",
) -> Any:
    """What a visit by the protocol's own client gives, in one process."""
    from mcp import Client

    async def whole() -> Any:
        with connect(server.url, server.token("analyst")) as client:
            agent = Agent(client, Allowance(Loss(most, "1e-6"), Loss(alone, "1e-6")))
            async with Client(agent_server(agent)) as session:
                return await visit(session)

    return asyncio.run(whole())


def told(result: Any) -> Any:
    """What a tool said; a list comes in pieces."""
    assert not result.is_error, result.content
    return [json.loads(piece.text) for piece in result.content]


def test_the_tools_are_an_analysts_and_no_others(server: Running) -> None:
    async def visit(session: McpClient) -> set[str]:
        return {tool.name for tool in (await session.list_tools()).tools}

    assert talk(server, visit) == TOOLS


def test_an_agent_finds_its_way_from_the_data_to_an_answer(server: Running) -> None:
    async def visit(session: McpClient) -> None:
        (data,) = told(await session.call_tool("datasets", {}))
        assert data["name"] == "patients"
        names = {one["name"] for one in told(await session.call_tool("questions", {}))}
        assert "histogram" in names
        (preview,) = told(await session.call_tool("preview", histogram("0.05")))
        assert "95 %" in preview["sentence"]
        (price,) = told(await session.call_tool("price", histogram("0.05")))
        assert (price["epsilon"], price["stored"]) == ("0.05", False)
        before = spent(server)
        asked = histogram("0.05") | {"most_epsilon": "0.05"}
        (answer,) = told(await session.call_tool("ask", asked))
        assert "records have" in answer["sentence"]
        assert spent(server) == before + Fraction("0.05")
        (again,) = told(await session.call_tool("ask", asked))
        (stored,) = told(await session.call_tool("release", histogram("0.05")))
        assert answer == again == stored
        assert spent(server) == before + Fraction("0.05")

    talk(server, visit)


@pytest.mark.parametrize(
    ("epsilon", "most_epsilon", "said"),
    [("0.09", "0.08", "more than the epsilon 0.08 you allowed"), ("0.2", "1", "needs a person")],
)
def test_a_question_that_costs_too_much_is_refused_and_nothing_is_charged(
    server: Running, epsilon: str, most_epsilon: str, said: str
) -> None:
    async def visit(session: McpClient) -> Any:
        asked = histogram(epsilon, bins=7) | {"most_epsilon": most_epsilon}
        return await session.call_tool("ask", asked)

    before = spent(server)
    result = talk(server, visit)
    assert result.is_error
    assert said in result.content[0].text
    assert spent(server) == before


def test_an_agent_that_is_talked_into_asking_for_ever_stops_at_its_allowance(
    server: Running,
) -> None:
    async def visit(session: McpClient) -> int:
        calls = [
            session.call_tool("ask", histogram("0.1", bins=20 + n) | {"most_epsilon": "0.1"})
            for n in range(8)
        ]
        return sum(not result.is_error for result in await asyncio.gather(*calls))

    before = spent(server)
    assert talk(server, visit, most="0.35") == 3
    assert spent(server) == before + Fraction("0.3")


def test_wrong_parameters_are_said_and_not_charged(server: Running) -> None:
    async def visit(session: McpClient) -> list[Any]:
        wrong = [
            {"dataset": "nowhere", "question": "histogram", "parameters": {"columns": ["age"]}},
            histogram("0.01") | {"question": "no-such-question"},
            histogram("-1"),
            histogram("0.01") | {"parameters": {"columns": ["age"], "epsilon": "0.01", "x": 1}},
        ]
        limit = {"most_epsilon": "1"}
        return [await session.call_tool("ask", one | limit) for one in wrong]

    before = spent(server)
    assert all(result.is_error for result in talk(server, visit))
    assert spent(server) == before


@pytest.mark.parametrize("role", ["owner", "auditor"])
def test_only_an_analysts_token_serves_an_agent(server: Running, role: str) -> None:
    with connect(server.url, server.token(role)) as client, pytest.raises(NotAllowed, match=role):
        Agent(client, Allowance(Loss(1), Loss(1)))


def test_a_revoked_token_ends_what_an_agent_may_do(server: Running) -> None:
    token = create_token(server.curator, "analyst", None, NAME)
    with connect(server.url, token) as client:
        agent = Agent(client, Allowance(Loss(1), Loss(1)))
        agent.datasets()
        with server.api(server.token("owner")) as owner:
            own = next(
                one
                for one in owner.get("/tokens").json()
                if not one["revoked"] and one["name"] == NAME
            )
            owner.delete(f"/tokens/{own['id']}").raise_for_status()
        with pytest.raises(NotAllowed):
            agent.datasets()


def test_threads_do_not_overspend_an_allowance() -> None:
    allowance = Allowance(Loss(1), Loss(1))

    def take(_: int) -> bool:
        try:
            allowance.take(Loss("0.1"), Fraction(1))
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(200))) == 10


def test_an_allowance_counts_delta_as_it_counts_epsilon() -> None:
    allowance = Allowance(Loss(1, "1e-6"), Loss(1, "1e-6"))
    for _ in range(2):
        allowance.take(Loss("0.01", "5e-7"), Fraction(1))
    with pytest.raises(BudgetExceeded):
        allowance.take(Loss("0.01", "1e-12"), Fraction(1))
    allowance.take(Loss("0.01"), Fraction(1))


def test_a_name_among_the_parameters_does_not_replace_the_question(server: Running) -> None:
    with connect(server.url, server.token("analyst")) as client:
        agent = Agent(client, Allowance(Loss(1), Loss(1)))
        asked = histogram("0.01")
        asked["parameters"] = {**asked["parameters"], "name": "private-bounds"}
        assert agent.price(**asked) == agent.price(**histogram("0.01"))


def test_the_command_serves_an_agent_over_standard_input_and_output(server: Running) -> None:
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from privod.cli import main; main()", "mcp", "--at", server.url],
        env={**os.environ, "PRIVOD_TOKEN": server.token("analyst")},
    )

    async def visit() -> set[str]:
        async with Client(command) as session:
            (data,) = told(await session.call_tool("datasets", {}))
            assert data["name"] == "patients"
            return {tool.name for tool in (await session.list_tools()).tools}

    assert asyncio.run(visit()) == TOOLS


def test_a_question_that_the_budget_refuses_uses_up_nothing_of_the_allowance(
    server: Running,
) -> None:
    with connect(server.url, server.token("analyst")) as client:
        allowance = Allowance(Loss(5000), Loss(5000))
        agent = Agent(client, allowance)
        with pytest.raises(BudgetExceeded):
            agent.ask(**histogram("2000"), most_epsilon="5000")
        assert allowance.spent == Loss(0)
