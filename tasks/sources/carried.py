"""One span as its container carried it: ids, times, status and attributes in one form for every container, and nothing of any dialect read yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Event(NamedTuple):
    """An event of a span: a log line in Jaeger, `span_events` elsewhere. time_ns: since the epoch, None where it has none."""

    name: str
    attributes: dict[str, Any]
    time_ns: int | None = None


class Carried(msgspec.Struct, kw_only=True):
    """One span; ids are lower-case hex, times ns since the epoch, attribute values plain JSON values (a text of JSON is still that text).

    flags: of formats.md §8, raised by the container. as_found: the attributes, events and links as they stood, JSON.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    source_trace_id: str
    source_span_id: str
    container: str
    name: str
    start_ns: int | None = None
    end_ns: int | None = None
    time_precision: str = "ns"
    failed: bool = False
    status_message: str = ""
    attributes: dict[str, Any]
    events: list[Event] = []
    resource: dict[str, Any] = {}
    scope_name: str | None = None
    scope_version: str | None = None
    flags: set[str] = set()
    as_found: str = "{}"

    def event(self, name: str) -> dict[str, Any] | None:
        """The attributes of the first event of that name; None where there is none."""
        return next(self.events_named(name), None)

    def events_named(self, *names: str) -> Iterator[dict[str, Any]]:
        """The attributes of every event of these names, in their order."""
        return (event.attributes for event in self.events if event.name in names)
