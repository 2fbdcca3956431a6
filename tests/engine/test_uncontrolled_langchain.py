"""Capability detection in LangChain and LangGraph: what would lead past the boundary is named before it runs."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import recorded
from twiceshy.adapters.controlling import UncontrolledModel, UncontrolledState
from twiceshy.boundary import Boundary
from uncontrolled import faults, look, refuses

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


def test_provider_tools_of_langchain() -> None:
    from langchain_agents import Scripted
    from twiceshy.adapters.langchain import bound_model, create_agent, tool_node

    def offering(*tools: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: create_agent(boundary, Scripted(turns=["x"]), tools).invoke

    def binding(*tools: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: bound_model(boundary, Scripted(turns=["x"])).bind_tools(tools).invoke

    for build in (offering, binding):
        refuses(build({"type": "computer_use"}), "computer_use")
        refuses(build({"type": "code_execution_20250825", "name": "code_execution"}), "code_execution_20250825")
        look(build({"type": "web_search"}, {"type": "web_search_20250305", "name": "web_search"}))
    refuses(binding({"mcp": {"server": "shop"}}), "mcp")
    refuses(lambda boundary: tool_node(boundary, [{"type": "shell"}]).invoke, "shell")


def test_provider_tool_that_middleware_brings() -> None:
    from langchain.agents.middleware import AgentMiddleware

    from langchain_agents import ASK, Scripted, texts
    from twiceshy.adapters.langchain import create_agent

    class Bringing(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(tools=[*request.tools, {"type": "code_interpreter"}]))

    def build(*middleware: Any) -> Callable[[Boundary], Any]:
        def candidate(boundary: Boundary) -> Any:
            graph = create_agent(boundary, Scripted(turns=["x"]), middleware=middleware)

            def run(_: Any) -> Any:
                try:
                    return texts(graph.invoke(ASK))
                except Exception as found:  # noqa: BLE001 - as agents do
                    return str(found)

            return run

        return candidate

    assert "'code_interpreter' of agent 'agent' can write" in recorded(build(Bringing())).disposition.output
    faults(build(Bringing()), recorded(build()), "code_interpreter")


def test_agent_in_a_langchain_tool_that_is_not_bound() -> None:
    from langchain.agents import create_agent as unbound
    from langchain_core.tools import StructuredTool

    from langchain_agents import ASK, Scripted, pay, texts
    from twiceshy.adapters.langchain import create_agent

    def asking(graph: Any) -> Any:
        def ask(question: str) -> str:
            """Ask another agent."""
            return texts(graph.invoke(ASK))[-1] + question

        return StructuredTool.from_function(ask)

    def outer(tool: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: create_agent(boundary, Scripted(turns=["x"]), [tool]).invoke

    def behind(boundary: Boundary) -> Any:
        inner = create_agent(boundary, Scripted(turns=["x"]), [pay], model_name="inner").with_config(tags=["inner"])
        return outer(asking(inner))(boundary)

    refuses(outer(asking(unbound(Scripted(turns=["x"]), [pay], name="payer"))), "pay")
    look(outer(asking(unbound(Scripted(turns=["x"])))))
    look(behind)


def test_model_of_langchain_middleware_that_is_not_bound() -> None:
    from langchain.agents.middleware import LLMToolEmulator, ModelFallbackMiddleware, SummarizationMiddleware

    from langchain_agents import Scripted
    from twiceshy.adapters.langchain import create_agent

    other = Scripted(turns=["x"], model_name="other")
    for layer in (SummarizationMiddleware(other), LLMToolEmulator(model=other)):
        with pytest.raises(UncontrolledModel, match=f"model 'other'.*{type(layer).__name__} asks it") as refused:
            look(lambda boundary, layer=layer: create_agent(boundary, other, middleware=[layer]).invoke)
        assert refused.value.exit_code == 4
    look(lambda boundary: create_agent(boundary, other, middleware=[ModelFallbackMiddleware(other)]).invoke)


def test_state_of_langgraph_outside_of_the_process() -> None:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.store.memory import InMemoryStore

    from langchain_agents import Scripted
    from twiceshy.adapters.langchain import create_agent

    class Database(BaseCheckpointSaver[str]):
        pass

    def keeping(**state: Any) -> Callable[[Boundary], Any]:
        return lambda boundary: create_agent(boundary, Scripted(turns=["x"]), **state).invoke

    with pytest.raises(UncontrolledState, match="checkpointer 'Database' of agent 'agent'"):
        look(keeping(checkpointer=Database()))
    look(keeping(checkpointer=InMemorySaver(), store=InMemoryStore()))
