"""A LangChain agent behind a boundary: middleware outermost and innermost, so that both sides of all the middleware between them are seen.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        graph = create_agent(boundary, model, tools=[...], system_prompt=PROMPT, middleware=[...])
        return lambda user: graph.invoke({"messages": [("user", user["message"])]})["messages"][-1].text

`create_agent` is LangChain's own with the boundary in front. In a LangGraph graph of your own, and in LangGraph's prebuilt ones, `bound_model(boundary, model)`
stands for the model and `tool_node(boundary, tools)` for the ToolNode. A graph that interrupts itself to ask a person runs as `answered(graph, boundary, ask)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langchain", extra="adapters-langchain")

import langchain.agents
from langchain.agents.middleware import AgentMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as as_tool
from langgraph.prebuilt import ToolNode

from twiceshy.adapters.langchain_ends import Inner, Outer
from twiceshy.adapters.langchain_model import BoundChatModel
from twiceshy.adapters.langchain_offers import refuse_hosted
from twiceshy.adapters.langchain_people import answered
from twiceshy.adapters.langchain_reach import (
    behind,
    nodes_of,
    refuse_other_models,
    refuse_outside_state,
    refuse_unbound_agents,
)
from twiceshy.adapters.langchain_watch import watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain_core.language_models.chat_models import BaseChatModel

    from twiceshy.boundary import Boundary

__all__ = ["answered", "bound_model", "create_agent", "tool_node"]


def create_agent(
    boundary: Boundary, model: str | BaseChatModel, tools: Sequence[Any] = (), *, middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    name: str | None = None, model_name: str = "model", prompt: str | None = None, effects: Mapping[str, Any] | None = None, **rest: Any,
) -> Any:  # fmt: skip
    """LangChain's `create_agent` with its model and tools behind the boundary. Call it while the candidate is built.

    model_name: the model boundary's name. prompt: the prompt's text, whose digest is the layer's (by default system_prompt, where that is text).
    effects: tool -> read, write or none. Raises UncontrolledTool (exit code 4) for a provider's tool that can write, another agent that a tool runs and that is not
    bound, and state that is kept outside of the process; UncontrolledModel for a model that middleware asks by itself.
    """
    watch(boundary)
    agent = name or "agent"
    refuse_other_models(middleware, agent)
    refuse_outside_state(rest, agent)
    offered = [*(tool for layer in middleware for tool in getattr(layer, "tools", ())), *tools]
    system = rest.get("system_prompt")
    declared = _declared(boundary, offered, agent, effects)
    chat = init_chat_model(model) if isinstance(model, str) else model
    told = prompt or (system if isinstance(system, str) else None)
    bound = BoundChatModel.of(boundary, chat, name=model_name, prompt=told, tools_behind=True)
    between = any(_wraps_tools(layer) for layer in middleware)
    layers = [Outer(boundary, middleware=between), *middleware, Inner(boundary, bound, agent)]
    own = declared[len(offered) - len(tools) :]
    graph = langchain.agents.create_agent(bound, own, middleware=layers, name=name, **rest)
    behind(nodes_of(graph))
    return graph


def bound_model(
    boundary: Boundary, model: str | BaseChatModel, *, name: str = "model", prompt: str | None = None
) -> BoundChatModel:
    """The chat model behind the boundary. A tool that it is offered must be declared there, as `tool_node` does: the run ends at one that is not."""
    watch(boundary)
    chat = init_chat_model(model) if isinstance(model, str) else model
    return BoundChatModel.of(boundary, chat, name=name, prompt=prompt)


def tool_node(
    boundary: Boundary, tools: Sequence[Any], *, effects: Mapping[str, Any] | None = None, wrap_tool_call: Callable[..., Any] | None = None,
    awrap_tool_call: Callable[..., Awaitable[Any]] | None = None, **rest: Any,
) -> ToolNode:  # fmt: skip
    """LangGraph's ToolNode with its tools behind the boundary. rest: what ToolNode takes besides."""
    watch(boundary)
    agent = str(rest.get("name", "tools"))
    declared = _declared(boundary, tools, agent, effects)
    middleware = wrap_tool_call is not None or awrap_tool_call is not None
    inner, outer = Inner(boundary, None, agent), Outer(boundary, middleware=middleware)

    def wrap(request: Any, run: Callable[..., Any]) -> Any:
        own = wrap_tool_call or (lambda asked, reach: reach(asked))
        reach = lambda asked: inner.wrap_tool_call(asked, run)  # noqa: E731 - the two ends of one line
        return outer.wrap_tool_call(request, lambda asked: own(asked, reach))

    async def awrap(request: Any, run: Callable[..., Any]) -> Any:
        own = awrap_tool_call or (lambda asked, reach: reach(asked))
        reach = lambda asked: inner.awrap_tool_call(asked, run)  # noqa: E731 - the two ends of one line
        return await outer.awrap_tool_call(request, lambda asked: own(asked, reach))

    # Without an async wrapper of its own, a node runs the plain one in async runs too.
    plain_only = wrap_tool_call is not None and awrap_tool_call is None
    node = ToolNode(declared, wrap_tool_call=wrap, awrap_tool_call=None if plain_only else awrap, **rest)
    behind([node])
    return node


def _declared(boundary: Boundary, tools: Sequence[Any], agent: str, effects: Mapping[str, Any] | None) -> list[Any]:
    """Every tool as LangChain holds it, declared on the boundary."""
    refuse_hosted((tool for tool in tools if isinstance(tool, dict)), agent)
    made = [tool if isinstance(tool, BaseTool | dict) else as_tool(tool) for tool in tools]
    held = {tool.name: tool for tool in made if isinstance(tool, BaseTool)}
    refuse_unbound_agents(held.values(), agent)
    given = dict(effects or {})
    controlling.refuse_unknown_effects(given, held, agent)
    for tool in held.values():
        controlling.declare(boundary, tool.name, _schema(tool), given)
    return made


def _wraps_tools(layer: AgentMiddleware[Any, Any]) -> bool:
    kind = type(layer)
    return (
        kind.wrap_tool_call is not AgentMiddleware.wrap_tool_call
        or kind.awrap_tool_call is not AgentMiddleware.awrap_tool_call
    )


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema: Any = tool.tool_call_schema
    return dict(schema) if isinstance(schema, dict) else dict(schema.model_json_schema())
