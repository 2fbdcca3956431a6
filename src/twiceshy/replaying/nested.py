"""What happened inside a passage when it was recorded: where the passage is answered from the record, its body does not run, and this comes with the answer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from twiceshy.envelope import CODE_KINDS, Crossing, Effect, Kind
from twiceshy.history import Attempts, effective
from twiceshy.matching import BEGINNING, CALLS
from twiceshy.ordering import renumbered, step_of, sub_of
from twiceshy.outcome import AnsweredBy, BoundaryState
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from twiceshy.boundary import Call
    from twiceshy.history import History
    from twiceshy.matching import Matcher
    from twiceshy.replaying.course import Course
    from twiceshy.worlds.siding import WorldSide

_PEOPLE = frozenset({Kind.USER, Kind.HUMAN})


class Nested:
    """Tells what lay inside recorded passages again, so that a record whose tools, models or people call other boundaries replays as itself."""

    def __init__(
        self, course: Course, crossings: Sequence[Crossing], matcher: Matcher, history: History, world: WorldSide
    ) -> None:
        self._course = course
        self._world = world
        self._matcher = matcher
        self._history = history
        self.attempts = Attempts()
        """Of the calls that are told here and of those that are made: they go on from each other."""
        self._listening: list[Callable[[Crossing], object]] = []
        self._steps: dict[str, list[Crossing]] = defaultdict(list)
        self._subs: dict[int, list[Crossing]] = defaultdict(list)
        for crossing in crossings:
            if crossing.sub:
                self._subs[crossing.seq].append(crossing)
            elif crossing.parent is not None:
                self._steps[crossing.parent].append(crossing)
        for crossing in crossings if self._steps else ():
            if crossing.place in self._steps and not crossing.sub and self.once(crossing.place):
                matcher.happened_once(crossing.seq)

    def listen(self, *listening: Callable[[Crossing], object]) -> None:
        """Let others hear of every recorded crossing that came with an answer: it answers nobody else."""
        self._listening += listening

    def retell(self, call: Call, recorded: Crossing) -> None:
        """Write down everything that lay inside a recorded passage, numbered anew, and let its writes take effect. A call without numbers has it told by its caller."""
        if recorded.seq not in self._subs and recorded.place not in self._steps:
            return
        moved = _Moved(call, recorded, {recorded.seq: call.seq}, {recorded.place: call.place})
        for within in self._within(recorded.place):
            if within.kind in CODE_KINDS and call.numbers is not None:
                moved.places[within.place] = f"#{call.seq}.{call.numbers.sub(call.seq)}"
                self._write(within, moved)
            self._pass(within)
        inside = sorted(self._inside(recorded.place), key=lambda crossing: crossing.seq)
        if call.numbers is None or not inside:
            return
        for crossing in inside:
            moved.numbers[crossing.seq] = call.numbers.step()
        for crossing in inside:
            self._tell(crossing, moved)

    def once(self, place: str) -> bool:
        """Whether the passage at a place of the record cannot be told twice: what it wrote, or what a person said in it, happened once."""
        inside = self._inside(place)
        return any(crossing.kind in _PEOPLE or effective(crossing, self._course.policy) for crossing in inside)

    def _within(self, place: str) -> Iterator[Crossing]:
        """Draws, and code that was called by name, in the code of the passage at a place, and in the code of those."""
        for sub in self._subs.get(step_of(place), ()):
            if sub.parent == place:
                yield sub
                yield from self._within(sub.place)

    def _inside(self, place: str) -> Iterator[Crossing]:
        """The steps in the code of the passage at a place, however deep."""
        for around in (place, *(sub.place for sub in self._within(place))):
            for crossing in self._steps.get(around, ()):
                yield crossing
                for within in (crossing, *self._subs.get(crossing.seq, ())):
                    if within is crossing or within.parent is None or step_of(within.parent) != crossing.seq:
                        yield from self._inside(within.place)

    def _tell(self, recorded: Crossing, moved: _Moved) -> None:
        for crossing in (recorded, *self._subs.get(recorded.seq, ())):
            self._write(crossing, moved)
            self._pass(crossing)
        self._take_effect(recorded, moved.anew(recorded))

    def _write(self, crossing: Crossing, moved: _Moved) -> None:
        write = crossing.kind in CALLS and self._course.policy.effect_of(crossing) is Effect.WRITE
        self._course.journal.ahead(
            Played(
                crossing=moved.anew(crossing), boundary=BoundaryState.FROZEN, answered_by=AnsweredBy.RECORDED, matched=crossing.place,
                exercised=False, unsettled=self._world.passed(crossing),
                idempotency_key=self._course.policy.idempotency_key(crossing.name, crossing.asked) if write else None,
            )
        )  # fmt: skip

    def _pass(self, recorded: Crossing) -> None:
        for heard in self._listening:
            heard(recorded)

    def _take_effect(self, recorded: Crossing, told: Crossing) -> None:
        held = self._matcher.passed(recorded.seq)
        if recorded.kind in BEGINNING:
            self._history.begin(told.scope, told.group)
        if held is not None:
            self.attempts.answered(msgspec.structs.replace(told, key=held.key))
        if effective(recorded, self._course.policy):
            self._history.enter(told.scope, recorded.name, held.key if held else "")


class _Moved(NamedTuple):
    """Where a recorded passage is told again: in the place of a call, whose scope and turn may be others.

    numbers: of the steps inside it, as they were and are. places: of the passage itself, and of the code that was called in it.
    """

    call: Call
    recorded: Crossing
    numbers: dict[int, int]
    places: dict[str, str]

    def anew(self, crossing: Crossing) -> Crossing:
        """The crossing as it stands in this run."""
        at = crossing.at if crossing.kind is not Kind.HANDOFF or crossing.at is None else self._scope(crossing.at)
        place = self.places.get(crossing.place)
        parent = self.places.get(crossing.parent or "") or renumbered(crossing.parent, self._number)
        return msgspec.structs.replace(
            crossing, seq=self.numbers[crossing.seq], sub=crossing.sub if place is None else sub_of(place), parent=parent,
            group=self._group(crossing.group), scope=self._scope(crossing.scope), at=at, start_ns=None, end_ns=None,
        )  # fmt: skip

    def _number(self, seq: int) -> int:
        return self.numbers.get(seq, seq)

    def _group(self, group: int | None) -> int | None:
        if group is None or group == self.recorded.group:
            return None if group is None else self.call.group
        return self._number(group)

    def _scope(self, scope: str) -> str:
        return self.call.scope + scope.removeprefix(self.recorded.scope)
