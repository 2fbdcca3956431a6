"""LangChain's messages as requests and outputs of a boundary, and back. The shapes are those of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.messages import AIMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CALLS = frozenset({"tool_use", "tool_call", "function_call"})
"""Content blocks that say again what `tool_calls` says."""


def asked(messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> dict[str, Any]:
    """The request that a model crossing is keyed by. options: what the model was bound with (tools, response_format, sampling)."""
    rest = {
        name: value for name, value in options.items() if name not in ("tools", "response_format") and value is not None
    }
    return {
        "messages": [_said(message) for message in messages],
        "tools": [_offered(tool) for tool in options.get("tools") or ()],
        "output_format": _plain(options.get("response_format")),
        "sampling": _plain(rest),
    }  # fmt: skip


def parts_of(message: AIMessage) -> dict[str, Any]:
    """A model's message as a model crossing's output."""
    told = {
        name: message.response_metadata[name]
        for name in ("finish_reason", "stop_reason", "model_name")
        if name in message.response_metadata
    }
    return {
        "parts": [*_content(message), *_calls(message)],
        "finish_reason": told.get("finish_reason") or told.get("stop_reason"),
        "usage": _plain(message.usage_metadata or {}),
        **({"native": _plain(message.additional_kwargs)} if message.additional_kwargs else {}),
    }


def message_of(output: dict[str, Any]) -> AIMessage:
    """The message that an output says."""
    content = [_block(part) for part in output["parts"] if part["type"] != "tool_call"]
    calls = [
        {"type": "tool_call", "id": part["id"], "name": part["name"], "args": part["arguments"]}
        for part in output["parts"] if part["type"] == "tool_call"
    ]  # fmt: skip
    plain = all(isinstance(block, str) for block in content)
    return AIMessage(
        content="".join(content) if plain else [_typed(block) for block in content],
        tool_calls=calls,
        additional_kwargs=output.get("native", {}),
        response_metadata={"finish_reason": output["finish_reason"]} if output.get("finish_reason") else {},
        usage_metadata=output.get("usage") or None,
    )


def value_of(message: ToolMessage) -> Any:
    """What a tool returned, as a value: JSON text is read where it would be written again as it stands."""
    content = message.content
    if isinstance(content, str):
        try:
            value = json.loads(content)
        except ValueError:
            return content
        return value if _written(value) == content else content
    return _plain(content)


def answer_of(value: Any, call: Mapping[str, Any], *, status: Any = "success") -> ToolMessage:
    """A value as the answer to a call, written as LangChain writes results."""
    blocks = isinstance(value, list) and value and all(isinstance(block, dict) and "type" in block for block in value)
    content = value if isinstance(value, str) or blocks else _written(value)
    return ToolMessage(content=content, name=call["name"], tool_call_id=call["id"], status=status)


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _said(message: BaseMessage) -> dict[str, Any]:
    role = _ROLES.get(message.type, message.type)
    if isinstance(message, ToolMessage):
        value = value_of(message)
        response = {"error": value} if message.status == "error" else value
        answer = {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
        return {"role": role, "parts": [answer]}
    calls = _calls(message) if isinstance(message, AIMessage) else ()
    return {"role": role, "parts": [*_content(message), *calls]}


def _content(message: BaseMessage) -> Iterator[dict[str, Any]]:
    content = [message.content] if isinstance(message.content, str) else message.content
    for block in content:
        if isinstance(block, str):
            if block:
                yield {"type": "text", "content": block}
        elif block.get("type") not in _CALLS:
            yield {"type": str(block.get("type", "block")), "native": _plain(block)}


def _calls(message: AIMessage) -> Iterator[dict[str, Any]]:
    for call in message.tool_calls:
        yield {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": _plain(call["args"])}


def _block(part: Mapping[str, Any]) -> Any:
    return part["native"] if "native" in part else part["content"]


def _typed(block: Any) -> dict[str, Any]:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def _offered(tool: Any) -> dict[str, Any]:
    """A tool as it is offered, whichever provider's spelling it has."""
    if not isinstance(tool, dict):
        return {"type": "function", "name": str(getattr(tool, "name", tool))}
    function = tool.get("function", tool)
    if "name" not in function:
        return dict(_plain(tool))
    parameters = function.get("parameters", function.get("input_schema"))
    return {"type": "function", "name": function["name"], "parameters": _plain(parameters)}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=repr))
