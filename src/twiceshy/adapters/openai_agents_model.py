"""Models of the OpenAI Agents SDK behind a boundary: their responses cross, whole or in the chunks they come in."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.envelope import Kind

controlling.require("agents", extra="adapters-openai-agents")

from agents import FileSearchTool, FunctionTool, Model, ModelProvider, MultiProvider, ToolSearchTool, WebSearchTool

from twiceshy.adapters.openai_agents_events import Playing, Telling
from twiceshy.adapters.openai_agents_messages import asked, completed, parts_of, response_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from agents import ModelResponse

    from twiceshy.boundary import Boundary

READING = (WebSearchTool, FileSearchTool, ToolSearchTool)
"""Hosted tools that change nothing; they run inside the model's own crossing."""

# Who looks up models by their name in this run.
PROVIDER: ContextVar[ModelProvider | None] = ContextVar("twiceshy_openai_agents_provider", default=None)

_MARK = "__twiceshy_behind__"


def behind(function: Any) -> Any:
    """Mark what the SDK calls as something that goes through a boundary."""
    setattr(function, _MARK, True)
    return function


def is_behind(function: Any) -> bool:
    """Whether what the SDK calls goes through a boundary."""
    return getattr(function, _MARK, False) is True


@dataclass
class _Request:
    """A request as the SDK holds it, beside the plain one that crosses, and what really came on the way back."""

    given: tuple[Any, ...]
    options: dict[str, Any]
    output: dict[str, Any] = field(default_factory=dict)
    response: ModelResponse | None = None
    events: dict[int, list[Any]] = field(default_factory=dict)


class NamedModel(Model):
    """A model known by its name: looked up when it runs live, for a replay has no key and no client."""

    def __init__(self, name: str | None) -> None:
        self.model_name = name or "default"
        self._name = name

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        """The provider's own answer."""
        return await self._found().get_response(*given, **options)

    def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """The provider's own stream."""
        return self._found().stream_response(*given, **options)

    def _found(self) -> Model:
        return (PROVIDER.get() or MultiProvider()).get_model(self._name)


class BoundModel(Model):
    """A model of one agent behind the boundary of that agent's name."""

    def __init__(self, wrapped: Model, boundary: Boundary, name: str, prompt: str | None, binding: Any) -> None:
        self.binding = binding
        """What the agent of this model belongs to."""
        self._wrapped = wrapped
        self._name = name
        self._boundary = boundary
        self._asking: dict[int, _Request] = {}
        told: dict[str, Any] = {"prompt": prompt, "version": controlling.version_of(wrapped)}
        self._streams = boundary.model(name, self._streamed, **told)
        self._cross = boundary.model(name, self._called, **told)

    def passed_by(self, refused: controlling.UncontrolledModel) -> None:
        """Tell the boundary that another model is about to run in place of this one."""
        self._boundary.beyond(Kind.MODEL, self._name, refused)

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, output_schema: Any, handoffs: Any, tracing: Any,
        **options: Any,
    ) -> ModelResponse:  # fmt: skip
        """The response of the boundary: the model's own where it ran live."""
        given = (system_instructions, input, model_settings, tools, output_schema, handoffs, tracing)
        request, seen = self._asked(given, options)
        try:
            with self._boundary.at_home():
                output = await self._cross(seen)
        finally:
            del self._asking[id(seen)]
        live = request.response is not None and output is request.output
        return request.response if live and request.response is not None else response_of(output)

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """The chunks of the boundary as a stream: the model's own events where it runs live."""
        request, seen = self._asked(given, options)
        playing = Playing()
        try:
            with self._boundary.at_home():
                opened = self._streams(seen)
            async with opened as chunks:
                async for chunk in chunks:
                    own = request.events.pop(id(chunk), None)
                    for event in playing.events(chunk) if own is None else own:
                        yield event
        finally:
            del self._asking[id(seen)]

    def _asked(self, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[_Request, dict[str, Any]]:
        """The request, noted under what crosses. What it is offered must be behind the boundary."""
        self._refuse_past(given[3], given[5])
        request = _Request(given, options)
        seen = asked(*given[:6])
        if options.get("prompt") is not None:
            seen["prompt"] = dict(options["prompt"])
        self._asking[id(seen)] = request
        return request, seen

    def _refuse_past(self, tools: Iterable[Any], handoffs: Iterable[Any]) -> None:
        """End the run where a tool or a handoff came to the agent after it was bound."""
        for tool in tools:
            reached = is_behind(tool.on_invoke_tool) if isinstance(tool, FunctionTool) else isinstance(tool, READING)
            if not reached:
                self._refuse(str(getattr(tool, "name", type(tool).__name__)))
        for handoff in handoffs:
            if not is_behind(handoff.on_invoke_handoff):
                self._refuse(handoff.tool_name)

    def _refuse(self, name: str) -> None:
        why = "it came to the agent after that was bound"
        self._boundary.refuse(name, controlling.UncontrolledTool.named(name, self._name, why=why))

    async def _called(self, seen: dict[str, Any]) -> dict[str, Any]:
        request = self._asking[id(seen)]
        request.response = await self._wrapped.get_response(*request.given, **request.options)
        request.output = parts_of(request.response)
        return request.output

    async def _streamed(self, seen: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        request = self._asking[id(seen)]
        telling = Telling(request.events)
        async for event in self._wrapped.stream_response(*request.given, **request.options):
            for told in telling.came(event):
                yield told


class Saying(Model):
    """Says one text: what an agent that is handed to had come to, where the handoff is answered from the record."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """The text."""
        return response_of({"parts": [{"type": "text", "content": self._text}]})

    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """The text as one event."""
        yield completed(await self.get_response(*given, **options))
