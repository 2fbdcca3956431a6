"""Names the layers that a failing run points at. Rules propose; a boundary swap, or a person, disposes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from msgspec import UNSET

from tasks.attribute.schema import LAYERS, Attributions
from tasks.attribute.signals import RULES_VERSION, Failure, Signal, signals
from tasks.contracts import validated
from tasks.envelopes import envelopes
from twiceshy.envelope import Kind
from twiceshy.identity import canonical
from twiceshy.invariants import Invariants
from twiceshy.policy import ToolsPolicy


class Attributed(NamedTuple):
    """The attributions, and rows that broke the contract."""

    attributions: pl.DataFrame
    set_aside: pl.DataFrame


class Tables(NamedTuple):
    """What attribute reads: rows of these tables, in any order."""

    memberships: pl.DataFrame
    findings: pl.DataFrame
    traces: pl.DataFrame
    crossings: pl.DataFrame
    scores: pl.DataFrame


def attribute(
    tables: Tables, *, policies: Mapping[str, ToolsPolicy], invariants: Mapping[str, Invariants], harness_state: str
) -> Attributed:
    """One row per (failing trace, layer) with a signal, ranked in the order of trial; `suggested`, or `unresolved` with the reason.

    policies, invariants: by workflow. Without any signal the model is what remains, but only where no earlier boundary can have differed unseen.
    """
    primary = {row["trace_id"]: row for row in tables.memberships.filter("primary").iter_rows(named=True)}
    findings = _by_trace(tables.findings.sort("onset_seq", "onset_sub", "finding_id"))
    scores = _by_trace(tables.scores.sort("score_id"))
    failing = pl.col("trace_id").is_in(list(primary))
    rows: list[dict[str, Any]] = []
    for run in envelopes(tables.traces.filter(failing), tables.crossings.filter(failing)):
        failure = Failure(
            envelope=run, primary=primary[run.trace_id], findings=findings[run.trace_id], scores=scores[run.trace_id],
            policy=policies.get(run.workflow, ToolsPolicy(workflow=run.workflow)), invariants=invariants.get(run.workflow),
        )  # fmt: skip
        rows += _rows(failure, harness_state)
    checked = validated(pl.DataFrame(rows, schema=Attributions.dtypes()), Attributions)
    return Attributed(checked.good, checked.set_aside)


def _by_trace(table: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.iter_rows(named=True):
        grouped[row["trace_id"]].append(row)
    return grouped


def _rows(failure: Failure, harness_state: str) -> list[dict[str, Any]]:
    suspected: dict[str, list[Signal]] = defaultdict(list)
    for signal in signals(failure):
        for layer in signal.layers:
            suspected[layer].append(signal)
    reason = None
    if not suspected:
        reason = _why_unresolved(failure)
        suspected["model"] = (
            [] if reason else [Signal("remainder", ("model",), failure.primary["evidence"], direct=False)]
        )
    ordered = sorted(suspected, key=LAYERS.index)
    return [
        _row(failure, layer, rank, suspected[layer], reason, harness_state)
        for rank, layer in enumerate(ordered, start=1)
    ]


def _row(
    failure: Failure, layer: str, rank: int, found: Sequence[Signal], reason: str | None, harness_state: str
) -> dict[str, Any]:
    workflow = failure.primary["workflow"]
    fired = [{"direct": signal.direct, "evidence": signal.evidence, "rule": signal.rule} for signal in found]
    return {
        "harness_state": harness_state, "trace_id": failure.envelope.trace_id, "layer": layer, "workflow": workflow,
        "verdict": "unresolved" if reason else "suggested", "rank": rank, "signals": canonical(fired).decode(), "repair_sets": None,
        "replays_used": 0, "reason": reason, "review": None, "rules_version": RULES_VERSION,
    }  # fmt: skip


def _why_unresolved(failure: Failure) -> str | None:
    """Why the model may not be named as what remains: a hook could have changed what the invariant reads, and nobody recorded both sides."""
    reads = any(row["reads"] for row in failure.findings if row["finding_id"] == failure.primary["finding_id"])
    for crossing in failure.until_onset():
        asked = crossing.proposed is UNSET or crossing.seen is UNSET
        answered = crossing.error is None and (crossing.raw is UNSET or crossing.shown is UNSET)
        if reads and crossing.kind is Kind.TOOL and (asked or answered):
            return "sides_unknown"
    return None
