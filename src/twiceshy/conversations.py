"""Conversations: a result a turn, and one for the whole. Turns that each pass do not make a passed conversation (semantics.md §7).

A conversation is one run in which the user speaks again, or several cases of one conversation id, each the record of a turn.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import islice, permutations, product
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from twiceshy import graders
from twiceshy import verdict as rows
from twiceshy.evidence import Run, replayed_run
from twiceshy.graders.drift import drifts, turns
from twiceshy.judgement import Context, Judgement
from twiceshy.ordering import Part, renumbered
from twiceshy.outcome import Outcome, Truth
from twiceshy.trials import WORST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twiceshy.evidence import Step
    from twiceshy.grading import CaseGrader, TrialVerdict
    from twiceshy.invariants import Invariants
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import Transcript
    from twiceshy.trials import ModeRun

    _Turn = tuple[CaseGrader, Sequence[ModeRun], rows.Result]

_MANY = 2
_MOST_ORDERS = 24
"""Of four turns that nobody can tell apart; with more of them the whole is not judged."""


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
    judged: Sequence[tuple[CaseGrader, Sequence[ModeRun], rows.Result]], invariants: Invariants
) -> list[rows.Conversation]:
    """One result a conversation of which several turns were judged as cases of their own, by id.

    Judged over all turns together: the invariants of the workflow (without what a case lays over them), no duplicate write, and context drift. The first
    trials of all turns are one conversation, and so are the second ones: what is violated in one of them is violated. Of turns that bear the same number nobody
    knows which came first: violated is what is so in every order of them, and where the order decides the conversation is DIVERGED.
    """
    by_id: dict[str, list[tuple[CaseGrader, Sequence[ModeRun], rows.Result]]] = defaultdict(list)
    for one in judged:
        name = one[0].loaded.envelope.conversation_id
        if name is not None and one[1]:
            by_id[name].append(one)
    return [_conversation(name, by_id[name], invariants) for name in sorted(by_id) if len(by_id[name]) >= _MANY]


def _conversation(
    name: str, held: Sequence[tuple[CaseGrader, Sequence[ModeRun], rows.Result]], invariants: Invariants
) -> rows.Conversation:
    orders = list(islice(_orders(held), _MOST_ORDERS + 1))
    ordered = orders[0]
    judged = [_together(order, invariants) for order in orders[:_MOST_ORDERS]]
    violated = {
        key: found for key, found in judged[0].violated.items() if all(key in other.violated for other in judged)
    }
    errors = [error for one in judged for error in one.errors]
    sometimes = {key for one in judged for key in one.violated} - violated.keys()
    tied = sorted({one[0].loaded.case.id for one in held if _ties(one, held)})
    unordered = tied if sometimes or len(orders) > _MOST_ORDERS else []
    results = [
        rows.TurnResult(turn=at, case=result.case.id, outcome=result.outcome, violated=[one.assertion_id for one in result.violations])
        for at, (_, _, result) in enumerate(ordered)
    ]  # fmt: skip
    own = [Outcome.FAILED] * bool(violated) + [Outcome.ERROR] * bool(errors) + [Outcome.DIVERGED] * bool(unordered)
    outcome = min([*own, *(result.outcome for result in results)], key=WORST.index)
    return rows.Conversation(
        id=name, outcome=outcome, turns=results, violations=[*violated.values()], error=errors[0] if errors else None, unordered=unordered
    )  # fmt: skip


class _Whole(NamedTuple):
    violated: dict[str, rows.Violation]
    errors: list[str]


def _orders(held: Sequence[_Turn]) -> Iterator[list[_Turn]]:
    """Every order in which the turns may have come: several where records bear the same number. The first one is by the ids of the cases."""
    by_number: dict[int, list[_Turn]] = defaultdict(list)
    for one in sorted(held, key=lambda one: one[0].loaded.case.id):
        by_number[one[0].loaded.envelope.turn].append(one)
    groups = [by_number[number] for number in sorted(by_number)]
    return ([one for group in order for one in group] for order in product(*map(permutations, groups)))


def _ties(one: _Turn, held: Sequence[_Turn]) -> bool:
    return sum(one[0].loaded.envelope.turn == other[0].loaded.envelope.turn for other in held) > 1


def _together(ordered: Sequence[_Turn], invariants: Invariants) -> _Whole:
    """What is violated over the turns in one order of them."""
    cases = {at: grader.loaded.case.id for at, (grader, _, _) in enumerate(ordered)}
    violated: dict[str, rows.Violation] = {}
    errors: list[str] = []
    for parts in _rounds([(grader, modes) for grader, modes, _ in ordered]):
        whole, where = _joined(parts, cases, ordered[0][0].policy)
        found = graders.together(Context(run=whole, invariants=invariants))
        told = [_violation(one, where) for one in found if one.truth is Truth.VIOLATED]
        if invariants.file.checks.context_drift is not False:
            told += _drifted(parts, cases, whole.policy)
        violated = {one.assertion_id: one for one in told} | violated
        errors += [f"{one.id}: {one.error}" for one in found if one.error is not None]
    return _Whole(violated, errors)


def _rounds(turns: Sequence[tuple[CaseGrader, Sequence[ModeRun]]]) -> Iterator[list[Run]]:
    """The trials of all turns, one of each at a time, over all judging modes; a turn with fewer of them takes its last one again."""
    played = [[_run(grader, trial.transcript) for mode in modes for trial in mode.trials] for grader, modes in turns]
    for at in range(max(map(len, played))):
        yield [trials[min(at, len(trials) - 1)] for trials in played]


def _run(grader: CaseGrader, transcript: Transcript) -> Run:
    given = grader.loaded.envelope.input
    return replayed_run(transcript, grader.policy, given=[given.user, given.goal])


def _drifted(parts: Sequence[Run], cases: Mapping[int, str], policy: ToolsPolicy) -> Iterator[rows.Violation]:
    """The first fact that a later turn lost, with the case and the place where it shows."""
    spoken = [turn for part in parts for turn in turns(part)]
    for step, path in islice(drifts(spoken, policy), 1):
        at = next(number for number, part in enumerate(parts) if any(step is own for own in part.steps))
        yield rows.Violation(
            tier="trajectory", assertion_id="context_drift", version=1, message="a fact that was given in one turn may not be lost in a later one",
            detail=f"{step.crossing.name}.{path} at {cases[at]} {step.crossing.place}",
        )  # fmt: skip


def _violation(judgement: Judgement, where: Mapping[str, str]) -> rows.Violation:
    """A violation of the whole; its place is that of a turn, so it stands in words."""
    detail = f"{judgement.detail}; " if judgement.detail else ""
    return rows.Violation(
        tier=judgement.tier.value, assertion_id=judgement.id, version=judgement.version, message=judgement.message,
        detail=f"{detail}at {where.get(judgement.place or '', 'the end')}", boundary=judgement.boundary, boundary_state=judgement.boundary_state,
    )  # fmt: skip


def _joined(parts: Sequence[Run], cases: Mapping[int, str], policy: ToolsPolicy) -> tuple[Run, dict[str, str]]:
    """The turns as one run, its steps numbered on; and for each place in it the case and the place it had there."""
    steps: list[Step] = []
    where: dict[str, str] = {}
    offset = 0
    for at, part in enumerate(parts):
        moved = [_moved(step, offset, at) for step in part.steps]
        for own, step in zip(part.steps, moved, strict=True):
            where[step.crossing.place] = f"{cases[at]} {own.crossing.place}"
        steps += moved
        offset = max((step.crossing.seq for step in moved), default=offset)
    ended = all(part.ended for part in parts)
    last = parts[-1]
    return Run(steps=tuple(steps), policy=policy, output=last.output, ended=ended, replayed=True), where


def _moved(step: Step, offset: int, at: int) -> Step:
    """A step of one of several runs, as a step of all of them: what is in one of them stands before what is in the next."""
    crossing = step.crossing
    group = None if crossing.group is None else crossing.group + offset
    return replace(
        step,
        turn=step.turn + offset,
        way=(Part(at + 1, -at - 1), *(part.moved(offset) for part in step.way)),
        crossing=msgspec.structs.replace(
            crossing,
            seq=crossing.seq + offset,
            group=group,
            parent=renumbered(crossing.parent, lambda seq: seq + offset),
        ),
    )
