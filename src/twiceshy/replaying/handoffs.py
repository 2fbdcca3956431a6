"""Handoffs in a replay: the agent that is handed to runs live in the scope of the recorded one, unless the handoff is named in `--freeze`."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Answer
from twiceshy.envelope import Kind
from twiceshy.history import Scopes
from twiceshy.matching import fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.raising import raised_again
from twiceshy.replaying.course import crossing_of
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from twiceshy.boundary import Call, Closing
    from twiceshy.envelope import Crossing, Envelope
    from twiceshy.history import History
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested
    from twiceshy.worlds.siding import WorldSide


class Handoffs:
    """Answers the handoffs of one replay."""

    def __init__(self, course: Course, envelope: Envelope, history: History, nested: Nested, world: WorldSide) -> None:
        self._course = course
        self._history = history
        self._nested = nested
        self._world = world
        self._open: Counter[str] = Counter()
        nested.listen(self.passed)
        self._scopes = Scopes()
        self._waiting: dict[tuple[str, str], list[tuple[str, Crossing]]] = defaultdict(list)
        for crossing in envelope.crossings:
            if crossing.kind is Kind.HANDOFF:
                key = "" if crossing.seen is UNSET else course.policy.key(crossing.name, crossing.seen)
                self._waiting[crossing.scope, crossing.name].append((key, crossing))

    def passed(self, crossing: Crossing) -> None:
        """Count a handoff as served: it was made inside a passage that is answered from the record."""
        waiting = self._waiting.get((crossing.scope, crossing.name), [])
        waiting[:] = [(key, held) for key, held in waiting if held.seq != crossing.seq]

    def answer(self, call: Call) -> Answer:
        """The scope of the recorded handoff with this input, else of the next one of this name; a new one past the record."""
        course = self._course
        self._history.begin(call.scope, call.group)
        if not self._open[
            call.scope
        ]:  # one that begins while another runs is beside it, and no order among them may show
            self._world.begin(call)
        asked = course.pseudonymised(call)
        key = course.policy.key(call.name, asked)
        frozen = course.cut.state(call, None) is BoundaryState.FROZEN
        recorded = self._taken(call, key, exactly=frozen)
        crossing = crossing_of(call, seen=asked, key=key, at=self._scope(call, key, recorded))
        if frozen:
            return self._served(call, crossing, recorded)
        course.journal.ahead(Played(crossing=crossing, boundary=BoundaryState.LIVE, answered_by=AnsweredBy.LIVE))
        self._open[call.scope] += 1

        def close(closing: Closing) -> None:
            self._open[call.scope] -= 1
            error = course.error(closing.error, call.name)
            course.journal.closed(crossing, closing, error)
            course.shown(recorded, closing, error)

        return Answer(live=True, scope=crossing.at, close=course.closing(call, close))

    def _taken(self, call: Call, key: str, *, exactly: bool) -> Crossing | None:
        waiting = self._waiting[call.scope, call.name]
        same = next((at for at, (held, _) in enumerate(waiting) if held == key), None)
        at = 0 if same is None and not exactly and waiting else same
        return None if at is None else waiting.pop(at)[1]

    def _scope(self, call: Call, key: str, recorded: Crossing | None) -> str:
        if recorded is not None and recorded.at is not None:
            return recorded.at
        return self._scopes.spawned(call.scope, call.name, f"new-{key.removeprefix('c1:')}")

    def _served(self, call: Call, crossing: Crossing, recorded: Crossing | None) -> Answer:
        course = self._course
        if recorded is None:
            course.diverge(crossing, Divergence.ARGS_MISMATCH, "a frozen handoff met an input that was not recorded")
        if recorded.raw is UNSET and recorded.error is None:
            course.diverge(crossing, Divergence.SIDE_UNKNOWN, f"recorded at {recorded.place}")
        course.pinned.passes(recorded)
        told = msgspec.structs.replace(crossing, raw=recorded.raw, error=recorded.error)
        course.journal.ahead(
            Played(
                crossing=told, boundary=BoundaryState.FROZEN, answered_by=AnsweredBy.RECORDED, matched=recorded.place,
                exercised=False,
            )
        )  # fmt: skip
        self._nested.retell(call, recorded)

        def close(closing: Closing) -> None:
            course.journal.closed(crossing, closing, course.error(closing.error, call.name))

        value = None if recorded.raw is UNSET else fresh(recorded.raw)
        error = raised_again(recorded.error) if recorded.error is not None else None
        return Answer(value=value, error=error, close=course.closing(call, close))
