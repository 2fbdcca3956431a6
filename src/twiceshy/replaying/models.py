"""Models in a replay: frozen outputs served by request, a live model that must be told the date (semantics.md §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Answer
from twiceshy.frozenmodel import NoOutput, as_shown
from twiceshy.identity import digest
from twiceshy.matching import fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.raising import raised_again
from twiceshy.replaying.course import crossing_of
from twiceshy.streaming import split
from twiceshy.transcript import Played

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.boundary import Call, Closing
    from twiceshy.envelope import Crossing
    from twiceshy.frozenmodel import FrozenModels
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested


class Models:
    """Answers the model requests of one replay."""

    def __init__(self, course: Course, models: FrozenModels, nested: Nested) -> None:
        self._course = course
        self._models = models
        self._nested = nested
        nested.listen(models.passed)

    def answer(self, call: Call) -> Answer:
        """The answer to one request, written ahead."""
        crossing = crossing_of(call, key=digest(call.seen))
        if self._course.cut.state(call, None) is BoundaryState.LIVE:
            return self._live(call, crossing)
        found = self._models.serve(call.scope, call.name, call.seen)
        if isinstance(found, NoOutput):
            self._course.diverge(crossing, found.kind, found.detail)
        recorded = found.crossing
        if found.again and self._nested.once(recorded.place):
            detail = f"what lay inside the output recorded at {recorded.place} happened once"
            self._course.diverge(crossing, Divergence.MODEL_EXHAUSTED, detail)
        if recorded.raw is UNSET and recorded.error is None and not call.stream:
            detail = f"the stream recorded at {recorded.place} was left early"
            self._course.diverge(crossing, Divergence.SIDE_UNKNOWN, detail)
        self._course.pinned.passes(recorded)
        served = crossing if call.stream else msgspec.structs.replace(crossing, raw=recorded.raw)
        self._course.journal.ahead(
            Played(
                crossing=served, boundary=BoundaryState.FROZEN, matched=recorded.place,
                answered_by=AnsweredBy.REPEATED if found.again else AnsweredBy.RECORDED,
                stale=self._course.stale, drift=found.drift, exercised=False,
            )
        )  # fmt: skip
        if not found.again:
            self._nested.retell(call, recorded)
        return self._streamed(call, crossing, recorded) if call.stream else self._whole(call, crossing, recorded)

    def _whole(self, call: Call, crossing: Crossing, recorded: Crossing) -> Answer:
        error = raised_again(recorded.error) if recorded.error else None
        value = None if recorded.raw is UNSET else fresh(recorded.raw)

        def close(closing: Closing) -> None:
            self._course.journal.closed(crossing, closing, self._course.error(closing.error, call.name))

        return Answer(value=value, error=error, close=self._course.closing(call, close))

    def _streamed(self, call: Call, crossing: Crossing, recorded: Crossing) -> Answer:
        """Chunks, each written ahead as it is taken. Leaving early shows the agent less than the record did."""
        course = self._course

        def close(closing: Closing) -> None:
            error = course.error(closing.error, call.name)
            if closing.raw is not UNSET and recorded.raw is not UNSET:  # all of it was taken, however it was cut
                closing = msgspec.structs.replace(closing, raw=recorded.raw, shown=recorded.raw)
            course.journal.closed(crossing, closing, error)
            course.shown(as_shown(recorded), closing, error)

        def left() -> NoReturn:
            with course.turn:
                course.diverge(
                    crossing, Divergence.MODEL_EXHAUSTED, f"the stream recorded at {recorded.place} was left here"
                )

        return Answer(
            value=_chunks(recorded), part=course.telling(call, lambda chunk: course.journal.part(crossing, chunk)),
            close=course.closing(call, close), left=left if recorded.raw is UNSET and recorded.error is None else None,
        )  # fmt: skip

    def _live(self, call: Call, crossing: Crossing) -> Answer:
        """The candidate's own model runs. Its output is shown like a tool's: where it is not the recorded one, the frozen ones after it are stale."""
        course = self._course
        self._require_clock(call, crossing)
        course.journal.ahead(Played(crossing=crossing, boundary=BoundaryState.LIVE, answered_by=AnsweredBy.LIVE))
        recorded = self._models.recorded(call.scope, call.name, call.seen)

        def close(closing: Closing) -> None:
            error = course.error(closing.error, call.name)
            course.journal.closed(crossing, closing, error)
            course.shown(recorded, closing, error)

        part = course.telling(call, lambda chunk: course.journal.part(crossing, chunk))
        return Answer(live=True, close=course.closing(call, close), part=part)

    def _require_clock(self, call: Call, crossing: Crossing) -> None:
        """A live model must be told the recorded date wherever the recorded one was."""
        date = self._course.pinned.date_lacking(self._models.first_request(call.scope, call.name), call.seen)
        if date is not None:
            self._course.diverge(crossing, Divergence.CLOCK_NOT_IN_PROMPT, f"the recorded request says {date!r}")


def _chunks(recorded: Crossing) -> Iterator[Any]:
    """The recorded chunks, or one part a chunk; then the recorded error."""
    chunks = recorded.chunks
    yield from fresh(split(recorded.raw) if chunks is None and recorded.raw is not UNSET else chunks or [])
    if recorded.error is not None:
        raise raised_again(recorded.error)
