"""The OpenAI Agents SDK's own export: traces and spans, as `export()` gives them or in the `data` of what is sent to the backend.

A tool's output is `str(obj)`: a dict comes as Python's repr, any other object as a text that nothing reads back. A `response` span holds no content at all. The exporter
of the backend cuts fields at 100,000 bytes, marks the cut in texts only, and leaves reasoning out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.sources import faults, ids, payloads, shapes, transcripts
from tasks.sources.dialects import genai
from tasks.sources.entries import Entry, entries, inner
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of
from tasks.sources.otlp_values import Values
from tasks.sources.records import Side, Span
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.times import span_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from tasks.sources.faults import Fault

NAME = "openai_agents"
MAPPER = "openai_agents@1"
_TRACE, _SPAN = "trace", "trace.span"
_KINDS = {
    "agent": "agent", "function": "tool", "generation": "model", "response": "model", "handoff": "handoff", "guardrail": "guard",
    "transcription": "model", "speech": "model",
}  # fmt: skip
_CAP = 100_000
_NEAR = 1_000
"""A field whose size is this near below the cap may have lost members of it, which leaves no mark."""

_CUT = "... [truncated]"
_USAGE = {
    "input": ("input_tokens", "prompt_tokens"),
    "output": ("output_tokens", "completion_tokens"),
}


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per span, and one per trace for its own record."""
    intake = Intake(raw, NAME, harness_state)
    for entry in entries(intake, "data", "spans"):
        read = _READ.get(str(entry.held.get("object")))
        if read is None:
            entry.reject(intake, "unknown_container")
            continue
        try:
            intake.take(read(entry), entry.place)
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad), "span")
    return intake.mapped()


def _trace(entry: Entry) -> Span:
    """The trace's own record: context, and the conversation that it is of."""
    held, flags = entry.held, set(entry.flags)
    trace_id = ids.trace_id(held.get("id"), NAME, flags)
    return _made(
        held, "step", str(held.get("workflow_name") or "trace"), trace_id, flags, span_id=ids.span_id(f"{held['id']}#trace", NAME, set()),
        conversation_id=_text(held, "group_id"), time_precision="none",
    )  # fmt: skip


def _span(entry: Entry) -> Span:
    """One span. Raises BadSpan."""
    held, flags = entry.held, set(entry.flags)
    data = held.get("span_data")
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise BadSpan("bad_type")
    kind = _KINDS.get(data["type"], "step")
    span_id = ids.span_id(held.get("id"), NAME, flags)
    flags |= _cuts(data)
    made = _made(
        held, kind, str(data.get("name") or data["type"]), ids.trace_id(held.get("trace_id"), NAME, flags), flags, span_id=span_id,
        parent_span_id=ids.parent_id(held.get("parent_id"), NAME), **span_times(held.get("started_at"), held.get("ended_at")),
    )  # fmt: skip
    fill = _FILL.get(data["type"])
    if fill is not None:
        fill(made, data)
    _err(made, held.get("error"))
    return made


def _made(held: dict[str, Any], kind: str, name: str, trace_id: str, flags: set[str], **fields: Any) -> Span:
    return Span(
        trace_id=trace_id, source_trace_id=str(held.get("trace_id", held.get("id"))), source_span_id=str(held["id"]), container="sdk_export",
        dialect=NAME, mapper=MAPPER, kind=kind, name=name, flags=flags, attributes_json=msgspec.json.encode(held).decode(), **fields,
    )  # fmt: skip


def _agent(span: Span, data: dict[str, Any]) -> None:
    span.agent_name = _text(data, "name")


def _function(span: Span, data: dict[str, Any]) -> None:
    span.tool_name = _text(data, "name")
    span.mcp_server = _text(inner(data, "mcp_data"), "server")
    if data.get("input") is not None:
        asked = transcripts.arguments(data["input"])
        span.sides["seen"] = Side(asked.value, asked.encoding)
        span.flags |= asked.flags
    output = data.get("output")  # null where nothing was recorded, and where the tool returned None
    if output is not None:
        found = payloads.parsed(output) if isinstance(output, str) else payloads.Payload(output, "json")
        span.flags |= found.flags
        if found.encoding == "text" and not found.flags and str(output).lstrip()[:1] in ("{", "[", "("):
            span.flags.add("opaque_repr")
        span.sides["raw"] = Side(found.value, found.encoding)


def _generation(span: Span, data: dict[str, Any]) -> None:
    response = inner(data, "response")  # of a processor that adds what `export()` leaves out
    said = data.get("output", response.get("output"))
    config = inner(data, "model_config")
    span.model_requested = _text(data, "model")
    span.model_answered = _text(response, "model")
    if isinstance(data.get("input"), list | str):
        span.messages_in = shapes.messages(_listed(data["input"]))
    if isinstance(said, list) and said:
        span.messages_out = shapes.messages(said)
    if isinstance(response.get("instructions"), str):
        span.system_text = response["instructions"]
    sampling = {name: value for name, value in config.items() if value is not None}
    span.model_params = {"sampling": sampling} if sampling else UNSET
    span.usage = _usage(data) or UNSET
    heard: dict[str, Any] = {name: getattr(span, name) for name in ("messages_in", "messages_out", "system_text")}
    values = Values({}, flags=span.flags)
    genai.hear(heard, values)
    span.system_text, span.clock_text, span.clock_tz = (
        heard["system_text"],
        heard.get("clock_text"),
        heard.get("clock_tz"),
    )
    span.provenance |= values.provenance


def _handoff(span: Span, data: dict[str, Any]) -> None:
    span.name = _text(data, "to_agent") or "-"
    span.sides["seen"] = Side({name: data.get(name) for name in ("from_agent", "to_agent")})


def _guardrail(span: Span, data: dict[str, Any]) -> None:
    if isinstance(data.get("triggered"), bool):
        span.sides["raw"] = Side({"blocked": data["triggered"]})


def _err(span: Span, held: Any) -> None:
    """The error of the span, else what its result tells. The errors of context have no code."""
    fault = _fault(span, held)
    if fault is None:
        return
    transcripts.failed(span, fault)
    if span.kind in ("agent", "step"):
        span.error_code, span.error_source = None, None


def _fault(span: Span, held: Any) -> Fault | None:
    if isinstance(held, dict):
        data = inner(held, "data")
        why = data.get("error") or held.get("message") or "error"
        return faults.returned(span.name, {"error": str(why)})
    result = span.sides.get("raw")
    return faults.returned(span.name, result.value) if span.kind == "tool" and result is not None else None


def _cuts(data: dict[str, Any]) -> set[str]:
    """`truncated` where the backend's exporter cut a field, or may have."""
    for held in data.values():
        size = len(msgspec.json.encode(held)) if isinstance(held, str | dict | list) else 0
        if _CAP - _NEAR <= size <= _CAP or _is_cut(held):
            return {"truncated"}
    return set()


def _is_cut(held: Any) -> bool:
    if isinstance(held, str):
        return held.endswith(_CUT)
    if isinstance(held, dict):
        preview = held.get("truncated") is True and "preview" in held and "original_type" in held
        return preview or any(_is_cut(item) for item in held.values())
    return isinstance(held, list) and any(_is_cut(item) for item in held)


def _listed(held: Any) -> list[Any]:
    return [{"role": "user", "content": held}] if isinstance(held, str) else held


def _usage(data: dict[str, Any]) -> dict[str, int]:
    held = inner(data, "usage")
    found = {
        name: next((held[key] for key in keys if isinstance(held.get(key), int)), None) for name, keys in _USAGE.items()
    }
    return {name: count for name, count in found.items() if count is not None}


def _text(held: dict[str, Any], name: str) -> str | None:
    found = held.get(name)
    return found if isinstance(found, str) and found else None


_READ: dict[str, Callable[[Entry], Span]] = {_TRACE: _trace, _SPAN: _span}
_FILL: dict[str, Callable[[Span, dict[str, Any]], None]] = {
    "agent": _agent, "function": _function, "generation": _generation, "response": _generation, "handoff": _handoff, "guardrail": _guardrail,
}  # fmt: skip
source = FileSource(NAME, spans)
