"""Capability detection: a tool that can write and that no adapter reaches is named before anything runs."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from builders import recorded, replayed
from examples import refund
from twiceshy.adapters.controlling import UncontrolledTool, require, require_hooks
from twiceshy.boundary import Boundary
from twiceshy.errors import PackageMissing
from twiceshy.recording import live, run
from uncontrolled import faults, look, refuses

# The frameworks take seconds to import.
pytestmark = pytest.mark.slow


def test_native_tools_of_a_provider() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import NativeTool
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.native_tools import CodeExecutionTool, WebSearchTool

    from twiceshy.adapters.pydantic_ai import bound

    def agent_with(tool: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: bound(Agent(TestModel(), capabilities=[NativeTool(tool)]), boundary).run_sync

    refuses(agent_with(CodeExecutionTool()), "code_execution")
    look(agent_with(WebSearchTool()))


def test_output_function_of_pydantic_ai() -> None:
    from pydantic_ai import Agent, Choice, Choices, TextOutput, ToolOutput
    from pydantic_ai.models.test import TestModel

    from twiceshy.adapters.pydantic_ai import bound

    def pay_out(amount: int) -> int:
        return amount

    def say_pay_out(text: str) -> int:
        return pay_out(int(text))

    choices = Choices({"pay": Choice("at once", value=partial(pay_out, 5))})
    refuses(lambda boundary: bound(Agent(TestModel(), output_type=choices), boundary).run_sync, ".*pay_out.*")
    for spec in (pay_out, [pay_out, str], ToolOutput(pay_out), [str, ToolOutput(pay_out)], TextOutput(say_pay_out)):
        refuses(lambda boundary, spec=spec: bound(Agent(TestModel(), output_type=spec), boundary).run_sync, ".*pay_out")


def test_served_toolset_of_pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import AbstractToolset

    from twiceshy.adapters.pydantic_ai import bound

    class Served(AbstractToolset[None]):
        id = "shop-server"

        async def get_tools(self, ctx: Any) -> dict[str, Any]:
            return {}

        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            return None

    refuses(lambda boundary: bound(Agent(TestModel(), toolsets=[Served()]), boundary).run_sync, "shop-server")


def test_external_tool_of_pydantic_ai() -> None:
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import ExternalToolset

    from twiceshy.adapters.pydantic_ai import bound

    def build(boundary: Boundary) -> Any:
        outside = ExternalToolset([ToolDefinition(name="pay")])
        return bound(Agent(TestModel(), toolsets=[outside], output_type=[str, DeferredToolRequests]), boundary).run_sync

    def declaring(boundary: Boundary) -> Any:
        boundary.tool("pay", lambda **_: {})
        return build(boundary)

    refuses(build, "pay")
    look(declaring)


class _Desk:
    """Holds another agent, as tools do."""

    def __init__(self, agent: Any) -> None:
        self.agents = {"helper": agent}

    async def ask(self, question: str) -> str:
        return str((await self.agents["helper"].run(question)).output)


def test_agent_in_a_tool_that_is_not_bound() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from twiceshy.adapters.pydantic_ai import bound

    def pay(amount: int) -> int:
        return amount

    helper, talker = Agent(TestModel(), name="helper", tools=[pay]), Agent(TestModel())

    async def forward(question: str) -> str:
        return str((await helper.run(question)).output)

    async def ask(question: str) -> str:
        return await forward(question)

    for tool in (forward, ask, _Desk(helper).ask):
        refuses(lambda boundary, tool=tool: bound(Agent(TestModel(), tools=[tool]), boundary).run_sync, "pay")
    look(lambda boundary: bound(Agent(TestModel(), tools=[_Desk(talker).ask]), boundary).run_sync)
    look(lambda boundary: bound(Agent(TestModel(), tools=[_Desk(bound(helper, boundary, model="h")).ask]), boundary).run_sync)  # fmt: skip


def test_agent_in_the_code_around_tools_that_is_not_bound() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models.test import TestModel

    from twiceshy.adapters.pydantic_ai import bound

    def pay(amount: int) -> int:
        return amount

    helper = Agent(TestModel(), name="helper", tools=[pay])

    async def ask(output: str = "") -> str:
        return str((await helper.run("q")).output)

    class Asking(AbstractCapability[Any]):
        async def before_run(self, ctx: Any) -> None:
            await helper.run("q")

    validated = Agent(TestModel())
    validated.output_validator(ask)
    for agent in (validated, Agent(TestModel(), instructions=ask), Agent(TestModel(), capabilities=[Asking()])):
        refuses(lambda boundary, agent=agent: bound(agent, boundary).run_sync, "pay")


def test_what_comes_with_a_run_ends_it_as_an_error() -> None:
    """A tool that a function brings while the agent runs: an agent that swallows the error is no better off."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import NativeTool
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.native_tools import CodeExecutionTool
    from pydantic_ai.profiles import ModelProfile

    from twiceshy.adapters.pydantic_ai import bound

    profile = ModelProfile(supported_native_tools=frozenset({CodeExecutionTool}))
    model = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("42")]), profile=profile)

    def late(_: Any) -> NativeTool[Any]:
        return NativeTool(CodeExecutionTool())

    def build(*capabilities: Any) -> Callable[[Boundary], Any]:
        def candidate(boundary: Boundary) -> Any:
            agent = bound(Agent(model, capabilities=capabilities), boundary)

            async def run(user: Any) -> Any:
                try:
                    return (await agent.run(user)).output
                except Exception as found:  # noqa: BLE001 - as agents do
                    return str(found)

            return run

        return candidate

    assert "'code_execution' of agent 'agent' can write" in recorded(build(late)).disposition.output
    faults(build(late), recorded(build()), "code_execution")


def test_refused_run_is_an_error_of_ours() -> None:
    refused = UncontrolledTool.named("pay", "agent", why="it is far away")
    ran: list[str] = []

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        def agent(_: Any) -> str:
            with suppress(Exception):
                boundary.refuse("pay", refused)
            ran.append("on")
            return "swallowed"

        return agent

    assert recorded(build).disposition.output == "swallowed"
    faults(build, recorded(build), "pay")
    assert ran == ["on", "on"]


def test_hosted_tools_of_the_agents_sdk() -> None:
    from agents import Agent, CodeInterpreterTool, LocalShellTool, WebSearchTool

    from twiceshy.adapters.openai_agents import bound

    def agent_with(tool: Any) -> Callable[[Boundary], Any]:
        inner = Agent(name="inner", tools=[tool])
        return lambda boundary: bound(Agent(name="outer", handoffs=[inner]), boundary).clone

    refuses(agent_with(LocalShellTool(executor=lambda _: "")), "local_shell")
    refuses(
        agent_with(CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})),
        "code_interpreter",
    )
    look(agent_with(WebSearchTool()))


def saying(text: str) -> Any:
    """A model of the Agents SDK that says one thing."""
    from agents import Model

    from twiceshy.adapters.openai_agents_messages import completed, response_of

    class Saying(Model):
        async def get_response(self, *_: Any, **__: Any) -> Any:
            return response_of({"parts": [{"type": "text", "content": text}], "finish_reason": "stop"})

        async def stream_response(self, *_: Any, **__: Any) -> Any:
            yield completed(await self.get_response())

    return Saying()


def configured(how: str, config: Any, *, swallow: bool = False) -> Callable[[Boundary], Any]:
    """The refund agent of the Agents SDK, each run with a configuration of its own."""
    from agents import Agent, Runner

    from twiceshy.adapters.openai_agents import bound

    async def streamed(agent: Any, message: str) -> Any:
        result = Runner.run_streamed(agent, message, run_config=config)
        async for _ in result.stream_events():
            pass
        return result.final_output

    async def whole(agent: Any, message: str) -> Any:
        try:
            return (await Runner.run(agent, message, run_config=config)).final_output
        except Exception:
            if not swallow:
                raise
            return "as if nothing had happened"

    def plain(agent: Any, message: str) -> Any:
        loop = asyncio.new_event_loop()  # the one that the SDK makes stays open
        asyncio.set_event_loop(loop)
        try:
            return Runner.run_sync(agent, message, run_config=config).final_output
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def build(boundary: Boundary) -> Any:
        agent = bound(Agent(name="planner", model=saying("yes")), boundary)
        run: Any = {"run": whole, "run_streamed": streamed, "run_sync": plain}[how]
        return lambda user: run(agent, user["message"])

    return build


@pytest.mark.parametrize("how", ["run", "run_sync", "run_streamed"])
@pytest.mark.parametrize("given", ["instance", "name", "dict", "sandbox"])
def test_a_run_with_a_model_of_its_own_is_an_error(how: str, given: str) -> None:
    from agents import RunConfig
    from agents.run_config import SandboxRunConfig

    config: Any = {
        "instance": RunConfig(model=saying("no")), "name": RunConfig(model="gpt-x"), "dict": {"model": saying("no")},
        "sandbox": RunConfig(sandbox=SandboxRunConfig()),
    }[given]  # fmt: skip
    envelope = recorded(configured(how, None), refund.T_1042)
    usual = replayed(configured(how, RunConfig()), envelope)
    assert (usual.fault, usual.disposition and usual.disposition.output) == (None, "yes")
    told = replayed(configured(how, config, swallow=True), envelope)
    name = "sandbox" if given == "sandbox" else "model"
    assert f"RunConfig({name}=...) of a run of agent 'planner' leads past the boundary" in str(told.fault)
    assert (told.played, told.disposition) == ([], None)


def test_only_a_live_run_may_have_a_model_of_its_own() -> None:
    from agents import RunConfig

    build = configured("run", RunConfig(model=saying("no")))
    assert run(build(Boundary(live())), refund.T_1042).output == "no"
    error = recorded(build, refund.T_1042).disposition.error
    assert error is not None
    assert error.cls.endswith("UncontrolledModel")


def test_missing_framework_is_one_line() -> None:
    with pytest.raises(PackageMissing, match=r'pip install "twiceshy\[adapters-nothing\]"'):
        require("no_such_framework", extra="adapters-nothing")


def test_framework_that_is_too_old_is_one_line() -> None:
    with pytest.raises(PackageMissing, match=r"Boundary has no wrap_all here.*--upgrade .twiceshy\[adapters-old\]"):
        require_hooks(Boundary, "tool", "wrap_all", extra="adapters-old")


def test_frameworks_are_imported_late() -> None:
    asked = "import sys, twiceshy, twiceshy.adapters; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert not {"pydantic_ai", "langchain", "langchain_core", "agents", "mcp", "openai", "pydantic"} & set(loaded)
