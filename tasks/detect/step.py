"""Finds what went wrong in recorded runs: violated invariants, detector hits, and differences from annotated expected actions."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import polars as pl

from tasks.contracts import validated
from tasks.detect.detectors import Hit, hits
from tasks.detect.goldactions import StateEffect, state_effects
from tasks.detect.schema import Findings
from tasks.envelopes import NO_WORKFLOW, envelopes
from tasks.sources.openai_chat import EXPECTED_ACTIONS
from tasks.workflows import Workflow, Workflows
from twiceshy.conditions import ConditionError
from twiceshy.envelope import Envelope
from twiceshy.evidence import Run, recorded_run
from twiceshy.grading import Finding, judge_recorded
from twiceshy.identity import canonical, digest, untagged
from twiceshy.invariants import Invariants, Sort

DETECTORS_VERSION = "1"
STATE_EFFECT = "state_effect"

# The folders of a policy file: where the checkout stands is no part of a finding.
_PATH = re.compile(r"^\S*/")


class Detected(NamedTuple):
    """The findings, and rows that broke the contract."""

    findings: pl.DataFrame
    set_aside: pl.DataFrame


def detect(
    traces: pl.DataFrame, crossings: pl.DataFrame, scores: pl.DataFrame, *, workflows: Workflows, harness_state: str
) -> Detected:  # fmt: skip
    """One finding per (trace, invariant) violated, per detector hit, and per difference from the actions that an annotator expected.

    traces, crossings, scores: rows of those tables, in any order. A workflow that is not among `workflows` is judged by the detectors alone.
    A detector's failure at a crossing where an invariant fails already is that failure's evidence, so it counts as a signal.
    """
    expected = dict(scores.filter(name=EXPECTED_ACTIONS).sort("score_id").select("trace_id", "text").iter_rows())
    rows = [
        {"harness_state": harness_state, **row}
        for run in envelopes(traces, crossings)
        for row in _findings(
            run, workflows.get(run.workflow) or Workflow.unknown(run.workflow), expected.get(run.trace_id)
        )
    ]
    checked = validated(pl.DataFrame(rows, schema=Findings.dtypes()), Findings)
    return Detected(checked.good, checked.set_aside)


def _findings(envelope: Envelope, workflow: Workflow, expected: str | None) -> Iterator[dict[str, Any]]:
    run = recorded_run(envelope, workflow.policy)
    violated: list[Finding] = []
    try:
        violated = judge_recorded(envelope, workflow.invariants, workflow.policy) if workflow.invariants else []
    except ConditionError as broken:
        yield _unjudged(envelope, run, "invariants", broken)
    for finding in violated:
        yield _violation(finding, run, workflow.invariants)
    explained = {place for finding in violated for place in finding.judgement.evidence}
    try:
        found = hits(run, workflow.done)
    except ConditionError as broken:
        yield _unjudged(envelope, run, "done", broken)
        found = hits(run, None)
    for hit in found:
        yield _hit(envelope, hit, explained)
    if expected is not None:
        for effect in state_effects(envelope.crossings, _actions(expected), workflow.policy):
            yield _effect(envelope, run, effect)


def _actions(text: str) -> list[dict[str, Any]]:
    return list(untagged(msgspec.json.decode(text)))


def _violation(finding: Finding, run: Run, invariants: Invariants | None) -> dict[str, Any]:
    judgement = finding.judgement
    invariant = invariants.of(judgement.id) if invariants else None
    seq, sub = _place(judgement.place) if judgement.place else _last(run)
    boundary = judgement.boundary if judgement.place else None
    return {
        **_row(finding.trace_id, run.policy.workflow, judgement.id, (seq, sub)), "source": "invariant", "invariant_version": str(judgement.version),
        "tier": judgement.tier.value, "kind": judgement.kind, "level": "failure", "effect": judgement.effect,
        "severity": judgement.severity, "tool": _tool(judgement.boundary) or _demanded(invariant), "boundary": boundary,
        "end_seq": max((_place(place)[0] for place in judgement.evidence), default=None),
        "occurrences": max(1, len(judgement.evidence)) if judgement.kind == Sort.MUST_NOT else 1,
        "reads": list(invariant.spec.reads) if invariant else [],
        "violated_pairs": sorted(f"{broken.keyword} {broken.path}" for broken in judgement.schema),
        "evidence": _evidence(judgement.evidence, judgement.detail), "message": judgement.message,
    }  # fmt: skip


def _hit(envelope: Envelope, hit: Hit, explained: Iterable[str]) -> dict[str, Any]:
    onset = hit.steps[0]
    places = [step.crossing.place for step in hit.steps]
    level = "signal" if set(places) & set(explained) else hit.level
    return {
        **_row(envelope.trace_id, envelope.workflow, hit.detector, (onset.crossing.seq, onset.crossing.sub)), "source": "detector",
        "invariant_version": DETECTORS_VERSION, "tier": "trajectory", "kind": hit.kind, "level": level, "effect": hit.effect,
        "severity": "low", "tool": _tool(onset.called), "boundary": onset.called, "end_seq": hit.steps[-1].crossing.seq,
        "occurrences": 1, "reads": [], "violated_pairs": [], "evidence": _evidence(places, ""), "message": hit.message,
    }  # fmt: skip


def _effect(envelope: Envelope, run: Run, effect: StateEffect) -> dict[str, Any]:
    """One way in which the writes differ from the expected ones: it shows at the end of the run, and the first wrong call is its evidence."""
    places = [f"#{effect.seq}"] if effect.seq is not None else []
    own = f"{STATE_EFFECT}:{effect.effect}:{effect.tool}"
    return {
        **_row(envelope.trace_id, envelope.workflow, STATE_EFFECT, _last(run), own=own), "source": "detector",
        "invariant_version": DETECTORS_VERSION, "tier": "trajectory", "kind": "effect", "level": "failure", "effect": effect.effect,
        "severity": "medium", "tool": effect.tool, "boundary": None, "end_seq": None, "occurrences": effect.calls, "reads": [],
        "violated_pairs": [], "evidence": _evidence(places, ", ".join(sorted(effect.paths))),
        "message": f"{effect.effect} {effect.tool}, against the expected actions",
    }  # fmt: skip


def _unjudged(envelope: Envelope, run: Run, name: str, problem: ConditionError) -> dict[str, Any]:
    return {
        **_row(envelope.trace_id, envelope.workflow, name, _last(run)), "source": "invariant", "invariant_version": "1",
        "tier": "hard", "kind": "error", "level": "unjudged", "effect": "none", "severity": "low", "tool": None, "boundary": None,
        "end_seq": None, "occurrences": 1, "reads": [], "violated_pairs": [], "evidence": _evidence([], ""), "message": _PATH.sub("", str(problem)),
    }  # fmt: skip


def _row(trace_id: str, workflow: str, name: str, onset: tuple[int, int], *, own: str | None = None) -> dict[str, Any]:
    return {
        "finding_id": digest([trace_id, own or name, list(onset)]), "trace_id": trace_id,
        "workflow": None if workflow == NO_WORKFLOW else workflow, "invariant_id": name,
        "onset_seq": onset[0], "onset_sub": onset[1],
    }  # fmt: skip


def _evidence(places: Iterable[str], detail: str) -> str:
    return canonical({"detail": detail, "places": list(places)}).decode()


def _place(text: str) -> tuple[int, int]:
    """`#4.1` as (4, 1)."""
    seq, _, sub = text.removeprefix("#").partition(".")
    return int(seq), int(sub or 0)


def _last(run: Run) -> tuple[int, int]:
    """The last step of a run: where what shows only at its end is put."""
    return max(((step.crossing.seq, 0) for step in run.steps), default=(0, 0))


def _tool(boundary: str | None) -> str | None:
    kind, _, name = (boundary or "").partition(":")
    return name if kind == "tool" else None


def _demanded(invariant: Any) -> str | None:
    """The tool that an invariant wanted and did not get."""
    selector = invariant.spec.at if invariant else None
    return selector.tool if selector is not None and selector.tool != "*" else None
