"""One OTLP span, as JSON, to the form all containers share. One bad field sets aside one span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources.carried import Carried, Event
from tasks.sources.otlp_fields import (
    SPAN_BYTES,
    TRACE_BYTES,
    BadSpan,
    attributes,
    hex_id,
    member,
    nanoseconds,
    required_id,
    span_kind,
    status_code,
)

if TYPE_CHECKING:
    from tasks.sources.otlp_requests import Found

_DROPPED = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")
_ERROR = 2


def carried(item: Found) -> Carried:
    """The span. Raises BadSpan."""
    held = item.span
    if not isinstance(held, dict) or not isinstance(held.get("name", ""), str):
        raise BadSpan("bad_type")
    trace_id = required_id(member(held, "traceId"), TRACE_BYTES)
    span_id = required_id(member(held, "spanId"), SPAN_BYTES)
    span_kind(held.get("kind"))
    flags = set(item.flags)
    failed, message = _status(held)
    if any(isinstance(count := member(held, name), int) and count > 0 for name in _DROPPED):
        flags.add("dropped_attributes")
    name, version = item.scope.get("name"), item.scope.get("version")
    return Carried(
        trace_id=trace_id, span_id=span_id, parent_span_id=parent_id(member(held, "parentSpanId")),
        source_trace_id=str(member(held, "traceId")), source_span_id=str(member(held, "spanId")),
        container="tempo" if item.rounded else "otlp_json", name=held.get("name") or "-", failed=failed, status_message=message,
        attributes=attributes(held.get("attributes")).values, events=_events(held), resource=item.resource.values,
        scope_name=name if isinstance(name, str) else None, scope_version=version if isinstance(version, str) else None,
        as_found=_as_found(held), **_times(held, flags, rounded=item.rounded), flags=flags,
    )  # fmt: skip


def ids(held: Any) -> tuple[str | None, str | None]:
    """The ids of a span that cannot be read otherwise, as far as they can: its trace has a hole there."""
    found: list[str | None] = []
    for name, width in (("traceId", TRACE_BYTES), ("spanId", SPAN_BYTES)):
        try:
            found.append(required_id(member(held, name), width) if isinstance(held, dict) else None)
        except BadSpan:
            found.append(None)
    return found[0], found[1]


def parent_id(held: Any) -> str | None:
    """The id of the span above; None where there is none, which some write as zeros. Raises BadSpan."""
    found = hex_id(held, SPAN_BYTES)
    return found if found and found.strip("0") else None


def _status(held: dict[str, Any]) -> tuple[bool, str]:
    status = held.get("status") or {}
    if not isinstance(status, dict):
        raise BadSpan("bad_type")
    message = status.get("message")
    return status_code(status.get("code")) == _ERROR, message if isinstance(message, str) else ""


def _times(held: dict[str, Any], flags: set[str], *, rounded: bool) -> dict[str, Any]:
    """rounded: the container is known to write times as rounded JSON numbers."""
    start, end = (member(held, name) for name in ("startTimeUnixNano", "endTimeUnixNano"))
    start_ns, end_ns = nanoseconds(start, flags), nanoseconds(end, flags)
    if start_ns is not None and end_ns is not None and end_ns < start_ns:
        raise BadSpan("bad_time")
    if rounded and isinstance(start, int):
        flags.add("precision_lost")
    precision = "none" if start_ns is None else "rounded" if "precision_lost" in flags else "ns"
    return {"start_ns": start_ns, "end_ns": end_ns, "time_precision": precision}


def _events(held: dict[str, Any]) -> list[Event]:
    listed = held.get("events") or []
    if not isinstance(listed, list) or not all(isinstance(event, dict) for event in listed):
        raise BadSpan("bad_type")
    return [
        Event(str(event.get("name", "")), attributes(event.get("attributes")).values, nanoseconds(member(event, "timeUnixNano"), set()))
        for event in listed
    ]  # fmt: skip


def _as_found(held: dict[str, Any]) -> str:
    """The raw attributes, events and links, unchanged."""
    kept = {name: held[name] for name in ("attributes", "events", "links") if held.get(name)}
    return msgspec.json.encode(kept).decode()
