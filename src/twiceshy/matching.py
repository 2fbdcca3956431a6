"""What a frozen read may answer: the recorded calls of an envelope, indexed once, served by name, key and state (semantics.md §4)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy.envelope import RETURNED, UNKNOWN_ERROR, Crossing, Effect, Kind
from twiceshy.history import History, effective
from twiceshy.identity import canonical, encoded, plain
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.paths import leaves
from twiceshy.transcript import FieldDiff, Near

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twiceshy.envelope import ErrorRecord
    from twiceshy.policy import ToolsPolicy

_NEAREST = 3
CALLS = frozenset({Kind.TOOL, Kind.RETRIEVAL, Kind.MEMORY})
"""Kinds that are matched by name, key and state."""

_ASKED = CALLS | {Kind.HUMAN}
"""A person's answer rests on the same things as a read."""

_written = msgspec.json.Encoder().encode

BEGINNING = _ASKED | {Kind.HANDOFF}
"""Kinds with which a group begins: an agent that is handed to sees what stood at the start of it."""


@dataclass(slots=True, eq=False)
class Recording:
    """One recorded call, its key and state under the policy in force, and whether it was served."""

    crossing: Crossing
    key: str
    state: str
    served: bool = False
    text: bytes | None = None
    """The JSON of its arguments, where they are compared as they are and that is their canonical form."""
    texts: tuple[bytes | None, bool] | None = None
    once: bool = False
    """Something lay inside it that would happen again."""

    def told(self) -> tuple[bytes | None, bool]:
        """The JSON of its answer, where that is plain, names in the recorded order; and whether what was shown is the same."""
        if self.texts is None:
            answer, shown = self.answer, self.crossing.shown
            text = None if answer is UNSET else plain(answer)
            # Equal in Python and in JSON: 1 is not true there, and bytes are not their base64 here.
            same = text is not None and bool(shown == answer) and encoded(shown) == text
            self.texts = None if text is None else _written(answer), same
        return self.texts

    @property
    def plainly(self) -> bool:
        """Whether it was answered in plain JSON, without an error, and what was answered is what went back."""
        return self.crossing.error is None and self.crossing.raw is not UNSET and self.told()[1]

    @property
    def answer(self) -> Any | UnsetType:
        """What it returned: `raw`, or `shown` where only that was recorded."""
        return self.crossing.shown if self.crossing.raw is UNSET else self.crossing.raw

    @property
    def raised(self) -> ErrorRecord | None:
        """The error to raise again, whatever middleware made of it for the model; None also for one that the tool returned as its result: that comes back as it was."""
        error, answer = self.crossing.error, self.answer
        returned = self.crossing.raw is not UNSET or (error is not None and error.cls in (RETURNED, UNKNOWN_ERROR))
        return None if answer is not UNSET and returned else error


@dataclass(slots=True)
class _Slot:
    recordings: list[Recording] = field(default_factory=list)
    served: int = 0
    agrees: bool | None = None
    plain: bool | None = None

    def plainly(self) -> bool:
        """Whether all recordings here were answered plainly."""
        if self.plain is None:
            self.plain = True
            for recording in self.recordings:  # no generator: most slots hold one
                self.plain = self.plain and recording.plainly
        return self.plain

    def next(self) -> tuple[Recording, AnsweredBy] | None:
        while self.served < len(self.recordings):
            recording = self.recordings[self.served]
            self.served += 1
            if not recording.served:
                recording.served = True
                return recording, AnsweredBy.RECORDED
        if self._one_answer():
            return self.recordings[-1], AnsweredBy.REPEATED
        return None

    def _one_answer(self) -> bool:
        """Whether all recordings here are equal, none is an error and none happened once: only then may one be served again."""
        if self.agrees is None:
            once = any(recording.once or recording.crossing.error is not None for recording in self.recordings)
            self.agrees = not once and len({_content(recording) for recording in self.recordings}) == 1
        return self.agrees


class Hit(NamedTuple):
    """A recording that may answer, and by which rule."""

    recording: Recording
    by: AnsweredBy


@dataclass(frozen=True, slots=True)
class Miss:
    """Why no recording may answer."""

    kind: Divergence


class Matcher:
    """The recorded calls of one run. Building is O(crossings); a call is served in constant time."""

    def __init__(self, crossings: Iterable[Crossing], policy: ToolsPolicy) -> None:
        self._policy = policy
        self._exact: dict[tuple[Kind, str, str, str], _Slot] = {}
        self._keyed: dict[tuple[Kind, str, str], _Slot] = defaultdict(_Slot)
        self._named: dict[tuple[Kind, str], list[Recording]] = defaultdict(list)
        self._effects: dict[str, frozenset[Effect | None]] = {}
        held = tuple(crossings)
        self.by_place = {crossing.seq: crossing for crossing in held if crossing.kind in _ASKED}
        self._at: dict[int, Recording] = {}
        self._texts: dict[tuple[Kind, str, bytes], _Slot] = {}
        for recording in recordings(held, policy):
            kind, name = recording.crossing.kind, recording.crossing.name
            exact = self._exact.setdefault((kind, name, recording.key, recording.state), _Slot())
            exact.recordings.append(recording)
            keyed = self._keyed[kind, name, recording.key]
            keyed.recordings.append(recording)
            if recording.text is not None:
                self._texts[kind, name, recording.text] = keyed
            self._named[kind, name].append(recording)
            self._at[recording.crossing.seq] = recording

    def knows(self, name: str, kind: Kind = Kind.TOOL) -> bool:
        """Whether a call of this name was recorded."""
        return (kind, name) in self._named

    def effects(self, name: str) -> frozenset[Effect | None]:
        """What the record says that calls of this name do, of whichever kind."""
        if name not in self._effects:
            named = (held for kind in CALLS for held in self._named.get((kind, name), ()))
            self._effects[name] = frozenset(held.crossing.effect for held in named)
        return self._effects[name]

    def serve(self, name: str, key: str, state: str, kind: Kind = Kind.TOOL, *, again: bool = True) -> Hit | Miss:
        """The next unserved recording of (name, key) at this state; the same again where all of them are equal and none an error; else why not.

        again: whether an answer may be given a second time at all; a grant may not.
        """
        slot = self._exact.get((kind, name, key, state))
        if slot is not None:
            return _hit(slot, again=again)
        if (kind, name, key) in self._keyed:
            return Miss(Divergence.STATE_MISMATCH)
        return Miss(Divergence.ARGS_MISMATCH if (kind, name) in self._named else Divergence.UNRECORDED_CALL)

    def plain_key(self, kind: Kind, name: str, text: bytes, asked: object) -> str | None:
        """The key of a call whose arguments have this JSON, where all that was recorded of it was answered plainly; None otherwise.

        Equal in JSON and in Python is equal under identity rules, since what was recorded is its own canonical form.
        """
        slot = self._texts.get((kind, name, text))
        if slot is None or not slot.plainly():
            return None
        first = slot.recordings[0]
        return first.key if first.crossing.seen == asked else None

    def serve_pure(self, name: str, key: str, kind: Kind = Kind.TOOL) -> Hit | Miss:
        """A pure tool without code is answered by key alone, whatever was written."""
        slot = self._keyed.get((kind, name, key))
        if slot is not None:
            return _hit(slot)
        return Miss(Divergence.ARGS_MISMATCH if (kind, name) in self._named else Divergence.UNRECORDED_CALL)

    def passed(self, seq: int) -> Recording | None:
        """Count the recording at a step as served: it happened inside a passage that was answered from the record."""
        recording = self._at.get(seq)
        if recording is not None:
            recording.served = True
        return recording

    def happened_once(self, seq: int) -> None:
        """Let the answer recorded at a step be given once: what lay inside it would happen again."""
        if seq in self._at:
            self._at[seq].once = True

    def nearest(
        self, name: str, key: str, state: str, asked: object, kind: Kind = Kind.TOOL, *, schema: Mapping[str, Any] | None = None
    ) -> list[Near]:  # fmt: skip
        """The recordings of this name nearest to a call that missed, with the reason each was refused; nearest first. Arguments differ as the policy compares them.

        schema: the caller's own, from which defaults are filled.
        """
        compared = self._policy.identified(name, asked, schema)
        rows = [self._near(recording, key, state, compared) for recording in self._named.get((kind, name), ())]
        return sorted(rows, key=lambda near: (len(near.fields), near.reason != "already served"))[:_NEAREST]

    def _near(self, recording: Recording, key: str, state: str, compared: object) -> Near:
        place, name = recording.crossing.place, recording.crossing.name
        if recording.key != key:
            recorded = self._policy.identified(name, recording.crossing.asked)
            return Near(place=place, reason="other arguments", fields=differences(recorded, compared))
        if recording.state != state:
            return Near(place=place, reason="other writes came before it")
        return Near(place=place, reason="an error" if recording.crossing.error else "already served")


def recordings(crossings: Iterable[Crossing], policy: ToolsPolicy) -> Iterable[Recording]:
    """Every recorded call in order, keyed and placed in the state of the writes before it.

    Left out: a call whose arguments are unknown (it has no key), and one that a guard blocked (the boundary never answered it).
    """
    history = History(policy)
    for crossing in crossings:
        if crossing.kind not in BEGINNING:
            continue
        history.begin(crossing.scope, crossing.group)
        if crossing.kind is Kind.HANDOFF:
            continue
        key, text = policy.keyed(crossing.name, crossing.asked) if crossing.asked is not UNSET else ("", None)
        if key and crossing.blocked_by is None:
            yield Recording(crossing, key, history.state(crossing.name, crossing.scope), text=text)
        if effective(crossing, policy):
            history.enter(crossing.scope, crossing.name, key)


def differences(recorded: object, got: object) -> list[FieldDiff]:
    """The leaves in which two values differ, by path, under identity rules."""
    left, right = dict(leaves(recorded)), dict(leaves(got))
    paths = [*left, *(path for path in right if path not in left)]
    return [
        FieldDiff(path=path, recorded=left.get(path, UNSET), got=right.get(path, UNSET))
        for path in paths
        if path not in left or path not in right or canonical(left[path]) != canonical(right[path])
    ]


def fresh(value: Any) -> Any:
    """The value in containers of its own, so that an agent which changes what it got changes no record."""
    if isinstance(value, dict):
        return {name: fresh(item) for name, item in value.items()}
    if isinstance(value, list):
        return [fresh(item) for item in value]
    return value


def _hit(slot: _Slot, *, again: bool = True) -> Hit | Miss:
    served = slot.next()
    if served is None or (served[1] is AnsweredBy.REPEATED and not again):
        return Miss(Divergence.EXHAUSTED)
    return Hit(*served)


def _content(recording: Recording) -> bytes:
    return canonical(None if recording.answer is UNSET else [recording.answer])
