"""What a window holds at all, before any of it is taken in: what a flagging rule can speak of, and which traces it is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tasks.sources.schema import SpanRecords

if TYPE_CHECKING:
    from tasks.sources.source import Source, Window


class Survey(NamedTuple):
    """The ids of the traces that began in a window, and the names of their scores."""

    traces: frozenset[str]
    scores: frozenset[str]


def survey(source: Source, window: Window) -> Survey:
    """Every file of a window read, and nothing of it kept. Raises what a pull of it would raise."""
    spans, scores = [SpanRecords.no_rows().select("trace_id", "start_ns")], []
    for raw in source.fetch(window):
        mapped = source.spans(raw, harness_state="survey")
        spans.append(mapped.spans.select("trace_id", "start_ns"))
        scores.append(mapped.scores.select("trace_id", "name"))
    began = pl.concat(spans).group_by("trace_id").agg(pl.col("start_ns").min())
    inside = began.filter(pl.col("start_ns").is_null() | began_in(window))
    named = [rows.join(inside, on="trace_id", how="semi")["name"] for rows in scores]
    return Survey(frozenset(inside["trace_id"]), frozenset(name for names in named for name in names))


def began_in(window: Window) -> pl.Expr:
    """Whether `start_ns` lies in a window; null where that is not known and asked."""
    after = pl.lit(value=True) if window.start_ns is None else pl.col("start_ns") >= window.start_ns
    before = pl.lit(value=True) if window.end_ns is None else pl.col("start_ns") < window.end_ns
    return after & before
