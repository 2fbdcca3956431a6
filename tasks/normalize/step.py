"""The step: redacted spans and scores in, the tables of traces, spans, scores and crossings out. Pure; running it on its own spans changes nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tasks.contracts import Quarantine, quarantined, validated
from tasks.normalize.schema import Crossings, Scores, Spans, Traces
from tasks.normalize.tracerow import put_together
from tasks.sources.records import frame
from twiceshy.policy import ToolsPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.contracts import Table
    from tasks.normalize.flagging import Rule

    Row = dict[str, Any]

_STEP = "normalize"


class Normalized(NamedTuple):
    """The four tables, and what did not keep their contract: a trace of which one row breaks it is set aside as a whole."""

    traces: pl.DataFrame
    spans: pl.DataFrame
    scores: pl.DataFrame
    crossings: pl.DataFrame
    quarantine: pl.DataFrame


def normalize(
    spans: pl.DataFrame,
    scores: pl.DataFrame,
    *,
    policies: Mapping[str, ToolsPolicy],
    harness_state: str,
    rule: Rule | None = None,
) -> Normalized:
    """Whole traces, put together. spans: `RedactedSpans`, every span of each trace, in any order; scores: `ScoreRecords`, redacted.

    policies: the tools policy of each workflow; a trace of no known workflow has every tool a write. rule: which traces count as flagged; by default
    those that ended in an error and those with a bad score.
    """
    traces: list[Row] = []
    span_rows: list[Row] = []
    crossings: list[Row] = []
    judged = _by_trace(scores)
    for trace_id, rows in sorted(_by_trace(spans).items()):
        workflow = next((row["workflow"] for row in rows if row["workflow"]), "")
        policy = policies.get(workflow) or ToolsPolicy(workflow=workflow)
        made = put_together(rows, judged.get(trace_id, []), policy, rule=rule, harness_state=harness_state)
        traces.append(made.trace)
        span_rows += made.spans
        crossings += made.crossings
    tables = {
        Traces: frame(traces, Traces), Spans: frame(span_rows, Spans), Crossings: frame(crossings, Crossings),
        Scores: scores.filter(pl.col("trace_id").is_in([row["trace_id"] for row in traces])).with_columns(harness_state=pl.lit(harness_state)),
    }  # fmt: skip
    return _whole(tables, harness_state)


def unredacted(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans with an empty redaction stamp, for what is looked at and never admitted: a trace without a stamp is held."""
    return spans.with_columns(
        policy_digest=pl.lit(None, pl.String), key_id=pl.lit(None, pl.String), redaction_map=pl.lit(None, pl.String),
        pseudonyms=pl.lit(None, pl.String), holds=pl.lit([], pl.List(pl.String)),
    )  # fmt: skip


def _by_trace(table: pl.DataFrame) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in table.iter_rows(named=True):
        grouped[row["trace_id"]].append(row)
    return grouped


def _whole(tables: Mapping[type[Table], pl.DataFrame], harness_state: str) -> Normalized:
    """Validated tables, less every trace that has a row set aside."""
    checked = {model: validated(table, model) for model, table in tables.items()}
    broken = pl.concat([held.set_aside.select("trace_id") for held in checked.values()]).unique()
    good = {
        model: held.good.join(broken, on="trace_id", how="anti", maintain_order="left")
        for model, held in checked.items()
    }
    rows = [
        quarantined(held.set_aside, model, step=_STEP, harness_state=harness_state) for model, held in checked.items()
    ]
    return Normalized(good[Traces], good[Spans], good[Scores], good[Crossings], Quarantine.arranged(pl.concat(rows)))
