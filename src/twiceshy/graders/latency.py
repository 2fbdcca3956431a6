"""Latency against the record (semantics.md §7): a replay has no time of its own, so what counts is what its crossings took when they were recorded."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from twiceshy.invariants import Sort, Tier
from twiceshy.judgement import Judgement

if TYPE_CHECKING:
    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context


def latency(context: Context) -> Judgement:
    """Violated at the crossing with which the run has taken more than its share of the record's duration.

    A crossing that was served from the record takes what the recorded one took; another takes the mean of its name, else the mean of all.
    """
    blank = Judgement(
        id="latency", tier=Tier.TRAJECTORY, kind=Sort.COUNT.value, effect="extra",
        message="the run takes longer at its boundaries than the case allows",
    )  # fmt: skip
    case = context.case
    if case is None or case.latency is None:
        return blank
    taken, whole = _durations(case.recorded), duration_ns(case.recorded)
    spent = 0.0
    for step in context.run.steps:
        spent += _taken(step, taken)
        if spent > case.latency * whole:
            return blank.at(step, detail=f"more than {case.latency:g} times the record's {whole / 1e6:.0f} ms")
    return blank.kept(context.run)


def duration_ns(run: Run) -> int:
    """What the crossings of a recorded run took, in ns; 0 where no times were recorded."""
    return sum(_own(step) or 0 for step in run.steps)


def _durations(recorded: Run) -> dict[str, list[int]]:
    """The recorded durations by place (one each) and by boundary; those of all under the empty name."""
    found: dict[str, list[int]] = defaultdict(list)
    for step in recorded.steps:
        took = _own(step)
        if took is not None:
            found[step.crossing.place].append(took)
            found[step.called].append(took)
            found[""].append(took)
    return found


def _taken(step: Step, taken: dict[str, list[int]]) -> float:
    if step.crossing.sub:
        return 0
    for name in (step.matched or step.called, step.called, ""):
        if name in taken:
            return sum(taken[name]) / len(taken[name])
    return 0


def _own(step: Step) -> int | None:
    """Hooks and guards run inside the step they belong to, and draws take no time."""
    crossing = step.crossing
    if crossing.sub or crossing.start_ns is None or crossing.end_ns is None:
        return None
    return max(0, crossing.end_ns - crossing.start_ns)
