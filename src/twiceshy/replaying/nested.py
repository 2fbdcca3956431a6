"""What happened inside a passage when it was recorded: where the passage is answered from the record, its body does not run, and this comes with the answer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.history import effective
from twiceshy.matching import BEGINNING, CALLS
from twiceshy.outcome import AnsweredBy, BoundaryState
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from twiceshy.boundary import Call
    from twiceshy.frozenmodel import FrozenModels
    from twiceshy.history import History
    from twiceshy.matching import Matcher
    from twiceshy.replaying.course import Course


class Nested:
    """Tells what lay inside recorded passages again, so that a record whose tools call other boundaries replays as itself."""

    def __init__(
        self, course: Course, crossings: Iterable[Crossing], matcher: Matcher, models: FrozenModels, history: History
    ) -> None:
        self._course = course
        self._matcher = matcher
        self._models = models
        self._history = history
        self._steps: dict[str, list[Crossing]] = defaultdict(list)
        self._subs: dict[int, list[Crossing]] = defaultdict(list)
        for crossing in crossings:
            if crossing.sub:
                self._subs[crossing.seq].append(crossing)
            elif crossing.parent is not None:
                self._steps[crossing.parent].append(crossing)

    def retell(self, call: Call, recorded: Crossing) -> None:
        """Write down everything that lay inside a recorded passage, numbered anew, and let its writes take effect. A call that takes no steps has them told by its caller."""
        if call.step is None or recorded.place not in self._steps:
            return
        inside = sorted(self._inside(recorded.place), key=lambda crossing: crossing.seq)
        numbers = {recorded.seq: call.seq}
        for crossing in inside:
            numbers[crossing.seq] = call.step()
        for crossing in inside:
            self._tell(crossing, numbers)

    def writes(self, recorded: Crossing) -> list[str]:
        """The names of the effective writes that lay inside a recorded passage."""
        return [crossing.name for crossing in self._inside(recorded.place) if effective(crossing, self._course.policy)]

    def _inside(self, place: str) -> Iterator[Crossing]:
        for crossing in self._steps.get(place, ()):
            yield crossing
            for within in (crossing, *self._subs.get(crossing.seq, ())):
                yield from self._inside(within.place)

    def _tell(self, recorded: Crossing, numbers: dict[int, int]) -> None:
        for crossing in (recorded, *self._subs.get(recorded.seq, ())):
            anew = msgspec.structs.replace(
                crossing, seq=numbers[crossing.seq], parent=_renumbered(crossing.parent, numbers),
                group=numbers.get(crossing.group or 0, crossing.group), start_ns=None, end_ns=None,
            )  # fmt: skip
            write = (
                crossing.kind in CALLS and self._course.policy.effect(crossing.name, crossing.effect) is Effect.WRITE
            )
            self._course.journal.ahead(
                Played(
                    crossing=anew, boundary=BoundaryState.FROZEN, answered_by=AnsweredBy.RECORDED, matched=crossing.place,
                    exercised=False,
                    idempotency_key=self._course.policy.idempotency_key(crossing.name, crossing.asked) if write else None,
                )
            )  # fmt: skip
        self._take_effect(recorded)

    def _take_effect(self, recorded: Crossing) -> None:
        held = self._matcher.passed(recorded.seq)
        if recorded.kind is Kind.MODEL:
            self._models.passed(recorded)
        if recorded.kind in BEGINNING:
            self._history.begin(recorded.scope, recorded.group)
        if held is not None and effective(recorded, self._course.policy):
            self._history.enter(recorded.scope, recorded.name, held.key)


def _renumbered(place: str | None, numbers: dict[int, int]) -> str | None:
    if place is None:
        return None
    seq, dot, sub = place.removeprefix("#").partition(".")
    return f"#{numbers.get(int(seq), int(seq))}{dot}{sub}"
