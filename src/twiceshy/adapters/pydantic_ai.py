"""A pydantic-ai agent behind a boundary: its models, its tools, and both ends of all that stands around them.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        agent = bound(Agent(model, tools=[...], instructions=PROMPT), boundary, prompt=PROMPT)
        return lambda user: agent.run_sync(user["message"]).output

The bound agent runs like its own in every way: `run`, `run_sync`, `run_stream`, `run_stream_events`, `iter`. A streamed request is recorded in its chunks.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from twiceshy.adapters import controlling
from twiceshy.errors import CandidateError

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic_ai.agent import WrapperAgent
from pydantic_ai.models import infer_model
from pydantic_ai.toolsets import FunctionToolset

from twiceshy.adapters.pydantic_ai_ends import Inner, Outer, People
from twiceshy.adapters.pydantic_ai_model import Models
from twiceshy.adapters.pydantic_ai_reach import refuse_unbound_agents, refuse_uncontrolled, toolsets_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from pydantic_ai import Agent

    from twiceshy.boundary import Boundary

_BROUGHT = frozenset({"model", "toolsets", "capabilities", "spec", "workspace", "output_type", "conversation"})
"""What a run may not bring along: it would lead past the boundary that was declared."""


def bound(
    agent: Agent[Any, Any], boundary: Boundary, *, model: str = "model", prompt: str | None = None, effects: Mapping[str, Any] | None = None,
    approve: Callable[[dict[str, Any]], Any] | None = None,
) -> BoundAgent:  # fmt: skip
    """The agent with its models and tools behind the boundary. Call it while the candidate is built.

    model: the model boundary's name. prompt: the prompt's text, whose digest is the layer's; unknown compares as changed. effects: tool -> read, write or none.
    approve: asks a person about a call that needs approval, {"tool": ..., "arguments": ...}, and returns True, False or the reason why not: the human boundary `approval`.
    Raises UncontrolledTool (exit code 4) for what can write and cannot be reached: a native tool, a toolset that lives on a server, an output function, an external
    tool that the boundary does not know, another agent that a tool runs and that is not bound.
    """
    name = agent.name or "agent"
    toolsets = toolsets_of(agent)
    refuse_uncontrolled(agent, toolsets, boundary, name)
    tools = {tool.name: tool for one in toolsets if isinstance(one, FunctionToolset) for tool in one.tools.values()}
    refuse_unbound_agents(agent, tools.values(), name)
    given = dict(effects or {})
    controlling.refuse_unknown_effects(given, tools, name)
    for tool in tools.values():
        controlling.declare(boundary, tool.name, tool.tool_def.parameters_json_schema, given)
    if agent.model is None:
        raise CandidateError(f"agent {name!r} has no model of its own; give it one where it is made.")
    models = Models(infer_model(agent.model), boundary, name, name=model, prompt=prompt)
    people = [] if approve is None else [People(boundary, approve)]
    inner = Inner(boundary, name, models, plain=agent.toolsets)
    return BoundAgent(agent, [Outer(boundary, name, agent.root_capability), *people, inner])


class BoundAgent(WrapperAgent[Any, Any]):
    """The agent as a candidate runs it. What would lead past its boundary (another model, further toolsets) is refused with a TypeError."""

    def __init__(self, agent: Agent[Any, Any], ends: list[Any]) -> None:
        super().__init__(agent)
        self._ends = ends

    @asynccontextmanager
    async def iter(self, user_prompt: Any = None, **options: Any) -> AsyncIterator[Any]:
        """`Agent.iter` behind the boundary: what every run goes through."""
        brought = sorted(name for name in _BROUGHT & options.keys() if options.pop(name) is not None)
        if brought:
            raise TypeError(f"a bound agent takes no {', '.join(brought)}: give it to the Agent, before bound()")
        limits = options.get("usage_limits")
        if limits is not None and limits.count_tokens_before_request:
            raise TypeError("a bound agent counts no tokens before a request: that asks the provider past the boundary")
        async with self.wrapped.iter(user_prompt, capabilities=self._ends, **options) as run:
            yield run

    def _resolve_realtime_session(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a bound agent has no realtime session: speech goes both ways at once, and no record holds it")

    _open_realtime_session = _resolve_realtime_session
