"""An agent of the OpenAI Agents SDK behind a boundary: its models, tools and guardrails, and every agent that it hands to or asks as a tool.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        agent = bound(Agent(name="refund", model=model, tools=[...], instructions=PROMPT), boundary)
        return lambda user: Runner.run_sync(agent, user["message"]).final_output

A handoff is a crossing, and the agent that is handed to has a scope of its own; so has an agent that is asked as a tool, or that a tool or a guardrail runs.
A streamed request is recorded in its chunks. `answered(agent, boundary, ask)` runs an agent whose calls a person approves, `bound_session(session, boundary)` stands
for a session that outlives the process.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("agents", extra="adapters-openai-agents")

from agents import Agent, Runner, set_tracing_disabled

from twiceshy.adapters.openai_agents_binding import Binding
from twiceshy.adapters.openai_agents_memory import BoundSession
from twiceshy.adapters.openai_agents_messages import arguments_of
from twiceshy.adapters.openai_agents_runs import watch_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twiceshy.boundary import Boundary

APPROVAL = "approval"
"""The human boundary of an agent whose calls a person approves."""


def bound(agent: Agent[Any], boundary: Boundary, *, effects: Mapping[str, Any] | None = None) -> Agent[Any]:
    """A copy of the agent, and of all agents it can reach, with models, tools and guardrails behind the boundary. Call it while the candidate is built.

    A model's boundary has its agent's name. effects: tool -> read, write or none; an agent that is asked as a tool is a handoff unless it is named here.
    The SDK's own tracing is switched off: it would send. A `RunConfig(model=...)`, a session that is kept elsewhere, and a tool that comes to the agent later end a run.
    Raises UncontrolledTool (exit code 4) for a tool that can write and cannot be reached: a hosted or local tool, an MCP server, a handoff to who knows whom.
    """
    set_tracing_disabled(True)
    watch_runs()
    binding = Binding(boundary, dict(effects or {}))
    whole = binding.agent(agent)
    controlling.refuse_unknown_effects(binding.effects, binding.known(), agent.name)
    return whole


def bound_session(session: Any, boundary: Boundary, *, name: str = "session") -> BoundSession:
    """The session behind the boundary: `name.get_items`, `name.add_items`, `name.pop_item` and `name.clear_session` are memories."""
    return BoundSession(session, boundary, name)


def answered(agent: Agent[Any], boundary: Boundary, ask: Callable[[dict[str, Any]], Any]) -> AnsweredAgent:
    """The bound agent, whose calls that need approval a person answers: the human boundary `approval`. Call it while the candidate is built.

    ask: {"tool": ..., "arguments": ...} in, True, False or the reason why not out; {"approved": True} is a grant too, and nothing else is one.
    """
    return AnsweredAgent(agent, boundary, boundary.human(APPROVAL, ask))


class AnsweredAgent:
    """The agent as a candidate runs it: until no call waits for approval."""

    def __init__(self, agent: Agent[Any], boundary: Boundary, ask: Callable[[Any], Any]) -> None:
        self._agent = agent
        self._boundary = boundary
        self._ask = ask

    async def run(self, given: Any, **options: Any) -> Any:
        """`Runner.run`, gone on with after each answer."""
        result = await Runner.run(self._agent, given, **options)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                await self._answer(state, item)
            result = await Runner.run(self._agent, state, **options)
        return result

    async def _answer(self, state: Any, item: Any) -> None:
        said = self._ask({"tool": item.tool_name, "arguments": arguments_of(item.arguments or "")})
        said = await said if isawaitable(said) else said
        told = said if isinstance(said, dict) else {"approved": said}
        reason = said if isinstance(said, str) else told.get("message")
        if told.get("approved") is True:
            state.approve(item)
        else:
            state.reject(item, rejection_message=None if reason is None else str(reason))
