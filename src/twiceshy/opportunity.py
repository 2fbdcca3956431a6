"""Where a case's failure can happen, and whether a run ever came there: an agent that does nothing passes nothing (semantics.md §7, rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.errors import CaseError
from twiceshy.graders import judgements
from twiceshy.identity import equal
from twiceshy.judgement import Context
from twiceshy.outcome import Truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twiceshy.casefile import Case, LoadedCase
    from twiceshy.evidence import Run, Step
    from twiceshy.invariants import Invariants


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """The opportunity of one case: a recorded step, or a proposal of a tool; with neither, the end of the run.

    seq: the recorded step that it is, where it is one.
    """

    step: Step | None = None
    tool: str | None = None
    args: Mapping[str, Any] | None = None
    seq: int | None = None

    def reached(self, run: Run) -> Step | None:
        """The first crossing at which the run came to it, or None. A proposal that a guard then stops has come to it."""
        return next((step for step in run.steps if self._is(step)), None)

    def met(self, run: Run) -> bool:
        """Whether the run came to it."""
        if self.step is None and self.tool is None:
            return run.ended
        return self.reached(run) is not None

    def _is(self, step: Step) -> bool:
        if self.tool is not None:
            return step.called == f"tool:{self.tool}" and step.has_args(self.args or {})
        return self.step is not None and _same(self.step, step)


def chance(loaded: LoadedCase, recorded: Run, invariants: Invariants) -> Chance:
    """The opportunity a case names, else its default: the proposal on which the recorded violation rests; for a positive the first recorded write.

    A violation that rests on no call (a missing step, an output) falls back on the last recorded call, a positive without writes on its first.
    Raises CaseError where the record has no such step or call.
    """
    case, named = loaded.case, loaded.case.opportunity
    if named is None:
        return _at(_default(case, recorded, invariants))
    if named.tool is not None:
        wanted = Chance(tool=named.tool, args=named.args)
        step = wanted.reached(recorded)
        if step is None:
            raise CaseError.at(loaded.path, f"the opportunity names {named.tool}, and the record holds no such call.")
        return Chance(tool=named.tool, args=named.args, seq=step.crossing.seq)
    step = next((step for step in recorded.steps if (step.crossing.seq, step.crossing.sub) == (named.seq, 0)), None)
    if step is None:
        raise CaseError.at(loaded.path, f"the opportunity names step {named.seq}, which the record does not have.")
    return _at(step)


def _at(step: Step | None) -> Chance:
    return Chance(step=step, seq=step.crossing.seq if step is not None else None)


def _default(case: Case, recorded: Run, invariants: Invariants) -> Step | None:
    calls = list(recorded.calls())
    if case.kind == "positive":
        return next(recorded.writes(), calls[0] if calls else None)
    violated = {
        judgement.place
        for judgement in judgements(Context(run=recorded, invariants=invariants))
        if judgement.truth is Truth.VIOLATED and (not case.invariants or judgement.id in case.invariants)
    }
    return next((call for call in calls if call.crossing.place in violated), calls[-1] if calls else None)


def _same(recorded: Step, step: Step) -> bool:
    """Whether a crossing is the recorded one come again: served from it, or the same call, asked for or received."""
    ours, theirs = step.crossing, recorded.crossing
    if (ours.kind, ours.name) != (theirs.kind, theirs.name):
        return False
    proposed = ours.proposed is not UNSET and theirs.proposed is not UNSET and equal(ours.proposed, theirs.proposed)
    called = bool(step.key) and step.key == recorded.key  # what is not called by arguments (a user's turn) has no key
    return step.matched == theirs.place or called or proposed
