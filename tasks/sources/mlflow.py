"""MLflow 3's traces as `Trace.to_json()` writes them: `{info, data{spans}}`, ids in base64, each attribute's value a JSON text of its own.

`request_preview` and `response_preview` are cut, so they count only where a trace came without its spans, and then it is held. So is a trace that was still in
progress: it is pulled again later. Assessments are scores; expectations are of the label side and reach no span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources import ids, payloads, reading
from tasks.sources.carried import Carried, Event
from tasks.sources.entries import Entry, entries, inner
from tasks.sources.otlp_fields import (
    SPAN_BYTES,
    TRACE_BYTES,
    UNREADABLE,
    BadSpan,
    hex_id,
    nanoseconds,
    reason_of,
    required_id,
    spelled,
    status_code,
)
from tasks.sources.records import UNFINISHED, Score, Side, Span, graded
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.times import time
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "mlflow"
MAPPER = "mlflow@1"
CONTAINER = "trace_json"
_ERROR = 2
_ORIGINS = {"HUMAN": "human", "LLM_JUDGE": "llm", "AI_JUDGE": "llm", "CODE": "code"}
_IN_PROGRESS = ("IN_PROGRESS", "TRACE_STATUS_IN_PROGRESS")


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per span; scores for the assessments."""
    intake = Intake(raw, NAME, harness_state)
    for entry in entries(intake, "traces"):
        info, listed = inner(entry.held, "info"), inner(entry.held, "data").get("spans")
        if not info or not ("trace_id" in info or "request_id" in info):
            entry.reject(intake, "unknown_container")
            continue
        trace = _Trace(entry, info)
        if isinstance(listed, list) and listed:
            for number, held in enumerate(listed):
                trace.enter(intake, number, held)
        else:
            trace.preview(intake)
        intake.scores += trace.scores()
    return intake.mapped()


class _Trace:
    """One trace on its way to spans."""

    def __init__(self, entry: Entry, info: dict[str, Any]) -> None:
        self._entry, self._info = entry, info
        self._id = info.get("trace_id", info.get("request_id"))
        metadata = inner(info, "trace_metadata") or inner(info, "request_metadata")
        self._flags = set(entry.flags) | (
            {UNFINISHED} if info.get("state", info.get("status")) in _IN_PROGRESS else set()
        )
        self._about: dict[str, Any] = {
            "conversation_id": _text(metadata, "mlflow.trace.session"),
            "user_ref": _text(metadata, "mlflow.trace.user"),
        }
        self._prompt = _prompt(inner(info, "tags"))

    def enter(self, intake: Intake, number: int, held: Any) -> None:
        """One span."""
        place = f"{self._entry.place}, span {number}"
        try:
            span = reading.span_of(self._carried(held))
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "span", place, spelled(held))
            return
        for name, value in self._about.items():
            setattr(span, name, getattr(span, name) or value)
        if span.kind == "model" and self._prompt and span.prompt_name is None:
            span.prompt_name, span.prompt_version = self._prompt
            span.provenance["prompt_version"] = {"key": "mlflow.linkedPrompts", "grade": "recorded"}
        intake.take(span, place)

    def preview(self, intake: Intake) -> None:
        """A trace that came without its spans: what it was asked and what it said, cut."""
        flags, info = self._flags | {"preview_only"}, self._info
        sides = {side: info.get(name) for side, name in (("seen", "request_preview"), ("raw", "response_preview"))}
        try:
            span = Span(
                trace_id=ids.trace_id(self._id, NAME, flags), span_id=ids.span_id(f"{self._id}#trace", NAME, set()), source_trace_id=str(self._id),
                source_span_id=str(self._id), container=CONTAINER, dialect=NAME, mapper=MAPPER, kind="agent", name="trace", flags=flags,
                sides={side: Side(held, "text") for side, held in sides.items() if isinstance(held, str)}, start_ns=time(info.get("request_time")).ns,
                is_error=info.get("state") == "ERROR", attributes_json=msgspec.json.encode(info).decode(), **self._about,
            )  # fmt: skip
        except UNREADABLE as bad:
            self._entry.reject(intake, reason_of(bad), "span")
            return
        intake.take(span, self._entry.place)

    def scores(self) -> Iterator[Score]:
        """The assessments that stand: one that another overrides is marked as not valid."""
        try:
            trace_id = ids.trace_id(self._id, NAME, set())
        except BadSpan:
            return
        listed = self._info.get("assessments")
        for held in listed if isinstance(listed, list) else ():
            if isinstance(held, dict) and held.get("valid") is not False:
                yield from _score(trace_id, held)

    def _carried(self, held: Any) -> Carried:
        if not isinstance(held, dict) or not isinstance(held.get("name", ""), str):
            raise BadSpan("bad_type")
        context = inner(held, "context") or held
        flags = set(self._flags)
        trace, span = context.get("trace_id", self._id), context.get("span_id")
        status = inner(held, "status") or {"code": held.get("status_code"), "message": held.get("status_message")}
        started, ended = (
            nanoseconds(held.get(f"{name}_time_unix_nano", held.get(f"{name}_time")), flags)
            for name in ("start", "end")
        )
        if started is not None and ended is not None and ended < started:
            raise BadSpan("bad_time")
        attributes = held.get("attributes")
        if not isinstance(attributes, dict | None):
            raise BadSpan("bad_type")
        return Carried(
            trace_id=_trace_id(trace, flags), span_id=required_id(_bare(span), SPAN_BYTES),
            parent_span_id=hex_id(_bare(held.get("parent_span_id", held.get("parent_id"))), SPAN_BYTES), source_trace_id=str(self._id), source_span_id=str(span),
            container=CONTAINER, name=held.get("name") or "-", start_ns=started, end_ns=ended, time_precision="none" if started is None else "ns", failed=status_code(status.get("code")) == _ERROR,
            status_message=str(status.get("message") or ""), attributes=attributes or {}, events=_events(held), flags=flags,
            as_found=msgspec.json.encode({name: held[name] for name in ("attributes", "events", "links") if held.get(name)}).decode(),
        )  # fmt: skip


def _trace_id(held: Any, flags: set[str]) -> str:
    """Base64 of the 16 bytes that `tr-…` of the trace's info spells in hex."""
    try:
        return required_id(_bare(held), TRACE_BYTES)
    except BadSpan:
        return ids.trace_id(held, NAME, flags)


def _bare(held: Any) -> Any:
    """MLflow 2 wrote ids as `0x…`."""
    return held.removeprefix("0x") if isinstance(held, str) else held


def _events(held: dict[str, Any]) -> list[Event]:
    listed = held.get("events") or []
    if not isinstance(listed, list) or not all(isinstance(event, dict) for event in listed):
        raise BadSpan("bad_type")
    return [
        Event(str(event.get("name") or ""), inner(event, "attributes"), nanoseconds(event.get("time_unix_nano"), set()))
        for event in listed
    ]


def _score(trace_id: str, held: dict[str, Any]) -> Iterator[Score]:
    feedback, expectation, source = inner(held, "feedback"), inner(held, "expectation"), inner(held, "source")
    told = feedback or expectation
    value, broke = told.get("value"), inner(feedback, "error")
    comment = held.get("rationale") or broke.get("error_message") or broke.get("error_code")
    if value is None and comment is None:
        return
    yield Score(
        trace_id=trace_id, span_id=_span_id(held.get("span_id")), name=str(held.get("assessment_name") or held.get("name") or "assessment"),
        origin=_ORIGINS.get(str(source.get("source_type")), "api"), author_ref=_text(source, "source_id"), comment=_text({"": comment}, ""),
        created_ns=_created(held), **(graded(value) if feedback else {"text": canonical(value).decode()}),
    )  # fmt: skip


def _created(held: dict[str, Any]) -> int | None:
    try:
        return time(held.get("create_time", held.get("create_time_ms"))).ns
    except BadSpan:
        return None


def _span_id(held: Any) -> str | None:
    try:
        return hex_id(_bare(held), SPAN_BYTES)
    except BadSpan:
        return None


def _prompt(tags: dict[str, Any]) -> tuple[str, str] | None:
    """The one prompt that the trace is linked to; with several nobody says which model had which."""
    held = tags.get("mlflow.linkedPrompts")
    listed = payloads.parsed(held).value if isinstance(held, str) else held
    if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], dict) and listed[0].get("name"):
        return str(listed[0]["name"]), str(listed[0].get("version"))
    return None


def _text(held: dict[str, Any], name: str) -> str | None:
    found = held.get(name)
    return found if isinstance(found, str) and found else None


source = FileSource(NAME, spans)
