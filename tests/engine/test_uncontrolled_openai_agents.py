"""Capability detection in the OpenAI Agents SDK: what comes late, lies deep or is put in place of a bound part ends the run, and no agent can swallow that."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from builders import recorded
from twiceshy.boundary import Boundary
from twiceshy.envelope import Envelope
from uncontrolled import fault_of, faults, look, refuses

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


def shell() -> Any:
    from agents import ShellTool

    from openai_agents import ran

    return ShellTool(executor=lambda _: ran.append("shell") or "done")


def served() -> Any:
    """An MCP server that nobody may ask: it is not connected."""
    from agents.mcp import MCPServerStdio

    return MCPServerStdio({"command": "false"}, name="shop")


def late(change: Callable[[Any], Any], agent: Callable[[], tuple[Any, Any]]) -> Callable[[Boundary], Any]:
    """A candidate that changes an agent once it is bound, and swallows what comes of it. agent: which is bound, and which is changed; None for the bound copy."""
    from agents import Runner

    from twiceshy.adapters.openai_agents import bound

    def build(boundary: Boundary) -> Any:
        outer, inner = agent()
        made = bound(outer, boundary)
        changed = change(made if inner is None else inner)
        running = changed if inner is None and changed is not None else made

        async def run(user: Any) -> Any:
            try:
                return (await Runner.run(running, user)).final_output
            except Exception:  # noqa: BLE001 - as agents do
                return "as if nothing had happened"

        return run

    return build


def plain() -> tuple[Any, Any]:
    from agents import Agent

    from openai_agents import Scripted

    return Agent(name="planner", model=Scripted("done")), None


def asking() -> tuple[Any, Any]:
    from agents import Agent

    from openai_agents import Scripted

    inner = Agent(name="inner", model=Scripted("hi", name="inner"))
    return Agent(name="planner", model=Scripted([("ask", {"input": "q"})], "done"), tools=[inner.as_tool("ask", "")]), inner  # fmt: skip


def handing() -> tuple[Any, Any]:
    from agents import Agent

    from openai_agents import Scripted

    inner = Agent(name="inner", model=Scripted("hi", name="inner"))
    return Agent(name="planner", model=Scripted([("transfer_to_inner", {})]), handoffs=[inner]), inner


def ended(build: Callable[[Boundary], Any], envelope: Envelope, name: str) -> None:
    from openai_agents import ran

    ran.clear()
    faults(build, envelope, name)
    assert not ran


@pytest.mark.parametrize("agent", [plain, asking, handing])
def test_what_comes_to_an_agent_after_it_was_bound(agent: Any) -> None:
    envelope = recorded(late(lambda _: None, agent), "go")
    ended(late(lambda found: found.tools.append(shell()), agent), envelope, "shell")
    ended(late(lambda found: found.mcp_servers.append(served()), agent), envelope, "shop")


@pytest.mark.parametrize("change", ["clone", "set"])
def test_another_model_in_place_of_the_bound_one(change: str) -> None:
    from openai_agents import Scripted, ran

    def another(agent: Any) -> Any:
        other = Scripted("other", name="other")
        if change == "clone":
            return agent.clone(model=other)
        agent.model = other
        return agent

    envelope = recorded(late(lambda _: None, plain), "go")
    ran.clear()
    assert "model that was set after bound() of a run of agent 'planner'" in fault_of(late(another, plain), envelope)
    assert not ran


def test_clone_of_a_bound_agent_with_a_server() -> None:
    envelope = recorded(late(lambda _: None, plain), "go")
    look(late(lambda agent: agent.clone(), plain))
    ended(late(lambda agent: agent.clone(mcp_servers=[served()]), plain), envelope, "shop")


def test_server_that_comes_while_the_agent_runs() -> None:
    """The SDK asks a server for its tools before it asks the model."""
    from agents import Agent

    from builders import replayed
    from openai_agents import POLICY, Scripted, find

    def agent() -> tuple[Any, Any]:
        return Agent(name="planner", model=Scripted([("find", {"day": "thu"})], "done"), tools=[find]), None

    def bringing(found: Any) -> Any:
        from agents import AgentHooks

        class Late(AgentHooks[Any]):
            async def on_llm_end(self, *_: Any) -> None:
                found.mcp_servers.append(served())

        found.hooks = Late()

    envelope = recorded(late(lambda _: None, agent), "go", policy=POLICY)
    assert "tool 'shop'" in str(replayed(late(bringing, agent), envelope, policy=POLICY).fault)


@pytest.mark.parametrize("by", ["handoffs", "tools"])
@pytest.mark.parametrize("place", ["tool", "guardrail", "behavior", "handoff", "instructions", "hooks"])
def test_agent_deep_in_the_code_of_another(by: str, place: str) -> None:
    from agents import Agent, AgentHooks, GuardrailFunctionOutput, InputGuardrail, Runner, function_tool, handoff

    from openai_agents import Scripted, find
    from twiceshy.adapters.openai_agents import bound

    def agent(*tools: Any) -> Any:
        deep: Any = Agent(name="deep", tools=list(tools))
        reach = {"handoffs": [deep]} if by == "handoffs" else {"tools": [deep.as_tool("ask", "")]}
        middle = Agent(name="middle", **reach)

        async def ask(*_: Any) -> Any:
            with suppress(Exception):
                await Runner.run(middle, "q")
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

        async def go() -> str:
            return str(await ask())

        class Hooks(AgentHooks[Any]):
            async def on_start(self, *_: Any) -> None:
                await ask()

        given: Any = {
            "tool": lambda: {"tools": [function_tool(go)]},
            "guardrail": lambda: {"input_guardrails": [InputGuardrail(ask)]},
            "behavior": lambda: {"tool_use_behavior": ask},
            "handoff": lambda: {"handoffs": [handoff(Agent(name="other"), on_handoff=lambda _: ask())]},
            "instructions": lambda: {"instructions": ask},
            "hooks": lambda: {"hooks": Hooks()},
        }[place]()  # fmt: skip
        return lambda boundary: bound(Agent(name="outer", model=Scripted("x"), **given), boundary).clone

    refuses(agent(shell()), "shell")
    look(agent(find))
