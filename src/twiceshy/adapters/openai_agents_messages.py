"""The OpenAI Agents SDK's items as requests and outputs of a boundary, and back. The shapes are those of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("agents", extra="adapters-openai-agents")

from agents import FunctionTool, ModelResponse, ToolOutputFileContent, ToolOutputImage, ToolOutputText, Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem, ResponseUsage
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
_OUTPUTS = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
_OUTPUT: TypeAdapter[Any] = TypeAdapter(ToolOutputText | ToolOutputImage | ToolOutputFileContent)
_MARK = "openai_agents_tool_output"


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
    return {"parts": parts, **_ended(parts, response.usage)}


def parts_of_item(item: Any) -> list[dict[str, Any]]:
    """The parts of one item of a response."""
    return list(_parts(_plain(item)))


def ended_of(response: Response) -> dict[str, Any]:
    """What an output says besides its parts: how the stream of this response ended."""
    return _ended([part for item in response.output for part in parts_of_item(item)], response.usage)


def _ended(parts: Sequence[dict[str, Any]], usage: Any) -> dict[str, Any]:
    calls = any(part["type"] == "tool_call" for part in parts)
    coming, going = (0, 0) if usage is None else (usage.input_tokens, usage.output_tokens)
    told = {"input_tokens": coming, "output_tokens": going}
    return {"finish_reason": "tool_calls" if calls else "stop", "usage": told}


def response_of(output: dict[str, Any]) -> ModelResponse:
    """The response that an output says."""
    told = output.get("usage", {})
    coming, going = told.get("input_tokens", 0), told.get("output_tokens", 0)
    usage = Usage(requests=1, input_tokens=coming, output_tokens=going, total_tokens=coming + going)
    items = [item_of(part, number) for number, part in enumerate(output["parts"])]
    return ModelResponse(output=items, usage=usage, response_id=None)


def completed(response: ModelResponse) -> ResponseCompletedEvent:
    """A whole response as the event that ends a stream."""
    usage = response.usage
    whole = Response(
        id="twiceshy", created_at=0, model="", object="response", output=response.output, tool_choice="auto", tools=[],
        parallel_tool_calls=True,
        usage=ResponseUsage(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens,
            input_tokens_details=usage.input_tokens_details, output_tokens_details=usage.output_tokens_details,
        ),
    )  # fmt: skip
    return ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments that JSON text spells; other text as one argument."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"arguments": text}


def plain_of(value: Any) -> Any:
    """Anything of the SDK as a plain value."""
    return to_jsonable_python(value, by_alias=True, exclude_none=True, fallback=str)


def value_of(result: Any, tool: FunctionTool) -> Any:
    """What a tool returned, as a value: what the model is shown of it where it is no plain one."""
    listed = result if isinstance(result, list) else [result]
    if any(isinstance(one, _OUTPUTS) for one in listed):
        return {_MARK: [_OUTPUT.dump_python(one, mode="json", exclude_none=True) for one in listed]}
    adapter = tool._output_type_adapter  # noqa: SLF001 - how the SDK writes this tool's results
    if adapter is not None:
        return adapter.dump_python(result, mode="json", by_alias=True)
    try:
        return json.loads(json.dumps(result))
    except (TypeError, ValueError):
        return str(result)


def result_of(value: Any) -> Any:
    """The result that a value says."""
    if isinstance(value, dict) and value.keys() == {_MARK}:
        made = [_OUTPUT.validate_python(one) for one in value[_MARK]]
        return made[0] if len(made) == 1 else made
    return value


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


def item_of(part: dict[str, Any], number: int) -> Any:
    """The item that a part says."""
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
