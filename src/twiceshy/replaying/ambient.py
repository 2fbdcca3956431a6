"""What a run draws from around it, in a replay: the clock and chance (semantics.md §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.boundary import Answer
from twiceshy.envelope import Kind
from twiceshy.outcome import AnsweredBy, BoundaryState
from twiceshy.replaying.course import crossing_of
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from twiceshy.boundary import Call
    from twiceshy.replaying.course import Course


class Ambient:
    """Answers the draws of one replay."""

    def __init__(self, course: Course) -> None:
        self._course = course

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
        if call.kind is Kind.RANDOM:
            return pinned.draw()
        if call.name == "sleep":
            pinned.sleep(float(str(call.seen)))
            return None
        return pinned.now()
