"""Whether a trace may become a case, or why not: grades, flags, redaction, signature, layer, versions (formats.md §6, §8)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import UNSET

from tasks.admit.proposals import LayerName, judged_by_engine
from tasks.admit.schema import BLOCKING, REQUIREMENTS
from tasks.redact.shares import UNCLAIMED
from tasks.sources.records import UNFINISHED
from tasks.workflows import Workflow
from twiceshy.casefile import Layer
from twiceshy.envelope import Envelope, Kind, LayerVersion
from twiceshy.invariants import Sort

HOLDING = frozenset(
    {
        "truncated",
        "dropped_attributes",
        "hashed_content",
        "ref_unresolved",
        "preview_only",
        "opaque_repr",
        "trace_capped",
        UNFINISHED,
    }
)
"""Flags that force a hold whatever the grades say."""

_WARNED = ("r5", "r6", "r7", "r10", "r11")
_RANK = {"complete": 0, "derived": 1, "incomplete": 2}

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Considered:
    """One trace considered, with all that a decision rests on. membership, finding: of the key that its case would have; None for a positive."""

    trace: Row
    envelope: Envelope
    workflow: Workflow | None
    membership: Row | None = None
    finding: Row | None = None
    layer: Layer = field(default_factory=Layer)
    positive: bool = False
    reasons: tuple[str, ...] = ()
    discards: tuple[str, ...] = ()

    @property
    def grades(self) -> dict[str, str]:
        """r1..r11; a verdict of ours stands for a label that the source never gave (R8, derived)."""
        found = {name: self.trace[name] for name in REQUIREMENTS}
        judged = self.finding is not None or (
            self.positive and self.workflow is not None and self.workflow.invariants is not None
        )
        return found | ({"r8": "derived"} if found["r8"] == "missing" and judged else {})

    @property
    def completeness(self) -> str:
        """Complete, derived or incomplete, by the blocking requirements alone."""
        blocking = {self.grades[name] for name in BLOCKING}
        return "incomplete" if "missing" in blocking else "derived" if "derived" in blocking else "complete"

    @property
    def redacted(self) -> bool:
        """Whether one policy and key went over all of it and nothing was held."""
        return self.trace["policy_digest"] is not None and not self.trace["holds"]

    @property
    def bare(self) -> bool:
        """Whether no policy spoke of it when it was pulled, so that nothing of what it holds was kept."""
        return bool(self.trace["key_id"] == UNCLAIMED.key_id)

    @property
    def attributed(self) -> bool:
        """Whether a layer is at least suggested; a positive has none."""
        return self.positive or self.layer.verdict in ("suggested", "proven")

    @property
    def versioned(self) -> bool:
        """Whether the layer at fault says which version it was; for a positive, whether any layer does."""
        return version_known(self.envelope, None if self.positive else self.layer.name)

    @property
    def warnings(self) -> list[str]:
        """What is missing or derived without blocking."""
        warned = [f"{name}_{self.grades[name]}" for name in _WARNED if self.grades[name] == "missing"]
        marks = [mark for mark in self.trace["marks"] if mark not in HOLDING]
        return sorted({*warned, *marks})

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """Which of several traces makes the better case: complete, redacted, short, and then by content."""
        return _RANK[self.completeness], not self.redacted, len(self.envelope.crossings), self.envelope.digest

    def because(self, *reasons: str) -> "Considered":
        """The same trace with further reasons to hold it."""
        return replace(self, reasons=tuple(sorted({*self.reasons, *reasons})))


def failure(trace: Row, envelope: Envelope, workflow: Workflow | None, facts: "Facts") -> Considered:
    """A failing or flagged trace, with every reason that stands against it."""
    membership, finding = _key(facts, workflow)
    found = Considered(
        trace=trace, envelope=envelope, workflow=workflow, membership=membership, finding=finding, layer=suspect(facts.attributions),
        discards=tuple(_not_a_run(trace, envelope)),
    )  # fmt: skip
    if found.bare:
        return found.because(*_against_bare(found))
    return found.because(*_against(found), *_against_failure(found, facts))


def positive(trace: Row, envelope: Envelope, workflow: Workflow) -> Considered:
    """A happy trace, with every reason that stands against it."""
    found = Considered(
        trace=trace, envelope=envelope, workflow=workflow, positive=True, discards=tuple(_not_a_run(trace, envelope))
    )
    if found.bare:
        return found.because(*_against_bare(found))
    unlabelled = ["r8_missing"] if found.grades["r8"] == "missing" else []
    return found.because(*_against(found), *unlabelled, *([] if found.versioned else ["version_unknown"]))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The rows of one trace: its memberships in order of onset, its findings by id, its attributions."""

    memberships: Sequence[Row] = ()
    findings: Mapping[str, Row] = field(default_factory=dict)
    attributions: Sequence[Row] = ()


def suspect(attributions: Iterable[Row]) -> Layer:
    """The layer a case is proposed under: the first in the order of trial with direct evidence, else the first of all."""
    rows = sorted(attributions, key=lambda row: (not _direct(row), row["rank"]))
    if not rows:
        return Layer(verdict="unresolved")
    row = rows[0]
    named: LayerName = row["layer"]
    evidence = "; ".join(f"{signal['rule']} {signal['evidence']}" for signal in msgspec.json.decode(row["signals"]))
    return Layer(name=named, verdict=row["verdict"], evidence=evidence or row["reason"] or "")


def version_known(envelope: Envelope, layer: str | None) -> bool:
    """Whether the version of a layer is on record; with None, whether any layer's is. Of the environment the tools' versions speak."""
    versions = envelope.pins.versions
    harness = [versions.harness, versions.routing, *versions.tools.values()]
    speaking: dict[str | None, list[LayerVersion]] = {
        "model": [versions.model], "harness.prompt": [versions.prompt], "harness.memory": [versions.memory],
        "environment": list(versions.tools.values()), "harness.tool": harness, "harness.workflow": harness, "grader": [],
        None: [versions.model, versions.prompt, *harness],
    }  # fmt: skip
    return layer == "grader" or any(_known(version) for version in speaking.get(layer, []))


def _known(version: LayerVersion) -> bool:
    return any(part is not None for part in (version.name, version.version, version.digest))


def _direct(row: Row) -> bool:
    return any(signal["direct"] for signal in msgspec.json.decode(row["signals"]))


def _key(facts: Facts, workflow: Workflow | None) -> tuple[Row | None, Row | None]:
    """The key that the case would have: the first that the engine can judge, else the primary one."""
    ordered = sorted(
        facts.memberships, key=lambda row: (not row["primary"], row["onset_seq"], row["onset_sub"], row["key_id"])
    )
    judged = [row for row in ordered if workflow is not None and judged_by_engine(row["invariant_id"], workflow)]
    chosen = next(iter([*judged, *ordered]), None)
    return chosen, facts.findings.get(chosen["finding_id"]) if chosen is not None else None


def _not_a_run(trace: Row, envelope: Envelope) -> Iterable[str]:
    """Nothing that can ever be replayed: no crossing at all, or a call without arguments and without a result. What is withheld is not missing."""
    if not any(crossing.kind in (Kind.MODEL, Kind.TOOL) for crossing in envelope.crossings):
        yield "not_a_run"
    if trace["holds"] or trace["key_id"] == UNCLAIMED.key_id:
        return
    for crossing in envelope.crossings:
        answered = crossing.error is not None or crossing.raw is not UNSET or crossing.shown is not UNSET
        if crossing.kind is Kind.TOOL and crossing.asked is UNSET and not answered:
            yield "call_without_content"
            return


def _against_bare(found: Considered) -> Iterable[str]:
    """Which file it waits for; the next pull with that file takes it again. All else is only for want of what was withheld."""
    name = found.trace["workflow"]
    if name is None:
        yield "no_workflow"
    else:
        yield f"waits_for:{name}/{'tools' if found.workflow is None else 'redaction'}.yaml"


def _against(found: Considered) -> Iterable[str]:
    yield from (f"{name}_missing" for name in BLOCKING if found.grades[name] == "missing")
    yield from (f"flag:{mark}" for mark in found.trace["marks"] if mark in HOLDING)
    yield from (f"hold:{hold}" for hold in found.trace["holds"])
    if found.trace["policy_digest"] is None:
        yield "not_redacted"
    if found.trace["workflow"] is None:
        yield "no_workflow"
    elif found.workflow is None:
        yield "no_policy"


def _against_failure(found: Considered, facts: Facts) -> Iterable[str]:
    if any(row["level"] == "unjudged" for row in facts.findings.values()):
        yield "unjudged"
    yield from _unruled(found.workflow)
    if found.membership is None:
        yield "unexplained"
        return
    if found.workflow is not None:
        invariant_id = found.membership["invariant_id"]
        if not judged_by_engine(invariant_id, found.workflow):
            yield "no_invariant"
        elif found.grades["r10"] == "missing" and _reads_hook(invariant_id, found.workflow):
            yield "r10_missing"
    if not found.attributed:
        yield f"unattributed:{found.layer.evidence or 'no_signal'}"
    elif not found.versioned:
        yield f"version_unknown:{found.layer.name}"


def _unruled(workflow: Workflow | None) -> Iterable[str]:
    if workflow is not None and workflow.invariants is None:
        yield f"waits_for:{workflow.policy.workflow}/invariants.yaml"


def _reads_hook(invariant_id: str, workflow: Workflow) -> bool:
    invariant = workflow.invariants.of(invariant_id) if workflow.invariants else None
    selectors = (invariant.spec.at, invariant.spec.first, invariant.spec.then) if invariant is not None else ()
    hooked = any(selector is not None and selector.hook is not None for selector in selectors)
    return hooked or (
        invariant is not None and invariant.spec.kind is Sort.SCHEMA and invariant.spec.side == "proposed"
    )
