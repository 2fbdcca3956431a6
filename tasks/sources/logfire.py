"""Logfire's `records` table, as JSON, JSON lines, CSV or Parquet: an OpenTelemetry span a row, read in the dialect that its attributes speak.

`records_all` also has spans that had only begun: a file with such rows is refused, since each of them comes again when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources import ids, payloads, reading, tabular
from tasks.sources.carried import Carried, Event
from tasks.sources.entries import Entry, entries
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of, status_code
from tasks.sources.records import Score
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw
from tasks.sources.times import span_times, time
from twiceshy.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "logfire"
CONTAINER = "records"
_ERROR = 2
_PENDING = "pending_span"


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per record; scores from evaluation events and tags."""
    intake = Intake(raw, NAME, harness_state)
    for entry in _rows(raw, intake):
        if "trace_id" not in entry.held or "span_name" not in entry.held:
            entry.reject(intake, "unknown_container")
            continue
        if entry.held.get("kind") == _PENDING:
            raise FormatError.at(
                raw.name,
                f"{entry.place} is of a span that had only begun.",
                hint="Query the table records, not records_all.",
            )
        try:
            held = _carried(entry)
            span, scores = reading.span_of(held), [*reading.scores_of(held), *_tags(held, entry.held)]
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad), "span")
            continue
        intake.take(span, entry.place)
        intake.scores += scores
    return intake.mapped()


def _rows(raw: Raw, intake: Intake) -> Iterator[Entry]:
    listed = tabular.rows(raw)
    if listed is None:
        yield from entries(intake, "rows", "data")
        return
    for number, row in enumerate(listed, start=1):
        yield Entry(row, f"row {number}", frozenset(), {})


def _carried(entry: Entry) -> Carried:
    """One row. Raises BadSpan."""
    row, flags = entry.held, set(entry.flags)
    texts = (row.get("span_name"), row.get("otel_scope_name") or "", row.get("otel_scope_version") or "")
    if not all(isinstance(text, str) for text in texts):
        raise BadSpan("bad_type")
    attributes, resource = _object(row.get("attributes"), flags), _object(row.get("otel_resource_attributes"), flags)
    for column, key in (("service_name", "service.name"), ("deployment_environment", "deployment.environment.name")):
        if isinstance(row.get(column), str) and row[column]:
            resource.setdefault(key, row[column])
    events = _events(row, flags)
    found = {"attributes": attributes, "events": [event._asdict() for event in events], "links": row.get("otel_links")}
    return Carried(
        trace_id=ids.trace_id(row.get("trace_id"), NAME, flags), span_id=ids.span_id(row.get("span_id"), NAME, flags),
        parent_span_id=ids.parent_id(row.get("parent_span_id"), NAME), source_trace_id=str(row["trace_id"]), source_span_id=str(row["span_id"]),
        container=CONTAINER, name=row["span_name"] or "-", failed=status_code(row.get("otel_status_code") or None) == _ERROR or _true(row.get("is_exception")),
        status_message=str(row.get("otel_status_message") or row.get("exception_message") or ""), attributes=attributes, events=events, resource=resource,
        scope_name=row.get("otel_scope_name") or None, scope_version=row.get("otel_scope_version") or None, flags=flags,
        as_found=msgspec.json.encode(found).decode(), **span_times(row.get("start_timestamp"), row.get("end_timestamp")),
    )  # fmt: skip


def _object(held: Any, flags: set[str]) -> dict[str, Any]:
    """An object, or the JSON text of one. Raises BadSpan."""
    if isinstance(held, str) and held:
        read = payloads.parsed(held)
        held = read.value
        flags |= read.flags
    if held is None or held == "":
        return {}
    if not isinstance(held, dict):
        raise BadSpan("bad_type")
    return dict(held)


def _events(row: dict[str, Any], flags: set[str]) -> list[Event]:
    """The span's events, and the exception that the columns name where no event does."""
    listed = row.get("otel_events")
    if isinstance(listed, str):
        listed = payloads.parsed(listed).value if listed else None
    if not isinstance(listed, list | None) or not all(isinstance(event, dict) for event in listed or ()):
        raise BadSpan("bad_type")
    found = [
        Event(
            str(event.get("event_name") or event.get("name") or ""), _object(event.get("attributes"), flags),
            time(event.get("event_timestamp", event.get("timestamp"))).ns,
        )
        for event in listed or ()
    ]  # fmt: skip
    kind = row.get("exception_type")
    if kind and not any(event.name == "exception" for event in found):
        told = {"exception.type": str(kind), "exception.message": str(row.get("exception_message") or "")}
        found.append(Event("exception", told))
    return found


def _tags(held: Carried, row: dict[str, Any]) -> Iterator[Score]:
    tags = row.get("tags")
    if isinstance(tags, str):
        tags = payloads.parsed(tags).value
    for tag in tags if isinstance(tags, list) else ():
        yield Score(trace_id=held.trace_id, span_id=held.span_id, name="tag", label=str(tag), origin="api")


def _true(held: Any) -> bool:
    return held is True or (isinstance(held, str) and held.casefold() == "true")


source = FileSource(NAME, spans, JSON_SUFFIXES | tabular.SUFFIXES)
