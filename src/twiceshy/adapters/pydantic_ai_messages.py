"""pydantic-ai's messages as requests and outputs of a boundary, and back. The shapes are those of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from twiceshy.adapters import controlling

controlling.require("pydantic_ai", extra="adapters-pydantic-ai")

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    FinishReason,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_ai.messages import ModelMessage, ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from twiceshy.streaming import Growing

_PARTS: TypeAdapter[Any] = TypeAdapter(ModelResponsePart)
_USAGE: TypeAdapter[RequestUsage] = TypeAdapter(RequestUsage)

_FINISHED: dict[str, FinishReason] = {
    "stop": "stop", "length": "length", "content_filter": "content_filter", "tool_call": "tool_call", "tool_calls": "tool_call",
    "error": "error",
}  # fmt: skip


class _Delta(NamedTuple):
    """How one kind of part grows: the field of its text here and in the framework's delta, and what else a delta may say."""

    delta: Any
    text: str
    grows: str
    besides: dict[str, str]


_SAID = {"provider_name": "provider_name", "provider_details": "provider_details"}
_DELTAS = {
    "text": _Delta(TextPartDelta, "content", "content_delta", {**_SAID, "citations": "citations_delta"}),
    "reasoning": _Delta(ThinkingPartDelta, "content", "content_delta", {**_SAID, "signature": "signature_delta"}),
    "tool_call": _Delta(ToolCallPartDelta, "arguments", "args_delta", _SAID),
}

# They differ from run to run and say nothing that a model could act on.
_VOLATILE = frozenset({"timestamp", "run_id", "conversation_id", "context_id", "dynamic_ref", "content_file_digests"})


def asked(
    messages: Sequence[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
) -> dict[str, Any]:
    """The request that a model crossing is keyed by: messages, offered tools, output format, sampling."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    system = next((message["instructions"] for message in reversed(dumped) if message.get("instructions")), None)
    told = [{"role": "system", "parts": [_text(system)]}] if system else []
    for message in dumped:
        told += _said(message)
    tools = [
        {"type": "function", "name": tool.name, "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return {
        "messages": told, "tools": tools, "output_format": to_jsonable_python(_output_format(parameters)),
        "sampling": to_jsonable_python(dict(settings or {}), fallback=repr),
    }  # fmt: skip


def parts_of(response: ModelResponse) -> dict[str, Any]:
    """A response as a model crossing's output."""
    parts = [_output_part(part) for part in ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]["parts"]]
    return {"parts": parts, **ended_of(response)}


def ended_of(response: ModelResponse) -> dict[str, Any]:
    """What an output says besides its parts; of a stream, how it ended."""
    usage = {name: value for name, value in _USAGE.dump_python(response.usage, mode="json").items() if value}
    told = {"finish_reason": response.finish_reason, "model": response.model_name, "usage": usage}
    return told if response.state == "complete" else {**told, "state": response.state}


def response_of(output: dict[str, Any]) -> ModelResponse:
    """The response that an output says."""
    return ModelResponse(
        parts=[part_of(part) for part in output["parts"]],
        finish_reason=_FINISHED.get(output.get("finish_reason") or ""),
        model_name=output.get("model"),
        usage=usage_of(output),
        state=output.get("state", "complete"),
    )


def usage_of(output: dict[str, Any]) -> RequestUsage:
    """The usage that an output says."""
    return _USAGE.validate_python(output.get("usage") or {})


def growing_part(part: ModelResponsePart) -> dict[str, Any]:
    """A part as far as it has come: the arguments of a call are the text that the model writes, or a value where it gives one."""
    (dumped,) = ModelMessagesTypeAdapter.dump_python([ModelResponse(parts=[part])], mode="json")[0]["parts"]
    said = _output_part(dumped)
    if said["type"] == "tool_call":
        said["arguments"] = dumped.get("args") or ""
    return said


def events_of(growing: Growing, chunk: dict[str, Any]) -> Iterator[ModelResponseStreamEvent]:
    """What a stream tells of one more chunk: a part that begins, or what came of one."""
    before = [*growing.parts]
    at = growing.add(chunk)
    if at is not None:
        part = growing.parts[at]
        delta = _delta(before[at], part) if at < len(before) else None
        yield PartStartEvent(index=at, part=part_of(part)) if delta is None else PartDeltaEvent(index=at, delta=delta)


def _delta(before: dict[str, Any], part: dict[str, Any]) -> Any:
    """What came of a part, where only its text grew or what the provider says besides; None where it is another part now."""
    kind = _DELTAS.get(part["type"])
    native, had = part.get("native", {}), before.get("native", {})
    besides = {name: value for name, value in native.items() if had.get(name) != value}
    if kind is None or had.keys() - native.keys() or besides.keys() - kind.besides.keys():
        return None
    was, text = before.get(kind.text), part.get(kind.text)
    same = {**before, kind.text: text, "native": native} == {**part, "native": native}
    if not same or not isinstance(was, str) or not isinstance(text, str):
        return None
    told = {kind.besides[name]: value for name, value in besides.items()}
    return kind.delta(**{kind.grows: text.removeprefix(was), **told})


def _said(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One message as one or more: the system text, the user's turn and tool answers stand apart."""
    if message["kind"] == "response":
        yield {"role": "assistant", "parts": [_output_part(part) for part in message["parts"]]}
        return
    for part in message["parts"]:
        yield _asked_part(part)


def _asked_part(part: dict[str, Any]) -> dict[str, Any]:
    match part["part_kind"]:
        case "system-prompt":
            return {"role": "system", "parts": [_text(part["content"])]}
        case "user-prompt":
            content = part["content"]
            plain = [content] if isinstance(content, str) else content
            return {"role": "user", "parts": [_text(item) if isinstance(item, str) else item for item in plain]}
        case "tool-return" if part.get("outcome") in ("failed", "retried"):
            return _answered(part, {"error": part["content"]})
        case "tool-return" if part.get("outcome") == "denied":
            return _answered(part, {"denied": part["content"]})
        case "tool-return":
            return _answered(part, part["content"])
        case "retry-prompt" if part.get("tool_name"):
            return _answered(part, {"error": part["content"]})
        case "retry-prompt":
            return {"role": "user", "parts": [{"type": "retry", "content": part["content"]}]}
        case kind:
            return {"role": "user", "parts": [{"type": kind, **_lasting(part)}]}


def _answered(part: dict[str, Any], response: Any) -> dict[str, Any]:
    answer = {"type": "tool_call_response", "id": part["tool_call_id"], "response": response}
    return {"role": "tool", "parts": [answer]}


def _output_part(part: dict[str, Any]) -> dict[str, Any]:
    native = {name: value for name, value in _lasting(part).items() if value is not None}
    match native.pop("part_kind"):
        case "text":
            return {"type": "text", "content": native.pop("content"), **_native(native)}
        case "thinking":
            return {"type": "reasoning", "content": native.pop("content"), **_native(native)}
        case "tool-call":
            name, call, arguments = native.pop("tool_name"), native.pop("tool_call_id"), native.pop("args", {})
            return {"type": "tool_call", "id": call, "name": name, "arguments": object_of(arguments), **_native(native)}
        case kind:
            return {"type": kind, **_native(_lasting(part))}


def _native(rest: dict[str, Any]) -> dict[str, Any]:
    return {"native": rest} if rest else {}


def part_of(part: dict[str, Any]) -> Any:
    """The part that one of an output says."""
    native = part.get("native", {})
    match part["type"]:
        case "text":
            return TextPart(content=part["content"], **native)
        case "reasoning":
            return ThinkingPart(content=part["content"], **native)
        case "tool_call":
            return ToolCallPart(part["name"], part["arguments"], part["id"], **native)
        case _:
            return _PARTS.validate_python(native)


def object_of(arguments: Any) -> Any:
    """Arguments as the value they spell; text that is no JSON stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def _lasting(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in _VOLATILE}


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _output_format(parameters: ModelRequestParameters) -> dict[str, Any]:
    schema = parameters.output_object.json_schema if parameters.output_object else None
    return {"type": parameters.output_mode, "schema": schema, "text": parameters.allow_text_output}
