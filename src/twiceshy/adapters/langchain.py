"""A LangChain agent behind a boundary: middleware outermost and innermost, so that both sides of all the middleware between them are seen.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        graph = create_agent(boundary, model, tools=[...], system_prompt=PROMPT, middleware=[...])
        return lambda user: graph.invoke({"messages": [("user", user["message"])]})["messages"][-1].text

`create_agent` is LangChain's own with the boundary in front. In a LangGraph graph of your own, `bound_model(boundary, model)` stands for the model and
`tool_node(boundary, tools)` for its ToolNode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import Passage, apassing, current, passing

controlling.require("langchain", extra="adapters-langchain")

import langchain.agents
from langchain.agents.middleware import AgentMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as as_tool
from langgraph.prebuilt import ToolNode

from twiceshy.adapters.langchain_messages import answer_of, value_of
from twiceshy.adapters.langchain_model import BoundChatModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.language_models.chat_models import BaseChatModel
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from twiceshy.boundary import Boundary

_READING = frozenset(
    {"web_search", "web_search_preview", "web_search_20250305", "file_search", "web_fetch", "google_search"}
)
"""Tools of a provider that change nothing; they run inside the model's own crossing."""


def create_agent(
    boundary: Boundary, model: str | BaseChatModel, tools: Sequence[Any] = (), *, middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    name: str | None = None, model_name: str = "model", prompt: str | None = None, effects: Mapping[str, Any] | None = None, **rest: Any,
) -> Any:  # fmt: skip
    """LangChain's `create_agent` with its model and tools behind the boundary. Call it while the candidate is built.

    model_name: the model boundary's name. prompt: the prompt's text, whose digest is the layer's (by default system_prompt, where that is text).
    effects: tool -> read, write or none. Raises UncontrolledTool (exit code 4) for a provider's tool that can write.
    """
    agent = name or "agent"
    offered = [*(tool for layer in middleware for tool in getattr(layer, "tools", ())), *tools]
    system = rest.get("system_prompt")
    declared = _declared(boundary, offered, agent, effects)
    chat = init_chat_model(model) if isinstance(model, str) else model
    bound = bound_model(boundary, chat, name=model_name, prompt=prompt or (system if isinstance(system, str) else None))
    between = any(_wraps_tools(layer) for layer in middleware)
    layers = [Outer(boundary, middleware=between), *middleware, Inner(boundary, bound)]
    own = declared[len(offered) - len(tools) :]
    return langchain.agents.create_agent(bound, own, middleware=layers, name=name, **rest)


def bound_model(
    boundary: Boundary, model: BaseChatModel, *, name: str = "model", prompt: str | None = None
) -> BoundChatModel:
    """The chat model behind the boundary."""
    return BoundChatModel.of(boundary, model, name=name, prompt=prompt)


def tool_node(
    boundary: Boundary, tools: Sequence[Any], *, effects: Mapping[str, Any] | None = None, **rest: Any
) -> ToolNode:
    """LangGraph's ToolNode with its tools behind the boundary. rest: what ToolNode takes besides."""
    declared = _declared(boundary, tools, str(rest.get("name", "tools")), effects)
    inner, outer = Inner(boundary, None), Outer(boundary, middleware=False)
    return ToolNode(
        declared, **rest,
        wrap_tool_call=lambda request, run: outer.wrap_tool_call(request, lambda asked: inner.wrap_tool_call(asked, run)),
        awrap_tool_call=lambda request, run: outer.awrap_tool_call(request, lambda asked: inner.awrap_tool_call(asked, run)),
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
        return Passage(self._boundary, name, dict(request.tool_call["args"]), middleware=self._middleware)


class Inner(AgentMiddleware[Any, Any]):
    """The inner end: stands where the model and the tools would run."""

    def __init__(self, boundary: Boundary, model: BoundChatModel | None) -> None:
        super().__init__()
        self._boundary = boundary
        self._model = model

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The model, behind the boundary also where middleware has put another in its place."""
        return handler(self._through(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """`wrap_model_call` for async runs."""
        return await handler(self._through(request))

    def _through(self, request: Any) -> Any:
        _refuse_uncontrolled((tool for tool in request.tools if isinstance(tool, dict)), "agent")
        if isinstance(request.model, BoundChatModel):
            return request
        name = f"{self._model.boundary_name if self._model else 'model'}:{getattr(request.model, 'model_name', request.model._llm_type)}"  # noqa: SLF001 - the one name that every chat model has
        return request.override(model=BoundChatModel.of(self._boundary, request.model, name=name, prompt=None))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Reach the boundary in place of the tool."""
        call = request.tool_call
        ran: list[Any] = []

        def run(seen: dict[str, Any]) -> Any:
            return _kept(call["name"], handler(_asking(request, seen)), ran)

        try:
            return _message(_open(call["name"]).reach(dict(call["args"]), run), call, ran)
        except (Blocked, ToolAnsweredError) as refused:
            return _refused(refused, call)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """`wrap_tool_call` for async runs."""
        call = request.tool_call
        ran: list[Any] = []

        async def run(seen: dict[str, Any]) -> Any:
            return _kept(call["name"], await handler(_asking(request, seen)), ran)

        try:
            return _message(await _open(call["name"]).areach(dict(call["args"]), run), call, ran)
        except (Blocked, ToolAnsweredError) as refused:
            return _refused(refused, call)


class ToolAnsweredError(Exception):
    """A tool's error as LangChain had put it into words for the model: recorded and raised again like any other."""

    code = "tool_error"


def _open(name: str) -> Passage:
    passage = current()
    if passage is None:
        raise controlling.UncontrolledTool.named(
            name, "agent", why="it was called past the outer end of its middleware"
        )
    return passage


def _asking(request: ToolCallRequest, seen: dict[str, Any]) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": seen})


def _kept(name: str, result: Any, ran: list[Any]) -> Any:
    """The value of a tool's message; the message itself is kept, for it goes on as it is where nothing changed it."""
    if not isinstance(result, ToolMessage):
        raise controlling.UnrecordableResult.of(name, result)
    if result.status == "error":
        raise ToolAnsweredError(value_of(result))
    ran[:] = [result, value_of(result)]
    return ran[1]


def _message(shown: Any, call: Any, ran: list[Any]) -> ToolMessage:
    if ran and shown is ran[1]:
        message: ToolMessage = ran[0]
        return message
    return answer_of(shown, call)


def _refused(refused: Blocked | ToolAnsweredError, call: Any) -> ToolMessage:
    if isinstance(refused, Blocked):
        return answer_of(controlling.refusal(refused.reason), call)
    return answer_of(str(refused), call, status="error")


def _returned(passage: Passage, request: ToolCallRequest, result: Any) -> Any:
    if not isinstance(result, ToolMessage):
        raise controlling.UnrecordableResult.of(request.tool_call["name"], result)
    failed = result.status == "error"
    value = {"error": value_of(result)} if failed else value_of(result)
    shown = passage.returned(value)
    if shown is value:
        return result
    if failed and isinstance(shown, dict) and shown.keys() == value.keys():
        return answer_of(shown["error"], request.tool_call, status="error")
    return answer_of(shown, request.tool_call)


def _declared(boundary: Boundary, tools: Sequence[Any], agent: str, effects: Mapping[str, Any] | None) -> list[Any]:
    """Every tool as LangChain holds it, declared on the boundary."""
    _refuse_uncontrolled((tool for tool in tools if isinstance(tool, dict)), agent)
    made = [tool if isinstance(tool, BaseTool | dict) else as_tool(tool) for tool in tools]
    held = {tool.name: tool for tool in made if isinstance(tool, BaseTool)}
    given = dict(effects or {})
    controlling.refuse_unknown_effects(given, held, agent)
    for tool in held.values():
        controlling.declare(boundary, tool.name, _schema(tool), given)
    return made


def _refuse_uncontrolled(tools: Iterable[Mapping[str, Any]], agent: str) -> None:
    for tool in tools:
        kind = str(tool.get("type", tool.get("name", "tool")))
        if kind not in _READING:
            raise controlling.UncontrolledTool.named(kind, agent, why="the model's provider runs it")


def _wraps_tools(layer: AgentMiddleware[Any, Any]) -> bool:
    kind = type(layer)
    return (
        kind.wrap_tool_call is not AgentMiddleware.wrap_tool_call
        or kind.awrap_tool_call is not AgentMiddleware.awrap_tool_call
    )


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema: Any = tool.tool_call_schema
    return dict(schema) if isinstance(schema, dict) else dict(schema.model_json_schema())
