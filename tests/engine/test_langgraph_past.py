"""Tools that a graph runs past the boundary, though the boundary knows them."""

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import ToolNode

from builders import recorded
from langchain_agents import POLICY, Scripted, find, own_graph, pay, ran
from twiceshy.adapters.langchain import bound_model, create_agent, tool_node
from twiceshy.boundary import Boundary
from uncontrolled import fault_of, faults

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
def pay_twice(amount: int) -> str:
    """Pay it twice."""
    return f"{pay.invoke({'amount': amount})} {pay.invoke({'amount': amount})}"


@pytest.mark.parametrize("how", ["declared elsewhere", "offered as schemas"])
def test_tool_that_a_node_runs_past_the_boundary(how: str) -> None:
    """The model's bound and the tools are known to the boundary, but a node of LangGraph's own runs them."""

    def build(boundary: Boundary) -> Any:
        if how == "declared elsewhere":
            tool_node(boundary, [find, pay])
            return own_graph(boundary, ToolNode([find, pay]))
        schemas = [convert_to_openai_tool(held) for held in (find, pay)]
        return own_graph(boundary, ToolNode([find, pay]), offered=schemas)

    envelope = recorded(build, policy=POLICY)
    assert envelope.disposition.error is not None
    assert "does not go through the boundary" in envelope.disposition.error.message
    assert not {"find", "pay"} & set(ran)
    whole = recorded(lambda boundary: own_graph(boundary, tool_node(boundary, [find, pay])), policy=POLICY)
    ran.clear()
    faults(build, whole, "find")
    assert not {"find", "pay"} & set(ran)


def test_tool_within_the_body_of_another_is_that_ones_own() -> None:
    turns = [[("pay_twice", {"amount": 5})], "done"]
    envelope = recorded(
        lambda boundary: own_graph(boundary, tool_node(boundary, [pay_twice]), *turns, offered=[pay_twice]),
        policy=POLICY,
    )
    assert envelope.disposition.error is None
    assert ran.count("pay") == 2


@pytest.mark.parametrize("where", ["middleware", "node"])
def test_model_that_code_asks_past_the_boundary(where: str) -> None:
    """Nobody can tell from the code that it is asked and not put in the place of the agent's."""
    other = Scripted(turns=["I know better."])

    class Asking(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request) if where == "node" else other.invoke([("user", "and you?")])

    def build(boundary: Boundary) -> Any:
        graph = create_agent(boundary, Scripted(turns=["All is done."]), [find], middleware=[Asking()])

        def play(user: Any) -> str:
            said: str = graph.invoke({"messages": [("user", str(user))]})["messages"][-1].text
            return said if where == "middleware" else other.invoke([("user", said)]).text

        return play

    envelope = recorded(build, policy=POLICY)
    assert envelope.disposition.error is not None
    assert "model 'Scripted' of agent 'graph' does not go through the boundary" in envelope.disposition.error.message
    whole = recorded(lambda boundary: own_graph(boundary, tool_node(boundary, [find, pay])), policy=POLICY)
    if where == "middleware":  # the other asks the agent's model first, for which this record has other tools
        assert "model 'Scripted'" in fault_of(build, whole)


def test_bound_models_are_asked_as_often_as_they_are() -> None:
    def build(boundary: Boundary) -> Any:
        first, second = (bound_model(boundary, Scripted(turns=[text]), name=text) for text in ("One.", "Two."))
        return lambda user: first.invoke(str(user)).text + second.invoke(str(user)).text

    assert recorded(build, policy=POLICY).disposition.output == "One.Two."
