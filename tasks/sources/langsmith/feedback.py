"""Feedback on runs, the averages that a listed run has of it, and the tags of a root run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.sources import ids
from tasks.sources.langsmith.runs import NAME
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.records import Score
from tasks.sources.times import time
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tasks.sources.carried import Carried
    from tasks.sources.langsmith.rows import Row

_ORIGINS = {"app": "human", "human": "human", "api": "api", "model": "llm", "auto_eval": "llm"}


def score(row: Row, traces: Mapping[str, str]) -> Score:
    """One feedback; traces: the trace of each run of the file, for feedback that names its run alone. Raises BadSpan."""
    held = row.value
    if not isinstance(held.get("key"), str) or not held["key"]:
        raise BadSpan("bad_type")
    run, source = held.get("run_id"), held.get("feedback_source")
    trace = held.get("trace_id") or traces.get(str(run))
    value, number = held.get("value"), held.get("score")
    author = source.get("user_id") if isinstance(source, dict) else None
    correction = held.get("correction")
    return Score(
        trace_id=ids.trace_id(trace, NAME, set()), span_id=ids.span_id(run, NAME, set()) if run else None, name=held["key"],
        value=float(number) if isinstance(number, int | float) else None, label=str(value) if isinstance(value, str | int | float) else None,
        text=canonical(correction or value).decode() if correction or isinstance(value, dict | list) else None,
        origin=_ORIGINS.get(str(source.get("type")) if isinstance(source, dict) else "", "api"), comment=_text(held.get("comment")),
        author_ref=_text(author), created_ns=time(held.get("created_at")).ns,
    )  # fmt: skip


def of_run(row: Row, span: Carried) -> Iterator[Score]:
    """The averages of feedback, where it does not come by itself, and the tags of a root run: those below it are the framework's."""
    stats = row.value.get("feedback_stats")
    for key, held in (stats if isinstance(stats, dict) and not row.paged else {}).items():
        average = held.get("avg") if isinstance(held, dict) else None
        if isinstance(average, int | float):
            yield Score(trace_id=span.trace_id, span_id=span.span_id, name=str(key), value=float(average), origin="api")
    tags: Any = row.value.get("tags") if span.parent_span_id is None else None
    for tag in tags if isinstance(tags, list) else ():
        if isinstance(tag, str) and tag:
            yield Score(trace_id=span.trace_id, name="tag", label=tag, origin="api")


def _text(held: Any) -> str | None:
    return held if isinstance(held, str) and held else None
