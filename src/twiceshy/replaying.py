"""The replay engine: a backend that answers from the record, runs what the cut-point names live, intercepts every write, and ends at the first divergence.

Nothing here reaches a live system: a miss is written down and ends the run (semantics.md §4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy import writes
from twiceshy.boundary import Answer, Closing
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import CODE_KINDS, Crossing, Effect, Envelope, ErrorRecord, Kind
from twiceshy.errors import TwiceshyError, Unrecordable
from twiceshy.frozencode import FrozenCode
from twiceshy.frozenmodel import FrozenModels, NoOutput
from twiceshy.history import Attempts, History, effective
from twiceshy.identity import digest, equal, key
from twiceshy.matching import Hit, Matcher, Miss, fresh
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.pinned import Pinned
from twiceshy.raising import raised_again
from twiceshy.recording import error_record
from twiceshy.transcript import Diverged, Near, Played

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twiceshy.boundary import Call
    from twiceshy.journal import Journal
    from twiceshy.matching import Recording
    from twiceshy.pinned import VirtualClock
    from twiceshy.policy import ToolsPolicy


class RunDiverged(BaseException):
    """Ends a run inside one process at its first divergence. Not an Exception: an agent's `except Exception` does not see it."""

    def __init__(self, divergence: Diverged) -> None:
        super().__init__(divergence.kind.value)
        self.divergence = divergence


class RunFaulted(BaseException):
    """Ends a run inside one process that our own side cannot go on with. Not an Exception, for the same reason."""


def _raise(divergence: Diverged | None) -> NoReturn:
    raise RunFaulted if divergence is None else RunDiverged(divergence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a replay goes by besides the record: the cut-point, the tools' policy, what the case declares, and the seed of draws past the record.

    pseudonymise: gives a call's live arguments the identity pseudonyms of the recording before they are keyed.
    """

    policy: ToolsPolicy
    cut: CutPoint = field(default_factory=CutPoint)
    declared: Sequence[writes.DeclaredWrite] = ()
    seed: bytes = b""
    pseudonymise: Callable[[str, Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What will be answered, before it is."""

    value: Any = None
    error: BaseException | None = None
    by: AnsweredBy | None = None
    matched: Recording | None = None


class Replay:
    """The backend of one trial. `on_end` never returns: the runner's ends the process at once, the default raises RunDiverged (RunFaulted at a fault of ours)."""

    def __init__(
        self, envelope: Envelope, terms: Terms, journal: Journal, *, clock: VirtualClock | None = None,
        on_end: Callable[[Diverged | None], NoReturn] = _raise,
    ) -> None:  # fmt: skip
        self._terms = terms
        self._policy = terms.policy
        self._cut = terms.cut
        self._journal = journal
        self._on_end = on_end
        self._pinned = Pinned(envelope, clock, terms.seed)
        self._matcher = Matcher(envelope.crossings, terms.policy)
        self._models = FrozenModels(envelope.crossings)
        self._code = FrozenCode(envelope.crossings, by_input=bool(terms.cut.freeze))
        self._history = History(terms.policy)
        self._attempts = Attempts()
        self._stale = False
        self._turn = RLock()  # agents call tools from several threads; a signal may come in the middle of a passage

    def cross(self, call: Call) -> Answer:
        """The answer to one passage, written ahead into the journal. A miss does not return, nor does anything that goes wrong in here.

        An exception of ours in the candidate's hands is one that it may swallow, and the passage would never have been seen.
        """
        with self._turn:
            try:
                return self._crossed(call)
            except (RunDiverged, RunFaulted):
                raise
            except BaseException as broken:  # noqa: BLE001 - whatever it is, no passage goes unseen
                self._give_up(call, broken)

    def _crossed(self, call: Call) -> Answer:
        effect = self._effect(call) if call.kind is Kind.TOOL else None
        state = self._cut.state(call, effect)
        if call.kind is Kind.TOOL:
            return self._tool(call, effect or Effect.WRITE, state)
        if call.kind is Kind.MODEL:
            return self._model(call, state)
        if call.kind in CODE_KINDS:
            return self._candidate_code(call, state)
        return self._ambient(call)

    def dialled(self, call: Call) -> NoReturn:
        """End the run: live code reaches for a system outside. Cut off from it, it would be judged by how it takes a failure that production never had."""
        with self._turn:
            crossing = Crossing(seq=call.seq, sub=call.sub, kind=call.kind, name=call.name)
            self._diverge(crossing, Divergence.LIVE_UNCONTROLLED, "")

    def _effect(self, call: Call) -> Effect:
        """The effect in force. Where tools.yaml is silent, a candidate may not say less of a tool than the record does, nor that a new one is pure."""
        effect = self._policy.effect(call.name, call.effect)
        if call.name in self._policy.tools or effect is Effect.WRITE:
            return effect
        known = self._matcher.effects(call.name)
        loosened = Effect.WRITE in known or (effect is Effect.NONE and Effect.NONE not in known)
        return Effect.WRITE if loosened else effect

    # tools

    def _tool(self, call: Call, effect: Effect, boundary: BoundaryState) -> Answer:
        self._history.begin(call.scope, call.group)
        asked = self._pseudonymised(call)
        called = self._policy.key(call.name, asked, call.declared.schema if call.declared else None)
        crossing = Crossing(
            seq=call.seq, kind=call.kind, name=call.name, scope=call.scope, group=call.group, effect=effect, key=called,
            attempt=self._attempts.next(call.scope, call.name, called), proposed=call.proposed, seen=asked,
            state=self._history.state(call.name), blocked_by=call.blocked_by,
        )  # fmt: skip
        outcome = self._tool_outcome(call, crossing, effect, boundary)
        if boundary is not BoundaryState.LIVE and outcome.error is None and outcome.by is not AnsweredBy.GUARD:
            returned = outcome.matched.crossing.error if outcome.matched else None
            crossing = msgspec.structs.replace(crossing, raw=outcome.value, error=returned)
        self._write_ahead(crossing, boundary, outcome, self._policy.idempotency_key(call.name, asked))
        if effect is Effect.WRITE:
            self._take_effect(crossing, outcome)
        return self._answer(call, crossing, boundary, outcome)

    def _pseudonymised(self, call: Call) -> Any:
        """The live arguments as the recording would hold them. Without the key the raw value is neither matched nor stored: the run ends."""
        if self._terms.pseudonymise is None:
            return call.seen
        return self._terms.pseudonymise(call.name, call.seen)

    def _tool_outcome(self, call: Call, crossing: Crossing, effect: Effect, boundary: BoundaryState) -> _Outcome:
        if call.blocked_by is not None:
            return _Outcome(by=AnsweredBy.GUARD)
        if boundary is BoundaryState.LIVE:
            return _Outcome(by=AnsweredBy.LIVE)
        serve = self._matcher.serve_pure(call.name, crossing.key) if effect is Effect.NONE else None
        found = serve or self._matcher.serve(call.name, crossing.key, crossing.state)
        if isinstance(found, Hit):
            return self._recorded(call, crossing, found)
        if effect is not Effect.WRITE or found.kind is Divergence.STATE_MISMATCH:
            self._miss(crossing, found)
        return self._unrecorded_write(call, crossing.seen)

    def _recorded(self, call: Call, crossing: Crossing, hit: Hit) -> _Outcome:
        recorded = hit.recording.crossing
        if hit.recording.raised is None and _side_unknown(call, recorded):
            self._diverge(crossing, Divergence.SIDE_UNKNOWN, f"recorded at {recorded.place}")
        self._pinned.passes(recorded)
        if hit.recording.raised is not None:
            return _Outcome(error=raised_again(hit.recording.raised), by=hit.by, matched=hit.recording)
        answer = hit.recording.answer
        schema = call.declared.result_schema if call.declared and recorded.error is None else None
        broken = writes.violation(schema, answer) if schema else None
        if broken:
            self._diverge(crossing, Divergence.SCHEMA_MISMATCH, f"{broken} in the result recorded at {recorded.place}")
        return _Outcome(value=fresh(answer), by=hit.by, matched=hit.recording)

    def _unrecorded_write(self, call: Call, seen: Any) -> _Outcome:
        policy = self._policy.of(call.name)
        schema = call.declared.schema if call.declared and call.declared.schema else policy.schema
        broken = writes.violation(schema, seen)
        if broken:
            return _Outcome(error=writes.InvalidArguments(broken), by=AnsweredBy.VALIDATION)
        result_schema = call.declared.result_schema if call.declared else None
        value, by = writes.answer(
            call.name, seen, declared=self._terms.declared, policy=policy, result_schema=result_schema
        )
        return _Outcome(value=value, by=by)

    def _take_effect(self, crossing: Crossing, outcome: _Outcome) -> None:
        error = self._error(outcome.error, crossing.name) or crossing.error
        if effective(msgspec.structs.replace(crossing, error=error), self._policy):
            self._history.enter(crossing.scope, crossing.name, crossing.key)

    def _answer(self, call: Call, crossing: Crossing, boundary: BoundaryState, outcome: _Outcome) -> Answer:
        recorded = outcome.matched.crossing if outcome.matched else self._recorded_at(call)
        shown = recorded.shown if recorded is not None and self._cut.in_prefix(call.seq) else UNSET

        live = boundary is BoundaryState.LIVE

        def close(closing: Closing) -> None:
            error = self._error(closing.error, crossing.name) or crossing.error
            self._attempts.answered(msgspec.structs.replace(crossing, error=error))
            self._journal.closed(crossing, closing if live else Closing(shown=closing.shown), error)
            self._stale = self._stale or not _as_recorded(recorded, closing, error)

        return Answer(
            live=live, value=outcome.value, error=outcome.error, shown=shown, close=self._closing(call, close)
        )

    def _recorded_at(self, call: Call) -> Crossing | None:
        """The recorded crossing that a live, pure or blocked passage stands for: the one at its own step, if it has the same name."""
        recorded = self._matcher.by_place.get(call.seq)
        return recorded if recorded is not None and recorded.name == call.name else None

    def _miss(self, crossing: Crossing, miss: Miss) -> NoReturn:
        near = self._matcher.nearest(crossing.name, crossing.key, crossing.state, crossing.seen)
        self._diverge(crossing, miss.kind, "", near)

    # models

    def _model(self, call: Call, boundary: BoundaryState) -> Answer:
        crossing = Crossing(
            seq=call.seq, kind=call.kind, name=call.name, scope=call.scope, seen=call.seen, key=digest(call.seen)
        )
        if boundary is BoundaryState.LIVE:
            self._require_clock(call, crossing)
            self._write_ahead(crossing, boundary, _Outcome(by=AnsweredBy.LIVE))
            return Answer(live=True, close=self._closer(call, crossing, compared=True))
        found = self._models.serve(call.scope, call.name, call.seen)
        if isinstance(found, NoOutput):
            self._diverge(crossing, found.kind, found.detail)
        recorded = found.crossing
        self._pinned.passes(recorded)
        served = msgspec.structs.replace(crossing, raw=recorded.raw)
        self._journal.ahead(
            Played(
                crossing=served, boundary=boundary, answered_by=AnsweredBy.RECORDED, matched=recorded.place,
                stale=self._stale, drift=found.drift, exercised=False,
            )
        )  # fmt: skip
        error = raised_again(recorded.error) if recorded.error else None
        value = None if recorded.raw is UNSET else fresh(recorded.raw)
        return Answer(value=value, error=error, close=self._closer(call, crossing))

    def _require_clock(self, call: Call, crossing: Crossing) -> None:
        """A live model must be told the recorded date wherever the recorded one was."""
        date = self._pinned.date_lacking(self._models.first_request(call.scope, call.name), call.seen)
        if date is not None:
            self._diverge(crossing, Divergence.CLOCK_NOT_IN_PROMPT, f"the recorded request says {date!r}")

    # candidate code, clock, chance

    def _candidate_code(self, call: Call, boundary: BoundaryState) -> Answer:
        crossing = Crossing(
            seq=call.seq, sub=call.sub, kind=call.kind, name=call.name, scope=call.scope, group=call.group, at=call.at,
            seen=call.seen, key=key(call.name, call.seen),
        )  # fmt: skip
        if boundary is BoundaryState.LIVE:
            self._write_ahead(crossing, boundary, _Outcome(by=AnsweredBy.LIVE))
            return Answer(live=True, close=self._closer(call, crossing))
        recorded = self._frozen(call, crossing)
        if recorded is not None and recorded.raw is UNSET and recorded.error is None:
            self._diverge(crossing, Divergence.SIDE_UNKNOWN, f"recorded at {recorded.place}")
        value = _passed(call) if recorded is None else fresh(recorded.raw)
        error = raised_again(recorded.error) if recorded is not None and recorded.error else None
        answered = msgspec.structs.replace(crossing, raw=value)
        self._write_ahead(answered, boundary, _Outcome(by=AnsweredBy.RECORDED))
        return Answer(value=value, error=error, close=self._closer(call, crossing))

    def _frozen(self, call: Call, crossing: Crossing) -> Crossing | None:
        """The recorded passage of a frozen hook, guard or router. In a prefix, code that was not there when it was recorded lets everything pass."""
        if self._cut.in_prefix(call.seq):
            return self._code.placed(call.seq, call.name, call.at)
        recorded = self._code.answering(call.name, call.at, crossing.key)
        if recorded is None:
            self._diverge(crossing, Divergence.ARGS_MISMATCH, "frozen code met an input that was not recorded")
        return recorded

    def _ambient(self, call: Call) -> Answer:
        value: Any = None
        if call.kind is Kind.RANDOM:
            value = self._pinned.draw()
        elif call.name == "sleep":
            self._pinned.sleep(float(str(call.seen)))
        else:
            value = self._pinned.now()
        crossing = Crossing(
            seq=call.seq, sub=call.sub, kind=call.kind, name=call.name, scope=call.scope, seen=call.seen, raw=value
        )
        self._write_ahead(crossing, BoundaryState.FROZEN, _Outcome(by=AnsweredBy.RECORDED))
        return Answer(value=value)

    # what all passages share

    def _write_ahead(
        self, crossing: Crossing, boundary: BoundaryState, outcome: _Outcome, idempotency_key: object = None
    ) -> None:
        self._journal.ahead(
            Played(
                crossing=crossing, boundary=boundary, answered_by=outcome.by, idempotency_key=idempotency_key,
                matched=outcome.matched.crossing.place if outcome.matched else None,
                exercised=boundary is BoundaryState.LIVE,
            )
        )  # fmt: skip

    def _closer(self, call: Call, crossing: Crossing, *, compared: bool = False) -> Callable[[Closing], None]:
        """compared: a live model, whose output is shown like a tool's; where it is not the recorded one, the frozen ones after it are stale."""
        recorded = self._models.recorded(call.scope, call.name, call.seen) if compared else None

        def close(closing: Closing) -> None:
            error = self._error(closing.error, crossing.name)
            self._journal.closed(crossing, closing, error)
            self._stale = self._stale or (compared and not _as_recorded(recorded, closing, error))

        return self._closing(call, close)

    def _closing(self, call: Call, close: Callable[[Closing], None]) -> Callable[[Closing], None]:
        """The same, under the rule of `cross`: what goes wrong in here ends the run."""

        def closing(ended: Closing) -> None:
            with self._turn:
                try:
                    close(ended)
                except BaseException as broken:  # noqa: BLE001 - as in cross
                    self._give_up(call, broken, closing=True)

        return closing

    def _error(self, raised: BaseException | None, name: str) -> ErrorRecord | None:
        return None if raised is None else error_record(raised, self._policy.of(name).definite_errors)

    def _give_up(self, call: Call, broken: BaseException, *, closing: bool = False) -> NoReturn:
        """End the run at a passage that cannot be told.

        Arguments without a canonical form equal none that were recorded. A candidate that is out of stack, memory or channel has crashed. The rest is our fault.
        """
        place = f"#{call.seq}.{call.sub}" if call.sub else f"#{call.seq}"
        boundary = f"{call.kind}:{call.name}"
        divergence = None
        try:
            if isinstance(broken, Unrecordable) and call.kind is Kind.TOOL and not closing:
                kind = Divergence.ARGS_MISMATCH if self._matcher.knows(call.name) else Divergence.UNRECORDED_CALL
                divergence = Diverged(kind=kind, place=place, boundary=boundary, detail=str(broken))
                self._journal.diverged(divergence)
            elif not isinstance(broken, RecursionError | MemoryError | OSError):
                told = str(broken) if isinstance(broken, TwiceshyError) else type(broken).__name__
                self._journal.fault(f"{boundary} at {place}: {told}")
        finally:
            self._on_end(divergence)

    def _diverge(self, crossing: Crossing, kind: Divergence, detail: str, near: Sequence[Near] = ()) -> NoReturn:
        divergence = Diverged(
            kind=kind, place=crossing.place, boundary=f"{crossing.kind}:{crossing.name}", detail=detail,
            asked=crossing.seen, nearest=list(near),
        )  # fmt: skip
        self._journal.diverged(divergence)
        self._on_end(divergence)


def _side_unknown(call: Call, recorded: Crossing) -> bool:
    """Whether a live hook needs a side that was not recorded: arguments before defaults and hooks, or the result before hooks."""
    nothing = recorded.raw is UNSET and recorded.shown is UNSET
    return (
        nothing
        or (recorded.raw is UNSET and "after" in call.hooked)
        or (recorded.seen is UNSET and "before" in call.hooked)
    )


def _as_recorded(recorded: Crossing | None, closing: Closing, error: ErrorRecord | None) -> bool:
    """Whether what went back to the agent is what went back in the record; a side that was not recorded is not equal."""
    if recorded is None or (error is None) != (recorded.error is None):
        return False
    if error is not None and recorded.error is not None:
        same = (error.cls, error.message) == (recorded.error.cls, recorded.error.message)
        if not same or recorded.shown is closing.shown is UNSET:
            return same
    return recorded.shown is not UNSET and closing.shown is not UNSET and equal(recorded.shown, closing.shown)


def _passed(call: Call) -> Any:
    return {"blocked": False, "reason": None} if call.kind is Kind.GUARD else call.seen
