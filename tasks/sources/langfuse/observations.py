"""An observation as a carried span: the OTel attributes, resource and scope that Langfuse keeps in `metadata`, with its ids, times and level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources import ids, payloads
from tasks.sources.carried import Carried
from tasks.sources.langfuse.rows import PAGE
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.times import span_times

if TYPE_CHECKING:
    from tasks.sources.langfuse.rows import Row

NAME = "langfuse"
CUT = 200
"""The API cuts a value of `metadata` to so many characters unless its key is named in `expandMetadata`."""

MOST_ATTRIBUTES = 128
"""Where the OpenTelemetry SDKs stop; the oldest go first. Langfuse does not keep their count of what was dropped (BerriAI/litellm#34828)."""

_LISTS = ("ai.prompt.tools", "gen_ai.response.finish_reasons")
"""Attributes that were lists of texts: Langfuse keeps a list as JSON text."""


def carried(row: Row) -> Carried:
    """The span. Raises BadSpan."""
    held = row.value
    if not isinstance(held, dict) or not isinstance(held.get("name"), str | None):
        raise BadSpan("bad_type")
    flags = set(row.flags)
    metadata = _object(held.get("metadata"), flags)
    if row.container == PAGE and any(is_cut(value) for value in metadata.values()):
        flags.add("truncated")
    attributes = _attributes(metadata, flags)
    if len(attributes) == MOST_ATTRIBUTES:
        flags.add("dropped_attributes")
    trace, scope = held.get("traceId") or row.trace.get("id"), _object(metadata.get("scope"), flags)
    return Carried(
        trace_id=ids.trace_id(trace, NAME, flags), span_id=ids.span_id(held.get("id"), NAME, flags),
        parent_span_id=ids.parent_id(held.get("parentObservationId"), NAME), source_trace_id=str(trace), source_span_id=str(held.get("id")),
        container=row.container, name=held.get("name") or "-", failed=held.get("level") == "ERROR", status_message=str(held.get("statusMessage") or ""),
        attributes=attributes, resource=_object(metadata.get("resourceAttributes"), flags), scope_name=_text(scope.get("name")),
        scope_version=_text(scope.get("version")), flags=flags, as_found=msgspec.json.encode(held).decode(), **span_times(held.get("startTime"), held.get("endTime")),
    )  # fmt: skip


def is_cut(value: Any) -> bool:
    """Whether a value of `metadata` looks as the API leaves it: a text of just the length it cuts to, with or without the points after it."""
    return isinstance(value, str) and len(value.removesuffix("...").removesuffix("…")) == CUT


def _attributes(metadata: dict[str, Any], flags: set[str]) -> dict[str, Any]:
    found = dict(_object(metadata.get("attributes"), flags))
    for name in _LISTS:
        if isinstance(found.get(name), str):
            listed = payloads.parsed(found[name]).value
            found[name] = listed if isinstance(listed, list) else found[name]
    return found


def _object(held: Any, flags: set[str]) -> dict[str, Any]:
    """An object, or the JSON text of one; what reading the text raised is flagged."""
    if isinstance(held, str) and held:
        found = payloads.parsed(held)
        flags |= found.flags - {"opaque_repr", "hashed_content"}
        held = found.value
    return held if isinstance(held, dict) else {}


def _text(held: Any) -> str | None:
    return held if isinstance(held, str) and held else None
