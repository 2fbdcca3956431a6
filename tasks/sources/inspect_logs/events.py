"""The events of a sample: models, tools, approvals and human input are boundaries, all else is context. What ends a span is part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import faults, ids, shapes, transcripts
from tasks.sources.dialects import genai
from tasks.sources.entries import inner, listed
from tasks.sources.inspect_logs.messages import plain_calls
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, spelled
from tasks.sources.otlp_values import Values
from tasks.sources.records import UNFINISHED, Side
from tasks.sources.times import span_times, time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tasks.sources.faults import Fault
    from tasks.sources.inspect_logs.sample import Sample
    from tasks.sources.records import Span
    from tasks.sources.source import Intake

_KINDS = {
    "model": "model",
    "tool": "tool",
    "approval": "guard",
    "input": "human",
    "score": "eval",
    "score_edit": "eval",
    "sandbox": "infra",
}
_LABELS = ("score", "target", "edit")
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "input_tokens_cache_read",
    "cache_write": "input_tokens_cache_write",
    "reasoning": "reasoning_tokens",
}
_PAGES = "web_browser"
_PAGE_CAP = range(4000, 4097)
"""Lengths at which the text of a page was cut; what followed is not in the log."""

_TOO_LONG = "<START_TOOL_OUTPUT>"
_REFUSED = ("reject", "terminate")


def enter(sample: Sample, told: Sequence[Any], place: str, intake: Intake) -> None:
    """Hand every event of a sample to the intake; the end of a span goes to its beginning."""
    begun: dict[str, Span] = {}
    made: list[tuple[Span, str]] = []
    for index, held in enumerate(told):
        where = f"{place}, event {index}"
        try:
            if _ended(held, begun):
                continue
            span = _span(sample, held, index)
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "span", where, spelled(held))
            continue
        if held["event"] == "span_begin":
            begun[str(held.get("id"))] = span
        elif held["event"] == "step":
            begun[f"step {held.get('name')}"] = span
        made.append((span, where))
    for span, where in made:
        intake.take(span, where)


def fault(held: dict[str, Any]) -> Fault | None:
    """The typed error of a tool event or tool message: its types are the base vocabulary."""
    error = held.get("error")
    if not isinstance(error, dict):
        return None
    kind = str(error.get("type") or "unknown")
    return faults.typed(kind, str(error.get("message") or kind), definite=True if kind == "approval" else None)


def _ended(held: Any, begun: dict[str, Span]) -> bool:
    """Whether an event is the end of a span that began before."""
    if not isinstance(held, dict):
        return False
    over = held.get("event") == "span_end" or (held.get("event") == "step" and held.get("action") == "end")
    span = (
        begun.pop(str(held.get("id")) if held.get("event") == "span_end" else f"step {held.get('name')}", None)
        if over
        else None
    )
    if span is None:
        return False
    ended = time(held.get("timestamp")).ns
    if ended is not None and span.start_ns is not None and ended >= span.start_ns:
        span.end_ns = ended
    return True


def _span(sample: Sample, held: Any, index: int) -> Span:
    """One event as a span. Raises BadSpan."""
    if not isinstance(held, dict) or not isinstance(held.get("event"), str):
        raise BadSpan("bad_type")
    event, flags = held["event"], set[str]()
    kind = _KINDS.get(event, "step")
    own, above = (
        held.get("id") if event == "span_begin" else None,
        held.get("parent_id" if event == "span_begin" else "span_id"),
    )
    if event == "span_begin" and held.get("type") == "agent":
        kind = "agent"
    found = (
        held
        if kind != "eval" and event != "sample_init"
        else {name: part for name, part in held.items() if name not in (*_LABELS, "sample")}
    )
    made = sample.span(
        str(index), kind, str(held.get("name") or event), found, seq=index + 1, **span_times(held.get("timestamp"), held.get("completed"))
    )  # fmt: skip
    if own is not None:
        made.span_id = ids.span_id(f"{sample.key}#{own}", "inspect", set())
    made.parent_span_id = ids.span_id(f"{sample.key}#{above or 'sample'}", "inspect", set())
    fill = _FILL.get(event)
    if fill is not None:
        fill(
            made,
            sample.whole(
                {name: part for name, part in held.items() if (event, name) != ("model", "call") and name != "events"},
                flags,
            ),
        )
    made.flags |= flags | ({UNFINISHED} if held.get("pending") is True else set())
    return made


def _model(span: Span, held: dict[str, Any]) -> None:
    output = inner(held, "output")
    choices = [choice for choice in listed(output, "choices") if isinstance(choice, dict)]
    span.name = str(held.get("role") or "model")
    span.model_requested, span.model_answered = (_text(part, "model") for part in (held, output))
    span.finish_reason = _text(choices[0], "stop_reason") if choices else None
    if "input_refs" in held and not held.get("input"):
        span.flags.add("ref_unresolved")
    elif isinstance(held.get("input"), list):
        span.messages_in = shapes.messages([plain_calls(message) for message in held["input"]])
    said = [
        shapes.message(plain_calls(choice["message"]))
        for choice in choices[:1]
        if isinstance(choice.get("message"), dict)
    ]
    span.messages_out = said or UNSET
    span.tool_defs = held.get("tools") or UNSET
    span.model_params = {"sampling": held["config"]} if held.get("config") else UNSET
    usage = inner(output, "usage")
    span.usage = {name: usage[key] for name, key in _USAGE.items() if isinstance(usage.get(key), int)} or UNSET
    values, heard = (
        Values({}, flags=span.flags),
        {"messages_in": span.messages_in, "messages_out": span.messages_out, "system_text": UNSET},
    )
    genai.hear(heard, values)
    span.system_text, span.clock_text, span.clock_tz = (
        heard["system_text"],
        heard.get("clock_text"),
        heard.get("clock_tz"),
    )
    span.provenance |= values.provenance
    why = held.get("error") or output.get("error")
    if why:
        transcripts.failed(span, faults.returned(span.name, {"error": str(why)}))
        span.messages_out = UNSET


def _tool(span: Span, held: dict[str, Any]) -> None:
    span.tool_name = span.name = str(held.get("function") or "-")
    span.call_id = _text(held, "id")
    if "arguments" in held:
        asked = transcripts.arguments(held["arguments"])
        span.sides["seen"] = Side(asked.value, asked.encoding)
        span.flags |= asked.flags
    transcripts.failed(span, fault(held))
    result = held.get("result")
    if result is None or (span.is_error and result == ""):
        return
    answered = transcripts.told(result)
    span.sides["raw"] = Side(answered.value, answered.encoding)
    span.flags |= answered.flags
    if _is_cut(span.name, result) or held.get("truncated"):
        span.flags.add("truncated")
    transcripts.failed(span, faults.returned(span.name, answered.value))


def _is_cut(tool: str, result: Any) -> bool:
    text = transcripts.plain(result) or ""
    return _TOO_LONG in text or (tool.startswith(_PAGES) and len(text) in _PAGE_CAP)


def _approval(span: Span, held: dict[str, Any]) -> None:
    call = inner(held, "call")
    span.name = str(held.get("approver") or "approval")
    span.at = f"before:{call['function']}" if call.get("function") else None
    if "arguments" in call:
        span.sides["seen"] = Side(call["arguments"])
    span.sides["raw"] = Side({"blocked": held.get("decision") in _REFUSED})


def _input(span: Span, held: dict[str, Any]) -> None:
    if "input" in held:
        span.sides["raw"] = Side(held["input"])


def _broken(span: Span, held: dict[str, Any]) -> None:
    span.is_error, span.error_class = True, "Exception"
    span.error_message = str(inner(held, "error").get("message") or "error")


def _text(held: dict[str, Any], name: str) -> str | None:
    found = held.get(name)
    return found if isinstance(found, str) and found else None


_FILL: dict[str, Callable[[Span, dict[str, Any]], None]] = {
    "model": _model, "tool": _tool, "approval": _approval, "input": _input, "error": _broken,
}  # fmt: skip
