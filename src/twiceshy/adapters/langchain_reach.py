"""What of a LangChain agent stands behind its boundary, and what does not: found before anything runs."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from twiceshy.adapters import controlling

controlling.require("langchain", extra="adapters-langchain")

from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from twiceshy.adapters.langchain_model import refuse_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from langchain_core.tools import BaseTool

_STATES: dict[str, type] = {"checkpointer": InMemorySaver, "store": InMemoryStore, "cache": InMemoryCache}
"""What keeps a graph's state within the process."""

_REPLACING = ("wrap_model_call", "awrap_model_call")
_ASKING = tuple(
    f"{prefix}{hook}"
    for hook in ("before_agent", "before_model", "after_model", "after_agent", "wrap_tool_call")
    for prefix in ("", "a")
)
"""The hooks of middleware: those that may put another model in the place of the agent's, and all others."""

# The nodes whose tools go through a boundary: a graph is known by them, whatever copies are made of it.
_BEHIND: WeakSet[ToolNode] = WeakSet()


def refuse_other_models(middleware: Iterable[AgentMiddleware[Any, Any]], agent: str) -> None:
    """Raise UncontrolledModel where middleware asks a model of its own that is not bound, by its attributes or in its code: its answers would be seen by nobody.

    The code of `wrap_model_call` may name one that it puts in the place of the agent's: that goes through the boundary.
    """
    for layer in middleware:
        held = [] if isinstance(layer, ModelFallbackMiddleware) else [*vars(layer).values(), *_held_by(layer, _ASKING)]
        refuse_others(held, agent, why=f"{layer.name} asks it")
        for found in [*held, *_held_by(layer, _REPLACING)]:
            _refuse_unbound(found, f"middleware {layer.name!r} of agent {agent!r}")


def _held_by(layer: AgentMiddleware[Any, Any], hooks: Iterable[str]) -> Iterator[Any]:
    """What the functions of middleware name; a decorator of LangChain's holds the candidate's own function."""
    for hook in hooks:
        method = getattr(type(layer), hook)
        if method is not getattr(AgentMiddleware, hook):
            for found in controlling.held_by(method):
                yield found
                yield from controlling.held_by(found) if isinstance(found, FunctionType) else ()


def refuse_outside_state(options: Mapping[str, Any], agent: str) -> None:
    """Raise UncontrolledState for a checkpointer, a store or a cache that keeps state outside of the process."""
    for part, known in _STATES.items():
        held = options.get(part)
        if held is not None and not isinstance(held, bool | known):
            raise controlling.UncontrolledState.named(type(held).__name__, agent, part=part)


def refuse_unbound_agents(tools: Iterable[BaseTool], agent: str) -> None:
    """Raise UncontrolledTool where a tool's function holds another agent whose tools are not bound."""
    for tool in tools:
        functions = [held for held in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if held]
        for held in (held for one in (tool, *functions) for held in controlling.held_by(one)):
            _refuse_unbound(held, f"tool {tool.name!r} of agent {agent!r}")


def _refuse_unbound(graph: Any, whose: str) -> None:
    for node in nodes_of(graph) if isinstance(graph, Pregel) else ():
        for name in [] if node in _BEHIND else node.tools_by_name:
            raise controlling.UncontrolledTool.named(
                name, graph.name or "agent", why=f"{whose} runs that agent, which is not bound"
            )


def behind(nodes: Iterable[ToolNode]) -> None:
    """Note that the tools of these nodes go through a boundary."""
    _BEHIND.update(nodes)


def nodes_of(graph: Pregel[Any, Any, Any, Any]) -> list[ToolNode]:
    """The tool nodes of a graph."""
    return [node.bound for node in graph.nodes.values() if isinstance(node.bound, ToolNode)]
