"""A LangChain chat model behind a boundary: LangChain binds tools, parses and retries as ever; only the model's own answer crosses, whole or in its chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.errors import CandidateError
from twiceshy.streaming import Growing, piece

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.language_models import BaseLanguageModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from twiceshy.adapters.langchain_messages import asked, chunks_of, ended_of, growing_parts, message_of, parts_of
from twiceshy.adapters.langchain_offers import refuse_hosted, runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

    from twiceshy.boundary import Boundary

_QUIETLY: Any = {"callbacks": []}
"""Who listens to the bound model hears of the answer once."""


@dataclass
class _Request:
    """A request as LangChain holds it, beside the plain one that crosses, and what really came on the way back."""

    messages: list[BaseMessage]
    options: dict[str, Any]
    output: dict[str, Any] = field(default_factory=dict)
    message: AIMessage | None = None
    chunks: dict[int, list[AIMessageChunk]] = field(default_factory=dict)
    """The model's own chunks by the id of the one that tells them."""


class BoundChatModel(BaseChatModel):
    """A chat model whose answers come through a boundary. It streams where the model itself does."""

    _inner: BaseChatModel = PrivateAttr()
    _boundary: Boundary = PrivateAttr()
    _boundary_name: str = PrivateAttr()
    _calls_of_its_own: bool = PrivateAttr(default=True)
    _offered: set[str] = PrivateAttr(default_factory=set)
    _asking: dict[int, _Request] = PrivateAttr(default_factory=dict)
    _cross: Callable[[dict[str, Any]], Any] = PrivateAttr()
    _across: Callable[[dict[str, Any]], Any] = PrivateAttr()
    _streams: Callable[[dict[str, Any]], Any] = PrivateAttr()
    _astreams: Callable[[dict[str, Any]], Any] = PrivateAttr()

    @classmethod
    def of(
        cls, boundary: Boundary, inner: BaseChatModel, *, name: str, prompt: str | None, tools_behind: bool = False
    ) -> BoundChatModel:
        """The model behind the boundary of that name. tools_behind: whoever runs the tools that it is offered does so through the boundary.

        Raises CandidateError for a model that streams in a way which only it knows.
        """
        if not isinstance(inner, BaseChatModel):
            raise CandidateError(
                f"model {name!r} is a {type(inner).__name__} and no chat model, so who answers is known only when it runs; give the chat model itself"
            )
        kind = type(inner)
        streams = kind._stream is not BaseChatModel._stream or kind._astream is not BaseChatModel._astream  # noqa: SLF001 - as LangChain itself tells
        if not streams and any(hasattr(kind, f"_{prefix}stream_chat_model_events") for prefix in ("", "a")):
            raise CandidateError(
                f"model {name!r} ({kind.__name__}) streams events and no chunks, which no record holds; give it a _stream method"
            )
        made = cls(disable_streaming=inner.disable_streaming if streams else True, profile=inner.profile, cache=False)
        made._inner, made._boundary, made._boundary_name = inner, boundary, name
        made._calls_of_its_own = not tools_behind
        told: dict[str, Any] = {"prompt": prompt, "version": controlling.version_of(inner)}
        made._astreams = boundary.model(name, made._astreamed, **told)
        made._streams = boundary.model(name, made._streamed, **told)
        made._across = boundary.model(name, made._acalled, **told)
        made._cross = boundary.model(name, made._called, **told)
        return made

    @property
    def boundary_name(self) -> str:
        """The name of its boundary."""
        return self._boundary_name

    @property
    def _llm_type(self) -> str:
        return f"twiceshy-{self._inner._llm_type}"  # noqa: SLF001 - every chat model has it, and no public name

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Runnable[Any, AIMessage]:
        """Offer tools as the model itself would. Raises UncontrolledTool for one that its provider runs and that can write."""
        refuse_hosted(tools, self._boundary_name)
        self._offered |= {name for tool in tools if (name := runs(tool)) is not None}
        chosen = {"tool_choice": tool_choice} if tool_choice is not None else {}
        try:
            offered = getattr(self._inner.bind_tools(tools, **chosen, **options), "kwargs", None)
        except NotImplementedError:  # a model that knows no tools; told in the common spelling
            offered = None
        if offered is None:
            offered = {"tools": [convert_to_openai_tool(tool) for tool in tools], **chosen, **options}
        made: Runnable[Any, AIMessage] = self.bind(**offered)
        return made

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Ask for structured output as the model itself would, where its way is a chain that begins with the model."""
        try:
            own = self._inner.with_structured_output(schema, **options)
        except NotImplementedError:
            own = None
        first, *rest = own.steps if isinstance(own, RunnableSequence) else [None]
        if isinstance(first, RunnableBinding) and first.bound is self._inner:
            return RunnableSequence(self.bind(**first.kwargs), *rest)
        return super().with_structured_output(schema, **options)

    def with_fallbacks(self, fallbacks: Sequence[Any], **options: Any) -> Any:
        """The model with others to fall back to. Raises UncontrolledModel for one that is not bound."""
        refuse_others(fallbacks, self._boundary_name, why="the bound model falls back to it")
        return super().with_fallbacks(fallbacks, **options)

    def configurable_alternatives(self, which: Any, **options: Any) -> Any:
        """The model with others to choose from. Raises UncontrolledModel for one that is not bound."""
        refuse_others(options.values(), self._boundary_name, why="a run may choose it in place of the bound model")
        return super().configurable_alternatives(which, **options)

    def bind(self, **options: Any) -> Any:
        """The model with options; what is made of it takes no unbound model either."""
        return _Bound(bound=self, kwargs=options, config={})

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        request, seen = self._asked(messages, stop, options)
        try:
            return _result(request, self._cross(seen))
        finally:
            del self._asking[id(seen)]

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        request, seen = self._asked(messages, stop, options)
        try:
            return _result(request, await self._across(seen))
        finally:
            del self._asking[id(seen)]

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        request, seen = self._asked(messages, stop, options)
        growing = Growing()
        try:
            with self._streams(seen) as chunks:
                for chunk in chunks:
                    for message in _told(request, growing, chunk):
                        yield ChatGenerationChunk(message=message)
        finally:
            del self._asking[id(seen)]

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        request, seen = self._asked(messages, stop, options)
        growing = Growing()
        try:
            async with self._astreams(seen) as chunks:
                async for chunk in chunks:
                    for message in _told(request, growing, chunk):
                        yield ChatGenerationChunk(message=message)
        finally:
            del self._asking[id(seen)]

    def _asked(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[_Request, dict[str, Any]]:
        """The request, noted under what crosses. What it is offered must be behind the boundary."""
        offered = options.get("tools") or ()
        refuse_hosted(offered, self._boundary_name, self._boundary)
        request = _Request(messages, options if stop is None else {**options, "stop": stop})
        seen = asked(messages, request.options)
        if self._calls_of_its_own:
            self._refuse_undeclared({tool["name"] for tool in seen["tools"] if "name" in tool})
        self._asking[id(seen)] = request
        return request, seen

    def _refuse_undeclared(self, names: set[str]) -> None:
        """End the run where the model is offered a tool that the boundary does not know: whoever runs it does so past the boundary."""
        for name in sorted((names & self._offered) - self._boundary.tools.keys()):
            why = "it is offered to the model and not declared; run it in tool_node(boundary, tools)"
            refused = controlling.UncontrolledTool.named(name, self._boundary_name, why=why)
            self._boundary.refuse(name, refused)

    def _called(self, seen: dict[str, Any]) -> dict[str, Any]:
        request = self._asking[id(seen)]
        return _heard(request, self._inner.invoke(request.messages, _QUIETLY, **request.options))

    async def _acalled(self, seen: dict[str, Any]) -> dict[str, Any]:
        request = self._asking[id(seen)]
        return _heard(request, await self._inner.ainvoke(request.messages, _QUIETLY, **request.options))

    def _streamed(self, seen: dict[str, Any]) -> Iterator[dict[str, Any]]:
        request = self._asking[id(seen)]
        telling = _Telling(request)
        for message in self._inner.stream(request.messages, _QUIETLY, **request.options):
            yield from telling.came(message)
        yield from telling.over()

    async def _astreamed(self, seen: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        request = self._asking[id(seen)]
        telling = _Telling(request)
        async for message in self._inner.astream(request.messages, _QUIETLY, **request.options):
            for told in telling.came(message):
                yield told
        for told in telling.over():
            yield told


class _Bound(RunnableBinding[Any, Any]):
    """A bound model with options."""

    def with_fallbacks(self, fallbacks: Sequence[Any], **options: Any) -> Any:
        """As of the model."""
        model: Any = self.bound
        refuse_others(fallbacks, model.boundary_name, why="the bound model falls back to it")
        return super().with_fallbacks(fallbacks, **options)


def refuse_others(models: Iterable[Any], agent: str, *, why: str) -> None:
    """Raise UncontrolledModel for the first model that is not bound."""
    for model in (found for each in models for found in unbound(each)):
        raise controlling.UncontrolledModel.named(
            name_of(model), agent, why=f"{why}; give that bound_model(boundary, model, name=...)"
        )


def unbound(value: Any) -> Iterator[Any]:
    """The models in a value that do not go through a boundary."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from unbound(one)
    elif isinstance(value, BaseLanguageModel):
        yield from () if isinstance(value, BoundChatModel) else (value,)
    elif isinstance(value, Runnable):
        yield from unbound(_parts(value)) if _parts(value) is not None else _deciding(value)


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
        yield from unbound(held) if held else (chain,)


def name_of(model: Any) -> str:
    """What a model is called."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)


class _Telling:
    """A live stream as chunks that can be kept; what says nothing new comes with the one after it."""

    def __init__(self, request: _Request) -> None:
        self._request = request
        self._whole: Any = None
        self._held: list[Any] = []
        self._said: dict[str, dict[str, Any]] = {}

    def came(self, message: Any) -> Iterator[dict[str, Any]]:
        """The chunks that one more message of the stream makes."""
        if _nothing_but_last(message):  # LangChain puts one behind what it is given, and will again
            return
        self._held.append(message)
        self._whole = message if self._whole is None else self._whole + message
        for place, part in growing_parts(self._whole).items():
            told = piece(self._said.get(place, {}), part, place)
            self._said[place] = part
            if told is not None:
                yield self._kept(told)

    def over(self) -> Iterator[dict[str, Any]]:
        """How the stream ended."""
        for place, part in self._said.items():
            if part.get("arguments") == "":
                yield self._kept({"index": place, "type": "tool_call", "arguments": "{}"})
        yield self._kept({"finish_reason": None} if self._whole is None else ended_of(self._whole))

    def _kept(self, told: dict[str, Any]) -> dict[str, Any]:
        self._request.chunks[id(told)], self._held = self._held, []
        return told


def _told(request: _Request, growing: Growing, chunk: dict[str, Any]) -> list[AIMessageChunk]:
    """The model's own chunks where it ran live and nothing changed them; else the one that this says."""
    own = request.chunks.pop(id(chunk), None)
    return chunks_of(growing, chunk) if own is None else own


def _nothing_but_last(message: AIMessageChunk) -> bool:
    said = message.content or message.tool_call_chunks or message.usage_metadata or message.response_metadata
    return message.chunk_position == "last" and not said


def _heard(request: _Request, message: AIMessage) -> dict[str, Any]:
    request.message = message
    request.output = parts_of(message)
    return request.output


def _result(request: _Request, output: dict[str, Any]) -> ChatResult:
    """The model's own message where it ran live and nothing changed it; else the one that the output says."""
    live = request.message is not None and output is request.output
    message = request.message if live and request.message is not None else message_of(output)
    return ChatResult(generations=[ChatGeneration(message=message)])
