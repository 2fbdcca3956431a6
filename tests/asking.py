"""A replay that a test asks passage by passage, every call written out whole."""

from typing import Any

import pytest

from builders import a_crossing, a_policy, an_envelope
from twiceshy.envelope import Crossing, Effect, Kind, Pins
from twiceshy.journal import Journal, transcript_of
from twiceshy.policy import ToolPolicy
from twiceshy.replaying import Replay, RunDiverged, RunFaulted, Terms
from twiceshy.seam import Answer, Call, Closing
from twiceshy.transcript import Diverged, Played, Transcript

SCOPE = "/desk:1#0"
HERE: dict[str, Any] = {"seq": 7, "parent": "#5", "scope": SCOPE, "group": 6}
"""Where the call of a test stands: in the body of a tool, within an agent that was handed to."""

POLICY = a_policy(
    find=ToolPolicy(effect=Effect.READ, definite_errors=("shut",)), add="none",
    pay=ToolPolicy(idempotency_key="token", volatile=("token",), definite_errors=("shut",)),
    **dict.fromkeys(("customer", "boss", "planner", "desk", "strip", "limit"), ToolPolicy(definite_errors=("shut",))),
)  # fmt: skip


class Shut(Exception):
    """What a tool raises of which tools.yaml says that nothing happened."""

    code = "shut"


class Money:
    """What no journal can hold."""


def a_call(kind: Kind, name: str, seen: Any, **given: Any) -> Call:
    """A call as an agent's boundary makes it."""
    return Call(**{**HERE, "kind": kind, "name": name, "seen": seen, **given})


def a_record(seq: int, kind: Kind, called: str, /, **given: Any) -> Crossing:
    """A recorded crossing of the same agent; it took a second."""
    effect = {"effect": "read" if kind is Kind.TOOL else None}
    usual = {"seq": seq, "kind": kind, "name": called, "scope": SCOPE, "start_ns": 0, "end_ns": 1_000_000_000}
    return a_crossing(**{**usual, **effect, **given})


class Asking:
    """A replay of a record of these crossings. terms: fields of Terms; pins: of the record."""

    def __init__(self, *crossings: Crossing, pins: Pins | None = None, **terms: Any) -> None:
        self.lines: list[bytes] = []
        self.envelope = an_envelope(*crossings, **({"pins": pins} if pins else {}))
        self.replay = Replay(self.envelope, Terms(**{"policy": POLICY, **terms}), Journal(self.lines.append))

    @property
    def told(self) -> Transcript:
        """What it has written down so far."""
        return transcript_of(self.lines)

    @property
    def last(self) -> Played:
        """The last passage that it has written down."""
        return self.told.played[-1]

    def cross(self, call: Call) -> Answer:
        """Its answer to a call."""
        return self.replay.cross(call)

    def through(self, call: Call, **closing: Any) -> Answer:
        """Its answer to a call that comes back as it was answered, unless said otherwise."""
        answer = self.cross(call)
        if not answer.settled:
            usual = {"error": answer.error} if answer.error else {"raw": answer.value, "shown": answer.value}
            answer.close(Closing(**(closing or usual)))
        return answer

    def diverges(self, call: Call) -> Diverged:
        """The divergence that a call is: written down, and told to who ends the run."""
        with pytest.raises(RunDiverged) as ended:
            self.cross(call)
        told = self.told.divergence
        assert told is not None
        assert ended.value.divergence == told
        return told

    def faults(self, answer: Answer, closing: Closing) -> str | None:
        """The fault that a closing is."""
        with pytest.raises(RunFaulted):
            answer.close(closing)
        return self.told.fault

    def stale(self, scope: str = SCOPE) -> bool:
        """Whether an output of a frozen model would be stale now. The record has one of `check`."""
        self.cross(Call(kind=Kind.MODEL, name="check", seq=90, scope=scope, seen={"messages": []}))
        return self.last.stale


CHECK = a_record(80, Kind.MODEL, "check", seen={"messages": []}, raw={"parts": []}, shown={"parts": []}, end_ns=None)
