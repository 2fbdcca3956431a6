"""One agent in each framework, with the real framework and a scripted model: five tools that are plain functions, and a run that shows what it was told."""

import json
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

import mcp
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from agents.items import ToolCallItem, ToolCallOutputItem
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from mcp.server import MCPServer
from mcp.types import TextContent
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.toolsets import FunctionToolset

import langchain_agents
import openai_agents
import pydantic_agents
from twiceshy.adapters import langchain, mcp_client, pydantic_ai
from twiceshy.adapters import openai_agents as openai_adapter
from twiceshy.boundary import Boundary

Agent = Callable[[Any], Any]
Tool = Callable[..., Any]
Turn = Any
"""A text, or a list of calls (tool, arguments)."""


def find(day: str) -> dict[str, Any]:
    """The limit of a day."""
    return {"day": day, "limit": 500}


def look(day: str) -> dict[str, Any]:
    """Look, in vain."""
    raise LookupError(f"no such day: {day}")


def ask(amount: int) -> dict[str, Any]:
    """Ask for an approval."""
    return {"asked": amount}


def pay(amount: int, by: str = "nobody") -> dict[str, Any]:
    """Pay."""
    return {"paid": amount, "by": by}


def tell(to: str) -> dict[str, Any]:
    """Tell somebody."""
    return {"told": to}


TOOLS = (find, look, ask, pay, tell)


def failing_as(error: type[Exception], tool: Tool) -> Tool:
    """The tool, its error of the kind that a framework tells the model of."""

    @wraps(tool)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return tool(*given, **named)
        except LookupError as raised:
            raise error(str(raised)) from raised

    return called


def with_pydantic_ai(boundary: Boundary, turns: Sequence[Turn], late: Sequence[Tool]) -> Agent:
    """Late tools come from a toolset that a function makes for each run."""
    own = [failing_as(ModelRetry, tool) for tool in TOOLS if tool not in late]
    brought = [lambda _: FunctionToolset([failing_as(ModelRetry, tool) for tool in late])] if late else []
    made = pydantic_ai.bound(
        PydanticAgent(pydantic_agents.scripted(*turns), tools=own, toolsets=brought), boundary
    )  # fmt: skip

    async def agent(_: Any) -> Any:
        result = await made.run("go")
        parts = [part for message in result.all_messages() for part in message.parts]
        shown = {part.tool_name: part.content for part in parts if isinstance(part, ToolReturnPart)}
        return {"text": result.output, "shown": shown}

    return agent


class Bringing(AgentMiddleware[Any, Any]):
    """Offers tools while the agent runs."""

    def __init__(self, tools: Sequence[Any]) -> None:
        super().__init__()
        self._brought = {tool.name: tool for tool in tools}

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[*request.tools, *self._brought.values()]))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        tool = self._brought.get(request.tool_call["name"])
        return handler(request if tool is None else request.override(tool=tool))


def with_langchain(boundary: Boundary, turns: Sequence[Turn], late: Sequence[Tool]) -> Agent:
    """Late tools come from middleware."""
    made = {
        tool: StructuredTool.from_function(failing_as(ToolException, tool), handle_tool_error=True) for tool in TOOLS
    }
    model = langchain_agents.Scripted(turns=list(turns))
    own = [made[tool] for tool in TOOLS if tool not in late]
    middleware = [Bringing([made[tool] for tool in late])] if late else []
    graph = langchain.create_agent(boundary, model, own, middleware=middleware)

    def agent(_: Any) -> Any:
        messages = graph.invoke(langchain_agents.ASK)["messages"]
        shown = {message.name: _read(message.text) for message in messages if isinstance(message, ToolMessage)}
        return {"text": messages[-1].text, "shown": shown}

    return agent


def with_openai_agents(boundary: Boundary, turns: Sequence[Turn], late: Sequence[Tool]) -> Agent:
    """No tool comes late here: a run that brings one along is ended."""
    assert not late
    tools = [function_tool(tool, strict_mode=False) for tool in TOOLS]
    made = openai_adapter.bound(
        OpenAIAgent(name="agent", model=openai_agents.Scripted(*turns), tools=tools), boundary
    )  # fmt: skip

    async def agent(_: Any) -> Any:
        result = await Runner.run(made, "go")
        asked = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
        names: dict[Any, Any] = {call.call_id: call.name for call in asked}  # type: ignore[union-attr]
        answers = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        shown = {names[dict(item.raw_item)["call_id"]]: _read(item.output) for item in answers}
        return {"text": result.final_output, "shown": shown}

    return agent


def with_mcp(boundary: Boundary, turns: Sequence[Turn], late: Sequence[Tool]) -> Agent:
    """Late tools are those that the agent did not know by name before it was connected."""
    server = MCPServer("shop")
    for tool in TOOLS:
        server.add_tool(tool)
    known = [tool.__name__ for tool in TOOLS if tool not in late]
    client = mcp_client.Client(boundary, lambda: mcp.Client(server), tools=known)
    model = boundary.model("model", _saying(turns))

    async def agent(_: Any) -> Any:
        async with client as shop:
            if late:
                await shop.list_tools()
            return await _conversation(model, shop)

    return agent


async def _conversation(model: Any, shop: mcp_client.Client) -> Any:
    messages: list[Any] = []
    shown: dict[str, Any] = {}
    while True:
        parts = model({"messages": list(messages)})["parts"]
        if parts[0]["type"] == "text":
            return {"text": parts[0]["content"], "shown": shown}
        for part in parts:
            result = await shop.call_tool(part["name"], part["arguments"])
            text = "".join(block.text for block in result.content if isinstance(block, TextContent))
            shown[part["name"]] = _read(text)
            messages.append({"role": "tool", "response": {"error": text} if result.is_error else text})


def _saying(turns: Sequence[Turn]) -> Callable[[Any], dict[str, Any]]:
    at = count()

    def say(_: Any) -> dict[str, Any]:
        turn = turns[min(next(at), len(turns) - 1)]
        if isinstance(turn, str):
            return {"parts": [{"type": "text", "content": turn}]}
        return {"parts": [{"type": "tool_call", "id": "c", "name": name, "arguments": args} for name, args in turn]}

    return say


def _read(text: Any) -> Any:
    """What a framework shows of a value: some spell a dictionary as Python does."""
    if not isinstance(text, str):
        return text
    for spelt in (text, text.replace("'", '"')):
        try:
            return json.loads(spelt)
        except ValueError:
            continue
    return text


class Framework(NamedTuple):
    """make: the agent of these turns, and of the tools that come to it only while it runs. late: whether any can."""

    name: str
    make: Callable[[Boundary, Sequence[Turn], Sequence[Tool]], Agent]
    late: bool = True


FRAMEWORKS = [
    Framework("pydantic-ai", with_pydantic_ai),
    Framework("langchain", with_langchain),
    Framework("openai-agents", with_openai_agents, late=False),
    Framework("mcp", with_mcp),
]
