"""What of an agent of the OpenAI Agents SDK stands behind its boundary, and what does not: found before anything runs, in every agent that it can reach."""

from __future__ import annotations

from inspect import getclosurevars
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("agents", extra="adapters-openai-agents")

from agents import Agent, FunctionTool, Handoff

from twiceshy.adapters.openai_agents_model import READING, BoundModel

if TYPE_CHECKING:
    from collections.abc import Iterator


def refuse_whole(agent: Agent[Any], seen: set[int] | None = None) -> None:
    """Raise UncontrolledTool for the first tool that can write and that no boundary reaches: of the agent, of those that it hands to or asks, and of those that its code runs."""
    seen = set() if seen is None else seen
    if id(agent) in seen or isinstance(agent.model, BoundModel):
        return
    seen.add(id(agent))
    _refuse_own(agent)
    for inner in _reached(agent):
        refuse_whole(inner, seen)


def target_of(made: Handoff[Any, Any]) -> Agent[Any] | None:
    """The agent that `handoff()` was given."""
    ref = made._agent_ref  # noqa: SLF001 - the SDK says nowhere else to whom
    found = None if ref is None else ref()
    return found if isinstance(found, Agent) else None


def calls_back(made: Handoff[Any, Any]) -> bool:
    """Whether a handoff calls a function of the candidate's own; where that cannot be told, it does."""
    try:
        named = getclosurevars(_inner(made)).nonlocals
    except TypeError:
        return True
    return "on_handoff" not in named or named["on_handoff"] is not None


def _inner(made: Handoff[Any, Any]) -> Any:
    """What the SDK wraps into a handoff: it names the function that is called back."""
    return (getattr(made.on_invoke_handoff, "args", None) or (made.on_invoke_handoff,))[0]


def _refuse_own(agent: Agent[Any]) -> None:
    for tool in agent.tools:
        if not isinstance(tool, (FunctionTool, *READING)):
            name = str(getattr(tool, "name", type(tool).__name__))
            raise controlling.UncontrolledTool.named(
                name, agent.name, why="the SDK or the model's provider runs it, out of reach"
            )
    for server in agent.mcp_servers:
        raise controlling.UncontrolledTool.served(server.name, agent.name)


def _reached(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """The agents that a run of this one may run."""
    given = [target_of(each) if isinstance(each, Handoff) else each for each in agent.handoffs]
    asked = [getattr(tool, "_agent_instance", None) for tool in agent.tools]
    held = [found for code in _code(agent) for found in controlling.held_by(code)]
    yield from (found for found in [*given, *asked, *held] if isinstance(found, Agent))


def _code(agent: Agent[Any]) -> Iterator[Any]:
    """The functions of the candidate's own that the SDK calls while the agent runs."""
    checks: list[Any] = [*agent.input_guardrails, *agent.output_guardrails]
    for tool in agent.tools:
        yield getattr(tool, "__wrapped__", None)
        checks += [
            *(getattr(tool, "tool_input_guardrails", None) or ()),
            *(getattr(tool, "tool_output_guardrails", None) or ()),
        ]
    yield from (check.guardrail_function for check in checks)
    yield from (_inner(each) for each in agent.handoffs if isinstance(each, Handoff))
    yield from (code for code in (agent.tool_use_behavior, agent.instructions) if callable(code))
    yield from (getattr(agent.hooks, name) for name in dir(agent.hooks) if name.startswith("on_"))
