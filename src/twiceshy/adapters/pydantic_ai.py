"""A pydantic-ai agent behind a boundary: its model, its tools, and both ends of what wraps its toolsets.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        agent = bound(Agent(model, tools=[...], instructions=PROMPT), boundary, prompt=PROMPT)
        return lambda user: agent.run_sync(user["message"]).output

A streamed request is answered whole and then played as a stream.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.errors import CandidateError
from twiceshy.passing import Passage, apassing, current

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic_ai.messages import ToolReturn
from pydantic_ai.models import CompletedStreamedResponse, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from pydantic_ai.toolsets.wrapper import WrapperToolset
from pydantic_core import to_jsonable_python

from twiceshy.adapters.pydantic_ai_messages import asked, parts_of, response_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from pydantic_ai import Agent, AgentRunResult
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    from twiceshy.boundary import Boundary

_READING = frozenset({"web_search", "x_search", "web_fetch", "file_search", "tool_search"})
"""Native tools of a provider that change nothing; they run inside the model's own crossing."""

_BROUGHT = frozenset({"model", "toolsets", "capabilities", "spec", "workspace", "output_type"})
"""What a run may not bring along: it would lead past the boundary that was declared."""

# The request as the framework holds it, beside the plain one that crosses, and its real response on the way back.
_LIVE: ContextVar[_Request] = ContextVar("twiceshy_pydantic_ai")


def bound(
    agent: Agent[Any, Any], boundary: Boundary, *, model: str = "model", prompt: str | None = None,
    effects: Mapping[str, Any] | None = None,
) -> BoundAgent:  # fmt: skip
    """The agent with its model and tools behind the boundary. Call it while the candidate is built.

    model: the model boundary's name. prompt: the prompt's text, whose digest is the layer's; unknown compares as changed. effects: tool -> read, write or none.
    Raises UncontrolledTool (exit code 4) for a tool that can write and cannot be reached: a native tool, a toolset that lives on a server, an output function.
    """
    name = agent.name or "agent"
    _refuse_uncontrolled(agent, name)
    leaves = list(_leaves(agent.toolsets))
    tools = {tool.name: tool for leaf in leaves if isinstance(leaf, FunctionToolset) for tool in leaf.tools.values()}
    given = dict(effects or {})
    controlling.refuse_unknown_effects(given, tools, name)
    for tool in tools.values():
        controlling.declare(boundary, tool.name, tool.tool_def.parameters_json_schema, given)
    if agent.model is None:
        raise CandidateError(f"agent {name!r} has no model of its own; give it one where it is made.")
    toolsets = [_outer(toolset, boundary) for toolset in agent.toolsets]
    return BoundAgent(agent, _BoundModel(infer_model(agent.model), boundary, model, prompt), toolsets)


class BoundAgent:
    """The agent as a candidate runs it. What would lead past its boundary (another model, further toolsets) is refused with a TypeError."""

    def __init__(self, agent: Agent[Any, Any], model: _BoundModel, toolsets: Sequence[AbstractToolset[Any]]) -> None:
        self._agent = agent
        self._model = model
        self._toolsets = toolsets

    async def run(self, prompt: Any = None, **options: Any) -> AgentRunResult[Any]:
        """`Agent.run` behind the boundary."""
        self._refuse(options)
        with self._agent.override(model=self._model, toolsets=self._toolsets, tools=[]):
            return await self._agent.run(prompt, **options)

    def run_sync(self, prompt: Any = None, **options: Any) -> AgentRunResult[Any]:
        """`Agent.run_sync` behind the boundary."""
        self._refuse(options)
        with self._agent.override(model=self._model, toolsets=self._toolsets, tools=[]):
            return self._agent.run_sync(prompt, **options)

    @asynccontextmanager
    async def run_stream(self, prompt: Any = None, **options: Any) -> AsyncIterator[Any]:
        """`Agent.run_stream` behind the boundary."""
        self._refuse(options)
        with self._agent.override(model=self._model, toolsets=self._toolsets, tools=[]):
            async with self._agent.run_stream(prompt, **options) as result:
                yield result

    def _refuse(self, options: Mapping[str, Any]) -> None:
        brought = sorted(_BROUGHT & options.keys())
        if brought:
            raise TypeError(f"a bound agent takes no {', '.join(brought)}: give it to the Agent, before bound()")


@dataclass
class _Request:
    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    output: dict[str, Any] = field(default_factory=dict)
    response: ModelResponse | None = None


class _BoundModel(WrapperModel):
    def __init__(self, wrapped: Any, boundary: Boundary, name: str, prompt: str | None) -> None:
        super().__init__(wrapped)
        self._cross = boundary.model(name, self._called, prompt=prompt, version=controlling.version_of(wrapped))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The response of the boundary: the model's own where it ran live."""
        request = _Request(messages, model_settings, model_request_parameters)
        token = _LIVE.set(request)
        try:
            output = await self._cross(asked(messages, model_settings, model_request_parameters))
        finally:
            _LIVE.reset(token)
        ran = request.response is not None and output is request.output
        return request.response if ran and request.response is not None else response_of(output)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """The whole response, played as a stream."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def _called(self, _: dict[str, Any]) -> dict[str, Any]:
        request = _LIVE.get()
        request.response = await self.wrapped.request(request.messages, request.settings, request.parameters)
        request.output = parts_of(request.response)
        return request.output


def _outer(toolset: AbstractToolset[Any], boundary: Boundary) -> AbstractToolset[Any]:
    """The toolset between both ends: the leaves reach the boundary, the outermost wrapper opens and closes the passage."""
    inner = toolset.visit_and_replace(_Inner)
    return _Outer(inner, boundary=boundary, middleware=not isinstance(inner, _Inner))


@dataclass
class _Outer(WrapperToolset[Any]):
    boundary: Boundary
    middleware: bool

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Between the model's arguments and what goes back to it."""
        if name not in self.boundary.tools:  # one that a dynamic or renaming toolset offers
            controlling.declare(self.boundary, name, tool.tool_def.parameters_json_schema, {})
        passage = Passage(self.boundary, name, _plain(tool_args), middleware=self.middleware)

        async def through() -> Any:
            shown = await self.wrapped.call_tool(name, tool_args, ctx, tool)
            plain = _plain(shown)
            returned = passage.returned(plain)
            return shown if returned is plain else returned

        return await apassing(passage, through)


@dataclass
class _Inner(WrapperToolset[Any]):
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Where the tool would run."""
        passage = current()
        if passage is None:
            raise controlling.UncontrolledTool.named(
                name, "agent", why="it was called past the outer end of its toolsets"
            )
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            given = {at: tool_args[at] if at in plain and plain[at] == value else value for at, value in seen.items()}
            result = await self.wrapped.call_tool(name, given, ctx, tool)
            if isinstance(result, ToolReturn):
                raise controlling.UnrecordableResult.of(name, result)
            ran[:] = [result, _plain(result)]
            return ran[1]

        plain = _plain(tool_args)
        try:
            shown = await passage.areach(plain, run)
        except Blocked as refused:
            return controlling.refusal(refused.reason)
        return ran[0] if ran and shown is ran[1] else shown


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, by_alias=True, bytes_mode="base64")


def _leaves(toolsets: Sequence[AbstractToolset[Any]]) -> Iterator[AbstractToolset[Any]]:
    for toolset in toolsets:
        found: list[AbstractToolset[Any]] = []
        toolset.apply(found.append)
        yield from found


def _refuse_uncontrolled(agent: Agent[Any, Any], name: str) -> None:
    for native in agent.root_capability.get_native_tools():
        kind = getattr(native, "kind", None)
        if kind not in _READING:
            told = str(kind or getattr(native, "__name__", "native tool"))
            raise controlling.UncontrolledTool.named(told, name, why="the model's provider runs it")
    for leaf in _leaves(agent.toolsets):
        if not isinstance(leaf, FunctionToolset | ExternalToolset) and type(leaf).__name__ != "DynamicToolset":
            told = leaf.id or leaf.label
            raise controlling.UncontrolledTool.named(told, name, why="a live server lists and runs its tools")
    for function in _output_functions(agent.output_type):
        raise controlling.UncontrolledTool.named(
            getattr(function, "__qualname__", repr(function)), name, why="an output function runs when the run ends"
        )


def _output_functions(spec: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(spec, FunctionType | MethodType):
        yield spec
    elif isinstance(spec, list | tuple):
        for one in spec:
            yield from _output_functions(one)
    else:
        for held in ("output", "outputs", "output_function"):
            if not isinstance(spec, type) and hasattr(spec, held):
                yield from _output_functions(getattr(spec, held))
