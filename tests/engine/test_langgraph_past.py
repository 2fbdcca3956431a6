"""Tools that a graph runs past the boundary, though the boundary knows them."""

from typing import Any

import pytest
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import ToolNode

from builders import recorded
from langchain_agents import POLICY, find, own_graph, pay, ran
from twiceshy.adapters.langchain import tool_node
from twiceshy.boundary import Boundary
from uncontrolled import faults

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
