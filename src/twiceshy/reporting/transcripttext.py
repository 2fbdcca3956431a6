"""`replay -v`: the recorded run and its replay step beside step, what the replay did at each, both sides of the middleware, and where it was violated or diverged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, UnsetType

from twiceshy.aligning import AlignedStep, Alignment, align
from twiceshy.envelope import CODE_KINDS, Crossing, Effect
from twiceshy.matching import CALLS, differences
from twiceshy.ordering import step_of
from twiceshy.outcome import Failure, Outcome
from twiceshy.reporting.changes import change as changed
from twiceshy.reporting.escaping import plain
from twiceshy.worlds.goals import how

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.aligning import SideDiff
    from twiceshy.envelope import Envelope
    from twiceshy.grading import TrialVerdict
    from twiceshy.transcript import Diverged, RowChange, Transcript

_MARKS = {Alignment.SAME: " ", Alignment.CHANGED: "~", Alignment.ONLY_RECORDED: "-", Alignment.ONLY_REPLAYED: "+"}
_DRIFTS = {"template": "prompt template", "messages": "conversation"}
_COLLAPSE = 3
"""Steps of the identical beginning that are worth a line each; the rest of it is one line."""


class Options(NamedTuple):
    """What is shown. payloads: the values that differ, not only their paths. whole: every step of the identical beginning."""

    payloads: bool = False
    whole: bool = False


def render(envelope: Envelope, transcript: Transcript, verdict: TrialVerdict, options: Options | None = None) -> str:
    """The aligned run in lines, a newline after each."""
    return "".join(f"{line}\n" for line in _lines(envelope, transcript, verdict, options or Options()))


def _lines(envelope: Envelope, transcript: Transcript, verdict: TrialVerdict, options: Options) -> Iterator[str]:
    steps = align(envelope.crossings, transcript)
    decisive = next((f", see {_place(step)}" for step in steps if _decides(step, verdict)), "")
    yield f"trace {plain(envelope.trace_id)}: {_came_to(verdict)}{decisive}"
    hidden = 0 if options.whole else _identical(steps, verdict)
    if hidden:
        yield f"    {_place(steps[0])} to {_place(steps[hidden - 1])}: {hidden} steps as recorded"
    for step in steps[hidden:]:
        yield from _step(step, verdict, options)
        if step.diverged and verdict.divergence is not None:
            yield from _divergence(verdict.divergence, options)
            yield from _written(envelope, transcript, verdict.divergence)
    if transcript.divergence is None and verdict.divergence is not None:
        yield from _divergence(verdict.divergence, options)
    if verdict.failure is Failure.CANDIDATE_CRASHED:
        yield f"! {_crash(transcript, options)}"
    yield from (f"! {plain(text)}" for text in _at_the_end(verdict))
    yield from (f"  note: {plain(note)}" for note in verdict.notes)


def _came_to(verdict: TrialVerdict) -> str:
    how = verdict.failure or (verdict.divergence.kind if verdict.divergence else None)
    decided = ", decided before it diverged" if verdict.decided else ""
    return f"{verdict.outcome.value.upper()}{f' ({how})' if how else ''}{decided}"


def _identical(steps: Sequence[AlignedStep], verdict: TrialVerdict) -> int:
    """How many steps at the beginning need no line: all alike, none of them judged."""
    judged = {judgement.place for judgement in verdict.violations}
    same = 0
    for step in steps:
        if step.status is not Alignment.SAME or step.diverged or _place(step) in judged:
            break
        same += 1
    return same if same > _COLLAPSE else 0


def _step(step: AlignedStep, verdict: TrialVerdict, options: Options) -> Iterator[str]:
    crossing = step.replayed or step.recorded
    if crossing is None:
        return
    indent = "    " if crossing.kind in CODE_KINDS else "  "
    here = f"{indent[:-1]}>" if _decides(step, verdict) else indent
    badge = step.played.boundary.value if step.played else "not reached" if step.replayed is None else "unanswered"
    answered = f" by {step.played.answered_by.value}" if step.played and step.played.answered_by else ""
    stale = ", stale" if step.played and step.played.stale else ""
    blocked = f", blocked by {plain(crossing.blocked_by)}" if crossing.blocked_by else ""
    drift = f", another {_DRIFTS[step.played.drift]}" if step.played and step.played.drift else ""
    yield f"{_MARKS[step.status]}{here}{_place(step)} {crossing.kind} {plain(crossing.name)} [{badge}]{answered}{drift}{stale}{blocked}"
    yield from _called(crossing, indent, options) if not step.diverged else ()
    yield from _middleware(crossing, indent, options)
    for side, diff in _sides(step):
        yield from _leaf(f"   {indent}{side}{_path(diff.path)}", diff.recorded, diff.replayed, options)
    for change in step.played.changes if step.played else ():
        yield from _row(change, indent, options)
    for judgement in verdict.violations:
        if judgement.place == _place(step):
            yield f"!  {indent}{plain(judgement.id)} ({judgement.tier}): {plain(judgement.message)}{_detail(judgement.detail)}"


def _decides(step: AlignedStep, verdict: TrialVerdict) -> bool:
    """Whether the run was decided here: a violation shows, or it diverged."""
    return step.diverged or any(judgement.place == _place(step) for judgement in verdict.violations)


def _called(crossing: Crossing, indent: str, options: Options) -> Iterator[str]:
    """What a call asked for, where every step is shown with its values."""
    if options.whole and options.payloads and crossing.kind in CALLS and crossing.seen is not UNSET:
        yield f"   {indent}asked {plain(crossing.seen)}"


def _sides(step: AlignedStep) -> Iterator[tuple[str, SideDiff]]:
    """The differing leaves by side; what differs alike in what was returned and in what went back is told once."""
    raw = [(diff.path, diff.recorded, diff.replayed) for diff in step.diffs if diff.side == "raw"]
    shown = [(diff.path, diff.recorded, diff.replayed) for diff in step.diffs if diff.side == "shown"]
    alike = bool(raw) and raw == shown
    for diff in step.diffs:
        if not (alike and diff.side == "shown"):
            yield ("raw and shown" if alike and diff.side == "raw" else diff.side), diff


def _leaf(told: str, before: Any | UnsetType, after: Any | UnsetType, options: Options) -> Iterator[str]:
    first, *more = changed(before, after, payloads=options.payloads)
    yield f"{told}{first}"
    yield from (f"{' ' * (len(told) - len(told.lstrip()))}  {line}" for line in more)


def _written(envelope: Envelope, transcript: Transcript, found: Diverged) -> Iterator[str]:
    """Where a recording was refused for the writes before it: which those were, and which there are now."""
    now = [played.crossing for played in transcript.played if played.intent and not played.crossing.blocked_by]
    for near in found.nearest:
        if near.reason != "other writes came before it":
            continue
        at = step_of(near.place)
        then = [
            crossing for crossing in envelope.crossings
            if crossing.seq < at and crossing.effect is Effect.WRITE and not crossing.blocked_by
        ]  # fmt: skip
        yield f"         {plain(near.place)} was recorded after {_names(then)}; here it comes after {_names(now)}"


def _names(writes: Sequence[Crossing]) -> str:
    return ", ".join(f"{plain(write.name)} {write.place}" for write in writes) or "no write"


def _row(change: RowChange, indent: str, options: Options) -> Iterator[str]:
    """What became of a row of the world, its key and values where they may be shown."""
    key = f" {plain(change.key)}" if options.payloads else ""
    invented = ", invented" if change.invented else ""
    yield f"   {indent}row {plain(change.row)}{key} {how(change)}{invented}"
    if change.before is UNSET or change.after is UNSET:
        return
    for diff in differences(change.before, change.after):
        yield from _leaf(f"     {indent}{plain(diff.path)}", diff.recorded, diff.got, options)


def _middleware(crossing: Crossing, indent: str, options: Options) -> Iterator[str]:
    """What this run's own hooks changed on the way in and on the way out."""
    for before, after, name in (
        (crossing.proposed, crossing.seen, "proposed to seen"),
        (crossing.raw, crossing.shown, "raw to shown"),
    ):
        if before is UNSET or after is UNSET:
            continue
        for diff in differences(before, after):
            yield from _leaf(f"   {indent}{name}{_path(diff.path)}", diff.recorded, diff.got, options)


def _divergence(found: Diverged, options: Options) -> Iterator[str]:
    yield f"!    diverged at {plain(found.place)} {plain(found.boundary)}: {found.kind}, {found.kind.meaning}{_detail(found.detail)}"
    if options.payloads and found.asked is not UNSET:
        yield f"       asked {plain(found.asked)}"
    for near in found.nearest:
        yield f"       nearest {plain(near.place)}: {near.reason}"
        for field in near.fields:
            yield from _leaf(f"         {plain(field.path)}", field.recorded, field.got, options)


def _crash(transcript: Transcript, options: Options) -> str:
    error = transcript.disposition.error if transcript.disposition else None
    if error is None:
        return "its process ended before the agent returned, or with an output that is no JSON value"
    return f"the agent raised {plain(error.cls)}{f': {plain(error.message)}' if options.payloads else ''}"


def _at_the_end(verdict: TrialVerdict) -> Iterator[str]:
    for judgement in verdict.violations:
        if judgement.place is None:
            yield f"{judgement.id} ({judgement.tier}) at the end: {judgement.message}{_detail(judgement.detail)}"
    if verdict.failure is Failure.DIMENSION:
        for score in verdict.missed:
            yield f"{score.name} is {score.hits} of {score.n}, and must be at least {score.threshold}"
    if verdict.outcome is Outcome.ERROR and verdict.error:
        yield verdict.error.splitlines()[0]
    if verdict.open:
        yield f"open: {', '.join(verdict.open)}"


def _place(step: AlignedStep) -> str:
    crossing = step.replayed or step.recorded
    return crossing.place if crossing else "?"


def _path(path: str) -> str:
    return f" {plain(path)}" if path else ""


def _detail(detail: str) -> str:
    return f" ({plain(detail)})" if detail else ""
