"""Calls of tools in a replay: reads answered from the record, writes intercepted, misses written down (semantics.md §4-§5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy import writes
from twiceshy.answered import Answered
from twiceshy.boundary import Answer, Closing
from twiceshy.envelope import Crossing, Effect
from twiceshy.history import effective
from twiceshy.matching import Hit, fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.raising import raised_again
from twiceshy.replaying.plainreads import PlainReads
from twiceshy.simulators.served import SimulatedAnswers
from twiceshy.transcript import Played
from twiceshy.worlds.tables import WorldMiss

if TYPE_CHECKING:
    from twiceshy.boundary import Call
    from twiceshy.envelope import ErrorRecord, Kind
    from twiceshy.history import History
    from twiceshy.matching import Matcher, Miss, Recording
    from twiceshy.replaying.course import Course
    from twiceshy.replaying.nested import Nested
    from twiceshy.worlds.siding import WorldSide


_decode = msgspec.json.Decoder().decode


class Calls:
    """Answers the calls of one replay."""

    def __init__(self, course: Course, matcher: Matcher, history: History, nested: Nested, world: WorldSide) -> None:
        self._course = course
        self._terms = course.terms
        self._policy = course.policy
        self._matcher = matcher
        self._history = history
        self._nested = nested
        self._attempts = nested.attempts
        self._effects: dict[tuple[str, Effect | None], Effect] = {}
        self._boundaries: dict[tuple[Kind, str, Effect, bool], BoundaryState] = {}
        self._staged = course.cut.after is not None or course.cut.mode is Mode.STUB
        self._simulated = SimulatedAnswers(course.terms.simulated)
        self._world = world

        self._plain = PlainReads(course, matcher, history, nested, self._attempts, self._frozen_read)

    def answer(self, call: Call) -> Answer:
        """The answer to one call, written ahead."""
        return self._plain.answer(call) or self._answered(call)

    def _answered(self, call: Call) -> Answer:
        effect = self._effect(call)
        boundary = self._boundary(call, effect)
        self._history.begin(call.scope, call.group)
        self._world.begin(call)
        asked = self._course.pseudonymised(call)
        called, text = self._policy.keyed(call.name, asked, call.declared.schema if call.declared else None)
        crossing = Crossing(
            seq=call.seq, parent=call.parent, kind=call.kind, name=call.name, scope=call.scope, group=call.group, effect=effect, key=called,
            tightened=call.declared is not None and call.declared.tightened,
            attempt=self._attempts.next(call.scope, call.name, called), proposed=call.proposed, seen=asked,
            state=self._history.state(call.name, call.scope), blocked_by=call.blocked_by,
        )  # fmt: skip
        outcome = self._world.beside(crossing, effect, self._outcome(call, crossing, effect, boundary))
        if boundary is not BoundaryState.LIVE and outcome.error is None and outcome.by is not AnsweredBy.GUARD:
            crossing = msgspec.structs.replace(crossing, raw=outcome.value, error=outcome.returned)
        settled = call.settles and outcome.matched is not None and outcome.error is None and not self._staged
        self._write_ahead(crossing, boundary, outcome, _known(call, asked, text, outcome), settled=settled)
        if effect is Effect.WRITE:
            self._take_effect(crossing, outcome)
        if outcome.by is AnsweredBy.RECORDED and outcome.matched is not None:
            self._nested.retell(call, outcome.matched.crossing)
        if settled and outcome.matched is not None:
            return self._settled(crossing, outcome.value, outcome.matched)
        return self._answer(call, crossing, boundary, outcome)

    def unkeyed(self, call: Call) -> Divergence:
        """Which divergence a call is whose arguments have no key."""
        return Divergence.ARGS_MISMATCH if self._matcher.knows(call.name, call.kind) else Divergence.UNRECORDED_CALL

    def _effect(self, call: Call) -> Effect:
        """The effect in force. Where tools.yaml is silent, a candidate may not say less of a tool than the record does, nor that a new one is pure."""
        if call.declared is not None and call.declared.tightened:
            return Effect.WRITE
        found = self._effects.get((call.name, call.effect))
        if found is not None:
            return found
        effect = self._policy.effect(call.name, call.effect)
        if call.name not in self._policy.tools and effect is not Effect.WRITE:
            known = self._matcher.effects(call.name)
            loosened = Effect.WRITE in known or (effect is Effect.NONE and Effect.NONE not in known)
            effect = Effect.WRITE if loosened else effect
        self._effects[call.name, call.effect] = effect
        return effect

    def _frozen_read(self, call: Call) -> bool:
        effect = self._effect(call)
        return effect is Effect.READ and self._boundary(call, effect) is BoundaryState.FROZEN

    def _boundary(self, call: Call, effect: Effect) -> BoundaryState:
        """What is done at a boundary: the same each time, save where a prefix ends."""
        if self._staged:
            return self._course.cut.state(call, effect)
        named = (call.kind, call.name, effect, call.declared is None or call.declared.fn is None)
        state = self._boundaries.get(named)
        if state is None:
            state = self._boundaries[named] = self._course.cut.state(call, effect)
        return state

    def _outcome(self, call: Call, crossing: Crossing, effect: Effect, boundary: BoundaryState) -> Answered:
        if call.blocked_by is not None:
            return Answered(by=AnsweredBy.GUARD)
        if boundary is BoundaryState.LIVE:
            return Answered(by=AnsweredBy.LIVE)
        if self._world.leads(call, effect):
            return self._from_world(call, crossing, effect)
        serve = self._matcher.serve_pure(call.name, crossing.key, call.kind) if effect is Effect.NONE else None
        found = serve or self._matcher.serve(call.name, crossing.key, crossing.state, call.kind)
        if isinstance(found, Hit):
            return self._recorded(call, crossing, found)
        if self._world.may_take(call, effect):
            return self._from_world(call, crossing, effect)
        if effect is not Effect.WRITE or found.kind is Divergence.STATE_MISMATCH:
            return self._simulated.next(crossing) or self._miss(call, crossing, found)
        return self._unrecorded_write(call, crossing.seen)

    def _recorded(self, call: Call, crossing: Crossing, hit: Hit) -> Answered:
        recorded = hit.recording.crossing
        if _side_unknown(call, recorded, raised=hit.recording.raised is not None):
            self._course.diverge(crossing, Divergence.SIDE_UNKNOWN, f"recorded at {recorded.place}")
        self._course.pinned.passes(recorded)
        if hit.recording.raised is not None:
            return Answered(error=raised_again(hit.recording.raised), by=hit.by, matched=hit.recording)
        answer = hit.recording.answer
        self._validate(call, crossing, answer, recorded.error, f"the result recorded at {recorded.place}")
        text = hit.recording.told()[0]
        value = fresh(answer) if text is None else _decode(text)
        return Answered(value=value, by=hit.by, matched=hit.recording, returned=recorded.error)

    def _from_world(self, call: Call, crossing: Crossing, effect: Effect) -> Answered:
        broken = self._broken(call, crossing.seen) if effect is Effect.WRITE else None
        if broken:
            return Answered(error=writes.InvalidArguments(broken), by=AnsweredBy.VALIDATION)
        try:
            answered = self._world.answer(crossing)
        except WorldMiss as miss:
            simulated = self._simulated.next(crossing)
            if simulated is not None:
                return simulated
            if effect is Effect.WRITE:
                self._write_ahead(writes.unanswered(crossing), BoundaryState.INTERCEPTED, Answered())
            self._course.diverge(crossing, Divergence.WORLD_MISS, str(miss))
        if answered.error is None:
            self._validate(call, crossing, answered.value, answered.returned, "the world's result")
        return answered

    def _validate(self, call: Call, crossing: Crossing, answer: Any, error: ErrorRecord | None, where: str) -> None:
        """End the run where an answer violates the candidate's own declared schema: what its code makes of it says nothing."""
        schema = call.declared.result_schema if call.declared and error is None else None
        broken = writes.violation(schema, answer)
        if broken:
            self._course.diverge(crossing, Divergence.SCHEMA_MISMATCH, f"{broken} in {where}")

    def _broken(self, call: Call, seen: Any) -> str | None:
        """How a write's arguments violate the tool's schema."""
        schema = call.declared.schema if call.declared and call.declared.schema else self._policy.of(call.name).schema
        return writes.violation(schema, seen)

    def _unrecorded_write(self, call: Call, seen: Any) -> Answered:
        policy = self._policy.of(call.name)
        broken = self._broken(call, seen)
        if broken:
            return Answered(error=writes.InvalidArguments(broken), by=AnsweredBy.VALIDATION)
        result_schema = call.declared.result_schema if call.declared else None
        value, by = writes.answer(
            call.name, seen, declared=self._terms.declared, policy=policy, result_schema=result_schema
        )
        return Answered(value=value, by=by)

    def _take_effect(self, crossing: Crossing, outcome: Answered) -> None:
        error = self._course.error(outcome.error, crossing.name) or crossing.error
        if effective(msgspec.structs.replace(crossing, error=error), self._policy):
            self._history.enter(crossing.scope, crossing.name, crossing.key)

    def _answer(self, call: Call, crossing: Crossing, boundary: BoundaryState, outcome: Answered) -> Answer:
        course = self._course
        recorded = outcome.matched.crossing if outcome.matched else self._recorded_at(call)
        shown = recorded.shown if recorded is not None and course.cut.in_prefix(call.seq) else UNSET
        live = boundary is BoundaryState.LIVE

        def close(closing: Closing) -> None:
            error = course.error(closing.error, crossing.name) or crossing.error
            self._attempts.answered(crossing, failed=error is not None)
            course.journal.closed(crossing, closing if live else Closing(shown=closing.shown), error)
            course.shown(recorded, closing, error)

        return Answer(
            live=live, value=outcome.value, error=outcome.error, shown=shown, close=course.closing(call, close)
        )

    def _recorded_at(self, call: Call) -> Crossing | None:
        """The recorded crossing that a live, pure or blocked passage stands for: the one at its own step, if it has the same name."""
        recorded = self._matcher.by_place.get(call.seq)
        same = recorded is not None and (recorded.kind, recorded.name) == (call.kind, call.name)
        return recorded if same else None

    def _settled(self, crossing: Crossing, value: Any, matched: Recording) -> Answer:
        """The answer of a passage that is over with it: the same as any, without waiting for its end."""
        self._attempts.answered(crossing)
        if not matched.told()[1]:
            self._course.shown(matched.crossing, Closing(shown=value), crossing.error)
        return Answer(value=value, settled=True)

    def _write_ahead(
        self, crossing: Crossing, boundary: BoundaryState, outcome: Answered, known: dict[str, bytes] | None = None, *, settled: bool = False
    ) -> None:  # fmt: skip
        self._course.journal.ahead(
            Played(
                crossing=crossing, boundary=boundary, answered_by=outcome.by, exercised=boundary is BoundaryState.LIVE,
                matched=outcome.matched.crossing.place if outcome.matched else None,
                idempotency_key=self._policy.idempotency_key(crossing.name, crossing.seen), changes=list(outcome.changes),
                unsettled=list(outcome.unsettled),
            ),
            known, settled=settled,
        )  # fmt: skip

    def _miss(self, call: Call, crossing: Crossing, miss: Miss) -> NoReturn:
        if crossing.effect is Effect.WRITE:
            self._write_ahead(writes.unanswered(crossing), BoundaryState.INTERCEPTED, Answered())
        schema = call.declared.schema if call.declared else None
        near = self._matcher.nearest(
            crossing.name, crossing.key, crossing.state, crossing.seen, crossing.kind, schema=schema
        )
        self._course.diverge(crossing, miss.kind, "", near)


def _known(call: Call, asked: Any, text: bytes | None, outcome: Answered) -> dict[str, bytes]:
    """The JSON of the sides whose stored form is known already."""
    known = {} if text is None else {"seen": text, "proposed": text} if asked is call.proposed else {"seen": text}
    answer = None if outcome.matched is None else outcome.matched.told()[0]
    return known if answer is None else {**known, "raw": answer}


def _side_unknown(call: Call, recorded: Crossing, *, raised: bool) -> bool:
    """Whether a live hook needs a side that was not recorded: arguments before defaults and hooks, or the result before hooks."""
    nothing = recorded.raw is UNSET and (recorded.shown is UNSET or "after" in call.hooked)
    return (nothing and not raised) or (recorded.seen is UNSET and "before" in call.hooked)
