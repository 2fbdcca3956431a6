"""Both ends of LangChain's middleware: the outermost sees what the model asked, the innermost stands where the model and the tools would run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import Passage, apassing, current, passing

controlling.require("langchain", extra="adapters-langchain")

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from twiceshy.adapters.langchain_messages import answer_of, value_of
from twiceshy.adapters.langchain_model import BoundChatModel
from twiceshy.adapters.langchain_offers import refuse_hosted
from twiceshy.adapters.langchain_results import Interrupted, Interrupts, RecordedTool, result_of, told_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from twiceshy.boundary import Boundary

controlling.require_hooks(
    AgentMiddleware, "wrap_tool_call", "awrap_tool_call", "wrap_model_call", "awrap_model_call",
    extra="adapters-langchain",
)  # fmt: skip


class Outer(AgentMiddleware[Any, Any]):
    """The outer end: sees what the model asked, and what goes back to it."""

    def __init__(self, boundary: Boundary, *, middleware: bool = True) -> None:
        super().__init__()
        self._boundary = boundary
        self._middleware = middleware

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Open the passage, let the middleware run, close it."""
        passage = self._opened(request)
        return passing(passage, lambda: _returned(passage, request, handler(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """`wrap_tool_call` for async runs."""
        passage = self._opened(request)

        async def through() -> Any:
            return _returned(passage, request, await handler(request))

        return await apassing(passage, through)

    def _opened(self, request: ToolCallRequest) -> Passage:
        name = request.tool_call["name"]
        if name not in self._boundary.tools:  # one that middleware offers while the agent runs
            controlling.declare(self._boundary, name, None, {})
        asked = dict(request.tool_call["args"])
        return Passage(self._boundary, name, asked, middleware=self._middleware, waits=(Interrupted, GraphBubbleUp))


class Inner(AgentMiddleware[Any, Any]):
    """The inner end: stands where the model and the tools would run."""

    def __init__(self, boundary: Boundary, model: BoundChatModel | None, agent: str) -> None:
        super().__init__()
        self._boundary = boundary
        self._model = model
        self._agent = agent
        self._interrupts = Interrupts()

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The model, behind the boundary also where middleware has put another in its place."""
        return handler(self._through(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """`wrap_model_call` for async runs."""
        return await handler(self._through(request))

    def _through(self, request: Any) -> Any:
        refuse_hosted(request.tools, self._agent, self._boundary)
        if isinstance(request.model, BoundChatModel):
            return request
        name = f"{self._model.boundary_name if self._model else 'model'}:{getattr(request.model, 'model_name', request.model._llm_type)}"  # noqa: SLF001 - the one name that every chat model has
        bound = BoundChatModel.of(self._boundary, request.model, name=name, prompt=None, tools_behind=True)
        return request.override(model=bound)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Reach the boundary in place of the tool."""
        passage, call = self._open(request), request.tool_call
        ran: list[Any] = []

        def run(seen: dict[str, Any]) -> Any:
            try:
                return _kept(call, handler(_asking(request, seen)), ran)
            except GraphInterrupt as raised:
                raise self._waits(call, raised, ran) from raised

        try:
            shown = passage.reach(dict(call["args"]), run)
        except (Blocked, ToolAnsweredError, Interrupted) as refused:
            result = self._refused(refused, call, ran)
        else:
            result = self._answered(shown, call, ran)
        if not ran:
            with suppress(Exception):
                handler(_recorded(request, result))
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """`wrap_tool_call` for async runs."""
        passage, call = self._open(request), request.tool_call
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            try:
                return _kept(call, await handler(_asking(request, seen)), ran)
            except GraphInterrupt as raised:
                raise self._waits(call, raised, ran) from raised

        try:
            shown = await passage.areach(dict(call["args"]), run)
        except (Blocked, ToolAnsweredError, Interrupted) as refused:
            result = self._refused(refused, call, ran)
        else:
            result = self._answered(shown, call, ran)
        if not ran:
            with suppress(Exception):
                await handler(_recorded(request, result))
        return result

    def _open(self, request: ToolCallRequest) -> Passage:
        """The passage of this very tool: middleware may change what is asked of it, and put no other in its place."""
        name = request.tool.name if request.tool is not None else request.tool_call["name"]
        passage = current()
        if passage is None or passage.name != name:
            why = f"middleware runs it in place of {passage.name!r}" if passage else "it was called past the outer end"
            self._boundary.refuse(name, controlling.UncontrolledTool.named(name, self._agent, why=why))
        return passage

    def _waits(self, call: Any, raised: GraphInterrupt, ran: list[Any]) -> Interrupted:
        ran[:] = [raised]
        return self._interrupts.waits(call, raised)

    def _answered(self, shown: Any, call: Any, ran: list[Any]) -> Any:
        """The node's own result where it ran live and nothing changed it; else the one that the value says."""
        if ran and shown is ran[1]:
            return ran[0]
        if not ran:
            self._interrupts.answered(call)
        return result_of(shown, call)

    def _refused(self, refused: Blocked | ToolAnsweredError | Interrupted, call: Any, ran: list[Any]) -> ToolMessage:
        if isinstance(refused, Blocked):
            return answer_of(controlling.refusal(refused.reason), call)
        if isinstance(refused, ToolAnsweredError):
            return answer_of(str(refused), call, status="error")
        if not ran:
            self._interrupts.again(call, refused)
            raise refused
        raised: GraphInterrupt = ran[0]
        raise raised


class ToolAnsweredError(Exception):
    """A tool's error as LangChain had put it into words for the model: recorded and raised again like any other."""

    code = "tool_error"


def _asking(request: ToolCallRequest, seen: dict[str, Any]) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": seen})


def _recorded(request: ToolCallRequest, result: Any) -> ToolCallRequest:
    """The request as whoever listens hears of it where the tool itself does not run."""
    failed = isinstance(result, ToolMessage) and result.status == "error"
    outcome = ToolAnsweredError(result.content) if failed else result
    return request.override(tool=RecordedTool.giving(outcome, request.tool_call["name"]))


def _kept(call: Any, result: Any, ran: list[Any]) -> Any:
    """What a tool gave back, as a value; the result itself is kept, for it goes on as it is where nothing changed it."""
    if isinstance(result, ToolMessage) and result.status == "error":
        raise ToolAnsweredError(value_of(result))
    ran[:] = [result, told_of(result, call)]
    return ran[1]


def _returned(passage: Passage, request: ToolCallRequest, result: Any) -> Any:
    call = request.tool_call
    failed = isinstance(result, ToolMessage) and result.status == "error"
    value = {"error": value_of(result)} if failed else told_of(result, call)
    shown = passage.returned(value)
    if shown is value:
        return result
    if failed and isinstance(shown, dict) and shown.keys() == value.keys():
        return answer_of(shown["error"], call, status="error")
    return result_of(shown, call)
