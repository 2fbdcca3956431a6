"""The source `langfuse`. Each observation is one span: read in the dialect of its own attributes, then filled from Langfuse's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.sources import reading, tabular
from tasks.sources.langfuse import api, columns, observations, rows, scores
from tasks.sources.langfuse.observations import NAME
from tasks.sources.otlp_fields import UNREADABLE, reason_of
from tasks.sources.otlp_requests import Unreadable
from tasks.sources.paging import ApiSource
from tasks.sources.reading import Own
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw

if TYPE_CHECKING:
    from tasks.sources.langfuse.rows import Row


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per observation that can be read; scores, corrections and tags. One bad row is set aside alone."""
    intake = Intake(raw, NAME, harness_state)
    for row in rows.rows(raw):
        if isinstance(row, Unreadable):
            intake.reject(row.reason, "row", row.locator, row.content, byte_offset=row.byte_offset)
            continue
        try:
            _enter(row, intake)
        except UNREADABLE as bad:
            unit = "span" if row.kind == rows.OBSERVATION else "row"
            intake.reject(reason_of(bad), unit, row.locator, repr(row.value).encode("utf-8", "replace"))
    return intake.mapped()


def _enter(row: Row, intake: Intake) -> None:
    if row.kind == rows.SCORE:
        intake.scores.append(scores.score(row))
        intake.known = True
        return
    if row.kind == rows.OBSERVATION:
        held = observations.carried(row)
        own = Own(NAME, columns.MAPPER, columns.held_in(row), columns.read)
        intake.take(reading.span_of(held, own), row.locator)
    intake.scores += scores.tags(row)
    intake.known = True


source = ApiSource(
    files=FileSource(NAME, spans, JSON_SUFFIXES | tabular.SUFFIXES),
    pages=api.pages,
    keys=(api.PUBLIC, api.SECRET),
    host=api.HOST,
)
