"""The source `langsmith`: a run is a span; a file may hold runs and feedback, or the stream of one session of a managed agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.sources import otlp_requests, reading, tabular
from tasks.sources.langsmith import api, feedback, managed, rows, runs
from tasks.sources.langsmith.runs import NAME
from tasks.sources.otlp_fields import UNREADABLE, reason_of
from tasks.sources.otlp_requests import Unreadable
from tasks.sources.paging import ApiSource
from tasks.sources.reading import Own
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw

if TYPE_CHECKING:
    from tasks.sources.langsmith.rows import Row


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per run that can be read, or per span of a stream; feedback and tags as scores. One bad row is set aside alone."""
    intake = Intake(raw, NAME, harness_state)
    if raw.content.lstrip()[:20].startswith((b'["client.beta.', b'[ "client.beta.')):
        _stream(raw, intake)
        return intake.mapped()
    listed = list(rows.rows(raw))
    traces = {
        str(row.value.get("id")): str(row.value.get("trace_id"))
        for row in listed
        if isinstance(row, rows.Row) and row.value.get("trace_id")
    }
    for row in listed:
        if isinstance(row, Unreadable):
            intake.reject(row.reason, "row", row.locator, row.content, byte_offset=row.byte_offset)
            continue
        try:
            _enter(row, intake, traces)
        except UNREADABLE as bad:
            unit = "span" if row.kind == rows.RUN else "row"
            intake.reject(reason_of(bad), unit, row.locator, repr(row.value).encode("utf-8", "replace"))
    return intake.mapped()


def _enter(row: Row, intake: Intake, traces: dict[str, str]) -> None:
    intake.known = True
    if row.kind == rows.FEEDBACK:
        intake.scores.append(feedback.score(row, traces))
        return
    held = runs.carried(row)
    span = reading.span_of(held, Own(NAME, runs.MAPPER, runs.columns_of(row), runs.read))
    intake.take(span, row.locator)
    intake.scores += feedback.of_run(row, held)


def _stream(raw: Raw, intake: Intake) -> None:
    session = managed.Session()
    for document in otlp_requests.documents(raw.content):
        if isinstance(document, Unreadable):
            intake.reject(document.reason, "row", document.locator, document.content, byte_offset=document.byte_offset)
            continue
        try:
            session.hear(document.value)
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "row", document.place, document.content, byte_offset=document.byte_offset)
    try:
        for span, locator in session.spans():
            intake.take(span, locator)
    except UNREADABLE as bad:
        intake.reject(reason_of(bad), "row", "session", raw.content)


source = ApiSource(
    files=FileSource(NAME, spans, JSON_SUFFIXES | tabular.SUFFIXES),
    pages=api.pages,
    keys=(api.KEY,),
    more=(api.PROJECT,),
    host=api.HOST,
)
