"""Capability detection in LangChain and LangGraph: what would lead past the boundary is named before it runs."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import recorded
from twiceshy.adapters.controlling import UncontrolledModel, UncontrolledState
from twiceshy.boundary import Boundary
from twiceshy.errors import CandidateError
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


def test_unbound_model_beside_a_bound_one() -> None:
    from langchain_core.runnables import ConfigurableField

    from langchain_agents import Scripted
    from twiceshy.adapters.langchain import bound_model, create_agent

    other: Any = Scripted(turns=["x"], model_name="other")
    field = ConfigurableField(id="which")

    def falling_back(model: Any) -> Any:
        return model.with_fallbacks([other])

    for made in (
        falling_back,
        lambda model: falling_back(model.bind_tools([])),
        lambda model: falling_back(model.bind(stop=["x"])),
        lambda model: model.configurable_alternatives(field, other=other),
    ):
        with pytest.raises(UncontrolledModel, match="model 'other' of agent 'model'"):
            look(lambda boundary, made=made: made(bound_model(boundary, other)).invoke)
    look(lambda boundary: bound_model(boundary, other).with_fallbacks([bound_model(boundary, other, name="b")]).invoke)
    for given in (falling_back(other), other.configurable_alternatives(field, other=other)):
        for taking in (bound_model, create_agent):
            with pytest.raises(CandidateError, match=f"{type(given).__name__} and no chat model"):
                look(lambda boundary, given=given, taking=taking: taking(boundary, given).invoke)


def behind(*middleware: Any) -> Callable[[Boundary], Any]:
    from langchain_agents import Scripted
    from twiceshy.adapters.langchain import create_agent

    return lambda boundary: create_agent(boundary, Scripted(turns=["x"]), middleware=middleware).invoke


def test_model_in_the_code_of_middleware() -> None:
    from langchain.agents.middleware import AgentMiddleware, before_model, wrap_model_call, wrap_tool_call

    from langchain_agents import Scripted

    other = Scripted(turns=["x"], model_name="other")

    class Asking(AgentMiddleware[Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> None:
            other.invoke("x")

    @before_model
    def asks(state: Any, runtime: Any) -> None:
        other.invoke("x")

    @wrap_tool_call
    def asks_too(request: Any, handler: Any) -> Any:
        return handler(request) if other.invoke("x") else None

    @wrap_model_call
    def replaces(request: Any, handler: Any) -> Any:
        return handler(request.override(model=other))

    for layer in (Asking(), asks, asks_too):
        with pytest.raises(UncontrolledModel, match="model 'other'"):
            look(behind(layer))
    look(behind(replaces))


def test_agent_in_the_code_of_middleware() -> None:
    from langchain.agents import create_agent as unbound
    from langchain.agents.middleware import AgentMiddleware, wrap_model_call

    from langchain_agents import ASK, Scripted, pay

    payer = unbound(Scripted(turns=["x"]), [pay])

    class Paying(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> None:
            payer.invoke(ASK)

    @wrap_model_call
    def pays(request: Any, handler: Any) -> Any:
        return handler(request) if payer.invoke(ASK) else None

    refuses(behind(Paying()), "pay")
    refuses(behind(pays), "pay")
