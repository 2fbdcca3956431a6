"""Scores, corrections and tags of Langfuse: of a person, an evaluator or the API, on a trace or on one observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.sources import ids
from tasks.sources.langfuse.observations import NAME
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.records import Score
from tasks.sources.times import time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.langfuse.rows import Row

_ORIGINS = {"ANNOTATION": "human", "API": "api", "EVAL": "llm"}
_TEXTS = ("CORRECTION", "TEXT")


def score(row: Row) -> Score:
    """One score. Raises BadSpan: `no_trace_id` for a score of a session or of a run of a data set."""
    held = row.value
    if not isinstance(held, dict) or not isinstance(held.get("name"), str) or not held["name"]:
        raise BadSpan("bad_type")
    origin = _ORIGINS.get(str(held.get("source")))
    if origin is None:
        raise BadSpan("bad_enum")
    subject = held["subject"] if isinstance(held.get("subject"), dict) else {}
    told = {str(subject.get("kind")): subject.get("id")} | {"trace_of": subject.get("traceId")}
    trace = held.get("traceId") or told.get("trace") or told["trace_of"] or row.trace.get("id")
    observation = held.get("observationId") or told.get("observation")
    return Score(
        trace_id=ids.trace_id(trace, NAME, set()), span_id=ids.span_id(observation, NAME, set()) if observation else None, name=held["name"],
        origin=origin, comment=_text(held.get("comment")), author_ref=_text(held.get("authorUserId")),
        created_ns=time(held.get("timestamp") or held.get("createdAt")).ns, **_said(held),
    )  # fmt: skip


def tags(row: Row) -> Iterator[Score]:
    """A score for each tag of a trace; observations of the API repeat those of their trace."""
    held = row.value if isinstance(row.value, dict) else {}
    listed = held.get("tags")
    trace = held.get("traceId") or row.trace.get("id") or held.get("id")
    for tag in listed if isinstance(listed, list) else ():
        if isinstance(tag, str) and tag:
            yield Score(trace_id=ids.trace_id(trace, NAME, set()), name="tag", label=tag, origin="api")


def _said(held: dict[str, Any]) -> dict[str, Any]:
    """The value by its type: v3 writes each as itself under `value`, older ones a number there and a text beside it."""
    value, texts = held.get("value"), (held.get("longStringValue"), held.get("stringValue"))
    kind = str(held.get("dataType")).upper()
    text = (
        value if isinstance(value, str) else next((found for found in texts if isinstance(found, str) and found), None)
    )
    number = _number(value)
    if kind in _TEXTS:
        return {"text": text}
    if kind == "NUMERIC":
        return {"value": number}
    return {"value": number, "label": text if text is not None else str(value) if isinstance(value, bool) else None}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) else None


def _text(held: Any) -> str | None:
    return held if isinstance(held, str) and held else None
