"""What the invariants of a workflow say of runs, so that redaction can prove that it changed no verdict."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tasks.envelopes import envelopes
from tasks.prefect_tasks import normalize, unredacted
from tasks.sources.schema import ScoreRecords
from tasks.workflows import Workflow
from twiceshy.conditions import ConditionError
from twiceshy.envelope import Envelope
from twiceshy.grading import judge_recorded
from twiceshy.identity import digest

if TYPE_CHECKING:
    import polars as pl

Verdicts = Callable[["pl.DataFrame"], Mapping[str, str]]


def verdicts(workflow: Workflow) -> Verdicts | None:
    """Spans, raw or redacted -> trace id -> the digest of every violated invariant and its place; None for a workflow that has no invariants."""
    if workflow.invariants is None:
        return None

    def of(spans: "pl.DataFrame") -> Mapping[str, str]:
        given = spans if "key_id" in spans.columns else unredacted(spans)
        policies = {workflow.policy.workflow: workflow.policy}
        held = normalize.fn(given, ScoreRecords.no_rows(), policies=policies, harness_state="verdicts")
        return {run.trace_id: digest(list(_said(run, workflow))) for run in envelopes(held.traces, held.crossings)}

    return of


def _said(run: Envelope, workflow: Workflow) -> Iterator[list[str]]:
    """[id, place] of each violation; what cannot be judged is said as such. No text: it may quote the run."""
    if workflow.invariants is None:
        return
    try:
        for finding in judge_recorded(run, workflow.invariants, workflow.policy):
            yield [finding.judgement.id, finding.place or "end"]
    except ConditionError:
        yield ["unjudged", ""]
