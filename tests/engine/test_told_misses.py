"""What a replay says of each kind of passage that it cannot answer, word for word: the divergence, where it is, and what was near."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from asking import HERE, SCOPE, Asking, Money, Shut, a_call, a_record
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Effect, ErrorRecord, Kind
from twiceshy.outcome import Divergence, Mode
from twiceshy.seam import Call, Closing, Declared
from twiceshy.transcript import Diverged, FieldDiff, Near

ASKED = {"amount": 5}
OTHER = {"amount": 6}
SAID = {"said": ["yes"]}
REQUEST = {"messages": [{"role": "user", "content": "hi"}]}
OUTPUT = {"parts": [{"type": "text", "text": "hello"}]}
UNKNOWN: dict[str, Any] = {"raw": UNSET, "shown": UNSET}
SERVED = Near(place="#2", reason="already served")
DIFFERENT = Near(place="#2", reason="other arguments", fields=[FieldDiff(path="amount", recorded=6, got=5)])
PREFIX = {"cut": CutPoint(mode=Mode.CUT_POINT, after=7)}


def frozen(name: str) -> dict[str, Any]:
    return {"cut": CutPoint(mode=Mode.CUT_POINT, freeze=frozenset({name}))}


def user(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.USER, "customer", **{"seen": "ready?", "raw": SAID, "shown": SAID, **given})


def boss(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.HUMAN, "boss", **{"seen": ASKED, "raw": SAID, "shown": SAID, **given})


def output(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.MODEL, "planner", **{"seen": REQUEST, "raw": OUTPUT, "shown": OUTPUT, **given})


def desk(**given: Any) -> Crossing:
    return a_record(2, Kind.HANDOFF, "desk", **{"seen": ASKED, "at": "/there", "raw": SAID, "shown": SAID, **given})


def hook(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.HOOK, "strip", **{"sub": 2, "at": "after:find", "seen": ASKED, "raw": SAID, **given})


def flag(sub: int, value: Any) -> Crossing:
    return a_record(2, Kind.FLAG, "fast", sub=sub, seen=UNSET, raw=value, shown=UNSET)


def find(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.TOOL, "find", **{"seen": ASKED, "raw": SAID, "shown": SAID, **given})


def docs(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.RETRIEVAL, "docs", **{"seen": ASKED, "raw": SAID, "shown": SAID, **given})


THE_USER = a_call(Kind.USER, "customer", "ready?")
THE_BOSS = a_call(Kind.HUMAN, "boss", ASKED)
A_MODEL = a_call(Kind.MODEL, "planner", REQUEST)
A_DESK = a_call(Kind.HANDOFF, "desk", ASKED)
A_HOOK = a_call(Kind.HOOK, "strip", ASKED, sub=2, at="after:find")
A_FLAG = a_call(Kind.FLAG, "fast", UNSET, sub=2)
A_FIND = a_call(Kind.TOOL, "find", ASKED, declared=Declared(name="find", fn=None))
A_LOOK = a_call(Kind.RETRIEVAL, "docs", ASKED, effect=Effect.READ)
MISSES: dict[str, tuple[list[Crossing], Call, int, dict[str, Any], Divergence, str, list[Near]]] = {
    "a user nobody recorded": ([], THE_USER, 0, {}, Divergence.UNRECORDED_CALL, "", []),
    "a tool of the user's name": ([find(name="customer")], THE_USER, 0, {}, Divergence.UNRECORDED_CALL, "", []),
    "a user who did not answer": ([user(**UNKNOWN)], THE_USER, 0, {}, Divergence.UNRECORDED_CALL, "", []),
    "a user with nothing more to say": ([user()], THE_USER, 1, {}, Divergence.EXHAUSTED, "the user has no further recorded turn", []),
    "another message to the user": (
        [user(seen="ready now?")], THE_USER, 0, {}, Divergence.STALE_USER_TURN, "the turn recorded at #2", [Near(place="#2", reason="other arguments")]
    ),
    "another request": ([boss(seen=OTHER)], THE_BOSS, 0, {}, Divergence.ARGS_MISMATCH, "nobody answered this request", [DIFFERENT]),
    "a request made twice": ([boss()], THE_BOSS, 1, {}, Divergence.EXHAUSTED, "nobody answered this request", [SERVED]),
    "a model with nothing more to say": (
        [output()], a_call(Kind.MODEL, "planner", {"messages": []}), 1, {}, Divergence.MODEL_EXHAUSTED, f"all 1 output recorded of 'planner' of agent '{SCOPE}' were served", []
    ),
    "an output whose end nobody knows": (
        [output(raw=UNSET, chunks=[])], A_MODEL, 0, {}, Divergence.SIDE_UNKNOWN, "the stream recorded at #2 was left early", []
    ),
    "an output that something lay in": (
        [output(), boss(3, parent="#2")], A_MODEL, 1, {}, Divergence.MODEL_EXHAUSTED, "what lay inside the output recorded at #2 happened once", []
    ),
    "a live model without the date": (
        [output(seen="it is 2026-06-02")], A_MODEL, 0, {"cut": CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))},
        Divergence.CLOCK_NOT_IN_PROMPT, "the recorded request says '2026-06-02'", [],
    ),
    "a frozen handoff of something else": (
        [desk(seen=OTHER)], A_DESK, 0, frozen("handoff:desk"), Divergence.ARGS_MISMATCH, "a frozen handoff met an input that was not recorded", []
    ),
    "a frozen handoff that never came back": ([desk(**UNKNOWN)], A_DESK, 0, frozen("handoff:desk"), Divergence.SIDE_UNKNOWN, "recorded at #2", []),
    "a frozen hook that meets something else": (
        [hook(seen=OTHER)], A_HOOK, 0, frozen("hook:strip"), Divergence.ARGS_MISMATCH, "frozen code met an input that was not recorded", []
    ),
    "a frozen hook whose answer is unknown": ([hook(**UNKNOWN)], A_HOOK, 0, frozen("hook:strip"), Divergence.SIDE_UNKNOWN, "recorded at #2.2", []),
    "a hook of a prefix that meets something else": ([hook(7, seen=OTHER)], A_HOOK, 0, PREFIX, Divergence.ARGS_MISMATCH, "recorded at #7.2", []),
    "a flag nobody recorded": ([find(name="fast")], A_FLAG, 0, {}, Divergence.FLAG_UNRECORDED, "", []),
    "a flag that nobody read": ([flag(1, UNSET)], A_FLAG, 0, {}, Divergence.FLAG_UNRECORDED, "", []),
    "a flag that changed": ([flag(1, 1), flag(2, 0)], A_FLAG, 2, {}, Divergence.EXHAUSTED, "2 recorded reads differ", []),
    "a tool nobody recorded": ([], A_FIND, 0, {}, Divergence.UNRECORDED_CALL, "", []),
    "a read of something else": ([find(seen=OTHER)], A_FIND, 0, {}, Divergence.ARGS_MISMATCH, "", [DIFFERENT]),
    "a read that nobody declared": ([find(seen=OTHER)], a_call(Kind.TOOL, "find", ASKED), 0, {}, Divergence.ARGS_MISMATCH, "", [DIFFERENT]),
    "a read that was answered in two ways": (
        [find(), find(3, raw=1, shown=1)], A_FIND, 2, {}, Divergence.EXHAUSTED, "", [SERVED, Near(place="#3", reason="already served")]
    ),
    "a look-up of something else": ([docs(seen=OTHER)], A_LOOK, 0, {}, Divergence.ARGS_MISMATCH, "", [DIFFERENT]),
    "a read whose result hooks need": (
        [find(**UNKNOWN)], a_call(Kind.TOOL, "find", ASKED, hooked=frozenset({"after"})), 0, {}, Divergence.SIDE_UNKNOWN, "recorded at #2", []
    ),
    "a result that the code does not take": (
        [find()], a_call(Kind.TOOL, "find", ASKED, declared=Declared(name="find", fn=None, result_schema={"type": "string"})), 0, {},
        Divergence.SCHEMA_MISMATCH, "type at $ in the result recorded at #2", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSES)
def test_a_miss_is_told_whole(name: str) -> None:
    record, call, times, terms, kind, detail, near = MISSES[name]
    ask = Asking(*record, **terms)
    before = a_call(Kind.MODEL, "planner", REQUEST) if call.kind is Kind.MODEL else call
    for at in range(times):
        ask.through(msgspec.structs.replace(before, seq=10 + at))
    assert ask.diverges(call) == Diverged(
        kind=kind, place="#7.2" if call.sub else "#7", boundary=f"{call.kind}:{call.name}", detail=detail, asked=call.seen, nearest=near
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (a_call(Kind.RETRIEVAL, "docs", {"q": Money()}, effect=Effect.READ), Divergence.ARGS_MISMATCH),
        (a_call(Kind.TOOL, "docs", {"q": Money()}, effect=Effect.READ), Divergence.UNRECORDED_CALL),
    ],
    ids=["recorded", "of another kind"],
)
def test_arguments_without_a_key_say_why_they_have_none(call: Call, kind: Divergence) -> None:
    told = Asking(docs()).diverges(call)
    assert (told.kind, told.place, told.boundary) == (kind, "#7", f"{call.kind}:docs")
    assert told.detail.startswith("a Money has no canonical form")


def test_a_live_call_that_reaches_outside_is_told_whole() -> None:
    ask = Asking()
    with pytest.raises(BaseException, match="live_uncontrolled"):
        ask.replay.dialled(A_FIND)
    assert ask.told.divergence == Diverged(
        kind=Divergence.LIVE_UNCONTROLLED, place="#7", boundary="tool:find", asked=ASKED
    )


def test_a_live_model_that_is_reached_past_its_boundary_is_told_whole() -> None:
    ask = Asking()
    with pytest.raises(BaseException, match="live_uncontrolled"):
        ask.replay.dialled(None)
    assert ask.told.divergence == Diverged(
        kind=Divergence.LIVE_UNCONTROLLED,
        place="end",
        boundary="run",
        detail="a live model was asked past its boundary",
    )


def test_more_of_a_stream_that_was_left_early_is_told_whole() -> None:
    ask = Asking(output(raw=UNSET, shown=UNSET, chunks=[OUTPUT["parts"][0]]))
    answer = ask.cross(a_call(Kind.MODEL, "planner", REQUEST, stream=True))
    assert list(answer.value) == OUTPUT["parts"]
    assert answer.left is not None
    with pytest.raises(BaseException, match="model_exhausted"):
        answer.left()
    assert ask.told.divergence == Diverged(
        kind=Divergence.MODEL_EXHAUSTED, place="#7", boundary="model:planner", detail="the stream recorded at #2 was left here", asked=REQUEST
    )  # fmt: skip


# Recorded errors are raised again, and are the same error in what is written down.

LATE = ErrorRecord(cls="builtins.TimeoutError", type="timeout", message="late")
FAILING: dict[str, tuple[Crossing, Call, dict[str, Any]]] = {
    "a user": (user(error=LATE, **UNKNOWN), THE_USER, {}),
    "a person": (boss(error=LATE, **UNKNOWN), THE_BOSS, {}),
    "a frozen handoff": (desk(error=LATE, **UNKNOWN), A_DESK, frozen("handoff:desk")),
    "a model": (output(error=LATE, **UNKNOWN), A_MODEL, {}),
    "a frozen hook": (hook(error=LATE, **UNKNOWN), A_HOOK, frozen("hook:strip")),
    "a read": (find(error=LATE, **UNKNOWN), A_FIND, {}),
    "a write": (find(error=LATE, name="pay", effect="write", **UNKNOWN), a_call(Kind.TOOL, "pay", ASKED), {}),
}
AHEAD = {"a user", "a person", "a frozen handoff"}
"""Where the line ahead of the answer holds the error already."""
CHECK = a_record(80, Kind.MODEL, "check", seen={"messages": []}, raw={"parts": []}, shown={"parts": []}, end_ns=None)


@pytest.mark.parametrize("name", FAILING)
def test_a_recorded_error_is_raised_and_written_again(name: str) -> None:
    record, call, terms = FAILING[name]
    ask = Asking(record, CHECK, **terms)
    answer = ask.cross(call)
    assert (type(answer.error), str(answer.error)) == (TimeoutError, "late")
    assert not answer.live
    if name != "a frozen hook":
        assert answer.value is None
    assert ask.last.matched == (None if name == "a frozen hook" else "#2")
    assert ask.last.crossing.error == (LATE if name in AHEAD else None)
    answer.close(Closing(error=answer.error))
    assert ask.last.crossing.error == LATE
    assert not ask.stale()


LIVING: dict[str, tuple[Crossing, Call, dict[str, Any]]] = {
    "a handoff": (desk(error=LATE, **UNKNOWN), A_DESK, {}),
    "a model": (output(error=LATE, **UNKNOWN), A_MODEL, {"cut": CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))}),
    "a read": (find(7, error=LATE, **UNKNOWN), A_FIND, {"cut": CutPoint(mode=Mode.CUT_POINT, live=frozenset({"tool:find"}))}),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVING)
def test_what_runs_live_into_its_recorded_error_leaves_nothing_stale(name: str) -> None:
    record, call, terms = LIVING[name]
    same, other = Asking(record, CHECK, **terms), Asking(record, CHECK, **terms)
    answer = same.cross(call)
    assert (answer.live, answer.error) == (True, None)
    answer.close(Closing(error=TimeoutError("late")))
    assert not same.stale()
    other.cross(call).close(Closing(error=Shut("late")))
    assert other.stale()


# What is asked and kept as the recording would have it.


@pytest.mark.parametrize(
    ("kind", "name"), [(Kind.USER, "customer"), (Kind.HUMAN, "boss"), (Kind.HANDOFF, "desk"), (Kind.TOOL, "find")]
)
def test_a_pseudonym_is_matched_and_written(kind: Kind, name: str) -> None:
    record = a_record(2, kind, name, seen={"name": f"P1 of {name}"}, at="/there", raw=SAID, shown=SAID)
    ask = Asking(record, pseudonymise=lambda name, asked: {"name": f"P1 of {name}"} if asked == {"name": "Ann"} else 0)
    ask.through(a_call(kind, name, {"name": "Ann"}))
    assert ask.last.crossing.seen == {"name": f"P1 of {name}"}
    assert ask.last.crossing.scope == HERE["scope"] == SCOPE
    assert ask.last.matched == (None if kind is Kind.HANDOFF else "#2")
    if kind is Kind.HANDOFF:
        assert ask.last.crossing.at == "/there"
