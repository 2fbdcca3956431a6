"""What a run draws from around it, in a replay: the clock, chance and flags (semantics.md §4)."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.boundary import Answer
from twiceshy.envelope import Kind
from twiceshy.identity import canonical
from twiceshy.matching import fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.replaying.course import crossing_of
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from twiceshy.boundary import Call
    from twiceshy.envelope import Crossing, Envelope
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested


class Ambient:
    """Answers the draws of one replay."""

    def __init__(self, course: Course, envelope: Envelope, nested: Nested) -> None:
        self._course = course
        self._flags: dict[str, list[Any]] = {name: [value] for name, value in envelope.pins.flags.items()}
        self._left: dict[str, deque[Crossing]] = defaultdict(deque)
        for crossing in envelope.crossings:
            if crossing.kind is Kind.FLAG and crossing.raw is not UNSET:
                self._left[crossing.name].append(crossing)
        self._flags |= {name: [crossing.raw for crossing in read] for name, read in self._left.items()}
        nested.listen(self.passed)

    def passed(self, crossing: Crossing) -> None:
        """Count a read of a flag as served: it was made inside a passage that is answered from the record."""
        if crossing.kind is Kind.FLAG and crossing in self._left[crossing.name]:
            self._left[crossing.name].remove(crossing)

    def answer(self, call: Call) -> Answer:
        """The answer to one draw, written ahead."""
        value = self._drawn(call)
        crossing = crossing_of(call, raw=value)
        played = Played(
            crossing=crossing, boundary=BoundaryState.FROZEN, answered_by=AnsweredBy.RECORDED, exercised=False
        )
        self._course.journal.ahead(played)
        return Answer(value=value)

    def _drawn(self, call: Call) -> Any:
        pinned = self._course.pinned
        if call.kind is Kind.FLAG:
            return self._flag(call)
        if call.kind is Kind.RANDOM:
            return pinned.draw(call.scope, call.parent)
        if call.name == "sleep":
            pinned.sleep(float(str(call.seen)))
            return None
        return pinned.now()

    def _flag(self, call: Call) -> Any:
        """The recorded value, read after read, the last one again where all agree; else the case's overlay."""
        overlay = self._course.terms.flags
        values = self._flags.get(call.name)
        if values is None and call.name not in overlay:
            self._course.diverge(crossing_of(call), Divergence.FLAG_UNRECORDED)
        if values is None:
            return overlay[call.name]
        left = self._left[call.name]
        if not left and len({canonical(value) for value in values}) > 1:
            self._course.diverge(crossing_of(call), Divergence.EXHAUSTED, f"{len(values)} recorded reads differ")
        return fresh(left.popleft().raw if left else values[-1])
