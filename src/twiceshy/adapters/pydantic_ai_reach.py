"""What of a pydantic-ai agent stands behind its boundary, and what does not: found before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, get_args

from twiceshy.adapters import controlling

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.output import TextOutput
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from pydantic_ai.toolsets._dynamic import DynamicToolset
from pydantic_ai.toolsets.wrapper import WrapperToolset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic_ai import Agent
    from pydantic_ai.tools import Tool
    from pydantic_ai.toolsets import AbstractToolset

    from twiceshy.boundary import Boundary

_READING = frozenset({"web_search", "x_search", "web_fetch", "file_search", "tool_search"})
"""Native tools of a provider that change nothing; they run inside the model's own crossing."""


def toolsets_of(agent: Agent[Any, Any]) -> list[AbstractToolset[Any]]:
    """The toolsets that hold the agent's tools themselves, those of its capabilities included."""
    return [leaf for toolset in agent.toolsets for leaf in leaves(toolset)]


def leaves(toolset: AbstractToolset[Any]) -> list[AbstractToolset[Any]]:
    """The toolsets that hold the tools, below all that wraps them."""
    found: list[AbstractToolset[Any]] = []
    toolset.apply(found.append)
    return [leaf for leaf in found if not isinstance(leaf, WrapperToolset)]


def unreachable(toolset: AbstractToolset[Any]) -> bool:
    """Whether a toolset's tools live where no replay can answer them."""
    return not isinstance(toolset, FunctionToolset | ExternalToolset | DynamicToolset)


def served(toolset: AbstractToolset[Any], agent: str) -> controlling.UncontrolledTool:
    """The error for such a toolset."""
    return controlling.UncontrolledTool.named(
        toolset.id or toolset.label, agent, why="a live server lists and runs its tools"
    )


def native(tool: Any, agent: str) -> controlling.UncontrolledTool | None:
    """The error for a native tool that can write; None for one that only reads."""
    kind = getattr(tool, "kind", None)
    if kind in _READING:
        return None
    told = str(kind or getattr(tool, "__name__", "native tool"))
    return controlling.UncontrolledTool.named(told, agent, why="the model's provider runs it")


def external(tool: str, agent: str) -> controlling.UncontrolledTool:
    """The error for an external tool that the boundary does not know."""
    return controlling.UncontrolledTool.named(
        tool,
        agent,
        why="its result is made outside of the run; declare it with boundary.tool() and make it through that",
    )


def refuse_uncontrolled(
    agent: Agent[Any, Any], toolsets: Iterable[AbstractToolset[Any]], boundary: Boundary, name: str
) -> None:
    """Raise UncontrolledTool for the first tool that can write and that no boundary reaches."""
    for tool in agent.root_capability.get_native_tools():
        refused = native(tool, name)
        if refused is not None:
            raise refused
    for toolset in toolsets:
        if unreachable(toolset):
            raise served(toolset, name)
        for outside in toolset.tool_defs if isinstance(toolset, ExternalToolset) else ():
            if outside.name not in boundary.tools:
                raise external(outside.name, name)
    for function in _output_functions(agent.output_type):
        raise controlling.UncontrolledTool.named(
            getattr(function, "__qualname__", repr(function)), name, why="an output function runs when the run ends"
        )


def refuse_unbound_agents(agent: Agent[Any, Any], tools: Iterable[Tool[Any]], name: str) -> None:
    """Raise UncontrolledTool where a function of the agent holds another with tools of its own that is not bound: what it does would be seen by nobody."""
    for tool in tools:
        _refuse_held(tool.function, f"tool {tool.name!r} of agent {name!r}")
    for code in _code(agent):
        _refuse_held(code, f"{getattr(code, '__qualname__', 'a function')} of agent {name!r}")


def _refuse_held(code: Any, whose: str) -> None:
    for held in controlling.held_by(code):
        if isinstance(held, AbstractAgent) and not isinstance(held, WrapperAgent) and held.toolsets:
            names = [tool for leaf in held.toolsets if isinstance(leaf, FunctionToolset) for tool in leaf.tools]
            served_by = [leaf.label for leaf in held.toolsets if not isinstance(leaf, FunctionToolset)]
            for tool in [*names, *served_by]:
                why = f"{whose} runs that agent, which is not bound"
                raise controlling.UncontrolledTool.named(tool, held.name or "agent", why=why)


def _code(agent: Agent[Any, Any]) -> Iterator[Any]:
    """What runs around the tools: output validators, instructions, and the hooks of capabilities that are the candidate's own."""
    yield from (each.function for each in agent._output_validators)  # noqa: SLF001 - no public name
    told = [getattr(each, "instruction", each) for each in agent._instructions]  # noqa: SLF001 - no public name
    yield from filter(callable, told)
    found: list[Any] = []
    agent.root_capability.apply(found.append)
    for kind in (kind for each in found for kind in type(each).__mro__):
        if not kind.__module__.startswith("pydantic_ai."):
            yield from (code for code in vars(kind).values() if isinstance(code, FunctionType))


def _output_functions(spec: Any) -> Iterator[Any]:
    """What an output type runs once the model has given its output: output functions, and choices that stand for one."""
    if isinstance(spec, TextOutput):
        yield spec.output_function
    elif isinstance(spec, FunctionType | MethodType):
        yield spec
    elif isinstance(spec, type):
        values = getattr(spec, "values", None)  # of `Choices`
        yield from filter(callable, values.values()) if isinstance(values, Mapping) else ()
    elif isinstance(spec, Sequence) and not isinstance(spec, str):
        for one in spec:
            yield from _output_functions(one)
    else:
        within = [getattr(spec, held) for held in ("output", "outputs") if hasattr(spec, held)]
        for one in [*within, *get_args(spec)]:
            yield from _output_functions(one)
