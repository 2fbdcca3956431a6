"""What the rules say of single kinds of passages: frozen code and what it met, streams, people; and what no replay can go on from."""

from typing import Any

import pytest
from msgspec import UNSET

from asking import CHECK, SCOPE, Asking, Money, Shut, a_call, a_record
from builders import TUESDAY_NS, a_policy, an_envelope
from small_worlds import POLICY as OF_WORLD
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Effect, ErrorRecord, Kind
from twiceshy.errors import TwiceshyError
from twiceshy.journal import Journal
from twiceshy.outcome import AnsweredBy, Divergence, Mode
from twiceshy.pinned import SteppedClock
from twiceshy.policy import ToolPolicy
from twiceshy.replaying import Replay, RunFaulted, Terms
from twiceshy.seam import Call, Closing

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


# Outputs, handoffs, the clock, and the end.


def test_an_output_that_is_asked_for_again_is_a_repeated_one() -> None:
    ask = Asking(output())
    for at, by in ((10, AnsweredBy.RECORDED), (11, AnsweredBy.REPEATED)):
        ask.through(a_call(Kind.MODEL, "planner", REQUEST, seq=at))
        assert ask.last.answered_by is by


def test_a_handoff_of_unknown_input_is_the_next_of_its_name() -> None:
    known = a_record(3, Kind.HANDOFF, "desk", effect=None, seen=1, at="/second")
    ask = Asking(a_record(2, Kind.HANDOFF, "desk", effect=None, seen=UNSET, at="/first"), known)
    assert ask.cross(a_call(Kind.HANDOFF, "desk", 1)).scope == "/second"
    assert ask.cross(a_call(Kind.HANDOFF, "desk", 2, seq=8)).scope == "/first"


def test_an_agent_that_is_handed_to_sees_what_stood_when_the_turn_began() -> None:
    below = f"{SCOPE}/desk:x#0"
    handed = a_record(3, Kind.HANDOFF, "desk", effect=None, group=6, seen=1, at=below)
    ask = Asking(
        paid(2, group=6), handed, a_record(4, Kind.TOOL, "find", scope=below, parent="#3", raw=SAID, shown=SAID)
    )
    ask.through(a_call(Kind.TOOL, "pay", {"n": 1}))
    assert ask.cross(a_call(Kind.HANDOFF, "desk", 1, seq=8)).scope == below
    assert ask.cross(a_call(Kind.TOOL, "find", {}, seq=9, scope=below, group=None)).value == SAID
    assert ask.last.crossing.state == "s0"


def test_a_replay_goes_by_the_clock_it_is_given() -> None:
    clock = SteppedClock(TUESDAY_NS + 5_000_000_000)
    lines: list[bytes] = []
    replay = Replay(an_envelope(), Terms(policy=OF_WORLD), Journal(lines.append), clock=clock)
    assert replay.cross(a_call(Kind.CLOCK, "now", UNSET, sub=1)).value.second == 5


class PastIt(TwiceshyError):
    """What an adapter says of a call that would lead past its boundary."""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (a_call(Kind.TOOL, "find", {}, refused=PastIt("it has no boundary")), "tool:find at #7: it has no boundary"),
        (a_call(Kind.MODEL, "planner", Money()), "model:planner at #7: a Money has no canonical form"),
    ],
)
def test_what_no_replay_can_go_on_from_is_a_fault_with_its_place(call: Call, says: str) -> None:
    ask = Asking()
    with pytest.raises(RunFaulted):
        ask.cross(call)
    assert (ask.told.fault or "").startswith(says)
    assert ask.told.divergence is None
