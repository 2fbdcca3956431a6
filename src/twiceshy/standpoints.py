"""What a condition at one step of a run may look at (semantics.md §7), from every standpoint that the run leaves possible.

What agents do side by side, and what one turn asks for, has no order: which of two answers was the last one, and which writes had been made already, nobody
knows. A condition is therefore asked from each standpoint, and whoever asks says whether one of them is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.conditions import Unanswered
from twiceshy.evidence import Fate, Run, Step, before, beside, level
from twiceshy.identity import canonical
from twiceshy.worlds.viewing import known_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from twiceshy.conditions import Condition

_MOST = 64
"""So many standpoints are looked from; more is an error, since each is an evaluation of its own."""

_NOTHING = object()
"""What may stand in place of an answer: the call was not made yet."""


@dataclass(slots=True)
class Picks:
    """What is picked where the run leaves several answers open: as `given` says, then the first. taken: each pick so far, with how many there were."""

    given: Sequence[int] = ()
    taken: list[tuple[int, int]] = field(default_factory=list)
    known: dict[object, Any] = field(default_factory=dict)
    """What was answered: asked again from one standpoint, a question has one answer."""

    def one(self, question: object, options: Sequence[Any]) -> Any:
        """The option that is picked."""
        if len(options) == 1:
            return options[0]
        if question not in self.known:
            at = self.given[len(self.taken)] if len(self.taken) < len(self.given) else 0
            self.taken.append((at, len(options)))
            self.known[question] = options[at]
        return self.known[question]

    def next(self) -> list[int] | None:
        """What is picked next time, so that in the end every combination was; None after the last one."""
        left = [*self.taken]
        while left and left[-1][0] + 1 == left[-1][1]:
            left.pop()
        return [*(at for at, _ in left[:-1]), left[-1][0] + 1] if left else None

    @property
    def many(self) -> bool:
        """Whether there are more standpoints than are looked from."""
        return prod(options for _, options in self.taken) > _MOST


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a condition at one step may look at, from one standpoint; with no step, at the end of the run."""

    run: Run
    step: Step | None = None
    picks: Picks = field(default_factory=Picks)

    def value(self, name: str) -> Any:
        """The value of a name; UNSET where that side is unknown."""
        if name == "state":
            written = (write for write in self.run.writes() if self._made(write))
            return {"writes": [{"tool": write.crossing.name, "args": _known(write.args)} for write in written]}
        if name == "world":
            seeds = self.run.world
            changing = (step for step in self.run.steps if (step.changes or step.unsettled) and self._made(step))
            return UNSET if seeds is None else known_rows(seeds, changing)
        if name == "output":
            return self.run.output
        if self.step is None:
            return UNSET
        return self.step.args if name == "args" else self.step.crossing.proposed

    def result(self, tool: str, selector: Mapping[str, Any] | None) -> Any:
        """What the last matching call before this step returned. Raises Unanswered.

        A call of an agent that runs beside may be the last one as well, and may not have been made at all. Only where none of these matches, one of the same
        turn answers: what it returned is a fact all the same.
        """
        own, other = self._last(selector, tool, self._earlier(tool), self._alongside(tool))
        if not (own or other):
            (own,) = self._last(selector, tool, self._of_this_turn(tool))
        options = [*_distinct([*own, *other]), *([] if own else [_NOTHING])]
        returned = self.picks.one(("result", tool, repr(selector)), options)
        if self.picks.many:
            raise Unanswered(f"too many calls of {tool} have no order among them", missing=False)
        if returned is _NOTHING:
            raise Unanswered(f"no earlier call of {tool} that matches returned anything", missing=True)
        return returned

    def _earlier(self, tool: str) -> Iterator[Step]:
        """The answered calls that were made before this step, the last one first; at the end of the run all of them."""
        calls = self.run.calls_of.get(tool, ())
        if self.run.branched:
            return _answered(call for call in reversed(calls) if self._before(call))
        end = bisect_left(calls, True, key=lambda call: not self._before(call))
        return _answered(calls[at] for at in range(end - 1, -1, -1))

    def _alongside(self, tool: str) -> Iterator[Step]:
        """Those of agents that run beside this one, in the same order."""
        if self.step is None or not self.run.branched:
            return iter(())
        return _answered(call for call in reversed(self.run.calls_of.get(tool, ())) if self._beside(call))

    def _of_this_turn(self, tool: str) -> Iterator[Step]:
        """The other answered calls that the same output asked for."""
        step = self.step
        if step is None:
            return iter(())
        calls = self.run.calls_of.get(tool, ())
        if not self.run.branched:
            start = bisect_left(calls, True, key=lambda call: not before(call, step))
            end = bisect_left(calls, True, key=lambda call: before(step, call))
            calls = calls[start:end]
        return _answered(call for call in reversed(calls) if call is not step and level(call, step))

    def _last(self, selector: Mapping[str, Any] | None, tool: str, *groups: Iterable[Step]) -> list[list[Step]]:
        """Of each group of calls, the matching ones that none of the group comes after. Raises Unanswered."""
        try:
            return [
                self._ends(calls, selector or {})
                for calls in (groups if selector is not None else _all_one(groups, tool))
            ]
        except ValueError as broken:
            raise Unanswered(str(broken), missing=False) from None

    def _ends(self, calls: Iterable[Step], selector: Mapping[str, Any]) -> list[Step]:
        """Of calls, the last one first, the matching ones that no other comes after."""
        found: list[Step] = []
        for call in calls:
            if any(before(call, later) for later in found):
                if not self.run.branched:
                    return found
            elif call.has_args(selector):
                found.append(call)
        return found

    def _made(self, step: Step) -> bool:
        """Whether a step had been made: what one turn asks for sees what stood at its start, and what an agent beside did may have come first as well."""
        return self._before(step) or (self._beside(step) and self.picks.one("beside", (False, True)))

    def _before(self, step: Step) -> bool:
        return self.step is None or before(step, self.step)

    def _beside(self, step: Step) -> bool:
        return self.step is not None and self.run.branched and beside(step, self.step)


def standpoints(run: Run, step: Step | None = None) -> Iterator[StepFacts]:
    """What is seen from every standpoint. Ask the condition before the next one is taken: which there are shows in what it asks."""
    given: Sequence[int] | None = ()
    while given is not None:
        facts = StepFacts(run, step, Picks(given))
        yield facts
        given = facts.picks.next()


def possibly(condition: Condition, run: Run, step: Step) -> bool:
    """Whether a condition is true from some standpoint. Raises MissingField or ConditionError."""
    return any(condition.holds(facts) for facts in standpoints(run, step))


def _answered(calls: Iterator[Step]) -> Iterator[Step]:
    return (call for call in calls if call.returned is not UNSET and call.fate is Fate.HAPPENED)


def _all_one(groups: Iterable[Iterable[Step]], tool: str) -> list[list[Step]]:
    """The calls as they are. Raises Unanswered where they are not all the same one: without a selector nobody knows which is meant."""
    found = [list(calls) for calls in groups]
    if len({(call.crossing.scope, call.key) for calls in found for call in calls}) > 1:
        problem = f"{tool} was called more than once, so result({tool!r}) needs a selector: a map of argument paths"
        raise Unanswered(problem, missing=False)
    return found


def _distinct(calls: Iterable[Step]) -> list[Any]:
    """What these calls returned, each value once."""
    return list({canonical([call.returned]): call.returned for call in calls}.values())


def _known(value: Any) -> Any:
    return None if value is UNSET else value
