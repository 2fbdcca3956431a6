"""The refund agent over MCP: its tools stand on a server. `examples.frameworks.with_mcp:unguarded` and `:guarded`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mcp
from mcp.server import MCPServer
from mcp.types import TextContent, ToolAnnotations

import twiceshy
from examples.frameworks import refunding
from examples.refund.agent import PROMPT
from examples.refund.planner import plan
from twiceshy.adapters.mcp_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.types import CallToolResult


def server() -> MCPServer:
    """The shop's server. Its hints are what a server says of itself: suggestions."""
    made = MCPServer("shop")
    for tool in refunding.Tools().all():
        reads = tool.__name__ in refunding.EFFECTS
        made.add_tool(tool, annotations=ToolAnnotations(read_only_hint=reads, destructive_hint=not reads))
    return made


def _agent(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    refunding.hooked(boundary)
    planner = boundary.model("planner", plan, prompt=PROMPT)
    names = [tool.__name__ for tool in refunding.Tools().all()]
    client = Client(boundary, lambda: mcp.Client(server()), tools=names, effects=refunding.EFFECTS)

    async def answer(user: dict[str, Any]) -> Any:
        async with client as shop:
            return await _conversation(planner, shop, user["message"])

    return answer


async def _conversation(planner: Callable[[dict[str, Any]], Any], shop: Client, message: str) -> Any:
    """Ask the model, call what it proposes, until it has a final output."""
    listed = (await shop.list_tools()).tools
    tools = [{"type": "function", "name": tool.name, "parameters": tool.input_schema} for tool in listed]
    messages = [_said("system", PROMPT), _said("user", message)]
    while True:
        output = planner({"messages": list(messages), "tools": tools, "output_format": None, "sampling": {}})
        calls = [part for part in output["parts"] if part["type"] == "tool_call"]
        if not calls:
            return json.loads(output["parts"][0]["content"])
        messages.append({"role": "assistant", "parts": output["parts"]})
        answers = [await _answered(shop, call) for call in calls]
        messages.append({"role": "tool", "parts": answers})


async def _answered(shop: Client, call: dict[str, Any]) -> dict[str, Any]:
    result = await shop.call_tool(call["name"], call["arguments"])
    return {"type": "tool_call_response", "id": call["id"], "response": _response(result)}


def _response(result: CallToolResult) -> Any:
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    return {"error": text} if result.is_error else json.loads(text)


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


@twiceshy.candidate(workflow="refund")
def unguarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """As in production when T-1042 happened."""
    return _agent(boundary)


@twiceshy.candidate(workflow="refund")
def guarded(boundary: twiceshy.Boundary) -> Callable[[dict[str, Any]], Any]:
    """With a guard before the refund."""
    refunding.guarded(boundary)
    return _agent(boundary)
