"""Context drift: a fact that the user gave in one turn of a conversation and that is lost in a later one (semantics.md §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.facts import facts, facts_of, grounds
from twiceshy.identity import canonical
from twiceshy.invariants import Sort, Tier
from twiceshy.judgement import Judgement
from twiceshy.matching import CALLS
from twiceshy.paths import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context
    from twiceshy.policy import ToolsPolicy


class Turn(NamedTuple):
    """What the user said and what the run did until the user spoke again."""

    said: frozenset[str]
    steps: Sequence[Step]


def context_drift(context: Context) -> Judgement:
    """Violated at the first call whose argument lost a fact of the user's: in an earlier turn the same argument of the same tool held it."""
    blank = Judgement(
        id="context_drift", tier=Tier.TRAJECTORY, kind=Sort.MUST_NOT.value, effect="drift",
        message="a fact that was given in one turn may not be lost in a later one",
    )  # fmt: skip
    run = context.run
    for step, path in drifts(turns(run), run.policy):
        return blank.at(step, detail=f"{step.crossing.name}.{path}")
    return blank.kept(run)


def turns(run: Run) -> list[Turn]:
    """The turns of a run: the first begins with its input, each other one with what the user says next."""
    found = [Turn(facts_of(run.given), [])]
    for step in run.steps:
        if step.crossing.kind is Kind.USER:
            found.append(Turn(grounds(step), []))
        found[-1] = found[-1]._replace(steps=[*found[-1].steps, step])
    return found


def drifts(conversation: Sequence[Turn], policy: ToolsPolicy) -> Iterator[tuple[Step, str]]:
    """Every call that lost a fact, with the path of the argument.

    Lost: a call of an earlier turn held a fact of the user's there, and this one holds nothing, or a fact that nobody gave and nothing returned.
    """
    given: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    held: dict[tuple[str, str, str], int] = {}
    for number, turn in enumerate(conversation):
        given, known = given | turn.said, known | turn.said
        for step in turn.steps:
            if step.crossing.kind in CALLS and step.crossing.attempt == 1:
                yield from _lost(step, number, held, known, policy)
                _hold(step, number, held, given, policy)
            known |= grounds(step)


def _lost(
    step: Step, number: int, held: dict[tuple[str, str, str], int], known: frozenset[str], policy: ToolsPolicy
) -> Iterator[tuple[Step, str]]:
    asked = _arguments(step, policy)
    for (scope, name, path), before in held.items():
        if (scope, name) != (step.crossing.scope, step.crossing.name) or before >= number:
            continue
        stated = facts(asked.get(path))
        if path not in asked or (stated and not stated <= known):
            yield step, path


def _hold(
    step: Step, number: int, held: dict[tuple[str, str, str], int], given: frozenset[str], policy: ToolsPolicy
) -> None:
    for path, leaf in _arguments(step, policy).items():
        stated = facts(leaf)
        if stated and stated <= given:
            held[step.crossing.scope, step.crossing.name, path] = number


def _arguments(step: Step, policy: ToolsPolicy) -> dict[str, Any]:
    if step.args is UNSET:
        return {}
    asked = policy.identified(step.crossing.name, step.args)
    return {path: leaf for path, leaf in leaves(asked) if canonical(leaf) not in (b"null", b"{}", b"[]", b'""')}
