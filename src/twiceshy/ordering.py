"""The order in which crossings are judged and counted, in which no thread has a say: by turn, then (scope, key) within it (semantics.md §7).

That order lists every step; what came before what is another question. Agents that run side by side have no order among them, and neither have the calls
that one turn asks for: where the ways to two steps part decides whether one of them stands before the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from twiceshy.envelope import Crossing, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    Rank = tuple[int, bool, str, str, int]


class Part(NamedTuple):
    """One part of the way to a step: the step itself, or one that it lies in.

    turn: the step number of the output that asked for it, or its own. asked: whether an output asked for it. last: the last step that lies in it, 0 for none.
    stray: it stands for an agent of which nobody knows who handed to it.
    """

    turn: int
    seq: int
    asked: bool = False
    last: int = 0
    stray: bool = False

    def moved(self, offset: int) -> Part:
        """The same part with its step numbers put on."""
        seq = self.seq - offset if self.stray else self.seq + offset
        return self._replace(turn=self.turn + offset, seq=seq, last=self.last + offset if self.last else 0)


Way = tuple[Part, ...]
"""How a step is reached: through the handoffs, and the passages, that it lies in, to itself."""


def parts(way: Way) -> Iterator[tuple[int, Part]]:
    """The parts of a way, each with the step number of the one that it lies in; 0 for the first."""
    return zip((0, *(part.seq for part in way)), way, strict=False)


def precedes(left: Way, right: Way) -> bool:
    """Whether one step stands before another whatever the threads did. What lies in a step comes after that step was asked for."""
    for ours, theirs in zip(left, right, strict=False):
        if ours.seq != theirs.seq:
            return parted(ours, theirs)
    return len(left) < len(right)


def parted(ours: Part, theirs: Part) -> bool:
    """The same of two ways that part here: by turn, unless one still went on when the turn of the other began, so that nobody waited for it."""
    if ours.turn == theirs.turn:
        return theirs.asked and not ours.asked
    return ours.turn < theirs.turn and ours.last < theirs.turn and not (ours.stray and theirs.stray)


def together(left: Way, right: Way) -> bool:
    """Whether one output asked for both steps, of one agent."""
    return left[-1].asked and right[-1].asked and left[-1].turn == right[-1].turn


def branched(ways: Iterable[Way]) -> bool:
    """Whether any of these ways part where neither comes first, other than calls that one turn asks for."""
    held: dict[int, set[Part]] = {}
    for way in ways:
        for above, part in parts(way):
            held.setdefault(above, set()).add(part)
    return any(_side_by_side(found) for found in held.values())


def _side_by_side(found: Iterable[Part]) -> bool:
    reached = strays = 0
    for part in sorted(found, key=lambda part: (part.turn, part.asked, -part.last)):
        strays += part.stray
        if part.turn <= reached or strays > 1:
            return True
        reached = max(reached, part.last)
    return False


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
        self._strays = self._unsent()
        self._last = self._reached()
        self._ways: dict[int, Way] = {}

    def way(self, crossing: Crossing) -> Way:
        """The way to the step of a crossing."""
        step = self._steps.get(crossing.seq, crossing)
        if step.seq not in self._ways:
            self._ways[step.seq] = (*self._above(step), self._part(step))
        return self._ways[step.seq]

    def _above(self, step: Crossing) -> Way:
        """The way to what a step lies in. A call in a tool's body stands in the turn that asked for the tool, and so beside it."""
        held = self._held_in(step)
        if held is not None:
            return self.way(held)
        stray = self._strays.get(_branch(step.scope, self._strays))
        if stray is None:
            return ()
        home = self._handoffs.get(_branch(step.scope, self._handoffs))
        above = () if home is None or home.seq >= step.seq else self.way(home)
        return (*above, stray)

    def _part(self, step: Crossing) -> Part:
        asked = _asked(step)
        return Part(
            step.group if asked and step.group is not None else step.seq, step.seq, asked, self._last.get(step.seq, 0)
        )

    def _held_in(self, step: Crossing) -> Crossing | None:
        """The handoff that a step was made in, or the passage in whose code it is a turn of its own."""
        around = self._around(step)
        if around is not None and (around.kind is Kind.HANDOFF or not _asked(step)):
            return around
        handoff = self._handoffs.get(step.scope)
        return handoff if handoff is not None and handoff.seq < step.seq else None

    def _around(self, step: Crossing) -> Crossing | None:
        """The step in whose code a step happened. A record may say anything: what it lies in began before it."""
        seq = 0 if step.parent is None else step_of(step.parent)
        return self._steps.get(seq) if seq < step.seq else None

    def _unsent(self) -> dict[str, Part]:
        """A part for each agent of which nobody knows who handed to it: it begins with its first step, and ends with its last."""
        ends: dict[str, list[int]] = {}
        for seq, step in self._steps.items():
            if step.scope and step.scope not in self._handoffs and self._around(step) is None:
                ends.setdefault(step.scope, []).append(seq)
        return {scope: Part(min(seqs), -min(seqs), last=max(seqs), stray=True) for scope, seqs in ends.items()}

    def _reached(self) -> dict[int, int]:
        """The last step that lies in each step, at any depth; 0 for none."""
        last = dict.fromkeys(self._steps, 0)
        for seq in sorted(self._steps, reverse=True):
            step = self._steps[seq]
            for held in (self._held_in(step), self._around(step)):
                if held is not None:
                    last[held.seq] = max(last[held.seq], seq, last[seq])
        return last

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


def sub_of(place: str) -> int:
    """The number of a place within its step, 0 for the step itself."""
    return int(place.partition(".")[2] or 0)


def renumbered(place: str | None, number: Callable[[int], int]) -> str | None:
    """The place with its step's number put as `number` says."""
    if place is None:
        return None
    _, dot, sub = place.partition(".")
    return f"#{number(step_of(place))}{dot}{sub}"


def _asked(step: Crossing) -> bool:
    """Whether an output asked for a step; a model's own is a turn of its own."""
    return step.group is not None and step.kind is not Kind.MODEL


def _branch(scope: str, known: Collection[str]) -> str:
    """The nearest of these agents that an agent is, or works for."""
    while scope and scope not in known:
        scope = scope.rpartition("/")[0]
    return scope


def _rank(step: Crossing, key: str) -> Rank:
    asked = _asked(step)
    turn = step.group if asked and step.group is not None else step.seq
    return turn, step.kind is not Kind.MODEL, step.scope if asked else "", key if asked else "", step.seq
