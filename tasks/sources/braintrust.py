"""Braintrust's rows, of logs or experiments, as its API and its exports give them; times are float seconds.

A row that was written again supersedes the one before it, by `_xact_id` and not by its place in the file; one that was deleted is gone. The first of `span_parents` is
the parent. `expected` is the label side: it becomes a score and stands in no span.
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
from tasks.sources.records import Score, Side, Span, graded
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.times import span_times, time
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.faults import Fault

NAME = "braintrust"
MAPPER = "braintrust@1"
_KINDS = {"llm": "model", "tool": "tool", "score": "eval"}
_LABELS = ("expected", "scores")
_USAGE = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cache_read": "prompt_cached_tokens",
    "cache_write": "prompt_cache_creation_tokens",
    "reasoning": "completion_reasoning_tokens",
}
_CONVERSATIONS = ("thread_id", "session_id", "conversation_id")
_USERS = ("user_id", "user")
_ABOUT_CALL = frozenset({"model", "provider", "tools", *_CONVERSATIONS, *_USERS})


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per span that stands; scores, expectations and tags."""
    intake = Intake(raw, NAME, harness_state)
    for entry in _standing(intake):
        try:
            span = _span(entry)
            scores = list(_scores(span, entry.held))
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad), "span")
            continue
        intake.take(span, entry.place)
        intake.scores += scores
    return intake.mapped()


def _standing(intake: Intake) -> Iterator[Entry]:
    """The rows that no later one supersedes, in the order of the file."""
    last: dict[str, tuple[int, int, Entry]] = {}
    for number, entry in enumerate(entries(intake, "events", "data", "rows")):
        held = entry.held
        if "root_span_id" not in held or "span_id" not in held:
            entry.reject(intake, "unknown_container")
            continue
        written = str(held.get("_xact_id") or "0")
        if not written.isdecimal():
            entry.reject(intake, "bad_type", "span")
            continue
        key = str(held.get("id") or held["span_id"])
        if key not in last or last[key][0] <= int(written):
            last[key] = (int(written), number, entry)
    standing = sorted(last.values(), key=lambda found: found[1])
    return (entry for _, _, entry in standing if entry.held.get("_object_delete") is not True)


def _span(entry: Entry) -> Span:
    """One row as a span. Raises BadSpan."""
    held, flags = entry.held, set(entry.flags)
    about, metadata, metrics = inner(held, "span_attributes"), inner(held, "metadata"), inner(held, "metrics")
    parents = held.get("span_parents") or []
    if not isinstance(parents, list):
        raise BadSpan("bad_type")
    trace_id = ids.trace_id(held["root_span_id"], NAME, flags)
    span_id = ids.span_id(held["span_id"], NAME, flags)
    kind = _KINDS.get(str(about.get("type")), "agent" if held.get("is_root") is True or not parents else "step")
    name = str(about.get("name") or about.get("type") or "-")
    found = {key: value for key, value in held.items() if key not in _LABELS}
    span = Span(
        trace_id=trace_id, span_id=span_id, parent_span_id=ids.parent_id(parents[0], NAME) if parents else None, source_trace_id=str(held["root_span_id"]),
        source_span_id=str(held["span_id"]), container="rows", dialect=NAME, mapper=MAPPER, kind=kind, name=name, flags=flags,
        conversation_id=_first(metadata, _CONVERSATIONS), user_ref=_first(metadata, _USERS), agent_name=name if kind == "agent" else None,
        attributes_json=msgspec.json.encode(found).decode(), **span_times(metrics.get("start"), metrics.get("end")),
    )  # fmt: skip
    if kind == "model":
        _model(span, held, metadata, metrics)
    else:
        _sides(span, held)
    _broken(span, held.get("error"))
    return span


def _sides(span: Span, held: dict[str, Any]) -> None:
    """A null is a column that nothing was written to."""
    if span.kind == "tool":
        span.tool_name = span.name
    for side, column in (("seen", "input"), ("raw", "output")):
        value = held.get(column)
        if value is None or span.kind == "eval":  # what a scorer got holds what was expected
            continue
        read = payloads.parsed(value) if isinstance(value, str) else payloads.Payload(value, "json")
        span.sides[side] = Side(read.value, read.encoding)
        span.flags |= read.flags
    if span.kind == "eval":
        span.attributes_json = None


def _model(span: Span, held: dict[str, Any], metadata: dict[str, Any], metrics: dict[str, Any]) -> None:
    asked, said = held.get("input"), held.get("output")
    if isinstance(asked, str | list | dict):
        span.messages_in = shapes.messages([{"role": "user", "content": asked}] if isinstance(asked, str) else asked)
    span.messages_out = _said(said)
    first = said[0] if isinstance(said, list) and said and isinstance(said[0], dict) else {}
    span.finish_reason = _first(first, ("finish_reason",))
    span.model_requested, span.provider = _first(metadata, ("model",)), _first(metadata, ("provider",))
    span.tool_defs = metadata.get("tools") or UNSET
    sampling = {name: value for name, value in metadata.items() if name not in _ABOUT_CALL and value is not None}
    span.model_params = {"sampling": sampling} if sampling else UNSET
    span.usage = {name: metrics[key] for name, key in _USAGE.items() if isinstance(metrics.get(key), int)} or UNSET
    heard: dict[str, Any] = {name: getattr(span, name) for name in ("messages_in", "messages_out", "system_text")}
    values = Values({}, flags=span.flags)
    genai.hear(heard, values)
    span.system_text, span.clock_text, span.clock_tz = (
        heard["system_text"],
        heard.get("clock_text"),
        heard.get("clock_tz"),
    )
    span.provenance |= values.provenance


def _said(held: Any) -> Any:
    """The messages of an answer: choices of a chat API, messages, or a text."""
    if isinstance(held, str):
        return [{"role": "assistant", "parts": [{"type": "text", "text": held}]}]
    listed = held if isinstance(held, list) else [held] if isinstance(held, dict) else []
    found = [item.get("message", item) for item in listed if isinstance(item, dict)]
    return [shapes.message({"role": "assistant"} | item) for item in found if isinstance(item, dict)] or UNSET


def _broken(span: Span, error: Any) -> None:
    fault = _fault(span, error)
    if fault is None:
        return
    transcripts.failed(span, fault)
    if span.kind in ("agent", "step", "eval"):
        span.error_code, span.error_source = None, None


def _fault(span: Span, error: Any) -> Fault | None:
    """The row's own error, in any type; else what the result of a tool tells."""
    if error:
        told = faults.returned(span.name, error) if isinstance(error, str) else None
        return told or faults.returned(span.name, {"error": error})
    result = span.sides.get("raw")
    return faults.returned(span.name, result.value) if span.kind == "tool" and result is not None else None


def _scores(span: Span, held: dict[str, Any]) -> Iterator[Score]:
    created = time(held.get("created")).ns
    for name, value in inner(held, "scores").items():
        told = graded(value)
        if told:
            yield Score(
                trace_id=span.trace_id, span_id=span.span_id, name=name, origin="code", created_ns=created, **told
            )
    if held.get("expected") is not None:
        yield Score(
            trace_id=span.trace_id, span_id=span.span_id, name="expected", text=canonical(held["expected"]).decode(), origin="human"
        )  # fmt: skip
    tags = held.get("tags")
    for tag in tags if isinstance(tags, list) else ():
        yield Score(trace_id=span.trace_id, span_id=span.span_id, name="tag", label=str(tag), origin="api")


def _first(held: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if isinstance(found := held.get(name), str) and found), None)


source = FileSource(NAME, spans)
