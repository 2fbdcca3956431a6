"""The step: redacted spans and scores in, the tables of traces, spans, scores and crossings out. Pure; running it on its own spans changes nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tasks.contracts import Quarantine, quarantined, validated
from tasks.normalize.schema import Crossings, Scores, Spans, Traces
from tasks.normalize.tracerow import put_together
from tasks.sources.records import frame
from twiceshy.errors import FormatError, Unrecordable
from twiceshy.identity import digest
from twiceshy.policy import ToolsPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tasks.contracts import Table
    from tasks.normalize.flagging import Flag, Rule
    from twiceshy.errors import TwiceshyError

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
    kept: Mapping[str, Sequence[Flag]] | None = None,
) -> Normalized:
    """Whole traces, put together. spans: `RedactedSpans`, every span of each trace, in any order; scores: `ScoreRecords`, redacted.

    policies: the tools policy of each workflow; a trace of no known workflow has every tool a write. rule: which traces count as flagged; by default
    those that ended in an error and those with a bad score. kept: the flags that a trace has already; no rule takes one away.
    """
    traces: list[Row] = []
    span_rows: list[Row] = []
    crossings: list[Row] = []
    unread: list[Row] = []
    judged = _by_trace(scores)
    for trace_id, rows in sorted(_by_trace(spans).items()):
        workflow = next((row["workflow"] for row in rows if row["workflow"]), "")
        policy = policies.get(workflow) or ToolsPolicy(workflow=workflow)
        try:
            had = (kept or {}).get(trace_id, ())
            made = put_together(
                rows, judged.get(trace_id, []), policy, rule=rule, harness_state=harness_state, kept=had
            )
        except (Unrecordable, FormatError) as broken:
            unread.append(_unread(trace_id, rows, broken, harness_state))
            continue
        traces.append(made.trace)
        span_rows += made.spans
        crossings += made.crossings
    tables = {
        Traces: frame(traces, Traces), Spans: frame(span_rows, Spans), Crossings: frame(crossings, Crossings),
        Scores: scores.filter(pl.col("trace_id").is_in([row["trace_id"] for row in traces])).with_columns(harness_state=pl.lit(harness_state)),
    }  # fmt: skip
    return _whole(tables, unread, harness_state)


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


def _unread(trace_id: str, rows: list[Row], broken: TwiceshyError, harness_state: str) -> Row:
    """The quarantine row of a trace that holds a value which cannot be read; its class only, since the text may quote the value."""
    reason = type(broken).__name__
    return dict.fromkeys(Quarantine.dtypes()) | {
        "harness_state": harness_state, "quarantine_id": digest([_STEP, trace_id, reason]), "step": _STEP, "unit": "trace", "table": Traces.named(),
        "source": rows[0]["source"], "trace_id": trace_id, "reason": reason, "locator": f"trace {trace_id}",
    }  # fmt: skip


def _whole(tables: Mapping[type[Table], pl.DataFrame], unread: list[Row], harness_state: str) -> Normalized:
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
    aside = Quarantine.arranged(pl.concat([frame(unread, Quarantine), *rows]))
    return Normalized(good[Traces], good[Spans], good[Scores], good[Crossings], aside)
