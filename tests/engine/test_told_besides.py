"""What the rules say of single kinds of passages: frozen code and what it met, streams, people, live calls, and what a world answers."""

from typing import Any

import pytest
from msgspec import UNSET

from asking import CHECK, Asking, Money, Shut, a_call, a_record
from builders import a_policy
from small_worlds import POLICY as OF_WORLD
from small_worlds import WORLD, a_world, changed
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import RETURNED, Crossing, Effect, ErrorRecord, Kind
from twiceshy.identity import digest
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.seam import Call, Closing, Declared
from twiceshy.simulators.served import SimulatedAnswer
from twiceshy.worlds.authority import for_run
from twiceshy.writes import went_unanswered

SAID = {"said": ["yes"]}
REQUEST = {"messages": [{"role": "user", "content": "hi"}]}
HELLO = {"parts": [{"type": "text", "text": "hello"}]}
LATE = ErrorRecord(cls="builtins.TimeoutError", type="timeout", message="late")
PREFIX: dict[str, Any] = {"cut": CutPoint(mode=Mode.CUT_POINT, after=7)}


# Frozen code in a prefix answers what it met in the record.


def code(kind: Kind, name: str, at: str | None, seen: Any) -> Crossing:
    return a_record(7, kind, name, sub=2, at=at, seen=seen, raw=SAID, shown=UNSET)


@pytest.mark.parametrize(("kind", "at"), [(Kind.HOOK, "after:pay"), (Kind.ROUTER, None)])
def test_code_that_sees_no_arguments_meets_the_same_value(kind: Kind, at: str | None) -> None:
    record = code(kind, "strip", at, {"amount": 5, "token": "t1"})
    assert (
        Asking(record, **PREFIX).cross(a_call(kind, "strip", {"token": "t1", "amount": 5.0}, sub=2, at=at)).value
        == SAID
    )
    other = a_call(kind, "strip", {"amount": 5, "token": "t2"}, sub=2, at=at)
    assert Asking(record, **PREFIX).diverges(other).kind is Divergence.ARGS_MISMATCH


@pytest.mark.parametrize("tool", ["pay", "shop:pay"])
@pytest.mark.parametrize("kind", [Kind.HOOK, Kind.GUARD])
def test_code_before_a_tool_meets_arguments_as_its_tool_compares_them(kind: Kind, tool: str) -> None:
    policy = a_policy(**{tool: ToolPolicy(volatile=("token",))})
    record = code(kind, "limit", f"before:{tool}", {"amount": 5, "token": "t1"})

    def asked(amount: int) -> Call:
        return a_call(kind, "limit", {"amount": amount, "token": "t2"}, sub=2, at=f"before:{tool}")

    assert Asking(record, policy=policy, **PREFIX).cross(asked(5)).value == SAID
    assert Asking(record, policy=policy, **PREFIX).diverges(asked(6)).kind is Divergence.ARGS_MISMATCH


def test_code_before_a_tool_meets_the_pseudonyms_of_its_tool() -> None:
    record = code(Kind.HOOK, "fill", "before:pay", {"name": "P1 of pay"})
    call = a_call(Kind.HOOK, "fill", {"name": "Ann"}, sub=2, at="before:pay")
    ask = Asking(
        record, pseudonymise=lambda tool, asked: {"name": f"P1 of {tool}"} if asked == {"name": "Ann"} else 0, **PREFIX
    )
    assert ask.cross(call).value == SAID


def test_code_whose_input_was_not_recorded_is_not_compared() -> None:
    ask = Asking(code(Kind.HOOK, "strip", "after:pay", UNSET), **PREFIX)
    assert ask.cross(a_call(Kind.HOOK, "strip", 1, sub=2, at="after:pay")).value == SAID


@pytest.mark.parametrize(
    ("kind", "value"), [(Kind.GUARD, {"blocked": False, "reason": None}), (Kind.HOOK, {"amount": 5})]
)
def test_code_that_a_prefix_does_not_know_lets_everything_pass(kind: Kind, value: Any) -> None:
    assert Asking(**PREFIX).cross(a_call(kind, "new", {"amount": 5}, sub=2, at="before:pay")).value == value


# Streams.

STREAMED = a_call(Kind.MODEL, "planner", REQUEST, stream=True)
LIVE_MODEL: dict[str, Any] = {"cut": CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))}


def output(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.MODEL, "planner", **{"seen": REQUEST, "raw": HELLO, "shown": UNSET, **given})


def test_a_stream_that_was_taken_whole_is_the_recorded_output_however_it_was_cut() -> None:
    ask = Asking(output(chunks=[{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]), CHECK)
    answer = ask.cross(STREAMED)
    assert [chunk["text"] for chunk in answer.value] == ["hel", "lo"]
    cut_otherwise = {"parts": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}
    answer.close(Closing(raw=cut_otherwise, shown=cut_otherwise))
    assert (ask.last.crossing.raw, ask.last.crossing.shown) == (HELLO, HELLO)
    assert not ask.stale()


def test_of_a_stream_that_was_left_only_what_was_taken_went_back() -> None:
    left = output(raw=UNSET, shown={"parts": []}, chunks=[])
    for record, stale in ((output(), True), (left, False)):
        ask = Asking(record, CHECK)
        ask.cross(STREAMED).close(Closing(shown={"parts": []}))
        assert (ask.last.crossing.raw, ask.last.crossing.shown) == (UNSET, {"parts": []})
        assert ask.stale() is stale


def test_more_of_a_stream_than_was_recorded_is_not_the_recorded_output() -> None:
    ask = Asking(output(raw=UNSET, chunks=[]), CHECK)
    ask.cross(STREAMED).close(Closing(raw=HELLO, shown=HELLO))
    assert (ask.last.crossing.raw, ask.last.crossing.shown) == (HELLO, HELLO)


def test_a_stream_that_broke_as_recorded_leaves_nothing_stale() -> None:
    record = output(raw=UNSET, error=LATE, chunks=[HELLO["parts"][0]])
    same, other = Asking(record, CHECK), Asking(record, CHECK)
    answer = same.cross(STREAMED)
    with pytest.raises(TimeoutError, match="late"):
        list(answer.value)
    assert answer.left is None
    answer.close(Closing(error=TimeoutError("late")))
    assert same.last.crossing.error == LATE
    assert not same.stale()
    other.cross(STREAMED).close(Closing(error=Shut("late")))
    assert other.last.crossing.error == ErrorRecord(cls="asking.Shut", type="shut", message="late", definite=True)
    assert other.stale()


@pytest.mark.parametrize("terms", [{}, LIVE_MODEL], ids=["frozen", "live"])
def test_each_chunk_is_written_ahead(terms: dict[str, Any]) -> None:
    ask = Asking(output(), **terms)
    answer = ask.cross(STREAMED)
    for chunks in ([1], [1, 2]):
        answer.part(chunks[-1])
        assert ask.last.crossing.chunks == chunks


@pytest.mark.parametrize("terms", [{}, LIVE_MODEL], ids=["frozen", "live"])
def test_a_chunk_that_cannot_be_written_is_a_fault_of_its_stream(terms: dict[str, Any]) -> None:
    ask = Asking(output(), **terms)
    answer = ask.cross(STREAMED)
    with pytest.raises(BaseException, match=r"^$"):
        answer.part(Money())
    assert (ask.told.fault or "").startswith("model:planner at #7: a Money has no canonical form")


def test_an_end_of_a_stream_that_cannot_be_written_is_a_fault_of_it() -> None:
    ask = Asking(output())
    told = ask.faults(ask.cross(STREAMED), Closing(shown=Money()))
    assert (told or "").startswith("model:planner at #7: a Money has no canonical form")


def test_a_live_output_is_compared_with_the_one_for_its_request() -> None:
    first, second = (
        output(raw={"parts": [1]}, seen={"messages": [1]}),
        output(3, raw={"parts": [2]}, seen={"messages": [2]}),
    )
    for parts, stale in ((2, False), (1, True)):
        ask = Asking(first, second, CHECK, **LIVE_MODEL)
        ask.through(a_call(Kind.MODEL, "planner", {"messages": [2]}), raw={"parts": [parts]}, shown={"parts": [parts]})
        assert ask.stale() is stale


# People.


def test_a_case_compares_what_was_said_with_what_is() -> None:
    record = a_record(2, Kind.USER, "customer", seen="ready?", raw=SAID, shown=SAID)
    call = a_call(Kind.USER, "customer", "set?")
    ask = Asking(record, agrees=lambda recorded, said: (recorded, said) == ("ready?", "set?"))
    assert ask.cross(call).value == SAID
    assert Asking(record, agrees=lambda recorded, said: False).diverges(call).kind is Divergence.STALE_USER_TURN


def paid(seq: int, **given: Any) -> Crossing:
    return a_record(seq, Kind.TOOL, "pay", **{"effect": "write", "seen": {"n": 1}, "raw": SAID, "shown": SAID, **given})


def boss(seq: int, **given: Any) -> Crossing:
    return a_record(seq, Kind.HUMAN, "boss", **{"seen": "may I?", "raw": SAID, "shown": SAID, **given})


def test_a_person_sees_what_stood_when_the_turn_began() -> None:
    """A write of the turn that asks them is not there yet; one of an earlier turn of the same agent is."""
    for group, at in ((6, 6), (4, 5)):
        ask = Asking(paid(2, group=group), boss(3, group=at))
        ask.through(a_call(Kind.TOOL, "pay", {"n": 1}, group=group))
        assert ask.cross(a_call(Kind.HUMAN, "boss", "may I?", seq=8, group=at)).value == SAID


def test_a_persons_answer_rests_on_what_tools_yaml_says_it_does() -> None:
    policy = a_policy(boss=ToolPolicy(effect=Effect.READ, reads=("rules",)), pay=ToolPolicy(touches=("money",)))
    ask = Asking(boss(2), policy=policy)
    ask.through(a_call(Kind.TOOL, "pay", {"n": 1}, group=1))
    assert ask.cross(a_call(Kind.HUMAN, "boss", "may I?", seq=8)).value == SAID
    narrow = Asking(boss(2), policy=a_policy(pay=ToolPolicy(touches=("money",))))
    narrow.through(a_call(Kind.TOOL, "pay", {"n": 1}, group=1))
    assert narrow.diverges(a_call(Kind.HUMAN, "boss", "may I?", seq=8)).kind is Divergence.STATE_MISMATCH


# Tools.


def test_a_live_read_is_compared_with_a_call_of_its_own_name_only() -> None:
    live = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"tool:find"}))
    for name, stale in (("find", False), ("peek", True)):
        ask = Asking(a_record(7, Kind.TOOL, name, raw=SAID, shown=SAID), CHECK, cut=live)
        ask.through(a_call(Kind.TOOL, "find", {}), raw=SAID, shown=SAID)
        assert ask.stale() is stale


def test_an_error_that_was_returned_is_no_result_to_hold_against_a_schema() -> None:
    error = ErrorRecord(cls=RETURNED, type="full", message="full")
    ask = Asking(a_record(2, Kind.TOOL, "find", raw=["full"], shown=["full"], error=error))
    answer = ask.cross(
        a_call(Kind.TOOL, "find", {}, declared=Declared(name="find", fn=None, result_schema={"type": "object"}))
    )
    assert (answer.value, ask.last.crossing.error) == (["full"], error)


def test_a_refused_write_says_what_is_wrong_with_it() -> None:
    schema = {"properties": {"n": {"type": "string"}}}
    ask = Asking()
    answer = ask.through(a_call(Kind.TOOL, "pay", {"n": 1}, declared=Declared(name="pay", fn=None, schema=schema)))
    assert str(answer.error) == "type at $.n"
    assert (ask.last.answered_by, ask.last.crossing.error) == (
        AnsweredBy.VALIDATION,
        ErrorRecord(cls="twiceshy.writes.InvalidArguments", type="validation", message="type at $.n", definite=True),
    )


def test_a_write_that_nobody_declared_is_answered_too() -> None:
    assert Asking().cross(a_call(Kind.TOOL, "pay", {"n": 1})).value == {"ok": True}


# A world.


def in_world(written: dict[str, Any] = WORLD, **terms: Any) -> Asking:
    world = for_run(a_world(written), OF_WORLD, first=True)
    return Asking(policy=OF_WORLD, world=world, cut=CutPoint(mode=Mode.WORLD), **terms)


def of(tool: str, asked: Any, **declared: Any) -> Call:
    return a_call(Kind.TOOL, tool, asked, declared=Declared(name=tool, fn=None, **declared))


def test_a_worlds_result_is_held_against_the_schema_of_the_code() -> None:
    told = in_world().diverges(of("look", {"id": "K1"}, result_schema={"type": "string"}))
    assert (told.kind, told.place, told.detail) == (Divergence.SCHEMA_MISMATCH, "#7", "type at $ in the world's result")
    assert in_world().cross(of("look", {"id": "K1"}, result_schema={"type": "object"})).value == {
        "id": "K1",
        "day": "mon",
    }


def test_an_error_of_a_world_is_no_result() -> None:
    raised = in_world().cross(of("look", {"id": "K9"}, result_schema={"type": "object"}))
    assert str(raised.error) == "no appointment K9"
    returning = changed(WORLD, "tools", "look", "rows", "found", "absent", to={"answer": ["none"], "type": "not_found"})
    assert in_world(returning).cross(of("look", {"id": "K9"}, result_schema={"type": "object"})).value == ["none"]


def test_only_a_writes_arguments_are_held_against_its_schema() -> None:
    needs = {"required": ["zone"]}
    assert in_world().cross(of("look", {"id": "K1"}, schema=needs)).value == {"id": "K1", "day": "mon"}
    assert str(in_world().cross(of("move", {"id": "K1", "slot": "S1"}, schema=needs)).error) == "required at $"


def test_a_simulator_may_answer_what_a_world_does_not_know() -> None:
    asked = {"id": "K7"}
    ask = in_world(simulated=[SimulatedAnswer(tool="look", asked=digest(asked), value={"day": "sat"})])
    assert ask.cross(of("look", asked)).value == {"day": "sat"}
    assert ask.last.answered_by is AnsweredBy.SIMULATED


def test_a_write_that_a_world_does_not_know_was_asked_for_all_the_same() -> None:
    ask = in_world()
    assert ask.diverges(of("move", {"id": "K7", "slot": "S1"})).kind is Divergence.WORLD_MISS
    assert (ask.last.boundary, went_unanswered(ask.last.crossing)) == (BoundaryState.INTERCEPTED, True)
    ask = in_world()
    assert ask.diverges(of("look", {"id": "K7"})).kind is Divergence.WORLD_MISS
    assert ask.told.played == []
