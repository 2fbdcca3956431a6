"""What a replay answers to each kind of passage and writes down of it, compared whole; and the rules that hold for all of them alike."""

from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import UNSET

from asking import CHECK, HERE, POLICY, SCOPE, Asking, Money, Shut, a_call, a_record
from builders import TUESDAY_NS
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Clock, Crossing, Effect, ErrorRecord, Kind, Pins
from twiceshy.identity import digest, key
from twiceshy.outcome import AnsweredBy, BoundaryState, Mode
from twiceshy.seam import Call, Closing, Declared
from twiceshy.transcript import Played
from twiceshy.writes import DeclaredGrant

ASKED = {"amount": 5}
SAID = {"said": ["yes"]}
REQUEST = {"messages": [{"role": "user", "content": "hi"}]}
OUTPUT = {"parts": [{"type": "text", "text": "hello"}]}
FROZEN, LIVE, INTERCEPTED = BoundaryState.FROZEN, BoundaryState.LIVE, BoundaryState.INTERCEPTED
RECORDED = AnsweredBy.RECORDED


class Row(NamedTuple):
    """A passage: what is asked, what was recorded, what is answered, and what is written ahead. terms: of the replay. took: whether it moves the clock."""

    call: Call
    record: tuple[Crossing, ...]
    value: Any
    played: Played
    terms: dict[str, Any] = {}
    took: bool = True


def row(
    kind: Kind, name: str, seen: Any, record: dict[str, Any] | None, value: Any, played: dict[str, Any], crossing: dict[str, Any],
    terms: dict[str, Any] | None = None, *, took: bool = True, **call: Any,
) -> Row:  # fmt: skip
    """A row. record, call, crossing: what is not as usual."""
    at = {name: call[name] for name in ("sub", "at") if name in call}
    usual = {"seen": seen, "raw": value, "shown": value}
    kept = () if record is None else (a_record(2, kind, name, **{**usual, **at, **record}),)
    step = Crossing(**{**HERE, "kind": kind, "name": name, "seen": seen, **at, **crossing})
    return Row(a_call(kind, name, seen, **call), kept, value, Played(crossing=step, **played), terms or {}, took)


def frozen(**more: Any) -> dict[str, Any]:
    return {"boundary": FROZEN, "answered_by": RECORDED, "exercised": False, **more}


def live(**more: Any) -> dict[str, Any]:
    return {"boundary": LIVE, "answered_by": AnsweredBy.LIVE, **more}


def cut(**given: Any) -> dict[str, Any]:
    return {"cut": CutPoint(mode=Mode.CUT_POINT, **{name: frozenset({value}) for name, value in given.items()})}


def tool(name: str, *, fn: Any = None) -> dict[str, Any]:
    """What the call of a tool says besides."""
    return {"proposed": {"asked": "before hooks"}, "declared": Declared(name=name, fn=fn)}


def keyed(name: str, asked: Any = ASKED, **more: Any) -> dict[str, Any]:
    return {"key": POLICY.key(name, asked), "state": "s0", **more}


PROPOSED = {"proposed": {"asked": "before hooks"}}
NEW = f"{SCOPE}/desk:new-{POLICY.key('desk', ASKED).removeprefix('c1:')[:8]}#0"
ROWS: dict[str, Row] = {
    "a user's turn": row(Kind.USER, "customer", "ready?", {}, SAID, frozen(matched="#2"), {"raw": SAID}),
    "a person's answer": row(Kind.HUMAN, "boss", ASKED, {}, SAID, frozen(matched="#2"), keyed("boss", raw=SAID)),
    "a declared grant": row(
        Kind.HUMAN, "boss", ASKED, None, SAID, frozen(answered_by=AnsweredBy.DECLARED), keyed("boss", raw=SAID),
        {"grants": [DeclaredGrant(human="boss", answer=SAID)]}, took=False,
    ),
    "an output": row(
        Kind.MODEL, "planner", REQUEST, {}, OUTPUT, frozen(matched="#2"), {"raw": OUTPUT, "key": digest(REQUEST)}
    ),
    "an output for another request": row(
        Kind.MODEL, "planner", REQUEST, {"seen": {"messages": []}}, OUTPUT, frozen(matched="#2", drift="messages"), {"raw": OUTPUT, "key": digest(REQUEST)}
    ),
    "a live model's output": row(
        Kind.MODEL, "planner", REQUEST, {}, OUTPUT, live(), {"key": digest(REQUEST)}, cut(live="model:planner"), took=False
    ),
    "a handoff": row(Kind.HANDOFF, "desk", ASKED, {"at": "/there"}, SAID, live(), {"key": POLICY.key("desk", ASKED), "at": "/there"}, took=False),
    "a new handoff": row(Kind.HANDOFF, "desk", ASKED, None, SAID, live(), {"key": POLICY.key("desk", ASKED), "at": NEW}, took=False),
    "a frozen handoff": row(
        Kind.HANDOFF, "desk", ASKED, {"at": "/there"}, SAID, frozen(matched="#2"), {"key": POLICY.key("desk", ASKED), "at": "/there", "raw": SAID},
        cut(freeze="handoff:desk"),
    ),
    "a hook": row(
        Kind.HOOK, "strip", ASKED, {}, SAID, live(), {"key": key("strip", ASKED)}, sub=2, at="after:find", took=False
    ),
    "a frozen hook": row(
        Kind.HOOK, "strip", ASKED, {}, SAID, frozen(), {"key": key("strip", ASKED), "raw": SAID}, cut(freeze="hook:strip"), sub=2, at="after:find", took=False
    ),
    "a read": row(
        Kind.TOOL, "find", ASKED, {}, SAID, frozen(matched="#2"), {**keyed("find"), **PROPOSED, "effect": Effect.READ, "raw": SAID}, **tool("find")
    ),
    "a live read": row(
        Kind.TOOL, "find", ASKED, {"seq": 7}, SAID, live(), {**keyed("find"), **PROPOSED, "effect": Effect.READ}, cut(live="tool:find"), took=False, **tool("find")
    ),
    "a pure tool with code": row(
        Kind.TOOL, "add", ASKED, {"seq": 7, "effect": "none"}, SAID, live(), {**keyed("add"), **PROPOSED, "effect": Effect.NONE}, took=False, **tool("add", fn=len)
    ),
    "a pure tool without code": row(
        Kind.TOOL, "add", ASKED, {"effect": "none"}, SAID, frozen(matched="#2"), {**keyed("add"), **PROPOSED, "effect": Effect.NONE, "raw": SAID}, **tool("add")
    ),
    "a recorded write": row(
        Kind.TOOL, "pay", {**ASKED, "token": "t1"}, {"effect": "write"}, SAID,
        {"boundary": INTERCEPTED, "answered_by": RECORDED, "matched": "#2", "exercised": False, "idempotency_key": "t1"},
        {**keyed("pay"), **PROPOSED, "effect": Effect.WRITE, "raw": SAID}, **tool("pay"),
    ),
    "a write that nobody recorded": row(
        Kind.TOOL, "pay", {**ASKED, "token": "t1"}, None, {"ok": True},
        {"boundary": INTERCEPTED, "answered_by": AnsweredBy.OK, "exercised": False, "idempotency_key": "t1"},
        {**keyed("pay"), **PROPOSED, "effect": Effect.WRITE, "raw": {"ok": True}}, took=False, **tool("pay"),
    ),
    "a tightened read": row(
        Kind.TOOL, "find", ASKED, None, {"ok": True}, {"boundary": INTERCEPTED, "answered_by": AnsweredBy.OK, "exercised": False},
        {**keyed("find"), **PROPOSED, "effect": Effect.WRITE, "tightened": True, "raw": {"ok": True}}, took=False,
        proposed={"asked": "before hooks"}, declared=Declared(name="find", fn=None, tightened=True),
    ),
}  # fmt: skip


def asking(case: Row, *more: Crossing) -> Asking:
    return Asking(*case.record, CHECK, *more, **case.terms)


@pytest.mark.parametrize("name", ROWS)
def test_a_passage_is_written_ahead_whole(name: str) -> None:
    case = ROWS[name]
    ask = asking(case)
    answer = ask.cross(case.call)
    assert (answer.live, answer.error) == (case.played.boundary is LIVE, None)
    if not answer.live:
        assert answer.value == case.value
    assert ask.told.played == [case.played]
    assert (answer.scope or "") == (case.played.crossing.at if case.call.kind is Kind.HANDOFF and answer.live else "")


@pytest.mark.parametrize("name", ROWS)
def test_what_came_of_a_passage_is_written_as_it_closes(name: str) -> None:
    case = ROWS[name]
    ask = asking(case)
    ask.cross(case.call).close(Closing(raw={"came": 1}, shown={"went": 2}))
    kept = {"raw": {"came": 1}} if case.call.kind is not Kind.TOOL or case.played.boundary is LIVE else {}
    closed = msgspec.structs.replace(case.played.crossing, shown={"went": 2}, **kept)
    assert ask.told.played == [msgspec.structs.replace(case.played, crossing=closed)]


@pytest.mark.parametrize("name", ROWS)
def test_an_error_is_proof_where_tools_yaml_says_so(name: str) -> None:
    case = ROWS[name]
    ask = asking(case)
    ask.cross(case.call).close(Closing(error=Shut("no")))
    listed = case.call.name != "add"
    assert ask.last.crossing.error == ErrorRecord(cls="asking.Shut", type="shut", message="no", definite=listed)


@pytest.mark.parametrize("name", ROWS)
def test_what_cannot_be_written_at_the_end_is_a_fault_of_that_passage(name: str) -> None:
    case = ROWS[name]
    ask = asking(case)
    answer = ask.cross(case.call)
    place = "#7.2" if case.call.sub else "#7"
    told = ask.faults(answer, Closing(raw=Money(), shown=Money()))
    assert (told or "").startswith(f"{case.call.kind}:{case.call.name} at {place}: a Money has no canonical form")


@pytest.mark.parametrize("name", ROWS)
def test_what_a_served_passage_took_passes_on_the_clock(name: str) -> None:
    case = ROWS[name]
    ask = asking(case)
    now = Call(kind=Kind.CLOCK, name="now", seq=1, sub=1)
    before = ask.cross(now).value
    ask.through(case.call, raw=case.value, shown=case.value)
    after = ask.cross(msgspec.structs.replace(now, sub=2)).value
    assert (after - before).total_seconds() == (1.0 if case.took else 0.0)


UNSHOWN = {"an output", "an output for another request", "a hook", "a frozen hook", "a frozen handoff"}
"""What goes back is the record's own, or is told of by what comes after it."""


@pytest.mark.parametrize("name", ROWS)
def test_what_goes_back_otherwise_makes_the_outputs_after_it_stale(name: str) -> None:
    case = ROWS[name]
    as_recorded, other, raised = asking(case), asking(case), asking(case)
    as_recorded.through(case.call, raw=case.value, shown=case.value)
    assert as_recorded.stale() == (not case.record)
    other.through(case.call, raw=case.value, shown={"went": 2})
    assert other.stale() == (name not in UNSHOWN)
    raised.through(case.call, error=Shut("no"))
    assert raised.stale() == (name not in UNSHOWN)


# Draws of the clock, of chance and of flags come back and are over.


@pytest.mark.parametrize(
    ("kind", "name", "raw", "value"),
    [
        (Kind.RANDOM, "seed", 42, 42),
        (Kind.FLAG, "fast", [True], [True]),
        (Kind.CLOCK, "now", UNSET, datetime.fromisoformat("2026-06-02T10:00:00+00:00")),
    ],
)
def test_a_draw_is_written_ahead_whole(kind: Kind, name: str, raw: Any, value: Any) -> None:
    ask = Asking(a_record(5, kind, name, sub=1, parent="#5", seen=UNSET, raw=raw, shown=UNSET))
    answer = ask.cross(a_call(kind, name, UNSET, sub=1))
    assert (answer.live, answer.value, answer.error) == (False, value, None)
    step = Crossing(**{**HERE, "sub": 1, "kind": kind, "name": name, "raw": value})
    assert ask.told.played == [Played(crossing=step, boundary=FROZEN, answered_by=RECORDED, exercised=False)]


def test_chance_belongs_to_where_it_is_drawn() -> None:
    """The agent's own loop and each passage in whose code it is drawn have their own, in each scope."""
    drawn = [("", None, 1), (SCOPE, None, 2), (SCOPE, "#5", 3), ("", "#5", 4)]
    record = [
        a_record(5, Kind.RANDOM, "seed", sub=at, scope=scope, parent=parent, raw=raw)
        for at, (scope, parent, raw) in enumerate(drawn)
    ]
    for scope, parent, raw in drawn:
        call = a_call(Kind.RANDOM, "seed", UNSET, sub=1, scope=scope, parent=parent)
        assert Asking(*record).cross(call).value == raw


def test_a_pinned_flag_is_a_recorded_one() -> None:
    pins = Pins(clock=Clock(instant_ns=TUESDAY_NS), flags={"fast": "pinned"})
    ask = Asking(pins=pins)
    for at in (1, 2):
        assert ask.cross(a_call(Kind.FLAG, "fast", UNSET, sub=at)).value == "pinned"
