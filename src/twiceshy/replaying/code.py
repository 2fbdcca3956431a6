"""Candidate code in a replay: hooks, guards and routers run live, save those in a frozen prefix or named in `--freeze` (semantics.md §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Answer
from twiceshy.envelope import Kind
from twiceshy.frozencode import FrozenCode
from twiceshy.identity import equal, key
from twiceshy.matching import fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.raising import raised_again
from twiceshy.replaying.course import crossing_of
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.boundary import Call, Closing
    from twiceshy.envelope import Crossing, Envelope
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested


class CandidateCode:
    """Answers the passages of candidate code of one replay."""

    def __init__(self, course: Course, envelope: Envelope, nested: Nested) -> None:
        self._course = course
        self._nested = nested
        self._code = FrozenCode(envelope.crossings, by_input=bool(course.cut.freeze))
        nested.listen(self._code.passed)

    def answer(self, call: Call) -> Answer:
        """The answer to one passage, written ahead."""
        course = self._course
        crossing = crossing_of(call, key=key(call.name, call.seen))
        if course.cut.state(call, None) is BoundaryState.LIVE:
            course.journal.ahead(Played(crossing=crossing, boundary=BoundaryState.LIVE, answered_by=AnsweredBy.LIVE))
            return Answer(live=True, close=self._closer(call, crossing))
        recorded = self._frozen(call, crossing)
        unknown = recorded is not None and recorded.raw is UNSET and recorded.error is None
        if recorded is not None and unknown and not call.unused:
            course.diverge(crossing, Divergence.SIDE_UNKNOWN, f"recorded at {recorded.place}")
        value = _passed(call) if recorded is None or unknown else fresh(recorded.raw)
        error = raised_again(recorded.error) if recorded is not None and recorded.error else None
        course.journal.ahead(
            Played(
                crossing=msgspec.structs.replace(crossing, raw=value), boundary=BoundaryState.FROZEN,
                answered_by=AnsweredBy.RECORDED, exercised=False,
            )
        )  # fmt: skip
        if recorded is not None:
            self._nested.retell(call, recorded)
        return Answer(value=value, error=error, close=self._closer(call, crossing))

    def _frozen(self, call: Call, crossing: Crossing) -> Crossing | None:
        """The recorded passage of a frozen hook, guard or router. In a prefix, code that was not there when it was recorded lets everything pass."""
        if self._course.cut.in_prefix(call.seq):
            recorded = self._code.placed(call.seq, call.name, call.at)
            if recorded is not None and not call.unused and not self._met(call, recorded):
                self._course.diverge(crossing, Divergence.ARGS_MISMATCH, f"recorded at {recorded.place}")
            return recorded
        recorded = self._code.answering(call.name, call.at, crossing.key)
        if recorded is None:
            self._course.diverge(crossing, Divergence.ARGS_MISMATCH, "frozen code met an input that was not recorded")
        return recorded

    def _met(self, call: Call, recorded: Crossing) -> bool:
        """Whether code meets what it met in the record: what it made of that says nothing of another input. Arguments are compared as those of its tool are."""
        if recorded.seen is UNSET:
            return True
        side, _, tool = (call.at or "").partition(":")
        if side != "before":
            return equal(recorded.seen, call.seen)
        policy, pseudonymise = self._course.policy, self._course.terms.pseudonymise
        seen = call.seen if pseudonymise is None else pseudonymise(tool, call.seen)
        return policy.key(tool, recorded.seen) == policy.key(tool, seen)

    def _closer(self, call: Call, crossing: Crossing) -> Callable[[Closing], None]:
        def close(closing: Closing) -> None:
            self._course.journal.closed(crossing, closing, self._course.error(closing.error, call.name))

        return self._course.closing(call, close)


def _passed(call: Call) -> Any:
    return {"blocked": False, "reason": None} if call.kind is Kind.GUARD else call.seen
