"""Drafts a case of a kept run, for a person to review: what the run violated, where, and every answer in it that nobody recorded. No gate takes it as it stands."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from twiceshy import casefile, converting, judging
from twiceshy.acceptance import unaccepted
from twiceshy.casefile import Case, Expect, FromRun, Layer, LoadedCase, Opportunity, Review
from twiceshy.documents import Document
from twiceshy.envelope import Kind
from twiceshy.errors import CaseError, InputError
from twiceshy.grading import judge_recorded
from twiceshy.history import effective
from twiceshy.invariants import overlaid
from twiceshy.outcome import Outcome
from twiceshy.sealing import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.envelope import Crossing
    from twiceshy.grading import Finding
    from twiceshy.invariants import Invariants
    from twiceshy.judging import Rules
    from twiceshy.keeping import Kept

To = Literal["replay", "world"]
_ID_LENGTH = 12
_DUPLICATE = "no_duplicate_write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The proposed case, checked. undecided: the crossings a person must accept one by one; notes: what else there is to look at."""

    case: Case
    kept: Kept
    world: str | None
    undecided: Sequence[Crossing]
    notes: Sequence[str]

    def save(self, path: Path) -> None:
        """Write the case directory. Raises InputError where the path exists."""
        if path.exists():
            raise InputError(f"{path}: it exists already; a draft overwrites nothing. Name another folder with -o.")
        casefile.save(path, self.case, self.kept.envelope, world=self.world)


def drafted(
    kept: Kept, rules: Rules, source: LoadedCase | None, *, to: To = "replay", name: str | None = None
) -> Draft:
    """The case that a run would be. source: the case it replayed, as it was then, whose terms it keeps; name: its id.

    Raises InputError for a run that made no crossing, or that leaves nothing to stand for; CaseError where the draft could not be judged; a world is a
    person's to complete, so what is still amiss with one stands among the notes.
    """
    if not kept.envelope.crossings:
        raise InputError(f"run {kept.run.digest[:12]} made no crossing, so there is nothing to replay.")
    made = _Drafting(kept, rules, source)
    case, world, notes = made.case(name), None, made.notes
    if to == "world":
        seeded = converting.to_world(_loaded(case, kept), rules.policy)
        review = case.review
        case, world = msgspec.structs.replace(seeded.case, review=review), seeded.world_text
        notes = [*notes, *seeded.notes]
    undecided, amiss = _checked(case, kept, world, rules)
    if amiss and world is None:
        raise CaseError(amiss)
    return Draft(
        case=case, kept=kept, world=world, undecided=undecided, notes=[*notes, *([f"to complete: {amiss}"] if amiss else [])]
    )  # fmt: skip


class _Drafting:
    """What the parts of one draft rest on: the run's own findings, and the terms of the case that it replayed."""

    def __init__(self, kept: Kept, rules: Rules, source: LoadedCase | None) -> None:
        self.kept, self.rules, self.source = kept, rules, source
        self.notes: list[str] = []
        self.findings = judge_recorded(kept.envelope, self._invariants(), rules.policy)
        self.violated = list(dict.fromkeys(finding.judgement.id for finding in self.findings))
        self.writes = [step for step in kept.envelope.crossings if effective(step, rules.policy) and step.error is None]

    def case(self, name: str | None) -> Case:
        """case.yaml, without a world."""
        envelope, run = self.kept.envelope, self.kept.run
        self._refuse_nothing()
        self._note()
        told = self._failure() if self.violated else self._positive()
        case = Case(
            id=name or f"{envelope.workflow}-{envelope.trace_id[:_ID_LENGTH]}", workflow=envelope.workflow, trace_id=envelope.trace_id,
            related_trace_ids=[self.source.case.trace_id] if self.source else [], envelope_digest=envelope.digest,
            from_run=FromRun(
                source=run.source, candidate=run.candidate, run=run.digest, case=run.case, case_digest=run.case_digest, mode=run.mode,
                simulated=run.simulated,
            ),
            review=Review(status="draft"), **self._terms(), **told,
        )  # fmt: skip
        return msgspec.structs.replace(case, judge=case.judges())

    def _invariants(self) -> Invariants:
        """Those of the workflow, under the overlay of the source."""
        source = self.source
        if source is None or source.case.overlay is UNSET:
            return self.rules.invariants
        document = Document(source.path / "case.yaml")
        return overlaid(self.rules.invariants, document, source.case.overlay, tools=self.rules.policy.tools)

    def _refuse_nothing(self) -> None:
        """Raise InputError for a run of which neither a failure nor a happy path can be made."""
        run, name = self.kept.run, self.kept.run.digest[:12]
        if run.outcome is Outcome.ERROR:
            raise InputError(
                f"run {name} came to ERROR, which is our fault or the machine's: it shows nothing of the candidate."
            )
        if self.violated:
            return
        if run.outcome is Outcome.FAILED:
            raise InputError(
                f"run {name} FAILED its case by {', '.join(run.failed_by)}, which its own record would no longer show, and violates no invariant. "
                "Write an invariant for it, or what explains it, and run it again."
            )
        if not self.kept.envelope.disposition.ended:
            raise InputError(
                f"run {name} violated no invariant and did not come to its end, so a case of it would stand for nothing."
            )

    def _note(self) -> None:
        run = self.kept.run
        lost = sorted(set(run.failed_by) - set(self.violated))
        if lost:
            self.notes.append(f"the run FAILED by {', '.join(lost)} too, which its own record explains from now on")
        if run.case is not None and self.source is None:
            self.notes.append(
                f"case {run.case} is not here as it was then, so its terms (grants, flags, layer) are not kept"
            )
        if run.isolation not in (None, Isolation.HERMETIC):
            self.notes.append(
                f"it ran under isolation {run.isolation}, so its live code may have met other things than the record"
            )
        for step in self.writes:
            if step.simulated:
                self.notes.append(
                    f"{step.name} at {step.place} is a write that nobody recorded; accepted, it counts as explained"
                )

    def _terms(self) -> dict[str, Any]:
        """What the source says of its run, which is in force for this one too."""
        if self.source is None:
            return {}
        case = self.source.case
        expect = Expect(writes=case.expect.writes, grants=case.expect.grants)
        return {"flags": case.flags, "user_turns": case.user_turns, "overlay": case.overlay, "expect": expect}

    def _failure(self) -> dict[str, Any]:
        """A failure case. It keeps layer and deciding invariants of a source that stands for the same."""
        first = self.findings[0]
        step = _step(first, self.kept.envelope.crossings)
        same = self.source is not None and not set(self.violated).isdisjoint(self.source.case.invariants)
        case = self.source.case if self.source is not None and same else None
        if case is None or not case.decided_by:
            self.notes.append(
                "nothing can decide it after a divergence: name a must_happen under decided_by where one can"
            )
        self.notes.append("no break proves yet that it can go red: write `breaks`, then `twiceshy break`")
        return {
            "kind": "failure", "invariants": self.violated, "severity": first.judgement.severity,
            "tool": step.name if step else case.tool if case else None, "opportunity": Opportunity(seq=step.seq) if step else None,
            "layer": case.layer if case else Layer(), "decided_by": case.decided_by if case else [],
        }  # fmt: skip

    def _positive(self) -> dict[str, Any]:
        """A happy path: the first write is its opportunity, and made twice it must turn red."""
        first = self.writes[0] if self.writes else None
        if first is None:
            self.notes.append("it makes no write, so it protects none")
            return {"kind": "positive"}
        on = self.rules.invariants.file.checks.no_duplicate_write
        protected = {"invariants": [_DUPLICATE], "breaks": [f"call.duplicate:{first.name}"]} if on else {}
        return {"kind": "positive", "tool": first.name, "opportunity": Opportunity(seq=first.seq), **protected}


def _step(found: Finding, crossings: Sequence[Crossing]) -> Crossing | None:
    """The call on which a violation rests; None where it shows at the end of the run alone, or at no call."""
    return next((step for step in crossings if step.place == found.place and step.kind is Kind.TOOL), None)


def _loaded(case: Case, kept: Kept) -> LoadedCase:
    return LoadedCase(case=case, envelope=kept.envelope, path=Path(case.id))


def _checked(case: Case, kept: Kept, world: str | None, rules: Rules) -> tuple[list[Crossing], str]:
    """What a person must accept of the draft, and why it could not be judged, if so: written, read again, its world proved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / case.id
        casefile.save(path, case, kept.envelope, world=world)
        loaded, amiss = casefile.load(path), ""
        try:
            judging.graders([loaded], rules, judging.Terms(drafts=True))
        except CaseError as wrong:
            amiss = str(wrong).replace(f"{path}", f"the draft {case.id}")
        return unaccepted(loaded), amiss
