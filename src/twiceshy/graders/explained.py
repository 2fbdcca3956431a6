"""Every intercepted write is explained (semantics.md §5.3): what catches the renamed, doubled or invented write that no invariant names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from twiceshy.conditions import MissingField
from twiceshy.graders.duplicates import duplicates
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement
from twiceshy.standpoints import standpoints

if TYPE_CHECKING:
    from collections.abc import Collection

    from twiceshy.conditions import Condition
    from twiceshy.evidence import Run, Step
    from twiceshy.invariants import AllowedWrite
    from twiceshy.judgement import Context

Explanation = Literal["recorded", "expected", "allowed"]


def explained_writes(context: Context) -> Judgement:
    """Violated at the first write that was neither recorded with this key, nor expected by the case, nor allowed in the workflow.

    A recorded run explains its own writes, so this judges replays only. A recorded write that came to nothing explains none that happens.
    """
    blank = Judgement(
        id="explained_writes", kind=Sort.MUST_NOT.value, effect="extra", message="a write that nothing explains"
    )
    run = context.run
    if context.case is not None:
        repeats = repeated(run)
        for step in run.writes():
            if explanation(step, context, repeats=repeats) is None:
                return blank.at(step)
    return blank.kept(run)


def repeated(run: Run) -> frozenset[int]:
    """The steps of the writes that repeat an earlier one: that is what `no_duplicate_write` says of them."""
    return frozenset(again.crossing.seq for again, _, _ in duplicates(run))


def explanation(step: Step, context: Context, *, repeats: Collection[int]) -> Explanation | None:
    """What explains a write of a replay: it was recorded with this key, and as often; the case expects it, or the workflow allows it.

    repeats: the steps that another check speaks of. A write made again after others is none of them, and the record explains it once.
    """
    case = context.case
    recorded = 0 if case is None else case.recorded_writes.get((step.crossing.name, step.key), 0)
    if case is None or (recorded and (step.crossing.seq in repeats or context.run.nth[step.crossing.seq] <= recorded)):
        return "recorded"
    if any(write.fits(step.crossing.name, step.args) for write in case.expected):
        return "expected"
    return "allowed" if _allowed(step, context) else None


def _allowed(step: Step, context: Context) -> bool:
    return any(
        write.tool == step.crossing.name and _holds(write, condition, context.run, step)
        for write, condition in context.invariants.allowed
    )  # fmt: skip


def _holds(write: AllowedWrite, condition: Condition | None, run: Run, step: Step) -> bool:
    if condition is None:
        return True
    try:
        return all(condition.holds(facts) for facts in standpoints(run, step))
    except MissingField:
        if write.on_missing == "error":
            raise
        return write.on_missing == "satisfied"
