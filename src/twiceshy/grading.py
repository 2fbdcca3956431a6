"""The verdict of one trial, by the ordered rules of semantics.md §7, and the findings in a recorded run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET, UnsetType

from twiceshy import graders
from twiceshy.conditions import Condition, ConditionError
from twiceshy.dimensions import Measures, Score, annotated, scores
from twiceshy.documents import Document
from twiceshy.envelope import Record
from twiceshy.errors import CaseError, nearest
from twiceshy.evidence import recorded_run, replayed_run
from twiceshy.graders import judgements, latency
from twiceshy.invariants import BUILT_IN, Sort, Tier, overlaid
from twiceshy.judgement import CaseTerms, Context, Judgement
from twiceshy.opportunity import Chance, chance
from twiceshy.outcome import Divergence, Failure, Mode, Outcome, Truth
from twiceshy.transcript import Diverged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from twiceshy.casefile import Case, Judge, LoadedCase
    from twiceshy.cutpoint import CutPoint
    from twiceshy.envelope import Envelope
    from twiceshy.evidence import Run, Step
    from twiceshy.invariants import Invariants
    from twiceshy.outcome import DimensionName
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import Transcript
    from twiceshy.verdict import CallRef


class TrialVerdict(Record, frozen=True, kw_only=True):
    """What one trial came to, and on what it rests. open: hard and trajectory ids that were neither violated nor satisfied."""

    outcome: Outcome
    failure: Failure | None = None
    divergence: Diverged | None = None
    decided: bool = False
    """The run diverged, and what the case is decided by had happened before."""
    judgements: list[Judgement] = []
    open: list[str] = []
    notes: list[str] = []
    error: str | None = None
    dimensions: list[Score] = []
    """All six, whatever the outcome; none of an ERROR."""

    @property
    def missed(self) -> list[Score]:
        """The dimensions below their thresholds."""
        return [score for score in self.dimensions if score.passed is False]

    @property
    def violations(self) -> list[Judgement]:
        """The judgements that make it FAILED."""
        return [judgement for judgement in self.judgements if _red(judgement)]


@dataclass(frozen=True, slots=True)
class CaseGrader:
    """Judges trials of one case. Build it with `case_grader`: the recorded run and the opportunity are worked out once."""

    loaded: LoadedCase
    invariants: Invariants
    policy: ToolsPolicy
    recorded: Run
    chance: Chance
    done: Condition | None = None
    champion: Mapping[str, Sequence[CallRef]] = field(default_factory=dict)
    """The calls of a champion that PASSED, by judging mode."""

    @property
    def judges(self) -> Sequence[Judge]:
        """The judging modes of the case, by default from the opportunity that its record has."""
        return self.loaded.case.judges(self.chance.seq)

    def trial(self, transcript: Transcript, cut: CutPoint) -> TrialVerdict:
        """The verdict of one trial under a cut-point."""
        if transcript.fault is not None:
            return TrialVerdict(outcome=Outcome.ERROR, error=transcript.fault)
        given = self.loaded.envelope.input
        world = self.loaded.world_in(cut.mode)
        tables = world.file.tables if world else None
        run = replayed_run(transcript, self.policy, given=[given.user, given.goal], world=tables)
        reached = self.chance.reached(run)
        terms = self._terms(cut, reached)
        found = judgements(Context(run=run, invariants=self.invariants, case=terms))
        measured = scores(run, found, self._measures(cut), names=terms.names)
        judged = _Judged(found, measured, self.loaded.case.decided_by, self.chance.met(run), terms.names)
        verdict = _verdict(transcript, run, judged)
        return TrialVerdict(
            outcome=verdict.outcome, failure=verdict.failure, divergence=verdict.divergence, decided=verdict.decided,
            judgements=found, open=_open(found), notes=_notes(transcript, found), error=verdict.error, dimensions=measured,
        )  # fmt: skip

    def _measures(self, cut: CutPoint) -> Measures:
        case, envelope = self.loaded.case, self.loaded.envelope
        calls = case.expect.calls
        expected = (
            self.champion.get(cut.label) if calls is UNSET else [annotated(call.tool, call.args) for call in calls]
        )
        clock = envelope.pins.clock.as_given_to_agent if envelope.pins.clock else None
        given = envelope.input
        return Measures(
            expected=expected, given=[given.system, given.user, given.goal, clock], done=self.done,
            thresholds={**_set(self.invariants.file.dimensions), **_set(case.dimensions)},
        )  # fmt: skip

    def _terms(self, cut: CutPoint, reached: Sequence[Step]) -> CaseTerms:
        case = self.loaded.case
        stands = cut.mode is Mode.CUT_POINT or "call_counts" in case.invariants
        enforce = stands if case.enforce_counts is UNSET else bool(case.enforce_counts)
        return CaseTerms(
            names=frozenset([*case.invariants, *case.decided_by]), recorded=self.recorded, opportunity=reached, expected=case.expect.writes,
            rows=case.expect.rows,
            deciding=self.chance.steps, live=cut.live, enforce_counts=enforce, in_order=case.expect.in_order,
            latency=None if case.latency is UNSET else case.latency,
        )  # fmt: skip


def case_grader(
    loaded: LoadedCase,
    invariants: Invariants,
    policy: ToolsPolicy,
    *,
    champion: Mapping[str, Sequence[CallRef]] | None = None,
) -> CaseGrader:
    """The grader of a case. champion: see CaseGrader.

    Raises CaseError where the case names an invariant that the workflow lacks, or an opportunity that the record lacks; PluginError for a grader that does
    not load: all of it before anything runs. A case that asks for a mode which no gate accepts is refused too.
    """
    on = {reference.id for reference in graders.loaded(invariants)}
    case = loaded.case
    if case.overlay is not UNSET:
        invariants = overlaid(invariants, Document(loaded.path / "case.yaml"), case.overlay, tools=policy.tools)
    _refuse_modes(loaded)
    _refuse_names(loaded, invariants)
    _refuse_unjudged(loaded, on | _asked(case, invariants))
    recorded = recorded_run(loaded.envelope, policy)
    if case.latency is not UNSET and not latency.duration_ns(recorded):
        raise CaseError.at(loaded.path, "it asks for a latency, and its record holds no times.")
    done = Condition(policy.done, where=f"tools.yaml of {policy.workflow}") if policy.done else None
    return CaseGrader(loaded, invariants, policy, recorded, chance(loaded, recorded, invariants), done, champion or {})


def _refuse_modes(loaded: LoadedCase) -> None:
    for judge in loaded.case.judges():
        if judge.mode in (Mode.STUB, Mode.EXPLORE):
            raise CaseError.at(
                loaded.path,
                f"the judging mode {judge.mode} is for comparison only; no gate accepts it.",
                hint="Use full, cut-point or world.",
            )


def _refuse_names(loaded: LoadedCase, invariants: Invariants) -> None:
    case = loaded.case
    for name in () if case.binding is UNSET else case.binding:
        bound = invariants.of(name)
        if bound is None or bound.spec.tier is not Tier.SEMANTIC:
            raise CaseError.at(loaded.path, f"binding names {name!r}, which is no invariant of the semantic tier.")
    for name in [*case.invariants, *case.decided_by]:
        known = invariants.of(name)
        if known is None and name in BUILT_IN and name not in case.decided_by:
            continue
        if known is None:
            ids = [*BUILT_IN, *(invariant.spec.id for invariant in invariants.invariants)]
            raise CaseError.at(loaded.path, f"invariant {name!r} is not in invariants.yaml.", hint=nearest(name, ids))
        if known.spec.tier is Tier.SEMANTIC and (case.binding is UNSET or name not in case.binding):
            raise CaseError.at(
                loaded.path, f"the case stands for {name!r}, which only reports here.", hint="Name it under binding."
            )
        if name in case.decided_by and known.spec.kind is not Sort.MUST_HAPPEN:
            raise CaseError.at(
                loaded.path, f"decided_by names {name!r}, which is a {known.spec.kind}; only a must_happen can decide."
            )


def _asked(case: Case, invariants: Invariants) -> set[str]:
    """The checks that judge a case because it asks for them, or because the user speaks more than once."""
    rows, writes = case.expect.rows, case.expect.writes
    asked = {
        "goal": bool(rows.goal),
        "nothing_else": rows.nothing_else,
        "expected_writes": case.expect.in_order or any(write.times is not None for write in writes),
        "latency": case.latency is not UNSET,
        "context_drift": invariants.file.checks.context_drift is not False,
    }
    return {name for name, on in asked.items() if on}


def _refuse_unjudged(loaded: LoadedCase, on: Collection[str]) -> None:
    """Raise CaseError for a check that the case stands for and that judges nothing of it."""
    for name in loaded.case.invariants:
        if name in BUILT_IN and name not in on:
            problem = (
                f"the case stands for {name}, which is off here or has nothing to go by: it would never be judged."
            )
            raise CaseError.at(loaded.path, problem, hint="Switch it on in invariants.yaml, or say what is expected.")


class Finding(Record, frozen=True, kw_only=True):
    """A violated invariant in a recorded run. Grain: (trace, invariant). place: the onset; None where it shows only at the end of the run."""

    trace_id: str
    judgement: Judgement

    @property
    def place(self) -> str | None:
        """The first crossing that violates it."""
        return self.judgement.place


def judge_recorded(envelope: Envelope, invariants: Invariants, policy: ToolsPolicy) -> list[Finding]:
    """Every violated hard and trajectory invariant of a recorded run, by onset, those of the end last.

    A must_happen that is open at the end of the run is a finding. Raises ConditionError where a condition has no value on this run.
    """
    run = recorded_run(envelope, policy)
    found = judgements(Context(run=run, invariants=invariants))
    for judgement in found:
        if judgement.error is not None:
            raise ConditionError(judgement.error)
    absent = [judgement.being(Truth.VIOLATED) for judgement in found if run.ended and lacking(judgement)]
    onset: dict[str | None, int] = {step.crossing.place: at for at, step in enumerate(run.steps)}
    ordered = sorted([*filter(_red, found), *absent], key=lambda judgement: onset.get(judgement.place, len(onset)))
    return [Finding(trace_id=envelope.trace_id, judgement=judgement) for judgement in ordered]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    outcome: Outcome
    failure: Failure | None = None
    divergence: Diverged | None = None
    decided: bool = False
    error: str | None = None


class _Judged(NamedTuple):
    """What is known of a trial before the rules are applied."""

    found: Sequence[Judgement]
    measured: Sequence[Score]
    decided_by: Sequence[str]
    reached: bool
    names: Collection[str]
    """What the case stands for."""


def _verdict(transcript: Transcript, run: Run, judged: _Judged) -> _Verdict:
    """The rules of semantics.md §7, in their order; the first that applies decides."""
    found, measured, decided_by, reached, _ = judged
    if any(_red(judgement) for judgement in found):
        return _Verdict(outcome=Outcome.FAILED, failure=Failure.INVARIANT)
    errors = [judgement.error for judgement in found if judgement.error is not None]
    errors += [score.error for score in measured if score.error is not None and score.threshold is not None]
    if errors:
        return _Verdict(outcome=Outcome.ERROR, error=errors[0])
    if transcript.crash == "wall":
        return _Verdict(outcome=Outcome.ERROR, error="the wall clock ran out before the run ended")
    if transcript.crash == "signal":
        return _Verdict(outcome=Outcome.ERROR, error=f"{transcript.signal} ended the run before it came to its end")
    if not reached:
        return _diverged(transcript, Divergence.OPPORTUNITY_NOT_REACHED)
    if transcript.divergence is not None:
        decided = bool(decided_by) and all(_settled(found, name) for name in decided_by)
        return _Verdict(
            outcome=Outcome.PASSED if decided else Outcome.DIVERGED, decided=decided, divergence=transcript.divergence
        )
    return _crashed(transcript, run) or _at_the_end(transcript, run, judged)


def _crashed(transcript: Transcript, run: Run) -> _Verdict | None:
    if transcript.crash == "cpu":
        return _Verdict(outcome=Outcome.FAILED, failure=Failure.CANDIDATE_TIMEOUT)
    if run.ended:
        return None
    improvised = next((step for step in run.steps if step.improvised), None)
    if improvised is not None:
        place, detail = improvised.crossing.place, "the run crashed after it"
        return _diverged(transcript, Divergence.WRITE_UNANSWERABLE, place, improvised.called, detail)
    return _Verdict(outcome=Outcome.FAILED, failure=Failure.CANDIDATE_CRASHED)


def _at_the_end(transcript: Transcript, run: Run, judged: _Judged) -> _Verdict:
    """What an undiverged end comes to."""
    found = judged.found
    if any(lacking(judgement) and not judgement.stale and judgement.unknown is None for judgement in found):
        return _Verdict(outcome=Outcome.FAILED, failure=Failure.OPEN_MUST_HAPPEN)
    for judgement in found:
        if judgement.unknown is not None:
            detail = f"{judgement.id}: {judgement.detail}"
            return _diverged(transcript, judgement.unknown, judgement.place, judgement.boundary, detail)
    if any(score.passed is False for score in judged.measured):
        return _Verdict(outcome=Outcome.FAILED, failure=Failure.DIMENSION)
    unproven = _unproven(transcript, run, judged)
    return unproven or _improvised(transcript, found) or _Verdict(outcome=Outcome.PASSED)


def _unproven(transcript: Transcript, run: Run, judged: _Judged) -> _Verdict | None:
    """DIVERGED where something could not be judged: of stale outputs no dimension is measured, and their contract stays open, which counts where the case stands for it."""
    stale = [judgement for judgement in judged.found if judgement.stale]
    unproven = [judgement.id for judgement in stale if judgement.kind != Sort.OUTPUT or judgement.id in judged.names]
    unproven += [f"dimension:{score.name}" for score in judged.measured if run.stale and score.threshold is not None]
    if unproven:
        detail = f"only outputs that were recorded for other inputs are left to show {', '.join(unproven)}"
        return _diverged(transcript, Divergence.MODEL_EXHAUSTED, detail=detail)
    decided = {judgement.id for judgement in judged.found if judgement.truth is not Truth.OPEN}
    unjudged = sorted({*judged.names} & {*BUILT_IN} - decided)
    if unjudged:
        detail = f"{unjudged[0]}, for which the case stands, had nothing to judge"
        return _diverged(transcript, Divergence.OPPORTUNITY_NOT_REACHED, detail=detail)
    return None


def _improvised(transcript: Transcript, found: Sequence[Judgement]) -> _Verdict | None:
    for judgement in found:
        if judgement.improvised and judgement.truth is Truth.SATISFIED:
            detail = f"{judgement.id} rests on it alone"
            return _diverged(transcript, Divergence.WRITE_UNANSWERABLE, judgement.place, judgement.boundary, detail)
    return None


def _diverged(
    transcript: Transcript, kind: Divergence, place: str | None = None, boundary: str | None = None, detail: str = ""
) -> _Verdict:
    """DIVERGED: by the run's own divergence where it has one, else by this rule; without a place at its end."""
    own = Diverged(kind=kind, place=place or "end", boundary=boundary or "run", detail=detail)
    return _Verdict(outcome=Outcome.DIVERGED, divergence=transcript.divergence or own)


def _set(thresholds: Mapping[DimensionName, float] | UnsetType) -> Mapping[DimensionName, float]:
    return {} if thresholds is UNSET else thresholds


def _red(judgement: Judgement) -> bool:
    return judgement.truth is Truth.VIOLATED and not judgement.advisory


def lacking(judgement: Judgement) -> bool:
    """Whether it is a must_happen that is still open."""
    return judgement.kind == Sort.MUST_HAPPEN and judgement.truth is Truth.OPEN and not judgement.advisory


def _settled(found: Sequence[Judgement], name: str) -> bool:
    return any(
        judgement.id == name and judgement.truth is Truth.SATISFIED and not judgement.improvised for judgement in found
    )


def _open(found: Sequence[Judgement]) -> list[str]:
    return [judgement.id for judgement in found if judgement.truth is Truth.OPEN and not judgement.advisory]


def _notes(transcript: Transcript, found: Sequence[Judgement]) -> list[str]:
    """What a reader should know and no rule counts: requests of a frozen model that differ from the recorded ones, those that are no passage, and what is only reported."""
    drifted = [
        f"prompt_drift ({played.drift}) at {played.crossing.place}" for played in transcript.played if played.drift
    ]
    reported = [judgement for judgement in found if judgement.truth is Truth.VIOLATED and judgement.advisory]
    asked = [
        f"{name} ({times} times)" if times > 1 else name for name, times in sorted(Counter(transcript.noted).items())
    ]
    return [
        *drifted,
        *([f"asked of the gateway, and no passage: {', '.join(asked)}"] if asked else []),
        *(f"{judgement.id}, reported only: {judgement.detail or judgement.message}" for judgement in reported),
    ]
