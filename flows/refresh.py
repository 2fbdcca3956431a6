"""The scheduled corpus refresh: flagged traces are pulled, made safe and comparable, and one case a failure signature is proposed to people."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from prefect import flow

from flows import times
from flows.checkout import Checkout
from flows.proposing import catalogued
from flows.redacting import leaks, redacted
from flows.request import Request
from flows.telling import account_of, leave
from flows.timing import timed
from tasks import prefect_tasks as steps
from tasks.admit.accounts import quarantined
from tasks.admit.proposing import propose
from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.detect.schema import Findings
from tasks.draft import Draft
from tasks.normalize.rejudging import kept, newly_flagged
from tasks.normalize.schema import Scores, Spans, Traces
from tasks.prefect_tasks import AdmitTables, Admitted, AttributeTables, Known, Pulled, PullTerms
from tasks.pull.schema import Pulls
from tasks.pull.survey import Survey, survey
from tasks.redact.shares import Joined, retakable
from tasks.sign import ledger
from tasks.sign.schema import Memberships, Signatures
from tasks.store import Snapshot
from tasks.stratify.schema import Strata

SEED = "twiceshy"
"""Of the draw of traces: equal traces, equal draw, in every corpus."""


@flow(name="refresh", flow_run_name="refresh-{source}", timeout_seconds=4 * 3600, persist_result=False)
def refresh(
    source: str,
    path: str | None = None,
    flagged: str | None = None,
    window: str | None = None,
    workflow: str | None = None,
    as_of: str | None = None,
    root: str = ".",
) -> dict[str, Any]:
    """Pull, redact, normalize, find and sign failures, admit, commit one generation, and propose its cases. Done twice it changes nothing.

    flagged: which traces count as failures; by default those with an error status or a bad score. window: `2026-11-01/2026-11-08`. workflow: of traces that
    name none. as_of: the date from which raw copies live out their time; today by default.
    """
    place = Checkout.at(root)
    day = times.night(as_of) if as_of else datetime.now(UTC).date()
    asked = Request.of(place, source=source, path=path, flagged=flagged, window=window, workflow=workflow, as_of=day)
    with timed(place, "refresh"):
        head = place.corpus.head()
        held = _held(asked)
        pulled = steps.pull(asked.source, asked.window, _pull_terms(place, asked), _known(place, asked, head))
        safe = redacted(place, asked, pulled)
        rejudged = _rejudged(asked, head, pulled, held)
        draft = _normalized(place, asked, head, pulled, safe, rejudged)
        admitted, signatures = _admitted(place, draft, safe)
        generation = draft.commit(place.corpus)
        asked.taken_in()
        propose(admitted.proposals, place.proposed)
    account = account_of(place, draft, admitted, signatures, generation) | {"rejudged": len(rejudged)}
    leave(account)
    return account


def _pull_terms(place: Checkout, asked: Request) -> PullTerms:
    lock = asked.lock(place)
    return PullTerms(
        harness_state=place.harness_state,
        workflows=place.tool_names,
        workflow=asked.workflow,
        keep=partial(asked.keep, place, lock) if lock else None,
        expires_at_ns=asked.expires_at_ns,
    )


def _known(place: Checkout, asked: Request, head: Snapshot | None) -> Known:
    if head is None:
        return Known()
    spans = head.frame(Spans)
    again = retakable(spans, place.redactable, place.tool_names, asked=asked.workflow)
    return Known.of(pulls=head.frame(Pulls), spans=spans, scores=head.frame(Scores), retake=again)


def _held(asked: Request) -> Survey:
    """What the window holds, where a rule asks for it. Raises FlagError for a rule that speaks of what no trace there has."""
    if asked.rule is None:
        return Survey(frozenset(), frozenset())
    held = survey(asked.source, asked.window)
    if held.traces:
        asked.rule.refuse_unknown(held.scores)
    return held


def _rejudged(asked: Request, head: Snapshot | None, pulled: Pulled, held: Survey) -> list[str]:
    """The traces of the window that were taken in before, and that the rule flags now."""
    there = held.traces - set(pulled.spans["trace_id"])
    if asked.rule is None or head is None or not there:
        return []
    return newly_flagged(
        asked.rule, there, traces=head.frame(Traces), spans=head.frame(Spans), scores=head.frame(Scores)
    )


def _normalized(
    place: Checkout, asked: Request, head: Snapshot | None, pulled: Pulled, safe: Joined, rejudged: Sequence[str]
) -> Draft:
    """A draft that has taken this pull in: from here on every step sees the whole corpus. rejudged: traces that are put together again with new flags."""
    state, had = place.harness_state, kept(head.frame(Traces)) if head else {}
    came = {*pulled.spans["trace_id"], *rejudged}
    draft = Draft.of(head, pulls=pulled.pulls, trace_ids=came, harness_state=state)
    spans, scores = draft.complete(safe.spans, safe.scores, [*pulled.unfound, *rejudged])
    made = steps.normalize(spans, scores, policies=place.tools, harness_state=state, rule=asked.rule, kept=had)
    draft.take(traces=made.traces, spans=made.spans, scores=made.scores, crossings=made.crossings)
    draft.set_aside(pulled.quarantine, safe.quarantine, made.quarantine)
    return draft


def _admitted(place: Checkout, draft: Draft, safe: Joined) -> "tuple[Admitted, Any]":
    """What is wrong, how often, since when, because of which layer; and which traces become cases."""
    traces, crossings, scores, state = draft.traces, draft.crossings, draft.scores, place.harness_state
    found = steps.detect(traces, crossings, scores, workflows=place.workflows, harness_state=state)
    findings = draft.anew(Findings, found.findings, found.set_aside, step="detect")
    drawn = steps.stratify(traces, crossings, seed=SEED, limits=place.limits, harness_state=state)
    strata = draft.anew(Strata, drawn.strata, drawn.set_aside, step="stratify")
    signed = steps.sign(
        findings, traces, crossings, policies=place.tools, ledger=place.ledger, overrides=place.overrides,
        catalog=catalogued(place.config.path("cases")), harness_state=state,
    )  # fmt: skip
    memberships = draft.anew(Memberships, signed.memberships, signed.set_aside[Memberships], step="sign")
    signatures = draft.anew(Signatures, signed.signatures, signed.set_aside[Signatures], step="sign")
    suspects = AttributeTables(memberships, findings, traces, crossings, scores)
    named = steps.attribute(suspects, policies=place.tools, invariants=place.invariants, harness_state=state)
    attributions = draft.anew(Attributions, named.attributions, named.set_aside, step="attribute")
    tables = AdmitTables(traces, crossings, findings, strata, memberships, signatures, attributions)
    with place.scratch() as scratch:
        admitted = steps.admit(
            tables, workflows=place.workflows, scan=partial(leaks, safe), scratch=scratch, harness_state=state,
            quarantined=quarantined(traces, draft.quarantine),
        )  # fmt: skip
    draft.anew(Admissions, admitted.admissions, admitted.set_aside, step="admit")
    ledger.append(place.ledger_file, signed.ledger.entries[len(place.ledger.entries) :])
    return admitted, signatures
