"""Spans written one by one as flat objects: snake_case (ADOT, Strands), `spanContext` (JavaScript exporters), `context` (Phoenix's REST and the Python console)."""

from __future__ import annotations

from typing import Any

import msgspec

from tasks.sources import ids
from tasks.sources.carried import Carried, Event
from tasks.sources.otlp_fields import BadSpan, status_code
from tasks.sources.times import span_times, time

_ERROR = 2
_CONTEXTS = ("spanContext", "context", "span_context")


def is_span(held: Any) -> bool:
    """Whether a value is such a span."""
    if not isinstance(held, dict) or not isinstance(held.get("attributes"), dict | None):
        return False
    return any(isinstance(held.get(name), dict) for name in _CONTEXTS) or (
        "trace_id" in held and "span_id" in held and "name" in held
    )


def carried(held: Any, source: str, marks: frozenset[str]) -> Carried:
    """The span. Raises BadSpan."""
    if not isinstance(held, dict) or not isinstance(held.get("name", ""), str):
        raise BadSpan("bad_type")
    context = next((held[name] for name in _CONTEXTS if isinstance(held.get(name), dict)), held)
    trace, span = _of(context, "traceId", "trace_id"), _of(context, "spanId", "span_id")
    flags = set(marks)
    failed, message = _status(held)
    scope = _of(held, "scope", "instrumentationScope", "instrumentationLibrary", "instrumentation_scope") or {}
    name, version = (scope.get("name"), scope.get("version")) if isinstance(scope, dict) else (None, None)
    events = _events(held)
    return Carried(
        trace_id=ids.trace_id(trace, source, flags), span_id=ids.span_id(span, source, flags), parent_span_id=ids.parent_id(_parent(held), source),
        source_trace_id=str(trace), source_span_id=str(span), container="flat", name=held.get("name") or "-", failed=failed, status_message=message,
        attributes=_object(held, "attributes"), events=events, resource=_resource(held), scope_name=name or None, scope_version=version or None,
        as_found=_as_found(held), flags=flags,
        **span_times(_of(held, "startTime", "start_time", "startTimeUnixNano"), _of(held, "endTime", "end_time", "endTimeUnixNano")),
    )  # fmt: skip


def spans_in(held: Any) -> list[Any] | None:
    """The spans of a document: a list of them, one alone, or `{spans: [...]}`; None where it is none of these."""
    if (
        isinstance(held, dict)
        and isinstance(held.get("spans"), list)
        and (not held["spans"] or is_span(held["spans"][0]))
    ):
        return list(held["spans"])
    if isinstance(held, list) and held and is_span(held[0]):
        return held
    return [held] if is_span(held) else None


def _of(held: dict[str, Any], *names: str) -> Any:
    return next((held[name] for name in names if held.get(name) is not None), None)


def _parent(held: dict[str, Any]) -> Any:
    context = held.get("parentSpanContext")
    return (
        context.get("spanId")
        if isinstance(context, dict)
        else _of(held, "parentSpanId", "parent_span_id", "parent_id", "parentId")
    )


def _object(held: dict[str, Any], name: str) -> dict[str, Any]:
    found = held.get(name)
    if found is not None and not isinstance(found, dict):
        raise BadSpan("bad_type")
    return found or {}


def _resource(held: dict[str, Any]) -> dict[str, Any]:
    found = held.get("resource")
    inner = found.get("attributes", found) if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}


def _status(held: dict[str, Any]) -> tuple[bool, str]:
    status = held.get("status")
    if isinstance(status, dict):
        code, message = _of(status, "code", "status_code"), _of(status, "message", "description")
    else:
        code, message = held.get("status_code", status), held.get("status_message")
    return status_code(code) == _ERROR, message if isinstance(message, str) else ""


def _events(held: dict[str, Any]) -> list[Event]:
    listed = _of(held, "events", "span_events") or []
    if not isinstance(listed, list) or not all(isinstance(event, dict) for event in listed):
        raise BadSpan("bad_type")
    return [_event(event) for event in listed]


def _event(held: dict[str, Any]) -> Event:
    """ADOT carries the content of an event beside its attributes, as `body`."""
    attributes = _object(held, "attributes")
    body = {"body": held["body"]} if "body" in held else {}
    return Event(
        str(_of(held, "name", "event_name") or ""),
        attributes | body,
        time(_of(held, "time", "timestamp", "timeUnixNano")).ns,
    )


def _as_found(held: dict[str, Any]) -> str:
    names = ("attributes", "events", "span_events", "links")
    return msgspec.json.encode({name: held[name] for name in names if held.get(name)}).decode()
