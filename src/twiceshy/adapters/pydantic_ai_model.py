"""pydantic-ai models behind a boundary: whichever serves a request, its answer crosses, whole or in the chunks it comes in."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from twiceshy.adapters import controlling
from twiceshy.streaming import Growing, ends, piece

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

from twiceshy.adapters.pydantic_ai_messages import (
    asked,
    ended_of,
    events_of,
    growing_part,
    parts_of,
    response_of,
    usage_of,
)
from twiceshy.adapters.pydantic_ai_reach import native

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from pydantic_ai.messages import ModelMessage, ModelResponsePart, ModelResponseStreamEvent
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RequestUsage

    from twiceshy.boundary import Boundary
    from twiceshy.streaming import AsyncStream


class Models:
    """The models of one agent: its own has the boundary's name, one that a hook puts in its place has `name:model`."""

    def __init__(self, own: Model, boundary: Boundary, agent: str, *, name: str, prompt: str | None) -> None:
        self._boundary = boundary
        self._agent = agent
        self._name = name
        self._own = own
        self._bound = {name: _BoundModel(own, boundary, agent, name=name, prompt=prompt)}

    def behind(self, model: Model) -> Model:
        """The model behind its boundary."""
        if isinstance(model, _BoundModel):
            return model
        own = model is self._own or model.model_id == self._own.model_id
        name = self._name if own else f"{self._name}:{model.model_name}"
        if name not in self._bound:
            self._bound[name] = _BoundModel(model, self._boundary, self._agent, name=name, prompt=None)
        return self._bound[name]


@dataclass
class _Request:
    """A request as the framework holds it, beside the plain one that crosses, and what really came on the way back."""

    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    context: RunContext[Any] | None = None
    output: dict[str, Any] = field(default_factory=dict)
    response: ModelResponse | None = None
    stream: StreamedResponse | None = None
    events: dict[int, list[ModelResponseStreamEvent]] = field(default_factory=dict)
    """The model's own events by the id of the chunk that tells them."""


class _BoundModel(WrapperModel):
    def __init__(self, wrapped: Any, boundary: Boundary, agent: str, *, name: str, prompt: str | None) -> None:
        super().__init__(wrapped)
        self._agent = agent
        version = controlling.version_of(wrapped)
        self._boundary = boundary
        self._name = name
        self._asking: dict[int, _Request] = {}
        self._streams = boundary.model(name, self._streamed, prompt=prompt, version=version)
        self._cross = boundary.model(name, self._called, prompt=prompt, version=version)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The response of the boundary: the model's own where it ran live."""
        self._refuse_native(model_request_parameters)
        request = _Request(messages, model_settings, model_request_parameters)
        seen = asked(messages, model_settings, model_request_parameters)
        self._asking[id(seen)] = request
        try:
            output = await self._cross(seen)
        finally:
            del self._asking[id(seen)]
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
        """The chunks of the boundary, as a stream; leaving it closes them."""
        self._refuse_native(model_request_parameters)
        request = _Request(messages, model_settings, model_request_parameters, run_context)
        seen = asked(messages, model_settings, model_request_parameters)
        self._asking[id(seen)] = request
        try:
            async with self._streams(seen) as chunks:
                yield _Played(chunks, request, self.model_name)
        finally:
            del self._asking[id(seen)]

    async def _called(self, seen: dict[str, Any]) -> dict[str, Any]:
        request = self._asking[id(seen)]
        request.response = await self.wrapped.request(request.messages, request.settings, request.parameters)
        request.output = parts_of(request.response)
        return request.output

    async def _streamed(self, seen: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The model's own stream in chunks; its events that say nothing new come with the chunk after them."""
        request = self._asking[id(seen)]
        opened = self.wrapped.request_stream(request.messages, request.settings, request.parameters, request.context)
        async with opened as request.stream:
            said: dict[int, dict[str, Any]] = {}
            parts: dict[int, ModelResponsePart] = {}
            held: list[ModelResponseStreamEvent] = []
            async for event in request.stream:
                if not isinstance(event, PartStartEvent | PartDeltaEvent):
                    continue
                held.append(event)
                at = event.index
                parts[at] = event.part if isinstance(event, PartStartEvent) else event.delta.apply(parts[at])
                now = growing_part(parts[at])
                told = piece(said.get(at, {}), now, at)
                said[at] = now
                if told is not None:
                    request.events[id(told)], held = held, []
                    yield told
            for told in (_nothing_given(at) for at, part in said.items() if part.get("arguments") == ""):
                request.events[id(told)] = []
                yield told
            end = ended_of(request.stream.get())
            request.events[id(end)] = held
            yield end

    def _refuse_native(self, parameters: ModelRequestParameters) -> None:
        """End the run where a tool came with it that the provider runs and that can write."""
        for tool in parameters.native_tools:
            refused = native(tool, self._agent)
            if refused is not None:
                self._boundary.refuse(str(tool.kind), refused)

    def _past(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"model {self._name!r} was asked for something else than an answer (a batch, a count of tokens, a compaction): that would reach the provider past the boundary"
        )

    batch_create = batch_results = batch_status = batch_cancel = count_tokens = compact_messages = _past


class _Played(StreamedResponse):
    """A response while its chunks come: the model's own events where it runs live, else those that the chunks say."""

    def __init__(self, chunks: AsyncStream, request: _Request, model: str) -> None:
        super().__init__(model_request_parameters=request.parameters)
        self._chunks = chunks
        self._request = request
        self._model = model
        self._began = ModelResponse(parts=[]).timestamp

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        growing = Growing()
        async for chunk in self._chunks:
            own = self._request.events.pop(id(chunk), None)
            for event in events_of(growing, chunk) if own is None else own:
                self._parts_manager.apply_event(event)
                yield event
            if ends(chunk):
                self._ended(chunk)

    def _ended(self, chunk: dict[str, Any]) -> None:
        response = response_of({"parts": [], **chunk})
        self.finish_reason, self._usage = response.finish_reason, usage_of(chunk)
        self._model = response.model_name or self._model
        self.state = response.state
        live = self._request.stream
        if live is not None:
            self.provider_response_id, self.provider_details = live.provider_response_id, live.provider_details
            self.metadata, self.failed_attempts = live.metadata, live.failed_attempts

    async def close_stream(self) -> None:
        """Close the model's own stream where it runs live."""
        if self._request.stream is not None:
            await self._request.stream.cancel()

    @property
    def usage(self) -> RequestUsage:
        """The usage so far."""
        return self._usage if self._request.stream is None else self._request.stream.usage

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return self._model

    @property
    def provider_name(self) -> str | None:
        """The provider, where the model runs live."""
        return None if self._request.stream is None else self._request.stream.provider_name

    @property
    def provider_url(self) -> str | None:
        """Its address, where the model runs live."""
        return None if self._request.stream is None else self._request.stream.provider_url

    @property
    def timestamp(self) -> datetime:
        """When the response began."""
        return self._began


def _nothing_given(at: int) -> dict[str, Any]:
    """What a call without arguments says when it is over."""
    return {"index": at, "type": "tool_call", "arguments": "{}"}
