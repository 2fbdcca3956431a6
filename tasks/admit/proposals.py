"""What a trace would be as a case: case.yaml filled from what the steps found, everything in it for a person to review."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from tasks.admit.breaks import Grounds, Standing, breaks
from tasks.attribute.schema import RAN_PAST_DONE
from tasks.workflows import Workflow
from twiceshy.casefile import Case, Opportunity
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.history import effective
from twiceshy.invariants import BUILT_IN, Sort

_ID_LENGTH = 12

LayerName = Literal[
    "model", "harness.prompt", "harness.tool", "harness.workflow", "harness.memory", "environment", "grader", "unknown"
]


class Proposal(NamedTuple):
    """A case that a person may promote. folder: relative to the folder of proposals."""

    folder: Path
    case: Case
    envelope: Envelope


def judged_by_engine(invariant_id: str, workflow: Workflow) -> bool:
    """Whether the engine can turn a case red on it: an invariant of the workflow, or a built-in check. A detector's hit is neither."""
    if workflow.invariants is None:
        return False
    return invariant_id in BUILT_IN or workflow.invariants.of(invariant_id) is not None


def failure_case(envelope: Envelope, grounds: Grounds, workflow: Workflow, stood: Sequence[Standing]) -> Proposal:
    """The case of a failing run, review still open."""
    membership, finding = grounds.membership, grounds.finding
    tool = finding["tool"]
    case = Case(
        id=f"{envelope.workflow}-{envelope.trace_id[:_ID_LENGTH]}", kind="failure", workflow=envelope.workflow, trace_id=envelope.trace_id,
        signature=grounds.slug, signature_id=membership["signature"], tool=tool, severity=finding["severity"], layer=grounds.layer,
        opportunity=_opportunity(envelope, grounds, workflow), invariants=[finding["invariant_id"]],
        decided_by=_decided_by(tool, workflow, stood), breaks=breaks(envelope, grounds, stood),
    )  # fmt: skip
    return _proposal(Path(envelope.workflow) / grounds.slug, case, envelope)


def positive_case(envelope: Envelope, tool: str, workflow: Workflow) -> Proposal:
    """The case of a run in which a write went well: what keeps a guard from refusing everything."""
    first = next(crossing.seq for crossing in _clean(envelope, workflow) if crossing.name == tool)
    case = Case(
        id=f"{envelope.workflow}-{envelope.trace_id[:_ID_LENGTH]}", kind="positive", workflow=envelope.workflow, trace_id=envelope.trace_id,
        tool=tool, opportunity=Opportunity(seq=first), **_protected(tool, workflow),
    )  # fmt: skip
    return _proposal(Path(envelope.workflow) / f"positive-{tool}", case, envelope)


def clean_writes(envelope: Envelope, workflow: Workflow) -> list[str]:
    """The write tools that a run called with effect and without any error, each once, in order."""
    return list(dict.fromkeys(crossing.name for crossing in _clean(envelope, workflow)))


def _clean(envelope: Envelope, workflow: Workflow) -> Iterator[Crossing]:
    written = (crossing for crossing in envelope.crossings if effective(crossing, workflow.policy))
    return (crossing for crossing in written if crossing.error is None)


def _opportunity(envelope: Envelope, grounds: Grounds, workflow: Workflow) -> Opportunity | None:
    """The call that violates; None where what is violated shows at the end alone.

    For a run that went on after its work was done it is the write that had done the work: a repaired one never asks for the call that violates.
    """
    finding = grounds.finding
    onset = envelope.at(finding["onset_seq"]) if finding["boundary"] else None
    if onset is None or onset.kind is not Kind.TOOL:
        return None
    if RAN_PAST_DONE in grounds.layer.evidence:
        before = [crossing.seq for crossing in _clean(envelope, workflow) if crossing.seq < onset.seq]
        return Opportunity(seq=before[-1] if before else onset.seq)
    return Opportunity(seq=onset.seq)


def _proposal(folder: Path, case: Case, envelope: Envelope) -> Proposal:
    """The judging modes are written out, so that a reviewer sees them."""
    return Proposal(
        folder, msgspec.structs.replace(case, judge=case.judges(), envelope_digest=envelope.digest), envelope
    )


def _decided_by(tool: str | None, workflow: Workflow, stood: Sequence[Standing]) -> list[str]:
    """What may decide the case after a divergence: the must_happens that wait for an opportunity. One about a guard of another tool decides nothing here."""
    found = []
    for invariant in workflow.invariants.invariants if workflow.invariants else ():
        spec = invariant.spec
        if spec.kind is Sort.MUST_HAPPEN and spec.only_if == "opportunity" and spec.at is not None:
            places = {code.at for code in stood if code.kind == Kind.GUARD and code.name == spec.at.guard}
            if spec.at.guard is None or (tool is not None and (not places or f"before:{tool}" in places)):
                found.append(spec.id)
    return found


def _protected(tool: str, workflow: Workflow) -> dict[str, Any]:
    """What a positive case stands for, and the damage that must turn it red: its write, made twice."""
    if workflow.invariants is None or not workflow.invariants.file.checks.no_duplicate_write:
        return {}
    return {"invariants": ["no_duplicate_write"], "breaks": [f"call.duplicate:{tool}"]}
