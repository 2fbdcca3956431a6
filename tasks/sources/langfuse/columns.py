"""What Langfuse's own columns tell of an observation. It moves the attributes it knows into them, so that they hold what the dialects miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.sources import payloads, shapes, toolruns
from tasks.sources.dialects import genai, langsmith_otel
from tasks.sources.dialects.told import Told
from tasks.sources.faults import typed

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.langfuse.rows import Row
    from tasks.sources.otlp_values import Values
    from tasks.sources.records import Side

MAPPER = "langfuse@1"
_KINDS = {
    "GENERATION": "model", "EMBEDDING": "model", "TOOL": "tool", "RETRIEVER": "retrieval", "AGENT": "agent", "EVALUATOR": "eval", "GUARDRAIL": "guard",
}  # fmt: skip
_USAGE = {
    "input": ("input", "input_tokens", "prompt_tokens"), "output": ("output", "output_tokens", "completion_tokens"),
    "cache_read": ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read"),
    "cache_write": ("input_cache_creation", "cache_creation_input_tokens"), "reasoning": ("output_reasoning_tokens", "reasoning_tokens", "output_reasoning"),
}  # fmt: skip
_PAYLOADS = ("input", "output", "modelParameters", "usageDetails", "toolDefinitions", "toolCalls", "toolCallNames")


def held_in(row: Row) -> dict[str, Any]:
    """The columns, with those that only the trace of a UI download has; payloads that came decoded are text again, so that all are read alike."""
    of_trace = {
        name: row.trace[name]
        for name in ("userId", "sessionId", "environment", "version", "release")
        if row.trace.get(name)
    }
    held = of_trace | {name: value for name, value in row.value.items() if value is not None}
    return held | {
        name: msgspec.json.encode(held[name]).decode() for name in _PAYLOADS if isinstance(held.get(name), dict | list)
    }


def read(kind: str | None, span: Carried, values: Values) -> Told:
    """The observation as the columns tell it. kind: what its attributes say it is, None where they say nothing."""
    answered = toolruns.answer(values.decoded(values.held.get("output")))
    kind = (
        kind or _KINDS.get(str(values.held.get("type", "")).upper()) or ("tool" if answered else _context(span, values))
    )
    columns: dict[str, Any] = {
        "name": span.name, "conversation_id": values.text("sessionId"), "user_ref": values.text("userId"), "environment": values.text("environment"),
        "agent_version": values.text("release", "version"), "prompt_name": values.text("promptName"), "prompt_version": _version(values),
    }  # fmt: skip
    if kind in ("tool", "retrieval", "memory"):
        columns |= {"tool_name": span.name, "call_id": answered.call_id if answered else None}
    if kind == "model":
        columns |= _model(values)
        genai.hear(columns, values)
        return Told(kind, columns, {})
    failed = kind == "tool" and answered is not None and answered.failed
    fault = typed("tool_error", str(answered.response), cls="ToolException") if answered and failed else None
    return Told(kind, columns, _sides(kind, span, values, answered), fault)


def _context(span: Carried, values: Values) -> str:
    """The root observation is the run itself: its input is the user's. That of the trace row may be of any later span (langfuse#8304)."""
    return "agent" if span.parent_span_id is None or values.held.get("isRootObservation") is True else "step"


def _version(values: Values) -> str | None:
    number = values.number("promptVersion")
    return values.text("promptVersion") if number is None else str(number)


def _sides(kind: str, span: Carried, values: Values, answered: toolruns.Answer | None) -> dict[str, Side]:
    found = {"seen": values.side("seen", "input"), "raw": values.side("raw", "output")}
    seen, raw = found["seen"], found["raw"]
    if kind == "tool" and seen is not None and langsmith_otel.evident(span):
        found["seen"] = toolruns.arguments(seen)
    if kind == "tool" and raw is not None and answered is not None:
        found["raw"] = raw._replace(value=answered.response)
    return {side: held for side, held in found.items() if held is not None}


def _model(values: Values) -> dict[str, Any]:
    asked, said = values.payload("messages_in", "input"), values.payload("messages_out", "output")
    params = values.decoded(values.held.get("modelParameters"))
    sampling = {name: value for name, value in params.items() if value is not None} if isinstance(params, dict) else {}
    messages, offered = _asked(asked)
    tools = _offered(values.decoded(values.held.get("toolDefinitions"))) or offered
    if tools:
        values.provenance["tool_defs"] = {
            "key": "toolDefinitions" if "toolDefinitions" in values.held else "input",
            "grade": "recorded",
        }
    return {
        "messages_in": messages, "messages_out": _with_calls(_said(said), values), "system_text": UNSET, "tool_defs": tools or UNSET,
        "model_params": {"sampling": sampling} if sampling else UNSET, "usage": _usage(values), "finish_reason": None,
        "model_requested": values.text("model", "providedModelName"), "model_answered": None, "provider": None,
    }  # fmt: skip


def _asked(held: Any) -> tuple[Any, list[Any]]:
    """The messages of an input, and the tools that it offers: beside them, or written as messages of the role `tool` as the LangChain callback does."""
    if isinstance(held, str):
        return [{"role": "user", "parts": shapes.parts_of(held)}], []
    offered = held.get("tools") if isinstance(held, dict) else None
    listed = held.get("messages", held) if isinstance(held, dict) else held
    if not isinstance(listed, list):
        return langsmith_otel.messages_of(held), []
    schemas = [message["content"] for message in listed if _is_schema(message)]
    kept = [message for message in listed if not _is_schema(message)]
    return langsmith_otel.messages_of(kept), _offered(offered) or _offered(schemas)


def _is_schema(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "tool" else None
    return isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)


def _offered(held: Any) -> list[Any]:
    """Tool definitions: a list, or the texts of them by name."""
    if isinstance(held, dict):
        held = [{"name": name} | _object(value) for name, value in held.items()]
    listed = held if isinstance(held, list) else []
    return [
        {"type": "function"} | (tool.get("function") or tool) if isinstance(tool, dict) else tool for tool in listed
    ]


def _said(held: Any) -> Any:
    """The message of an output. Anything that is none (a structured answer) is what the model said, as text."""
    if held is UNSET:
        return UNSET
    if isinstance(held, list) and held and all(isinstance(call, dict) and "toolCallId" in call for call in held):
        return [{"role": "assistant", "parts": [shapes.part({"type": "tool-call"} | call) for call in held]}]
    found = UNSET if isinstance(held, str) else langsmith_otel.messages_of(held)
    if isinstance(found, list) and found and all(isinstance(message, dict) and "parts" in message for message in found):
        return found
    text = held if isinstance(held, str) else msgspec.json.encode(held).decode()
    return [{"role": "assistant", "parts": shapes.parts_of(text)}]


def _with_calls(said: Any, values: Values) -> Any:
    """The output with the calls of the column `toolCalls`, where it shows none itself."""
    calls, names = values.decoded(values.held.get("toolCalls")), values.decoded(values.held.get("toolCallNames"))
    if not isinstance(calls, list) or not isinstance(names, list) or not calls or len(calls) != len(names):
        return said
    messages = [] if said is UNSET else said
    if any(
        part.get("type") == "tool_call" for message in messages for part in message["parts"] if isinstance(part, dict)
    ):
        return said
    parts = [
        {"type": "tool_call", "id": call.get("id"), "name": name, "arguments": shapes.arguments(call.get("arguments"))}
        for name, call in zip(names, map(_object, calls), strict=True)
    ]
    values.provenance["messages_out"] = {"key": "output toolCalls", "grade": "recorded"}
    return [*messages[:-1], {"role": "assistant", "parts": [*(messages[-1]["parts"] if messages else ()), *parts]}]


def _usage(values: Values) -> Any:
    held = values.decoded(values.held.get("usageDetails"))
    if not isinstance(held, dict):
        return UNSET
    found = {
        name: next((held[key] for key in keys if isinstance(held.get(key), int)), None) for name, keys in _USAGE.items()
    }
    return {name: count for name, count in found.items() if count is not None} or UNSET


def _object(held: Any) -> dict[str, Any]:
    found = payloads.parsed(held).value if isinstance(held, str) else held
    return found if isinstance(found, dict) else {}
