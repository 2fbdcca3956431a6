"""A flagging rule asked about traces that were taken in before: it adds its flags to them, and takes none away that another rule or a person gave."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl

from tasks.normalize.flagging import Flag
from tasks.normalize.tracerow import ended_in_error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tasks.normalize.flagging import Rule


def kept(traces: pl.DataFrame) -> dict[str, list[Flag]]:
    """Trace id -> the flags it has, of the stored rows."""
    held = traces.filter("flagged").select("trace_id", "flags")
    return {trace_id: [Flag(**flag) for flag in flags] for trace_id, flags in held.iter_rows()}


def newly_flagged(
    rule: Rule, trace_ids: Collection[str], *, traces: pl.DataFrame, spans: pl.DataFrame, scores: pl.DataFrame
) -> list[str]:
    """The ids of those of these traces that the rule gives a flag which they do not have; from the stored tables."""
    had = kept(traces)
    rows, said = _by_trace(spans, trace_ids), _by_trace(scores, trace_ids)
    asked = sorted(set(traces["trace_id"]) & set(trace_ids))
    return [
        trace_id
        for trace_id in asked
        if set(rule.flags(said.get(trace_id, []), failed=ended_in_error(rows[trace_id]))) - set(had.get(trace_id, []))
    ]


def _by_trace(table: pl.DataFrame, trace_ids: Collection[str]) -> Mapping[str, Sequence[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.filter(pl.col("trace_id").is_in(list(trace_ids))).iter_rows(named=True):
        grouped[row["trace_id"]].append(row)
    return grouped
