"""The case's tools as an MCP server: JSON-RPC messages in and out, the same for streamable HTTP and stdio.

The handshake era of the protocol (initialize, tools/list, tools/call, ping), which clients of the later one fall back to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from twiceshy.envelope import Effect
from twiceshy.gateway.answers import words_of
from twiceshy.gateway.messages import BadRequest, UnreadableCall, parsed, spelled
from twiceshy.identity import tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from twiceshy.gateway.catalog import OfferedTool
    from twiceshy.gateway.messages import Json

LATEST = "2025-11-25"
_SPOKEN = ("2024-11-05", "2025-03-26", "2025-06-18", LATEST)
_NO_METHOD = -32601


_HANDSHAKE = frozenset({"initialize", "ping", "tools/list", "server/discover"})
"""What a client asks before it does anything; `server/discover` is of the later era, and its refusal sends the client back to ours."""


class Call(Protocol):
    """Calls a tool of the case."""

    def __call__(self, name: str, arguments: Mapping[str, Any], /) -> Any:
        """What it shows; raises what it raised."""
        ...


def answered(
    message: Any, tools: Iterable[OfferedTool], call: Call, *, note: Callable[[str], object], version: str
) -> Json | None:
    """The answer to one message; None for a notification. note: hears of each that is no call. version: of this release, which clients may log.

    A tool's own error is a result that says so; what ends the run goes through. A call without an id, which wants no answer, is a call all the same.
    Raises UnreadableCall for a call without a name or an object of arguments, BadRequest for what is no message, or asks for more than tools.
    """
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise BadRequest("mcp: a message is an object with a method.")
    method, params = message["method"], message.get("params")
    told = params if isinstance(params, dict) else {}
    if method == "tools/call":
        shown = _called(told, call)
        return _answer(message, shown) if "id" in message else None
    if method not in _HANDSHAKE and not method.startswith("notifications/"):
        raise BadRequest(f"mcp: the server has tools, and no method {method!r}.")
    note(method)
    return _greeted(message, told, tools, version) if "id" in message else None


def _greeted(message: Json, told: Json, tools: Iterable[OfferedTool], version: str) -> Json:
    match message["method"]:
        case "initialize":
            return _answer(message, _hello(told, version))
        case "ping":
            return _answer(message, {})
        case "tools/list":
            return _answer(message, {"tools": [_listed(tool) for tool in tools]})
    return _failed(message["id"], _NO_METHOD, f"the gateway has no method {message['method']!r}")


def _called(told: Json, call: Call) -> Json:
    name, arguments = told.get("name"), told.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        raise UnreadableCall.of(name if isinstance(name, str) else "")
    try:
        return result(call(name, arguments or {}))
    except Exception as raised:  # noqa: BLE001 - whatever was recorded; a divergence is none of these
        return {"content": [{"type": "text", "text": words_of(raised)}], "isError": True}


def result(shown: Any) -> Json:
    """A tool's value as a result: text, and the object itself where it is one."""
    plain = tagged(shown)
    told: Json = {"content": [{"type": "text", "text": spelled(plain)}], "isError": False}
    return told | ({"structuredContent": plain} if isinstance(plain, dict) else {})


def value(told: Mapping[str, Any]) -> Any:
    """The value that a result of another server holds: its object, else its text as JSON where it is that, else its content."""
    if told.get("structuredContent") is not None:
        return told["structuredContent"]
    content = told.get("content") or []
    if len(content) == 1 and content[0].get("type") == "text":
        return parsed(content[0].get("text"))
    return content


def _hello(told: Json, version: str) -> Json:
    wanted = told.get("protocolVersion")
    spoken = wanted if wanted in _SPOKEN else LATEST
    return {
        "protocolVersion": spoken,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "twiceshy", "version": version},
    }


def _listed(tool: OfferedTool) -> Json:
    reads = tool.effect is not Effect.WRITE
    listed: Json = {
        "name": tool.name,
        "inputSchema": {"type": "object", **tool.parameters},
        "annotations": {"readOnlyHint": reads},
    }
    return listed | ({"description": tool.description} if tool.description is not None else {})


def _answer(message: Json, told: Json) -> Json:
    return {"jsonrpc": "2.0", "id": message["id"], "result": told}


def _failed(call_id: Any, code: int, problem: str) -> Json:
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": problem}}
