"""Under a break a framework's agent still waits for whom it waited for, and a model that streams still streams (semantics.md §8.2)."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import mcp
import pytest
from agents import Agent as OpenAIAgent
from agents import Runner
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from mcp.server import MCPServer
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import ElicitRequestURLParams
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

import langchain_agents
import openai_agents
import pydantic_agents
from broken_runs import broken, steps
from builders import Build, a_policy, recorded
from twiceshy.adapters.langchain import answered, create_agent
from twiceshy.adapters.mcp_client import Client
from twiceshy.adapters.openai_agents import bound as openai_bound
from twiceshy.adapters.pydantic_ai import bound as pydantic_bound
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.outcome import Mode

# The frameworks take seconds to import.
pytestmark = pytest.mark.slow


def pydantic_asks(boundary: Boundary) -> Callable[[Any], Any]:
    """A tool that asks for an approval by itself, before it does anything."""

    def pay(ctx: RunContext[Any], amount: int) -> dict[str, Any]:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return {"paid": amount}

    agent = PydanticAgent(pydantic_agents.scripted([("pay", {"amount": 5})], "done"), tools=[pay])
    made = pydantic_bound(agent, boundary, approve=lambda _: True)
    return lambda user: pydantic_agents.output(made, user)


def langgraph_asks(boundary: Boundary) -> Callable[[Any], Any]:
    """A tool that interrupts its graph to ask a person."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return json.dumps({"paid": amount, "by": interrupt({"amount": amount})})

    model = langchain_agents.Scripted(turns=[[("pay", {"amount": 5})], "done"])
    graph = answered(create_agent(boundary, model, [pay], checkpointer=InMemorySaver()), boundary, lambda _: "ann")
    return lambda _: langchain_agents.texts(graph.invoke(langchain_agents.ASK, langchain_agents.THREAD))


def mcp_asks(boundary: Boundary) -> Callable[[Any], Any]:
    """A server that wants somebody to open a page first."""

    def pay(amount: int) -> str:
        page = ElicitRequestURLParams(message="sign in", url="https://shop.example/sign-in", elicitation_id="1")
        raise UrlElicitationRequiredError([page])

    server = MCPServer("shop")
    server.add_tool(pay)
    client = Client(boundary, lambda: mcp.Client(server), tools=["pay"])
    ask = boundary.human("sign-in", lambda _: "later")

    async def agent(_: Any) -> str:
        async with client as shop:
            try:
                return str(await shop.call_tool("pay", {"amount": 5}))
            except UrlElicitationRequiredError:
                return str(ask("sign in"))

    return agent


@pytest.mark.parametrize("build", [pydantic_asks, langgraph_asks, mcp_asks])
@pytest.mark.parametrize("effect", ["write", "none"])
def test_a_question_to_a_person_is_no_error(build: Build, effect: str) -> None:
    """It was hidden as one, so nobody was asked and the call that waited was told as done. effect: a pure tool runs live in a replay."""
    policy = a_policy(pay=effect)
    envelope = recorded(build, "go", policy=policy)
    plain, _ = broken(build, envelope, policy=policy)
    told, applied = broken(build, envelope, "error.swallow:pay", policy=policy)
    assert (applied, told.divergence) == ([], None)
    assert steps(told) == steps(plain)
    assert [played.crossing.kind for played in told.played].count(Kind.HUMAN) == 1


def pydantic_streams(amount: int) -> Build:
    async def said(messages: list[Any], _: Any) -> AsyncIterator[Any]:
        if any(isinstance(message, ModelResponse) for message in messages):
            yield "done"
        else:
            yield {0: DeltaToolCall(name="pay", json_args='{"amount"', tool_call_id="c1")}
            yield {0: DeltaToolCall(json_args=f": {amount}}}")}

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        model = FunctionModel(stream_function=said)
        made = pydantic_bound(PydanticAgent(model, tools=[pydantic_agents.pay]), boundary)

        async def agent(user: Any) -> Any:
            async with made.run_stream(user) as result:
                return await result.get_output()

        return agent

    return build


def langchain_streams(amount: int) -> Build:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        model = langchain_agents.Streaming(turns=[[("pay", {"amount": amount})], "done"])
        graph = create_agent(boundary, model, [langchain_agents.pay])
        return lambda _: [str(chunk) for chunk, _ in graph.stream(langchain_agents.ASK, stream_mode="messages")][-1]

    return build


def openai_streams(amount: int) -> Build:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        model = openai_agents.Streaming([("pay", {"amount": amount})], "done", name="agent")
        made = openai_bound(OpenAIAgent(name="agent", model=model, tools=[openai_agents.pay]), boundary)

        async def agent(user: Any) -> Any:
            result = Runner.run_streamed(made, user)
            async for _ in result.stream_events():
                pass
            return result.final_output

        return agent

    return build


@pytest.mark.parametrize("streaming", [pydantic_streams, langchain_streams, openai_streams])
def test_a_live_stream_proposes_again_what_was_recorded(streaming: Callable[[int], Build]) -> None:
    policy = a_policy(pay="write")
    envelope = recorded(streaming(750), "go", policy=policy)
    live = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:*"}))
    told, applied = broken(streaming(100), envelope, "proposal.replace:1", policy=policy, cut=live)
    assert applied == ["proposal.replace:1"]
    assert [played.crossing.seen for played in told.played if played.intent] == [{"amount": 750}]
    (asked, *_) = (played.crossing for played in told.played if played.crossing.kind is Kind.MODEL)
    assert (asked.raw, asked.chunks) == (envelope.crossings[0].raw, envelope.crossings[0].chunks)
