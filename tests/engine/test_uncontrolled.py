"""Capability detection: a tool that can write and that no adapter reaches is named before anything runs."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from twiceshy.adapters.controlling import UncontrolledTool, require
from twiceshy.boundary import Boundary
from twiceshy.candidates import Candidate, described
from twiceshy.errors import PackageMissing

# The frameworks take seconds to import.
pytestmark = pytest.mark.slow


def look(build: Callable[[Boundary], Any]) -> None:
    described(build, Candidate(workflow="refund"))


def refuses(build: Callable[[Boundary], Any], name: str) -> None:
    with pytest.raises(UncontrolledTool, match=f"tool '{name}'") as refused:
        look(build)
    assert refused.value.exit_code == 4


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
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.models.test import TestModel

    from twiceshy.adapters.pydantic_ai import bound

    def pay_out(amount: int) -> int:
        return amount

    for spec in (pay_out, [pay_out, str], ToolOutput(pay_out)):
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


def test_run_brings_nothing_past_the_boundary() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from twiceshy.adapters.pydantic_ai import bound
    from twiceshy.recording import live

    agent = bound(Agent(TestModel()), Boundary(live()))
    with pytest.raises(TypeError, match="toolsets"):
        agent.run_sync("hello", toolsets=[])


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


def test_provider_tools_of_langchain() -> None:
    from examples.frameworks.with_langchain import _Scripted
    from twiceshy.adapters.langchain import create_agent

    refuses(lambda boundary: create_agent(boundary, _Scripted(), [{"type": "computer_use"}]).invoke, "computer_use")
    look(lambda boundary: create_agent(boundary, _Scripted(), [{"type": "web_search"}]).invoke)


def test_missing_framework_is_one_line() -> None:
    with pytest.raises(PackageMissing, match=r'pip install "twiceshy\[adapters-nothing\]"'):
        require("no_such_framework", extra="adapters-nothing")


def test_frameworks_are_imported_late() -> None:
    asked = "import sys, twiceshy, twiceshy.adapters; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert not {"pydantic_ai", "langchain", "langchain_core", "agents", "mcp", "openai", "pydantic"} & set(loaded)
