"""People in a replay: users whose recorded turns answer what they answered, and approvers whose answers are never made up (semantics.md §4)."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Answer
from twiceshy.envelope import Kind
from twiceshy.frozenmodel import as_shown
from twiceshy.identity import equal
from twiceshy.matching import Hit, fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.raising import raised_again
from twiceshy.replaying.course import crossing_of
from twiceshy.transcript import Near, Played

if TYPE_CHECKING:
    from twiceshy.boundary import Call, Closing
    from twiceshy.envelope import Crossing, Envelope
    from twiceshy.history import History
    from twiceshy.matching import Matcher
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested


class People:
    """Answers the turns of users and of approvers in one replay."""

    def __init__(self, course: Course, envelope: Envelope, matcher: Matcher, history: History, nested: Nested) -> None:
        self._course = course
        self._nested = nested
        nested.listen(self.passed)
        self._matcher = matcher
        self._history = history
        self._grants = list(course.terms.grants)
        self._turns: dict[tuple[str, str], deque[Crossing]] = defaultdict(deque)
        for crossing in envelope.crossings:
            if crossing.kind is Kind.USER and (crossing.raw is not UNSET or crossing.error is not None):
                self._turns[crossing.scope, crossing.name].append(crossing)

    def passed(self, crossing: Crossing) -> None:
        """Count a user's turn as served: it was taken inside a passage that is answered from the record."""
        turns = self._turns.get((crossing.scope, crossing.name))
        if turns is not None and crossing in turns:
            turns.remove(crossing)

    def user(self, call: Call) -> Answer:
        """The next recorded turn, provided that it answers what the agent says now."""
        course = self._course
        crossing = crossing_of(call, seen=course.pseudonymised(call))
        turns = self._turns.get((call.scope, call.name))
        if not turns:
            known = turns is not None
            kind = Divergence.EXHAUSTED if known else Divergence.UNRECORDED_CALL
            course.diverge(crossing, kind, "the user has no further recorded turn" if known else "")
        recorded = turns[0]
        if not self._agrees(recorded.seen, crossing.seen):
            near = Near(place=recorded.place, reason="other arguments")
            course.diverge(crossing, Divergence.STALE_USER_TURN, f"the turn recorded at {recorded.place}", [near])
        turns.popleft()
        return self._said(call, crossing, recorded, AnsweredBy.RECORDED)

    def human(self, call: Call) -> Answer:
        """The recorded answer to this very request in this state of the world, once; else one the case declares. A request is not a grant."""
        course = self._course
        self._history.begin(call.scope, call.group)
        asked = course.pseudonymised(call)
        key, state = course.policy.key(call.name, asked), self._history.state(call.name, call.scope)
        crossing = crossing_of(call, seen=asked, key=key, state=state)
        found = self._matcher.serve(call.name, key, state, call.kind, again=False)
        if isinstance(found, Hit):
            return self._said(call, crossing, found.recording.crossing, AnsweredBy.RECORDED)
        granted = next((grant for grant in self._grants if grant.fits(call.name, asked)), None)
        if granted is None:
            near = self._matcher.nearest(call.name, key, state, asked, call.kind)
            course.diverge(crossing, found.kind, "nobody answered this request", near)
        self._grants.remove(granted)
        return self._said(call, crossing, msgspec.structs.replace(crossing, raw=granted.answer), AnsweredBy.DECLARED)

    def _agrees(self, recorded: Any, said: Any) -> bool:
        if self._course.terms.agrees is not None:
            return self._course.terms.agrees(recorded, said)
        return recorded is not UNSET and equal(recorded, said)

    def _said(self, call: Call, crossing: Crossing, recorded: Crossing, by: AnsweredBy) -> Answer:
        course = self._course
        course.pinned.passes(recorded)
        error = raised_again(recorded.error) if recorded.error is not None else None
        value = None if recorded.raw is UNSET else fresh(recorded.raw)
        told = msgspec.structs.replace(crossing, raw=recorded.raw, error=recorded.error)
        place = recorded.place if by is AnsweredBy.RECORDED else None
        course.journal.ahead(
            Played(crossing=told, boundary=BoundaryState.FROZEN, answered_by=by, matched=place, exercised=False)
        )
        if by is AnsweredBy.RECORDED:
            self._nested.retell(call, recorded)

        def close(closing: Closing) -> None:
            raised = course.error(closing.error, call.name)
            course.journal.closed(crossing, closing, raised)
            course.shown(as_shown(recorded) if by is AnsweredBy.RECORDED else None, closing, raised)

        return Answer(value=value, error=error, close=course.closing(call, close))
