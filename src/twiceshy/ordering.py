"""The order in which crossings are judged and counted, in which no thread has a say: by turn, then (scope, key) within it (semantics.md §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.envelope import Crossing, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Rank = tuple[int, bool, str, str, int]


class Order:
    """Where each step of one run stands. A step nobody asked for is a turn of its own, and so is a model's, which comes before the calls that it asks for.

    What an agent does that was handed to stands right after the handoff, however it was mixed with what others did meanwhile.
    """

    def __init__(self, crossings: Iterable[Crossing]) -> None:
        self._steps: dict[int, Crossing] = {}
        self._handoffs: dict[str, Crossing] = {}
        for crossing in crossings:
            if crossing.sub:
                continue
            self._steps[crossing.seq] = crossing
            if crossing.kind is Kind.HANDOFF and crossing.at is not None:
                self._handoffs[crossing.at] = crossing

    def place(self, crossing: Crossing, key: str | None = None) -> tuple[Rank, ...]:
        """Where the step of a crossing stands, as what it is compared by. key: of that step, in place of the one it holds."""
        step = self._steps.get(crossing.seq, crossing)
        handoff = self._handoffs.get(step.scope)
        before = () if handoff is None or handoff is step else self.place(handoff)
        return (*before, _rank(step, step.key if key is None else key))

    def turns(self, crossings: Iterable[Crossing]) -> dict[int, int]:
        """The turn of each step: the step number of the output that asked for it, or its own. Where agents were handed to, turns are numbered anew in order."""
        found = {crossing.seq: self.place(crossing, "") for crossing in crossings}
        if not self._handoffs:
            return {seq: place[-1][0] for seq, place in found.items()}
        begun = {seq: (*place[:-1], place[-1][:1]) for seq, place in found.items()}
        numbers = {turn: number for number, turn in enumerate(sorted(set(begun.values())), start=1)}
        return {seq: numbers[turn] for seq, turn in begun.items()}


def within(crossing: Crossing) -> int:
    """Where a crossing stands in its step: a hook or a guard before it, the step itself, what came after it."""
    return 1 if crossing.sub == 0 else 0 if (crossing.at or "").startswith("before:") else 2


def step_of(place: str) -> int:
    """The number of the step that a place (`#4`, `#4.1`) stands in."""
    return int(place.removeprefix("#").partition(".")[0])


def renumbered(place: str | None, number: Callable[[int], int]) -> str | None:
    """The place with its step's number put as `number` says."""
    if place is None:
        return None
    _, dot, sub = place.partition(".")
    return f"#{number(step_of(place))}{dot}{sub}"


def _rank(step: Crossing, key: str) -> Rank:
    asked = step.group is not None and step.kind is not Kind.MODEL
    turn = step.group if asked and step.group is not None else step.seq
    return turn, step.kind is not Kind.MODEL, step.scope if asked else "", key if asked else "", step.seq
