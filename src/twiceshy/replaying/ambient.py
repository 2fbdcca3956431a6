"""What a run draws from around it, in a replay: the clock, chance and flags (semantics.md §4)."""

from __future__ import annotations

from collections import Counter, defaultdict
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
    from twiceshy.envelope import Envelope
    from twiceshy.replaying.course import Course


class Ambient:
    """Answers the draws of one replay."""

    def __init__(self, course: Course, envelope: Envelope) -> None:
        self._course = course
        self._flags: dict[str, list[Any]] = {name: [value] for name, value in envelope.pins.flags.items()}
        read: dict[str, list[Any]] = defaultdict(list)
        for crossing in envelope.crossings:
            if crossing.kind is Kind.FLAG and crossing.raw is not UNSET:
                read[crossing.name].append(crossing.raw)
        self._flags |= read
        self._reads: Counter[str] = Counter()

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
        at = self._reads[call.name]
        self._reads[call.name] = at + 1
        if at >= len(values) and len({canonical(value) for value in values}) > 1:
            self._course.diverge(crossing_of(call), Divergence.EXHAUSTED, f"{len(values)} recorded reads differ")
        return fresh(values[min(at, len(values) - 1)])
