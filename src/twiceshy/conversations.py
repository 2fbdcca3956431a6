"""Conversations: a result a turn, and one for the whole. Turns that each pass do not make a passed conversation (semantics.md §7).

A conversation is one run in which the user speaks again, or several cases of one conversation id, each the record of a turn.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from twiceshy import verdict as rows
from twiceshy.evidence import Run, replayed_run
from twiceshy.graders.drift import drifts, turns
from twiceshy.graders.duplicates import no_duplicate_write
from twiceshy.invariants import Tier
from twiceshy.judgement import Context, Judgement
from twiceshy.monitors import binds, judge
from twiceshy.outcome import Outcome, Truth
from twiceshy.trials import WORST, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twiceshy.evidence import Step
    from twiceshy.grading import CaseGrader, TrialVerdict
    from twiceshy.invariants import Invariants
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import Transcript
    from twiceshy.trials import ModeRun

_MANY = 2


def turn_results(verdict: TrialVerdict, run: Run) -> list[rows.TurnResult]:
    """What each turn of one run came to; none where the user spoke only once.

    A violation counts for the turn of its onset; one that shows at the end, and a divergence, for the last turn there was.
    """
    spoken = turns(run)
    if len(spoken) < _MANY:
        return []
    place = {step.crossing.place: number for number, turn in enumerate(spoken) for step in turn.steps}
    found: dict[int, list[str]] = defaultdict(list)
    for judgement in verdict.violations:
        found[place.get(judgement.place or "", len(spoken) - 1)].append(judgement.id)
    last = verdict.outcome if verdict.outcome is not Outcome.FAILED or not verdict.violations else Outcome.PASSED
    outcomes = [
        Outcome.FAILED if found[at] else last if at == len(spoken) - 1 else Outcome.PASSED for at in range(len(spoken))
    ]
    return [
        rows.TurnResult(turn=at, outcome=outcome, violated=sorted(found[at])) for at, outcome in enumerate(outcomes)
    ]


def whole_conversations(
    judged: Sequence[tuple[CaseGrader, Sequence[ModeRun], rows.Result]],
) -> list[rows.Conversation]:
    """One result a conversation of which several turns were judged as cases of their own, by id.

    Judged over all turns together: the invariants of the workflow, no duplicate write, and context drift. Checks that ask for one record (counts, explained
    writes) and loops, which a user may ask for, stay with the turns.
    """
    by_id: dict[str, list[tuple[CaseGrader, Sequence[ModeRun], rows.Result]]] = defaultdict(list)
    for one in judged:
        name = one[0].loaded.envelope.conversation_id
        if name is not None and one[1]:
            by_id[name].append(one)
    return [_conversation(name, by_id[name]) for name in sorted(by_id) if len(by_id[name]) >= _MANY]


def _conversation(name: str, held: Sequence[tuple[CaseGrader, Sequence[ModeRun], rows.Result]]) -> rows.Conversation:
    ordered = sorted(held, key=lambda one: (one[0].loaded.envelope.turn, one[0].loaded.case.id))
    graders = [grader for grader, _, _ in ordered]
    parts = [_run(grader, worst(modes).deciding.transcript) for grader, modes, _ in ordered]
    cases = {at: grader.loaded.case.id for at, grader in enumerate(graders)}
    violated = list(_violated(parts, cases, graders[0].invariants, graders[0].policy))
    results = [
        rows.TurnResult(turn=at, case=result.case.id, outcome=result.outcome, violated=[one.assertion_id for one in result.violations])
        for at, (_, _, result) in enumerate(ordered)
    ]  # fmt: skip
    outcomes = [result.outcome for result in results]
    outcome = Outcome.FAILED if violated else min(outcomes, key=WORST.index)
    return rows.Conversation(id=name, outcome=outcome, turns=results, violations=violated)


def _run(grader: CaseGrader, transcript: Transcript) -> Run:
    case, given = grader.loaded.case, grader.loaded.envelope.input
    return replayed_run(transcript, grader.policy, workflow=case.workflow, given=[given.user, given.goal])


def _violated(
    parts: Sequence[Run], cases: Mapping[int, str], invariants: Invariants, policy: ToolsPolicy
) -> Iterator[rows.Violation]:
    """What the turns together violate, each with the case and the place where it shows."""
    whole, where = _joined(parts, cases, policy)
    context = Context(run=whole, invariants=invariants)
    found = [
        judge(one, context)
        for one in invariants.invariants
        if one.spec.tier is not Tier.SEMANTIC and binds(one, context)
    ]
    for judgement in (*found, no_duplicate_write(context)):
        if judgement.truth is Truth.VIOLATED:
            yield _violation(judgement, where.get(judgement.place or "", "the end"))
    spoken = [turn for part in parts for turn in turns(part)]
    lost = next(drifts(spoken, policy), None)
    if lost is not None:
        step, path = lost
        at = next(number for number, part in enumerate(parts) if any(step is own for own in part.steps))
        yield rows.Violation(
            tier="trajectory", assertion_id="context_drift", version=1, message="a fact that was given in one turn may not be lost in a later one",
            detail=f"{step.crossing.name}.{path} at {cases[at]} {step.crossing.place}",
        )  # fmt: skip


def _violation(judgement: Judgement, where: str) -> rows.Violation:
    detail = f"{judgement.detail}; " if judgement.detail else ""
    return rows.Violation(
        tier=judgement.tier.value, assertion_id=judgement.id, version=judgement.version, message=judgement.message,
        detail=f"{detail}at {where}", boundary=judgement.boundary, boundary_state=judgement.boundary_state,
    )  # fmt: skip


def _joined(parts: Sequence[Run], cases: Mapping[int, str], policy: ToolsPolicy) -> tuple[Run, dict[str, str]]:
    """The turns as one run, its steps numbered on; and for each place in it the case and the place it had there."""
    steps: list[Step] = []
    where: dict[str, str] = {}
    offset = 0
    for at, part in enumerate(parts):
        moved = [_moved(step, offset) for step in part.steps]
        for own, step in zip(part.steps, moved, strict=True):
            where[step.crossing.place] = f"{cases[at]} {own.crossing.place}"
        steps += moved
        offset = max((step.crossing.seq for step in moved), default=offset)
    ended = all(part.ended for part in parts)
    last = parts[-1]
    return Run(
        workflow=last.workflow, steps=tuple(steps), policy=policy, output=last.output, ended=ended, replayed=True
    ), where


def _moved(step: Step, offset: int) -> Step:
    crossing = step.crossing
    group = None if crossing.group is None else crossing.group + offset
    return replace(
        step,
        turn=step.turn + offset,
        crossing=msgspec.structs.replace(crossing, seq=crossing.seq + offset, group=group),
    )
