"""Jaeger's JSON: traces with processes, tags for attributes, microseconds, and a parent that is a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tasks.sources import ids
from tasks.sources.carried import Carried, Event
from tasks.sources.otlp_fields import BadSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

_US = 1_000


class Held(NamedTuple):
    """A span and the processes of its trace."""

    span: Any
    processes: dict[str, Any]


def spans_in(held: Any) -> list[Held] | None:
    """The spans of a document: `{data: [trace...]}` or one trace; None where it is neither."""
    traces = held.get("data") if isinstance(held, dict) and isinstance(held.get("data"), list) else [held]
    if not traces or not all(_is_trace(trace) for trace in traces):
        return None
    return [Held(span, trace.get("processes") or {}) for trace in traces for span in trace["spans"]]


def carried(item: Held, source: str, marks: frozenset[str]) -> Carried:
    """The span. Raises BadSpan."""
    held = item.span
    if not isinstance(held, dict) or not isinstance(held.get("operationName", ""), str):
        raise BadSpan("bad_type")
    flags = set(marks)
    tags = _tags(held.get("tags"))
    start = _microseconds(held.get("startTime"))
    process = item.processes.get(str(held.get("processID")))
    resource = (
        _tags(process.get("tags")) | {"service.name": process.get("serviceName")} if isinstance(process, dict) else {}
    )
    failed = str(tags.get("error", "")).lower() == "true" or tags.get("otel.status_code") == "ERROR"
    return Carried(
        trace_id=ids.trace_id(held.get("traceID"), source, flags), span_id=ids.span_id(held.get("spanID"), source, flags),
        parent_span_id=_parent(held, source), source_trace_id=str(held.get("traceID")), source_span_id=str(held.get("spanID")), container="jaeger",
        name=held.get("operationName") or "-", start_ns=start, end_ns=start + _microseconds(held.get("duration", 0)), time_precision="us",
        failed=failed, status_message=str(tags.get("otel.status_description") or ""), attributes=tags, events=list(_events(held)),
        resource=resource, scope_name=_scope(tags, "name"), scope_version=_scope(tags, "version"),
        as_found=msgspec.json.encode({name: held[name] for name in ("tags", "logs", "references") if held.get(name)}).decode(), flags=flags,
    )  # fmt: skip


def _is_trace(held: Any) -> bool:
    return isinstance(held, dict) and "traceID" in held and isinstance(held.get("spans"), list)


def _scope(tags: dict[str, Any], what: str) -> str | None:
    found = tags.get(f"otel.scope.{what}", tags.get(f"otel.library.{what}"))
    return found if isinstance(found, str) and found else None


def _parent(held: dict[str, Any], source: str) -> str | None:
    """The span it is a child of; what it merely follows from is a link. Old clients write `parentSpanID`."""
    references = held.get("references") or []
    if not isinstance(references, list):
        raise BadSpan("bad_type")
    found = (item.get("spanID") for item in references if isinstance(item, dict) and item.get("refType") == "CHILD_OF")
    return ids.parent_id(next(found, held.get("parentSpanID")), source)


def _tags(held: Any) -> dict[str, Any]:
    if held is None:
        return {}
    if not isinstance(held, list) or not all(isinstance(tag, dict) and isinstance(tag.get("key"), str) for tag in held):
        raise BadSpan("bad_type")
    return {tag["key"]: tag.get("value") for tag in held}


def _events(held: dict[str, Any]) -> Iterator[Event]:
    listed = held.get("logs") or []
    if not isinstance(listed, list) or not all(isinstance(log, dict) for log in listed):
        raise BadSpan("bad_type")
    for log in listed:
        fields = _tags(log.get("fields"))
        yield Event(str(fields.pop("event", "")), fields, _microseconds(log.get("timestamp", 0)) or None)


def _microseconds(held: Any) -> int:
    """A time or duration in us, as ns. Raises BadSpan."""
    if isinstance(held, bool) or not isinstance(held, int) or not 0 <= held * _US < 2**63:
        raise BadSpan("bad_time")
    return held * _US
