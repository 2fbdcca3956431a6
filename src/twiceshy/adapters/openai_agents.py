"""An agent of the OpenAI Agents SDK behind a boundary: its models, its function tools, and every agent that it can hand over to.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        agent = bound(Agent(name="refund", model=model, tools=[...], instructions=PROMPT), boundary)
        return lambda user: Runner.run_sync(agent, user["message"]).final_output

A streamed request is answered whole and then played as a stream of one event.
"""

from __future__ import annotations

import dataclasses
import json
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.envelope import Kind
from twiceshy.passing import Passage, apassing

controlling.require("agents", extra="adapters-openai-agents")

from agents import (
    Agent,
    FileSearchTool,
    FunctionTool,
    Handoff,
    Model,
    MultiProvider,
    ToolSearchTool,
    WebSearchTool,
    set_tracing_disabled,
)
from agents.run import get_default_agent_runner, set_default_agent_runner
from agents.tool import maybe_invoke_function_tool_failure_error_function, set_function_tool_failure_error_function

from twiceshy.adapters.openai_agents_messages import asked, completed, parts_of, response_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from agents import ModelResponse

    from twiceshy.boundary import Boundary

_READING = (WebSearchTool, FileSearchTool, ToolSearchTool)
"""Hosted tools that change nothing; they run inside the model's own crossing."""

# The request as the SDK holds it, and the model's real response on the way back.
_LIVE: ContextVar[_Request] = ContextVar("twiceshy_openai_agents")


def bound(agent: Agent[Any], boundary: Boundary, *, effects: Mapping[str, Any] | None = None) -> Agent[Any]:
    """A copy of the agent, and of all agents it hands over to, with models and tools behind the boundary. Call it while the candidate is built.

    A model's boundary has its agent's name. effects: tool -> read, write or none. The SDK's own tracing is switched off: it would send.
    A `RunConfig(model=...)` that would go past it makes a replay an ERROR. Raises UncontrolledTool (exit code 4) for a tool that can write and cannot be reached: a hosted or local tool, an MCP server, a handoff made by hand.
    """
    set_tracing_disabled(True)
    _watch_runs()
    given = dict(effects or {})
    made: dict[int, Agent[Any]] = {}
    whole = _Binding(boundary, given, made).agent(agent)
    known = {tool.name for one in made.values() for tool in one.tools}
    controlling.refuse_unknown_effects(given, known, agent.name)
    return whole


@dataclass(frozen=True)
class _Binding:
    boundary: Boundary
    effects: Mapping[str, Any]
    made: dict[int, Agent[Any]]
    """Copies by the id of their original: agents may hand over in a ring."""

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        if id(agent) in self.made:
            return self.made[id(agent)]
        _refuse_uncontrolled(agent)
        copy = agent.clone(model=self._model(agent), tools=[self._tool(tool) for tool in agent.tools], handoffs=[])
        self.made[id(agent)] = copy
        copy.handoffs = [self._handoff(handoff, agent.name) for handoff in agent.handoffs]
        return copy

    def _model(self, agent: Agent[Any]) -> Model:
        model = agent.model if isinstance(agent.model, Model) else _Named(agent.model)
        prompt = agent.instructions if isinstance(agent.instructions, str) else None
        return _BoundModel(model, self.boundary, agent.name, prompt)

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        controlling.declare(self.boundary, tool.name, tool.params_json_schema, self.effects)
        return dataclasses.replace(tool, on_invoke_tool=_invoked(self.boundary, tool))

    def _handoff(self, handoff: Any, agent: str) -> Any:
        if isinstance(handoff, Agent):
            return self.agent(handoff)
        raise controlling.UncontrolledTool.named(
            handoff.tool_name if isinstance(handoff, Handoff) else repr(handoff), agent,
            why="a Handoff object runs a function of its own; list the agent itself under handoffs",
        )  # fmt: skip


def _refuse_uncontrolled(agent: Agent[Any]) -> None:
    for tool in agent.tools:
        if not isinstance(tool, (FunctionTool, *_READING)):
            name = str(getattr(tool, "name", type(tool).__name__))
            raise controlling.UncontrolledTool.named(
                name, agent.name, why="the SDK or the model's provider runs it, out of reach"
            )
    for server in agent.mcp_servers:
        raise controlling.UncontrolledTool.named(server.name, agent.name, why="a live server lists and runs its tools")


def _invoked(boundary: Boundary, tool: FunctionTool) -> Any:
    """The tool as the SDK invokes it: with its arguments as JSON text. Its errors cross the boundary as errors; the words that are made of them for the model are what was shown."""
    raising = set_function_tool_failure_error_function(dataclasses.replace(tool), None)

    async def invoke(context: Any, arguments: str) -> Any:
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            given = arguments if seen == asked_for else json.dumps(seen)
            result = await raising.on_invoke_tool(context, given)
            ran[:] = [result, _plain(tool.name, result)]
            return ran[1]

        async def through() -> Any:
            try:
                shown = passage.returned(await passage.areach(asked_for, run))
            except Blocked as refused:
                return passage.returned(controlling.refusal(refused.reason))
            except Exception as raised:
                told = await maybe_invoke_function_tool_failure_error_function(
                    function_tool=tool, context=context, error=raised
                )
                if told is None:
                    raise
                return passage.returned(told)
            return ran[0] if ran and shown is ran[1] else shown

        asked_for = _arguments(arguments)
        passage = Passage(boundary, tool.name, asked_for, middleware=False)
        return await apassing(passage, through)

    return invoke


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"arguments": text}


def _plain(tool: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        raise controlling.UnrecordableResult.of(tool, value) from None


class _Watching:
    """A runner that looks at how each run is configured and hands it on. The configuration of a run is told to nobody else, and its model wins over the agent's."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def run(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """An awaitable run."""
        _refuse_past(starting_agent, options.get("run_config"))
        return self._runner.run(starting_agent, *given, **options)

    def run_sync(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """A run to its end."""
        _refuse_past(starting_agent, options.get("run_config"))
        return self._runner.run_sync(starting_agent, *given, **options)

    def run_streamed(self, starting_agent: Agent[Any], *given: Any, **options: Any) -> Any:
        """A run as a stream of events."""
        _refuse_past(starting_agent, options.get("run_config"))
        return self._runner.run_streamed(starting_agent, *given, **options)


def _watch_runs() -> None:
    held: Any = get_default_agent_runner()
    if not isinstance(held, _Watching):
        set_default_agent_runner(cast("Any", _Watching(held)))


def _refuse_past(agent: Agent[Any], config: Any) -> None:
    """End the replay of a bound agent that is run with a model, or a sandbox, past its boundary."""
    if not isinstance(agent.model, _BoundModel):
        return
    for name in ("model", "sandbox"):
        held = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
        if held is not None and not isinstance(held, _BoundModel):
            agent.model.passed_by(controlling.UncontrolledModel.given(f"RunConfig({name}=...)", agent.name))


@dataclass
class _Request:
    given: tuple[Any, ...]
    options: dict[str, Any]
    output: dict[str, Any] = field(default_factory=dict)
    response: ModelResponse | None = None


class _Named(Model):
    """A model known by its name: looked up when it runs live, for a replay has no key and no client."""

    def __init__(self, name: str | None) -> None:
        self.model_name = name or "default"
        self._name = name

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        """The provider's own answer."""
        return await MultiProvider().get_model(self._name).get_response(*given, **options)

    def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """The provider's own stream."""
        return MultiProvider().get_model(self._name).stream_response(*given, **options)


class _BoundModel(Model):
    def __init__(self, wrapped: Model, boundary: Boundary, name: str, prompt: str | None) -> None:
        self._wrapped = wrapped
        self._name = name
        self._boundary = boundary
        self._cross = boundary.model(name, self._called, prompt=prompt, version=controlling.version_of(wrapped))

    def passed_by(self, refused: controlling.UncontrolledModel) -> None:
        """Tell the boundary that another model is about to run in place of this one."""
        self._boundary.beyond(Kind.MODEL, self._name, refused)

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, output_schema: Any, handoffs: Any, tracing: Any,
        **options: Any,
    ) -> ModelResponse:  # fmt: skip
        """The response of the boundary: the model's own where it ran live."""
        given = (system_instructions, input, model_settings, tools, output_schema, handoffs, tracing)
        request = _Request(given, options)
        token = _LIVE.set(request)
        try:
            output = await self._cross(asked(*given[:6]))
        finally:
            _LIVE.reset(token)
        live = request.response is not None and output is request.output
        return request.response if live and request.response is not None else response_of(output)

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """The whole response, as its last event."""
        yield completed(await self.get_response(*given, **options))

    async def _called(self, _: dict[str, Any]) -> dict[str, Any]:
        request = _LIVE.get()
        request.response = await self._wrapped.get_response(*request.given, **request.options)
        request.output = parts_of(request.response)
        return request.output
