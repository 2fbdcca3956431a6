"""A LangChain chat model behind a boundary: LangChain binds tools, parses and retries as ever; only the model's own answer crosses."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from twiceshy.adapters.langchain_messages import asked, message_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

    from twiceshy.boundary import Boundary

# The request as LangChain holds it, beside the plain one that crosses, and the model's real message on the way back.
_LIVE: ContextVar[_Request] = ContextVar("twiceshy_langchain")


@dataclass
class _Request:
    messages: list[BaseMessage]
    options: dict[str, Any]
    output: dict[str, Any] = field(default_factory=dict)
    message: AIMessage | None = None


class BoundChatModel(BaseChatModel):
    """A chat model whose answers come through a boundary. It answers whole: a stream is one chunk."""

    _inner: BaseChatModel = PrivateAttr()
    _cross: Callable[[dict[str, Any]], Any] = PrivateAttr()
    _across: Callable[[dict[str, Any]], Any] = PrivateAttr()
    _boundary_name: str = PrivateAttr()

    @classmethod
    def of(cls, boundary: Boundary, inner: BaseChatModel, *, name: str, prompt: str | None) -> BoundChatModel:
        """The model behind the boundary of that name."""
        made = cls(disable_streaming=True, profile=inner.profile)
        version = controlling.version_of(inner)
        made._inner, made._boundary_name = inner, name
        made._across = boundary.model(name, made._acalled, prompt=prompt, version=version)
        made._cross = boundary.model(name, made._called, prompt=prompt, version=version)
        return made

    @property
    def boundary_name(self) -> str:
        """The name of its boundary."""
        return self._boundary_name

    @property
    def _llm_type(self) -> str:
        return f"twiceshy-{self._inner._llm_type}"  # noqa: SLF001 - every chat model has it, and no public name

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Runnable[Any, AIMessage]:
        """Offer tools as the model itself would."""
        chosen = {"tool_choice": tool_choice} if tool_choice is not None else {}
        try:
            offered = getattr(self._inner.bind_tools(tools, **chosen, **options), "kwargs", None)
        except NotImplementedError:  # a model that knows no tools; told in the common spelling
            offered = None
        if offered is None:
            offered = {"tools": [convert_to_openai_tool(tool) for tool in tools], **chosen, **options}
        return self.bind(**offered)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        request = _Request(messages, _with_stop(options, stop))
        token = _LIVE.set(request)
        try:
            output = self._cross(asked(messages, request.options))
        finally:
            _LIVE.reset(token)
        return _result(request, output)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        request = _Request(messages, _with_stop(options, stop))
        token = _LIVE.set(request)
        try:
            output = await self._across(asked(messages, request.options))
        finally:
            _LIVE.reset(token)
        return _result(request, output)

    def _called(self, _: dict[str, Any]) -> dict[str, Any]:
        request = _LIVE.get()
        return _heard(request, self._inner.invoke(request.messages, **request.options))

    async def _acalled(self, _: dict[str, Any]) -> dict[str, Any]:
        request = _LIVE.get()
        return _heard(request, await self._inner.ainvoke(request.messages, **request.options))


def _with_stop(options: dict[str, Any], stop: list[str] | None) -> dict[str, Any]:
    return options if stop is None else {**options, "stop": stop}


def _heard(request: _Request, message: AIMessage) -> dict[str, Any]:
    request.message = message
    request.output = parts_of(message)
    return request.output


def _result(request: _Request, output: dict[str, Any]) -> ChatResult:
    """The model's own message where it ran live and nothing changed it; else the one that the output says."""
    live = request.message is not None and output is request.output
    message = request.message if live and request.message is not None else message_of(output)
    return ChatResult(generations=[ChatGeneration(message=message)])
