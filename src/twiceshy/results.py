"""One row of the verdict a case: what its judging modes came to, and the details of the trial that decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from twiceshy import verdict as rows
from twiceshy.answerers import answering
from twiceshy.conversations import turn_results
from twiceshy.dimensions import called
from twiceshy.envelope import SUB_KINDS, Effect, Kind
from twiceshy.evidence import replayed_run
from twiceshy.exercise import exercise, not_exercised
from twiceshy.grading import lacking
from twiceshy.identity import digest
from twiceshy.ordering import step_of
from twiceshy.outcome import BoundaryState, Divergence, Failure, Outcome
from twiceshy.statistics import wilson
from twiceshy.transcript import Diverged
from twiceshy.trials import ModeRun, worst

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from twiceshy.casefile import LoadedCase
    from twiceshy.dimensions import Score
    from twiceshy.grading import CaseGrader, TrialVerdict
    from twiceshy.judgement import Judgement
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import Transcript

# Its detail quotes the record: the date that a live request lacks.
_QUOTING = frozenset({Divergence.CLOCK_NOT_IN_PROMPT})

_OF_LIVE = frozenset({Divergence.CLOCK_NOT_IN_PROMPT, Divergence.LIVE_UNCONTROLLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """What of a candidate bears on every case: the layers that differ from the champion's, and those a person accepts unexercised. Empty without a champion."""

    changed: Collection[str] = ()
    accepted: Collection[str] = ()


def case_result(
    grader: CaseGrader,
    modes: Sequence[ModeRun],
    *,
    candidacy: Candidacy | None = None,
    isolation: str,
    declared: Collection[str] = (),
    duration_ms: int | None = None,
) -> rows.Result:
    """The result of a case over its judging modes, all of which must hold; not yet compared with a champion. declared: the candidate's boundaries, as `kind:name`.

    A changed layer that every run met frozen makes a case that would pass DIVERGED (`not_exercised`): what was not exercised was not judged.
    """
    candidacy = candidacy or Candidacy()
    deciding = worst(modes)
    seen = exercise(trial.transcript for mode in modes for trial in mode.trials)
    missed = not_exercised(seen, candidacy.changed, candidacy.accepted)
    outcome, verdict = deciding.outcome, deciding.verdict
    if outcome is Outcome.PASSED and missed:
        outcome, verdict = Outcome.DIVERGED, _unexercised(verdict, missed)
    transcript = deciding.deciding.transcript
    case = grader.loaded.case
    return rows.Result(
        signature=case.signature, case=_case(grader.loaded), trace_id=case.trace_id, related_trace_ids=case.related_trace_ids, outcome=outcome,
        mode=deciding.cut.label, modes=[_mode(mode, grader, declared) for mode in modes], isolation=isolation, failure=verdict.failure,
        decided=verdict.decided and outcome is Outcome.PASSED, violations=_violations(verdict, case.invariants), error=verdict.error,
        divergence=_divergence(verdict.divergence, transcript, grader.policy), boundaries=_boundaries(transcript), write_intents=_intents(transcript),
        open=verdict.open, exercised=sorted(seen.live), notes=verdict.notes, duration_ms=duration_ms,
        dimensions=[_dimension(score) for score in verdict.dimensions if score.n or score.threshold is not None],
        world=_world(grader.loaded), simulated=any(trial.transcript.simulated for mode in modes for trial in mode.trials),
        turns=_turns(grader, deciding),
    )  # fmt: skip


def _turns(grader: CaseGrader, mode: ModeRun) -> list[rows.TurnResult]:
    given = grader.loaded.envelope.input
    transcript, verdict, _ = mode.deciding
    run = replayed_run(transcript, grader.policy, given=[given.user, given.goal])
    return turn_results(verdict, run)


def _unexercised(verdict: TrialVerdict, missed: Sequence[str]) -> TrialVerdict:
    divergence = Diverged(
        kind=Divergence.NOT_EXERCISED,
        place="end",
        boundary="run",
        detail=f"changed, or of no stated version, but frozen in every run: {', '.join(missed)}. State its version, run it with --live, or let it pass with --accept-unexercised",
    )
    return msgspec.structs.replace(verdict, outcome=Outcome.DIVERGED, divergence=divergence, decided=False)


def _case(loaded: LoadedCase) -> rows.CaseRef:
    case = loaded.case
    return rows.CaseRef(
        id=case.id, path=loaded.path.as_posix(), kind=case.kind, severity=case.severity, digest=loaded.digest,
        envelope_digest=loaded.envelope.digest, redaction_review=case.review.status,
    )  # fmt: skip


def _world(loaded: LoadedCase) -> rows.WorldRef | None:
    return (
        None if loaded.world is None else rows.WorldRef(digest=loaded.world.digest, invented=loaded.world.file.invented)
    )


def _mode(mode: ModeRun, grader: CaseGrader, declared: Collection[str]) -> rows.ModeResult:
    failed = [
        name for trial in mode.trials if trial.verdict.outcome is Outcome.FAILED for name in broken(trial.verdict)
    ]
    return rows.ModeResult(
        mode=mode.cut.label, outcome=mode.outcome, trials=len(mode.trials), passed=mode.passed, violated=sorted(set(failed)),
        transcripts=[trial.transcript.digest for trial in mode.trials], calls=_calls(mode, grader.policy), rate=_rate(mode),
        manifest=_manifest(mode, declared, grader.policy), seed=grader.loaded.case.id,
        live_models=answering(one for trial in mode.trials for one in trial.asked),
    )  # fmt: skip


def _manifest(mode: ModeRun, declared: Collection[str], policy: ToolsPolicy) -> dict[str, BoundaryState]:
    """What was done at each boundary; where no trial came to it, what its policy says."""
    met = {
        f"{played.crossing.kind}:{played.crossing.name}": played.boundary
        for trial in mode.trials
        for played in trial.transcript.played
        if played.crossing.parent is None and not mode.cut.in_prefix(played.crossing.seq)
    }
    said = mode.cut.manifest({*declared, *met}, policy)
    return {name: met.get(name, BoundaryState(state)) for name, state in said.items()}


def _rate(mode: ModeRun) -> rows.Rate | None:
    if mode.floor is None or mode.rate is None:
        return None
    return rows.Rate(k=mode.floor.k, value=mode.rate, floor=mode.floor.rate)


def _calls(mode: ModeRun, policy: ToolsPolicy) -> list[rows.CallRef]:
    """The calls of a mode that PASSED undiverged; a run that diverged made no whole sequence."""
    whole = mode.outcome is Outcome.PASSED and mode.deciding.transcript.divergence is None
    return called(replayed_run(mode.deciding.transcript, policy)) if whole else []


def _dimension(score: Score) -> rows.Dimension:
    interval = wilson(score.hits, score.n) if score.n else None
    return rows.Dimension(
        name=score.name, value=score.value, threshold=score.threshold, n=score.n, ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None, passed=score.passed,
    )  # fmt: skip


def broken(verdict: TrialVerdict) -> list[str]:
    """The ids that make a trial FAILED: of invariants, `dimension:NAME`; where it crashed or ran out of time, the name of that."""
    if verdict.failure is Failure.INVARIANT:
        return [judgement.id for judgement in verdict.violations]
    if verdict.failure is Failure.OPEN_MUST_HAPPEN:
        return [judgement.id for judgement in verdict.judgements if lacking(judgement)]
    if verdict.failure is Failure.DIMENSION:
        return [f"dimension:{score.name}" for score in verdict.missed]
    return [verdict.failure.value] if verdict.failure is not None else []


def _violations(verdict: TrialVerdict, own: Collection[str]) -> list[rows.Violation]:
    """What makes it FAILED, first what the case stands for; a must_happen that stayed open stands at the end of the run."""
    found = list(verdict.violations)
    if verdict.failure is Failure.OPEN_MUST_HAPPEN:
        found += [judgement for judgement in verdict.judgements if lacking(judgement)]
    return [_violation(judgement) for judgement in sorted(found, key=lambda judgement: judgement.id not in own)]


def _violation(judgement: Judgement) -> rows.Violation:
    return rows.Violation(
        tier=judgement.tier.value, assertion_id=judgement.id, version=judgement.version, message=judgement.message, detail=judgement.detail,
        place=judgement.place, boundary=judgement.boundary, boundary_seq=_seq(judgement.place), boundary_state=judgement.boundary_state,
        rows=[rows.RowDiff(row=row.row, change=row.change, paths=row.paths, invented=row.invented) for row in judgement.rows],
    )  # fmt: skip


def _divergence(found: Diverged | None, transcript: Transcript, policy: ToolsPolicy) -> rows.Divergence | None:
    if found is None:
        return None
    return rows.Divergence(
        kind=found.kind, boundary=found.boundary, place=found.place, detail="" if found.kind in _QUOTING else found.detail,
        boundary_state=_state(found, transcript, policy), got_hash=None if found.asked is UNSET else digest(found.asked),
        nearest=[rows.Near(place=near.place, reason=near.reason, paths=[field.path for field in near.fields]) for near in found.nearest],
    )  # fmt: skip


def _state(found: Diverged, transcript: Transcript, policy: ToolsPolicy) -> BoundaryState | None:
    """What the replay did there. The call at which a run diverged got no answer, so it stands in no transcript: a write was intercepted, all else frozen or live."""
    kind, _, name = found.boundary.partition(":")
    met = next((played.boundary for played in transcript.played if played.crossing.place == found.place), None)
    if met is not None or not name:
        return met
    if found.kind in _OF_LIVE:
        return BoundaryState.LIVE
    writes = kind == Kind.TOOL and policy.effect(name) is Effect.WRITE
    return BoundaryState.INTERCEPTED if writes else BoundaryState.FROZEN


def _boundaries(transcript: Transcript) -> list[rows.Boundary]:
    """Every boundary that was met; draws of clock and chance are too many to be of use, and always frozen."""
    ambient = SUB_KINDS - {Kind.HOOK, Kind.GUARD, Kind.ROUTER}
    return [
        rows.Boundary(
            seq=played.crossing.seq, sub=played.crossing.sub, name=played.crossing.name, kind=played.crossing.kind,
            effect=played.crossing.effect, state=played.boundary,
        )
        for played in transcript.played
        if played.crossing.kind not in ambient
    ]  # fmt: skip


def _intents(transcript: Transcript) -> list[rows.WriteIntent]:
    return [
        rows.WriteIntent(
            seq=played.crossing.seq, tool=played.crossing.name, args_hash=digest(_known(played.crossing.asked)),
            idempotency_key_hash=None if played.idempotency_key is None else digest(played.idempotency_key),
            blocked_by=played.crossing.blocked_by, answered_by=played.answered_by.value if played.answered_by else None,
        )
        for played in transcript.played
        if played.intent
    ]  # fmt: skip


def _known(value: object) -> object:
    return None if value is UNSET else value


def _seq(place: str | None) -> int | None:
    return None if place is None else step_of(place)
