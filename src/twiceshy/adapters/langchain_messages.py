"""LangChain's messages as requests and outputs of a boundary, and back. The shapes are those of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("langchain_core", extra="adapters-langchain")

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from twiceshy.streaming import Growing

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CALLS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""Content blocks that say again what `tool_calls` says."""
_WRITTEN = {"text": "text", "thinking": "thinking", "reasoning": "reasoning"}
"""The field of a block that the model writes, by its type."""


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
    return {"parts": [*_content(message), *_calls(message)], **ended_of(message)}


def ended_of(message: AIMessage) -> dict[str, Any]:
    """What an output says besides its parts; of a stream, how it ended."""
    told = message.response_metadata
    return {
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
        content="".join(content) if plain else [_typed(block) for block in content], tool_calls=calls, **_ending(output)
    )


def growing_parts(message: AIMessageChunk) -> dict[str, dict[str, Any]]:
    """The parts of a message as far as it has come, by a name for each: the arguments of a call are the text that the model writes."""
    said = {f"content{at}": part for at, part in enumerate(_content(message))}
    for at, call in enumerate(message.tool_call_chunks):
        said[f"call{at if call.get('index') is None else call['index']}"] = {
            "type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"] or "",
        }  # fmt: skip
    return said


def chunks_of(growing: Growing, chunk: dict[str, Any]) -> list[AIMessageChunk]:
    """What a stream tells of one more chunk: nothing where it ended without a word."""
    before = len(growing.parts)
    at = growing.add(chunk)
    if at is not None:
        return [_piece_of(growing.parts[at], chunk, at, begins=at == before)]
    ending = _ending(chunk)
    return [AIMessageChunk(content="", **ending)] if any(ending.values()) else []


def _piece_of(part: dict[str, Any], chunk: dict[str, Any], at: int, *, begins: bool) -> AIMessageChunk:
    if part["type"] == "tool_call":
        given = chunk.get("arguments")
        spelt = given if isinstance(given, str) or given is None else json.dumps(given)
        call = tool_call_chunk(name=chunk.get("name"), id=chunk.get("id"), index=at, args=spelt)
        return AIMessageChunk(content="", tool_call_chunks=[call])
    written = {} if begins or "content" not in part else {"content": chunk.get("content", "")}
    block = _block({**part, **written})
    return AIMessageChunk(content=block if isinstance(block, str) else [_typed(block)])


def _ending(output: dict[str, Any]) -> dict[str, Any]:
    return {
        "additional_kwargs": output.get("native", {}),
        "response_metadata": {"finish_reason": output["finish_reason"]} if output.get("finish_reason") else {},
        "usage_metadata": output.get("usage") or None,
    }


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
            yield _blocked(_plain(block))


def _blocked(block: dict[str, Any]) -> dict[str, Any]:
    """A block as a part: what of it is written stands apart, since it comes piece by piece."""
    kind = str(block.get("type", "block"))
    field = _WRITTEN.get(kind)
    if field is None or not isinstance(block.get(field), str):
        return {"type": kind, "native": block}
    rest = {name: value for name, value in block.items() if name != field}
    return {"type": "text" if kind == "text" else "reasoning", "content": block[field], "native": rest}


def _calls(message: AIMessage) -> Iterator[dict[str, Any]]:
    for call in message.tool_calls:
        yield {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": _plain(call["args"])}


def _block(part: Mapping[str, Any]) -> Any:
    """A part as a block of content; plain text where it was that."""
    native = part.get("native", {})
    if "content" not in part:
        return native
    if native.get("type") in _WRITTEN:
        return {**native, _WRITTEN[native["type"]]: part["content"]}
    return part["content"] if part["type"] == "text" else {"type": "reasoning", "reasoning": part["content"]}


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
