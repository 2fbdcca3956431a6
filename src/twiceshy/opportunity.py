"""Where a case's failure can happen, and whether a run ever came there: an agent that does nothing passes nothing (semantics.md §7, rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.errors import CaseError
from twiceshy.evidence import before, firsts, lasts
from twiceshy.graders import judgements
from twiceshy.identity import equal
from twiceshy.judgement import Context
from twiceshy.outcome import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twiceshy.casefile import Case, LoadedCase
    from twiceshy.evidence import Run, Step
    from twiceshy.invariants import Invariants
    from twiceshy.judgement import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """The opportunity of one case: recorded steps, or a proposal of a tool; with neither, the end of the run.

    steps: the recorded steps that it is; several only where no order says which of them came first, and then a run has to come to each.
    """

    steps: tuple[Step, ...] = ()
    tool: str | None = None
    args: Mapping[str, Any] | None = None

    @property
    def seq(self) -> int | None:
        """The first recorded step that it is, where it is one."""
        return min((step.crossing.seq for step in self.steps), default=None)

    def reached(self, run: Run) -> list[Step]:
        """The first crossings at which the run came to it; none where it did not come to all of it. A proposal that a guard then stops has come to it."""
        if self.tool is not None:
            return firsts(step for step in run.steps if self._proposes(step))
        came = [firsts(step for step in run.steps if _same(recorded, step)) for recorded in self.steps]
        return list({step.crossing.place: step for found in came for step in found}.values()) if all(came) else []

    def met(self, run: Run) -> bool:
        """Whether the run came to it."""
        if not self.steps and self.tool is None:
            return run.ended
        return bool(self.reached(run))

    def _proposes(self, step: Step) -> bool:
        return step.called == f"tool:{self.tool}" and step.has_args(self.args or {})


def chance(loaded: LoadedCase, recorded: Run, invariants: Invariants) -> Chance:
    """The opportunity a case names, else its default: the proposal on which the recorded violation rests; for a positive the first recorded write.

    A violation that rests on no call (a missing step, an output) falls back on the last recorded call, a positive without writes on its first.
    Raises CaseError where the record has no such step or call.
    """
    case, named = loaded.case, loaded.case.opportunity
    if named is None:
        return Chance(steps=tuple(_default(case, recorded, invariants)))
    if named.tool is not None:
        wanted = Chance(tool=named.tool, args=named.args)
        steps = wanted.reached(recorded)
        if not steps:
            raise CaseError.at(loaded.path, f"the opportunity names {named.tool}, and the record holds no such call.")
        return Chance(tool=named.tool, args=named.args, steps=tuple(steps))
    step = next((step for step in recorded.steps if (step.crossing.seq, step.crossing.sub) == (named.seq, 0)), None)
    if step is None:
        raise CaseError.at(loaded.path, f"the opportunity names step {named.seq}, which the record does not have.")
    return Chance(steps=(step,))


def _default(case: Case, recorded: Run, invariants: Invariants) -> list[Step]:
    calls = list(recorded.calls())
    if case.kind == "positive":
        return firsts(recorded.writes()) or firsts(calls)
    violated = {
        place
        for judgement in judgements(Context(run=recorded, invariants=invariants))
        if judgement.truth is Truth.VIOLATED and (not case.invariants or judgement.id in case.invariants)
        for place in _onsets(judgement, recorded)
    }
    return firsts(call for call in calls if call.crossing.place in violated) or lasts(calls)


def _onsets(judgement: Judgement, recorded: Run) -> Iterator[str]:
    """The places that a violation shows at first: its onset, and what it rests on that stands neither before nor after that."""
    at = {step.crossing.place: step for step in recorded.steps}
    onset = at.get(judgement.place or "")
    if onset is not None:
        rests = [at[place] for place in judgement.evidence if place in at]
        yield from (one.crossing.place for one in rests if not before(one, onset) and not before(onset, one))


def _same(recorded: Step, step: Step) -> bool:
    """Whether a crossing is the recorded one come again: served from it, or the same call, asked for or received."""
    ours, theirs = step.crossing, recorded.crossing
    if (ours.kind, ours.name) != (theirs.kind, theirs.name):
        return False
    proposed = ours.proposed is not UNSET and theirs.proposed is not UNSET and equal(ours.proposed, theirs.proposed)
    called = bool(step.key) and step.key == recorded.key  # what is not called by arguments (a user's turn) has no key
    return step.matched == theirs.place or called or proposed
