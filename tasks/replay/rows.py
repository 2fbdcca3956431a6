"""Trials as rows: the one place where results of the engine become tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from tasks.contracts import Timings
from tasks.replay.aligned import step_rows
from twiceshy import identity
from twiceshy.aligning import align
from twiceshy.envelope import CODE_KINDS, SUB_KINDS
from twiceshy.exercise import exercise
from twiceshy.grading import TrialVerdict
from twiceshy.outcome import Divergence, Outcome
from twiceshy.shards import TrialLine
from twiceshy.transcript import Diverged, Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.judgement import Judgement
    from twiceshy.shards import IntentLine, ReadyLine, ResultLine

    Row = dict[str, Any]

_AMBIENT = SUB_KINDS - CODE_KINDS
_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What every row of one shard shares: the run, the night, the candidate, and what its process said of itself."""

    run_id: str
    night: str
    candidate: str
    ready: ReadyLine
    harness_state: str
    champion_digest: str | None = None

    @property
    def candidate_digest(self) -> str:
        """The digest of the versions of the candidate's layers."""
        return identity.digest(msgspec.to_builtins(self.ready.versions))


def replay_id(session: Session, line: TrialLine) -> str:
    """The key of a trial: a digest of (run, case, mode, live set, prefix, frozen set, break, trial)."""
    judge = line.judge
    parts = [
        session.run_id,
        line.case_id,
        judge.mode,
        sorted(judge.live),
        judge.after,
        sorted(judge.freeze),
        line.broken_by,
        line.trial,
    ]
    return identity.digest(parts)


def replay_row(session: Session, loaded: LoadedCase, line: TrialLine, *, exercised: bool = True) -> Row:
    """The row of `Replays` for one trial. exercised: False for a case of which a changed layer was frozen in every run: no trial of it passes (semantics.md §6.2)."""
    verdict = line.verdict if exercised else _unjudged(line.verdict)
    transcript = line.transcript
    failed, divergence = verdict.outcome is Outcome.ERROR, verdict.divergence
    told = divergence is not None and (verdict.outcome is Outcome.DIVERGED or verdict.decided)
    return _identity(session, loaded, line.judge) | {
        "simulated": transcript.simulated > 0,
        "replay_id": replay_id(session, line), "trial": line.trial + 1, "broken_by": line.broken_by, "break_state": line.break_state,
        "outcome": verdict.outcome.value, "decided": verdict.decided,
        "failure": verdict.failure.value if verdict.failure and not failed else None,
        "divergence": divergence.kind.value if told and divergence else None,
        "divergence_seq": _seq(divergence.place) if told and divergence else None,
        "divergence_boundary": divergence.boundary if told and divergence else None,
        "reason": (verdict.error or "not told") if failed else None, "exercised": sorted(exercise([transcript]).live),
        "boundaries": _text(_boundaries(line)), "transcript_digest": None if failed else transcript.digest, "crossings": len(transcript.played),
    }  # fmt: skip


def lost_row(session: Session, loaded: LoadedCase, reason: str) -> Row:
    """The row of a case that the shard did not come to: an ERROR, ours, whatever the candidate is like."""
    judge = loaded.case.judges()[0]
    unheard = TrialLine(
        case_id=loaded.case.id, judge=judge, trial=0, transcript=Transcript(), verdict=TrialVerdict(outcome=Outcome.ERROR, error=reason)
    )  # fmt: skip
    return replay_row(session, loaded, unheard)


def timing_rows(session: Session, results: Iterable[ResultLine]) -> pl.DataFrame:
    """How long each case took, as `Timings`: wall-clock values, outside every digest."""
    rows = [
        {
            "harness_state": session.harness_state, "table": "replays", "row_key": f"{session.run_id}/{line.result.case.id}",
            "name": "case", "kind": "duration", "value_ns": line.result.duration_ms * _MS,
        }
        for line in results
        if line.result.duration_ms is not None
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=Timings.dtypes())


def is_exercised(line: ResultLine) -> bool:
    """Whether the case can judge this version: False where a changed layer was frozen in every run."""
    divergence = line.result.divergence
    return divergence is None or divergence.kind is not Divergence.NOT_EXERCISED


def _identity(session: Session, loaded: LoadedCase, judge: Judge) -> Row:
    case = loaded.case
    return {
        "run_id": session.run_id, "case_id": case.id, "case_digest": loaded.digest, "workflow": case.workflow, "case_kind": case.kind,
        "signature": case.signature_id, "slug": case.signature, "trace_id": case.trace_id, "mode": judge.mode.value,
        "live": ",".join(sorted(judge.live)), "after": judge.after or 0, "night": session.night, "candidate": session.candidate,
        "candidate_digest": session.candidate_digest, "champion_digest": session.champion_digest, "isolation": session.ready.isolation,
        "seed": case.id, "versions": _text(msgspec.to_builtins(session.ready.versions)),
        "harness_state": session.harness_state,
    }  # fmt: skip


def _unjudged(verdict: TrialVerdict) -> TrialVerdict:
    """A pass that counts for nothing, since what changed was frozen."""
    if verdict.outcome is not Outcome.PASSED:
        return verdict
    divergence = Diverged(kind=Divergence.NOT_EXERCISED, place="end", boundary="run")
    return msgspec.structs.replace(verdict, outcome=Outcome.DIVERGED, decided=False, divergence=divergence)


def violation_rows(session: Session, line: TrialLine) -> Iterator[Row]:
    """A row of `Violations` for each invariant that was judged."""
    for judged in line.verdict.judgements:
        if judged.truth is not None:
            yield {**_trial(session, line), **_judged(judged)}


def intent_rows(session: Session, line: TrialLine) -> Iterator[Row]:
    """A row of `Intents` for each intercepted write."""
    for intent in line.intents:
        yield {**_trial(session, line), **_intent(intent)}


def dimension_rows(session: Session, line: TrialLine) -> Iterator[Row]:
    """A row of `Dimensions` for each of the six; of an ERROR there are none."""
    for score in line.verdict.dimensions:
        yield {
            **_trial(session, line), "dimension": score.name.value, "value": score.value, "n": score.n, "threshold": score.threshold, "passed": score.passed
        }  # fmt: skip


def aligned_rows(session: Session, loaded: LoadedCase, line: TrialLine) -> list[Row]:
    """The rows of `Steps`: the record and this trial, side by side."""
    violated: dict[str, list[str]] = {}
    for judged in line.verdict.violations:
        if judged.place is not None:
            violated.setdefault(judged.place, []).append(judged.id)
    return step_rows(align(loaded.envelope.crossings, line.transcript), trial=_trial(session, line), violated=violated)


def _trial(session: Session, line: TrialLine) -> dict[str, str]:
    return {
        "replay_id": replay_id(session, line), "run_id": session.run_id, "case_id": line.case_id, "harness_state": session.harness_state
    }  # fmt: skip


def _judged(judged: Judgement) -> Row:
    known = judged.place is not None and judged.boundary is not None and judged.boundary_state is not None
    seq, _, sub = (judged.place or "").removeprefix("#").partition(".")
    return {
        "invariant_id": judged.id, "invariant_version": str(judged.version), "tier": judged.tier.value, "kind": judged.kind,
        "truth": judged.truth.value if judged.truth else None, "message": judged.message or judged.id,
        "seq": int(seq) if known else None, "sub": int(sub or 0) if known else None, "boundary": judged.boundary if known else None,
        "boundary_state": judged.boundary_state.value if known and judged.boundary_state else None, "advisory": judged.advisory,
    }  # fmt: skip


def _intent(intent: IntentLine) -> Row:
    key = intent.idempotency_key
    return {
        "seq": intent.seq, "tool": intent.tool, "proposed": _known(intent.proposed), "seen": _known(intent.seen), "key": intent.key,
        "idempotency_key": None if key is None else _text(key), "state": intent.state, "blocked_by": intent.blocked_by,
        "answered_by": intent.answered_by.value if intent.answered_by else None, "explained_by": intent.explained_by, "duplicate": intent.duplicate,
    }  # fmt: skip


def _boundaries(line: TrialLine) -> list[Mapping[str, Any]]:
    """What the replay did at every boundary; draws of clock and chance are always frozen and too many to be of use."""
    return [
        {
            "seq": played.crossing.seq, "sub": played.crossing.sub, "kind": played.crossing.kind, "name": played.crossing.name,
            "effect": played.crossing.effect, "state": played.boundary,
        }
        for played in line.transcript.played
        if played.crossing.kind not in _AMBIENT
    ]  # fmt: skip


def _known(side: Any) -> str | None:
    return None if side is msgspec.UNSET else _text(side)


def _text(value: Any) -> str:
    return identity.canonical(value).decode()


def _seq(place: str) -> int | None:
    """The step a divergence stands at; None for one that shows at the end."""
    digits = place.removeprefix("#").partition(".")[0]
    return int(digits) if digits.isdigit() else None
