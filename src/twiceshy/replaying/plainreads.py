"""The commonest passage in one go: a read that the record answers in plain JSON, with nothing of the candidate's between the answer and the agent.

All that is done here `Calls` does too, at length: the same answer, the same line, the same effect on what comes after (semantics.md §4). What is not such a read is
left to it untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from twiceshy.boundary import Answer
from twiceshy.envelope import Crossing, Effect
from twiceshy.identity import encoded, plain
from twiceshy.matching import Hit
from twiceshy.outcome import AnsweredBy, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.boundary import Call, Declared
    from twiceshy.history import Attempts, History
    from twiceshy.matching import Matcher
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested

_decode = msgspec.json.Decoder().decode


class PlainReads:
    """Answers the plain reads of one replay. frozen_read: whether a call is a read that this replay freezes."""

    def __init__(
        self, course: Course, matcher: Matcher, history: History, nested: Nested, attempts: Attempts, frozen_read: Callable[[Call], bool]
    ) -> None:  # fmt: skip
        self._course = course
        self._matcher = matcher
        self._history = history
        self._nested = nested
        self._attempts = attempts
        self._frozen_read = frozen_read
        self._fits: dict[str, tuple[Declared | None, bool]] = {}
        terms, cut = course.terms, course.cut
        self._never = bool(terms.world or terms.pseudonymise or cut.after is not None or cut.mode is Mode.STUB)

    def answer(self, call: Call) -> Answer | None:
        """The answer, written ahead; None for any other call, of which nothing has been done yet."""
        if self._never or not call.settles or not self._fit(call):
            return None
        kind, name, scope = call.kind, call.name, call.scope
        try:
            text = encoded(call.seen)
            key = self._matcher.plain_key(kind, name, text, call.seen)
            proposed = text if call.proposed is call.seen else plain(call.proposed)
        except Exception:  # noqa: BLE001 - whatever the encoder, or `==` of a class of the candidate, cannot do
            return None
        if key is None or proposed is None:
            return None
        self._history.begin(scope, call.group)
        state = self._history.state(name, scope)
        hit = self._matcher.serve(name, key, state, kind)
        return self._served(call, hit, text, proposed, state) if isinstance(hit, Hit) else None

    def _served(self, call: Call, hit: Hit, text: bytes, proposed: bytes, state: str) -> Answer:
        recording, by = hit
        recorded, course = recording.crossing, self._course
        answer = recording.told()[0] or b"null"
        course.pinned.passes(recorded)
        course.journal.settled(
            Crossing(
                seq=call.seq, parent=call.parent, kind=call.kind, name=call.name, scope=call.scope, group=call.group, effect=Effect.READ,
                attempt=self._attempts.passed(call.scope, call.name, recording.key), proposed=msgspec.Raw(proposed), seen=msgspec.Raw(text),
                raw=msgspec.Raw(answer), key=recording.key, state=state,
            ), by, recorded.place,
        )  # fmt: skip
        if by is AnsweredBy.RECORDED:
            self._nested.retell(call, recorded)
        return Answer(value=_decode(answer), settled=True)

    def _fit(self, call: Call) -> bool:
        """Whether calls of this tool are such reads: frozen, and neither keyed nor held against a schema."""
        declared = call.declared
        found = self._fits.get(call.name)
        if found is None or found[0] is not declared:
            keyed = self._course.policy.of(call.name).idempotency_key is not None
            fits = not keyed and declared is not None and declared.result_schema is None and self._frozen_read(call)
            found = self._fits[call.name] = declared, fits
        return found[1]
