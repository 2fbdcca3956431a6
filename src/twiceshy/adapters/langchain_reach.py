"""What of a LangChain agent stands behind its boundary, and what does not: found before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from twiceshy.adapters import controlling

controlling.require("langchain", extra="adapters-langchain")

from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableParallel, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from twiceshy.adapters.langchain_model import BoundChatModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.tools import BaseTool

_STATES: dict[str, type] = {"checkpointer": InMemorySaver, "store": InMemoryStore, "cache": InMemoryCache}
"""What keeps a graph's state within the process."""

# The nodes whose tools go through a boundary: a graph is known by them, whatever copies are made of it.
_BEHIND: WeakSet[ToolNode] = WeakSet()


def refuse_other_models(middleware: Iterable[AgentMiddleware[Any, Any]], agent: str) -> None:
    """Raise UncontrolledModel where middleware asks a model of its own that is not bound: its answers would be seen by nobody."""
    for layer in middleware:
        held = [] if isinstance(layer, ModelFallbackMiddleware) else vars(layer).values()
        for model in (found for value in held for found in _models(value)):
            raise controlling.UncontrolledModel.named(
                _name(model), agent, why=f"{layer.name} asks it; give that bound_model(boundary, model, name=...)"
            )


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
        for graph in (held for one in (tool, *functions) for held in controlling.held_by(one)):
            for node in nodes_of(graph) if isinstance(graph, Pregel) else ():
                for name in [] if node in _BEHIND else node.tools_by_name:
                    raise controlling.UncontrolledTool.named(
                        name, graph.name or "agent", why=f"tool {tool.name!r} of agent {agent!r} runs that agent, which is not bound"
                    )  # fmt: skip


def behind(nodes: Iterable[ToolNode]) -> None:
    """Note that the tools of these nodes go through a boundary."""
    _BEHIND.update(nodes)


def nodes_of(graph: Pregel[Any, Any, Any, Any]) -> list[ToolNode]:
    """The tool nodes of a graph."""
    return [node.bound for node in graph.nodes.values() if isinstance(node.bound, ToolNode)]


def _models(value: Any) -> Iterator[Any]:
    """The models in a value that do not go through a boundary."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _models(one)
    elif isinstance(value, BaseLanguageModel):
        yield from () if isinstance(value, BoundChatModel) else (value,)
    elif isinstance(value, Runnable):
        yield from _models(_parts(value)) if _parts(value) is not None else _deciding(value)


def _parts(chain: Runnable[Any, Any]) -> list[Any] | None:
    if isinstance(chain, RunnableBindingBase):
        return [chain.bound]
    if isinstance(chain, RunnableSequence):
        return [*chain.steps]
    if isinstance(chain, RunnableParallel):
        return [*chain.steps__.values()]
    return [*chain.runnables] if isinstance(chain, RunnableWithFallbacks) else None


def _deciding(chain: Runnable[Any, Any]) -> Iterator[Any]:
    """A decision model, unless all it holds is bound."""
    if any(kind.__name__ == "BaseDecisionModel" for kind in type(chain).__mro__):
        held = [value for value in vars(chain).values() if isinstance(value, BaseLanguageModel)]
        yield from _models(held) if held else (chain,)


def _name(model: Any) -> str:
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
