"""Call counts of frozen boundaries, fewer and more (semantics.md §7): they bind up to the deciding crossing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from twiceshy.envelope import Effect, Kind
from twiceshy.evidence import before
from twiceshy.invariants import Sort, Tier
from twiceshy.judgement import Judgement
from twiceshy.matching import CALLS
from twiceshy.outcome import BoundaryState, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import CaseTerms, Context


def call_counts(context: Context) -> Judgement:
    """Violated where a frozen boundary was called more often than recorded up to the deciding crossing; fewer is open until an undiverged end.

    What comes after it for certain is free. What stands beside it, in its own turn or with an agent that ran at the same time, is counted in both runs.

    Writes are judged as intents, attempts are one call, and a run that never came to the deciding crossing is not counted.
    """
    blank = Judgement(
        id="call_counts", tier=Tier.TRAJECTORY, kind=Sort.COUNT.value, message="frozen boundaries must be called as often as recorded",
        advisory=context.case is None or not context.case.enforce_counts,
    )  # fmt: skip
    case = context.case
    if case is None or not case.deciding or not case.opportunity:
        return blank
    wanted = Counter(step.called for step in _counted(case.recorded, case.deciding) if not _live(step, case))
    got: Counter[str] = Counter()
    for step in _counted(context.run, case.opportunity):
        if step.boundary is BoundaryState.FROZEN and not _live(step, case):
            got[step.called] += 1
            if got[step.called] > wanted[step.called]:
                return blank.at(
                    step, effect="extra", detail=f"{step.called} more often than the {wanted[step.called]} recorded"
                )
    return _fewer(blank, context.run, wanted - got)


def _fewer(blank: Judgement, run: Run, lacking: Counter[str]) -> Judgement:
    if not run.ended:
        return blank
    if not lacking:
        return blank.being(Truth.SATISFIED)
    name = min(lacking)
    return blank.being(
        Truth.VIOLATED, effect="missing", boundary=name, detail=f"{name} {lacking[name]} times fewer than recorded"
    )


def _counted(run: Run, deciding: Sequence[Step]) -> Iterator[Step]:
    """Model turns and reads but those after the deciding steps, each logical call once; a pure tool runs live, so its count is free."""
    for step in run.steps:
        crossing = step.crossing
        if crossing.attempt > 1 or step in deciding or all(before(one, step) for one in deciding):
            continue
        reads = crossing.kind in CALLS and run.policy.effect_of(crossing) is Effect.READ
        if crossing.kind is Kind.MODEL or reads:
            yield step


def _live(step: Step, case: CaseTerms) -> bool:
    return step.called in case.live or f"{step.crossing.kind}:*" in case.live
