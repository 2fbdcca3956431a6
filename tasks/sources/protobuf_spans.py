"""OTLP as protobuf: one TracesData or export request, or requests each with its length before it, as the collector's file exporter writes them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tasks.sources.carried import Carried, Event
from tasks.sources.otlp_fields import SPAN_BYTES, TRACE_BYTES, BadSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

_FRAME = 4
_ERROR = 2
_KINDS = 6
_CODES = 3
_MAX_NS = 2**63 - 1


def requests(content: bytes) -> list[TracesData] | None:
    """The requests of a file; None where it is none of the two forms."""
    whole = _parsed(content)
    return [whole] if whole is not None else _framed(content)


def spans_in(request: TracesData) -> Iterator[tuple[Span, ScopeSpans, ResourceSpans]]:
    """Each span of a request with what stands around it."""
    for resource in request.resource_spans:
        for scoped in resource.scope_spans:
            for span in scoped.spans:
                yield span, scoped, resource


def carried(span: Span, scoped: ScopeSpans, resource: ResourceSpans) -> Carried:
    """The span. Raises BadSpan."""
    if not 0 <= span.kind < _KINDS or not 0 <= span.status.code < _CODES:
        raise BadSpan("bad_enum")
    trace, own = _hex(span.trace_id, TRACE_BYTES), _hex(span.span_id, SPAN_BYTES)
    if trace is None or own is None:
        raise BadSpan("no_trace_id" if not span.trace_id else "bad_id")
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if start > _MAX_NS or end > _MAX_NS or (start and end and end < start):
        raise BadSpan("bad_time")
    dropped = span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count
    attributes = _attributes(span.attributes)
    events = [Event(event.name, _attributes(event.attributes), event.time_unix_nano or None) for event in span.events]
    return Carried(
        trace_id=trace, span_id=own, parent_span_id=_hex(span.parent_span_id, SPAN_BYTES), source_trace_id=trace, source_span_id=own,
        container="otlp_protobuf", name=span.name or "-", start_ns=start or None, end_ns=end or None, time_precision="ns" if start else "none",
        failed=span.status.code == _ERROR, status_message=span.status.message, attributes=attributes, events=events,
        resource=_attributes(resource.resource.attributes), scope_name=scoped.scope.name or None, scope_version=scoped.scope.version or None,
        as_found=_as_found(attributes, events), flags={"dropped_attributes"} if dropped else set(),
    )  # fmt: skip


def _parsed(content: bytes) -> TracesData | None:
    """A message, if the bytes are one of this kind: what has no span is another, or the beginning of a frame."""
    try:
        found = TracesData.FromString(content)
    except DecodeError:
        return None
    return found if any(True for _ in spans_in(found)) else None


def _framed(content: bytes) -> list[TracesData] | None:
    """Requests with four bytes of length before each, most significant first."""
    found: list[TracesData] = []
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at : at + _FRAME], "big")
        held = content[at + _FRAME : at + _FRAME + size]
        request = _parsed(held) if len(held) == size and size else None
        if request is None:
            return None
        found.append(request)
        at += _FRAME + size
    return found or None


def _hex(held: bytes, width: int) -> str | None:
    """An id; None where it is not set, which some write as zeros. Raises BadSpan for another length."""
    if not held.strip(b"\x00"):
        return None
    if len(held) != width:
        raise BadSpan("bad_id")
    return held.hex()


def _attributes(held: Any) -> dict[str, Any]:
    pairs: list[KeyValue] = list(held)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(held: AnyValue) -> Any:
    """An AnyValue unwrapped."""
    match held.WhichOneof("value"):
        case "array_value":
            return [_value(item) for item in held.array_value.values]
        case "kvlist_value":
            return _attributes(held.kvlist_value.values)
        case None:
            return None
        case name:
            return getattr(held, name)


def _as_found(attributes: dict[str, Any], events: list[Event]) -> str:
    made: dict[str, Any] = {"attributes": attributes} if attributes else {}
    if events:
        made["events"] = [event._asdict() for event in events]
    return msgspec.json.encode(made, enc_hook=_encoded).decode()


def _encoded(held: Any) -> str:
    return base64.b64encode(held).decode()
