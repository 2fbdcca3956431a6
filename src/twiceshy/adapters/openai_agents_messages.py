"""The OpenAI Agents SDK's items as requests and outputs of a boundary, and back. The shapes are those of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("agents", extra="adapters-openai-agents")

from agents import FunctionTool, ModelResponse, Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem
from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)


def asked(
    system: str | None, given: Any, settings: Any, tools: Sequence[Any], output_schema: Any, handoffs: Sequence[Any]
) -> dict[str, Any]:
    """The request that a model crossing is keyed by: messages, offered tools and handoffs, output format, sampling."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    told = [_message("system", system)] if system else []
    offered = [_offered(tool) for tool in tools]
    offered += [_function(handoff.tool_name, handoff.input_json_schema) for handoff in handoffs]
    form = None
    if output_schema is not None and not output_schema.is_plain_text():
        form = {"type": "json_schema", "schema": output_schema.json_schema()}
    sampling = {name: value for name, value in settings.to_json_dict().items() if value is not None}
    return {"messages": [*told, *_said(items)], "tools": offered, "output_format": form, "sampling": sampling}


def parts_of(response: ModelResponse) -> dict[str, Any]:
    """A response as a model crossing's output."""
    parts = [part for item in response.to_input_items() for part in _parts(_plain(item))]
    usage = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    calls = any(part["type"] == "tool_call" for part in parts)
    return {"parts": parts, "finish_reason": "tool_calls" if calls else "stop", "usage": usage}


def response_of(output: dict[str, Any]) -> ModelResponse:
    """The response that an output says."""
    told = output.get("usage", {})
    coming, going = told.get("input_tokens", 0), told.get("output_tokens", 0)
    usage = Usage(requests=1, input_tokens=coming, output_tokens=going, total_tokens=coming + going)
    items = [_item(part, number) for number, part in enumerate(output["parts"])]
    return ModelResponse(output=items, usage=usage, response_id=None)


def completed(response: ModelResponse) -> ResponseCompletedEvent:
    """A whole response as the event that ends a stream."""
    whole = Response(
        id="twiceshy", created_at=0, model="", object="response", output=response.output, tool_choice="auto", tools=[],
        parallel_tool_calls=True,
    )  # fmt: skip
    return ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)


def _said(items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for item in map(_plain, items):
        kind = item.get("type", "message")
        if kind == "function_call_output":
            answer = {"type": "tool_call_response", "id": item["call_id"], "response": _value(item["output"])}
            yield {"role": "tool", "parts": [answer]}
        elif kind == "message":
            yield {"role": item["role"], "parts": list(_parts(item))}
        else:
            yield {"role": "assistant", "parts": list(_parts(item))}


def _parts(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = item.get("type", "message")
    if kind == "message":
        content = item["content"]
        yield from map(_block, [content] if isinstance(content, str) else content)
    elif kind == "function_call":
        yield {"type": "tool_call", "id": item["call_id"], "name": item["name"], "arguments": _value(item["arguments"])}
    else:
        yield {"type": kind, "native": item}


def _block(block: Any) -> dict[str, Any]:
    text = block if isinstance(block, str) else block.get("text")
    if isinstance(text, str):
        return {"type": "text", "content": text}
    return {"type": str(block.get("type")), "native": block}


def _item(part: dict[str, Any], number: int) -> Any:
    if part["type"] == "text":
        content = [{"type": "output_text", "text": part["content"], "annotations": []}]
        made = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    elif part["type"] == "tool_call":
        spelt = part["arguments"] if isinstance(part["arguments"], str) else json.dumps(part["arguments"])
        made = {"type": "function_call", "call_id": part["id"], "name": part["name"], "arguments": spelt}
    else:
        made = part["native"]
    return _ITEM.validate_python(made)


def _offered(tool: Any) -> dict[str, Any]:
    if isinstance(tool, FunctionTool):
        return _function(tool.name, tool.params_json_schema)
    return {"type": getattr(tool, "name", type(tool).__name__)}


def _function(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": schema}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _value(text: Any) -> Any:
    """JSON text as the value it spells, and Python's spelling of a plain value, which the SDK writes results in; other text stays text."""
    import ast

    if not isinstance(text, str):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def _plain(item: Any) -> dict[str, Any]:
    dumped = item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else dict(item)
    return {name: value for name, value in dumped.items() if name != "id" or dumped.get("type") == "reasoning"}
