"""What invariants are judged on: the crossings of one run, recorded or replayed, in an order that no thread can change (semantics.md §7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from twiceshy import paths
from twiceshy.envelope import CODE_KINDS, Crossing, Effect, Kind
from twiceshy.history import History
from twiceshy.identity import digest
from twiceshy.matching import BEGINNING, CALLS, recordings
from twiceshy.ordering import Order, Part, Way, branched, parted, parts, precedes, together, within
from twiceshy.outcome import BoundaryState
from twiceshy.writes import went_unanswered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from twiceshy.envelope import Envelope
    from twiceshy.outcome import AnsweredBy
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import Played, RowChange, Transcript
    from twiceshy.worlds.tables import TableSeed


class Fate(StrEnum):
    """Whether a crossing did anything: an ambiguous one (timeout, reset, 5xx) may have, so nothing may rest on it either way."""

    HAPPENED = "happened"
    AMBIGUOUS = "ambiguous"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One crossing as graders see it. `turn`: the step number of the model turn that asked for it; a crossing nobody's turn asked for is a turn of its own.

    Turns list the steps and order none: those of agents that run side by side are numbered one after the other (see `before`).
    boundary, answered_by and matched are those of a replay, None in a recorded run. key: under the tool policy in force.
    """

    crossing: Crossing
    turn: int
    key: str
    fate: Fate
    boundary: BoundaryState | None = None
    answered_by: AnsweredBy | None = None
    matched: str | None = None
    stale: bool = False
    """A frozen model output after what was shown had changed, or what such an output asked for: another model output may well not ask for it."""
    idempotency_key: Any = None
    changes: Sequence[RowChange] = ()
    """The rows of a world that it changed."""
    unsettled: Sequence[str] = ()
    """The tables that it changed in a way that nobody knows."""
    way: Way = ()
    """How it is reached through what it lies in: what stands before what is told by it, and by no number."""

    @property
    def called(self) -> str:
        """The boundary as outputs name it: `tool:issue_refund`."""
        return f"{self.crossing.kind}:{self.crossing.name}"

    @property
    def args(self) -> Any | UnsetType:
        """The arguments the boundary got, or were asked for where only that is known."""
        return self.crossing.asked

    @property
    def returned(self) -> Any | UnsetType:
        """What the boundary returned, or showed where only that is known."""
        return self.crossing.shown if self.crossing.raw is UNSET else self.crossing.raw

    @property
    def improvised(self) -> bool:
        """Whether nobody recorded, declared or wrote the answer it got."""
        return self.answered_by is not None and self.answered_by.improvised

    @property
    def unexercised(self) -> bool:
        """Whether this is candidate code of which a replay took the recorded answer: what it would say now nobody has seen."""
        return self.crossing.kind in CODE_KINDS and self.boundary is BoundaryState.FROZEN

    def refused(self) -> bool:
        """Whether a guard stopped this call, or this guard stopped one."""
        if self.crossing.kind is Kind.GUARD:
            return isinstance(self.crossing.raw, dict) and self.crossing.raw.get("blocked") is True
        return self.crossing.blocked_by is not None

    def has_args(self, wanted: Mapping[str, Any]) -> bool:
        """Whether every path into the arguments leads to the wanted value and to no other, under identity rules."""
        return paths.leads_to(self.args, wanted)

    def has_returned(self, wanted: Mapping[str, Any]) -> bool:
        """The same of what came back."""
        return paths.leads_to(self.returned, wanted)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run as graders see it: its steps in judging order, and how it ended.

    ended: it came to a final disposition, without divergence. output: UNSET where there is none. replayed: boundary states are known.
    given: what the user said at the start, where it is known. world: the tables of the case's world as they stand at the start.
    """

    steps: tuple[Step, ...]
    policy: ToolsPolicy
    output: Any | UnsetType = UNSET
    ended: bool = True
    replayed: bool = False
    given: Any = None
    world: Mapping[str, TableSeed] | None = None

    @property
    def stale(self) -> bool:
        """Whether a frozen model output was served after something shown had differed from the record: texts from there on prove nothing."""
        return any(step.stale for step in self.steps if step.crossing.kind is Kind.MODEL)

    @cached_property
    def calls_of(self) -> Mapping[str, Sequence[Step]]:
        """The calls of each tool, in judging order."""
        named: dict[str, list[Step]] = defaultdict(list)
        for call in self.calls():
            named[call.crossing.name].append(call)
        return named

    def calls(self) -> Iterator[Step]:
        """The steps that call a tool, a retrieval or a memory."""
        return (step for step in self.steps if step.crossing.kind in CALLS)

    def writes(self) -> Iterator[Step]:
        """The writes that happened or may have."""
        return (step for step in self.calls() if self.is_write(step) and step.fate is not Fate.NOTHING)

    @cached_property
    def branched(self) -> bool:
        """Whether anything in it ran side by side: where nothing did, the steps before a step are the first ones of the run."""
        return branched(step.way for step in self.steps)

    @cached_property
    def nth(self) -> Mapping[int, int]:
        """Which of equal writes each one is, from 1, by its step; the attempts of one call are one."""
        counted: Counter[tuple[str, str]] = Counter()
        found = {}
        for write in self.writes():
            call = write.crossing.name, write.key
            if write.crossing.attempt == 1 or call not in counted:
                counted[call] += 1
            found[write.crossing.seq] = counted[call]
        return found

    def is_write(self, step: Step) -> bool:
        """Whether the policy says that this call writes."""
        return step.crossing.kind in CALLS and self.policy.effect_of(step.crossing) is Effect.WRITE


class Firsts:
    """Steps of which one has to stand before another: whether one does is found without going through them all."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._parts: dict[int, set[Part]] = defaultdict(set)
        self._steps: dict[int, list[Step]] = defaultdict(list)
        self._turns: dict[Way, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
        for step in steps:
            self._steps[step.crossing.seq].append(step)
            self._turns[step.way[:-1]][step.way[-1].turn].append(step)
            for above, part in parts(step.way):
                self._parts[above].add(part)
        self._sorted = {above: sorted(held) for above, held in self._parts.items()}

    def before(self, then: Step) -> bool:
        """Whether one of them stands before a step, whatever the threads did."""
        around = (first for part in then.way for first in self._steps.get(part.seq, ()))
        return any(before(first, then) for first in around) or any(
            self._parted(above, part) for above, part in parts(then.way)
        )

    def of_this_turn(self, then: Step) -> bool:
        """Whether the output that asked for a step asked for one of them too, and it was called earlier."""
        turns = self._turns.get(then.way[:-1], {})
        asked = turns.get(then.way[-1].turn, ())
        return any(level(first, then) and first.crossing.seq < then.crossing.seq for first in asked)

    def _parted(self, above: int, theirs: Part) -> bool:
        earlier = takewhile(lambda ours: ours.turn <= theirs.turn, self._sorted.get(above, ()))
        return any(parted(ours, theirs) for ours in earlier)


def before(left: Step, right: Step) -> bool:
    """Whether one step stands before another, whatever the threads did and whatever the calls were named: of two that no order holds, neither does."""
    if left.crossing.seq == right.crossing.seq:
        return _in_step(left) < _in_step(right)
    return precedes(left.way, right.way)


def level(left: Step, right: Step) -> bool:
    """Whether one output asked for both, of one agent: calls of one turn, of which none comes first."""
    return together(left.way, right.way)


def beside(left: Step, right: Step) -> bool:
    """Whether two steps are those of agents that run side by side."""
    return left.crossing.seq != right.crossing.seq and not (
        before(left, right) or before(right, left) or level(left, right)
    )


def firsts(steps: Iterable[Step]) -> list[Step]:
    """Of steps in judging order, those that no other of them stands before: several only where no order holds them."""
    found: list[Step] = []
    for step in steps:
        if not any(before(first, step) for first in found):
            found.append(step)
    return found


def lasts(steps: Sequence[Step]) -> list[Step]:
    """Of steps in judging order, those that stand before no other of them."""
    found: list[Step] = []
    for step in reversed(steps):
        if not any(before(step, last) for last in found):
            found.append(step)
    return found[::-1]


def recorded_run(envelope: Envelope, policy: ToolsPolicy) -> Run:
    """The recorded run of an envelope, its keys taken under the policy in force."""
    keys = {recording.crossing.place: recording.key for recording in recordings(envelope.crossings, policy)}
    steps = [
        Step(
            crossing=crossing, turn=0, key=keys.get(crossing.place, crossing.key), fate=_fate(crossing, policy),
            idempotency_key=policy.idempotency_key(crossing.name, crossing.asked) if crossing.kind in CALLS else None,
        )
        for crossing in envelope.crossings
    ]  # fmt: skip
    return Run(
        steps=_ordered(steps), policy=policy, output=envelope.disposition.output,
        ended=envelope.disposition.ended, given=[envelope.input.user, envelope.input.goal],
    )  # fmt: skip


def replayed_run(
    transcript: Transcript, policy: ToolsPolicy, *, given: Any = None, world: Mapping[str, TableSeed] | None = None
) -> Run:  # fmt: skip
    """One trial as graders see it: everything up to its first divergence. given: what the user said at the start. world: the tables of the case's world."""
    disposition = transcript.disposition
    returned = (
        transcript.divergence is None and transcript.crash is None and disposition is not None and disposition.ended
    )
    return Run(
        steps=_ordered(list(_meant(transcript, policy))), policy=policy,
        output=disposition.output if returned and disposition is not None else UNSET, ended=returned, replayed=True, given=given,
        world=world,
    )  # fmt: skip


def states(run: Run) -> Iterator[tuple[Step, str]]:
    """Every call with the state of the world it saw: the digest of the effective writes before it (semantics.md §4)."""
    history = History(run.policy)
    for call in run.steps:
        crossing = call.crossing
        if crossing.kind in BEGINNING:
            history.begin(crossing.scope, crossing.group)
        if crossing.kind not in CALLS:
            continue
        yield call, history.state(crossing.name, crossing.scope)
        if run.is_write(call) and call.fate is not Fate.NOTHING:
            history.enter(crossing.scope, crossing.name, call.key)


def marked(call: Step, state: str) -> str:
    """The digest of a call, the state it saw and what it came to: with the same one again, nothing has changed."""
    returned = None if call.returned is UNSET else [call.returned]
    error = None if call.crossing.error is None else call.crossing.error.type
    return digest([call.crossing.name, call.key, state, returned, error, call.crossing.blocked_by])


def _meant(transcript: Transcript, policy: ToolsPolicy) -> Iterator[Step]:
    """All but a write at which the run diverged, where a stale output of a frozen model asked for it: what that text would do under other writes is no news."""
    stale = {(played.crossing.scope, played.crossing.seq) for played in transcript.played if played.stale}
    for played in transcript.played:
        crossing = played.crossing
        asked = (crossing.scope, crossing.group) in stale
        if not (asked and went_unanswered(crossing)):
            step = _step(played, policy)
            yield replace(step, stale=True) if asked and crossing.kind not in CODE_KINDS else step


def _step(played: Played, policy: ToolsPolicy) -> Step:
    crossing = played.crossing
    return Step(
        crossing=crossing, turn=0, key=crossing.key, fate=_fate(crossing, policy), boundary=played.boundary, answered_by=played.answered_by,
        matched=played.matched, stale=played.stale, idempotency_key=played.idempotency_key,
        changes=played.changes, unsettled=played.unsettled,
    )  # fmt: skip


def _fate(crossing: Crossing, policy: ToolsPolicy) -> Fate:
    if crossing.blocked_by is not None:
        return Fate.NOTHING
    error = crossing.error
    if error is None:
        return Fate.HAPPENED
    definite = error.definite or (crossing.kind in CALLS and error.type in policy.of(crossing.name).definite_errors)
    return Fate.NOTHING if definite else Fate.AMBIGUOUS


def _ordered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps in (group, scope, key) order. A hook, a guard or a draw stands with the step it belongs to, before or after it as it ran."""
    order = Order(step.crossing for step in steps)
    turns = order.turns(step.crossing for step in steps)
    keys = {step.crossing.seq: step.key for step in steps if step.crossing.sub == 0}
    placed = [
        (order.place(step.crossing, keys.get(step.crossing.seq)), within(step.crossing), step.crossing.sub)
        for step in steps
    ]
    ranked = sorted(range(len(steps)), key=placed.__getitem__)
    return tuple(
        replace(steps[at], turn=turns[steps[at].crossing.seq], way=order.way(steps[at].crossing)) for at in ranked
    )


def _in_step(step: Step) -> tuple[int, int]:
    return within(step.crossing), step.crossing.sub
