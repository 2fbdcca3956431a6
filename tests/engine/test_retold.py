"""What lay inside a passage that is answered from the record: told again, numbered anew, whole; and what it does to all that comes after."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from asking import HERE, SCOPE, Asking, a_call, a_record
from builders import a_policy
from small_worlds import POLICY as OF_WORLD
from small_worlds import a_world
from twiceshy.envelope import Crossing, Effect, ErrorRecord, Kind
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.policy import ToolPolicy
from twiceshy.seam import Call, Declared
from twiceshy.stepping import Numbering
from twiceshy.transcript import Played
from twiceshy.worlds.authority import for_run

POLICY = a_policy(
    look=ToolPolicy(effect=Effect.READ, reads=("slots",)), peek=ToolPolicy(effect=Effect.READ, idempotency_key="token"), pay=ToolPolicy(idempotency_key="token", volatile=("token",), touches=("money",)),
)  # fmt: skip
LATE = ErrorRecord(cls="builtins.TimeoutError", type="timeout", message="late")
BELOW = f"{SCOPE}/desk:x#0"
LOOK = a_call(Kind.TOOL, "look", {"day": 1})


def stepping(call: Call, start: int = 20) -> Call:
    """The call of a run that has come to this step."""
    numbers = Numbering()
    while numbers.step() < start - 1:
        pass
    return msgspec.structs.replace(call, numbers=numbers)


def look(seq: int = 2, **given: Any) -> Crossing:
    return a_record(seq, Kind.TOOL, "look", **{"seen": {"day": 1}, "raw": ["x"], "shown": ["x"], "group": 1, **given})


ASKED_OF_A_MODEL = a_record(
    3, Kind.MODEL, "inner", parent="#2", effect=None, seen={"n": 1}, raw={"parts": []}, shown={"parts": []}
)
PAID = a_record(
    4, Kind.TOOL, "pay", parent="#2", group=3, effect="write", seen={"n": 1, "token": "t1"}, raw="paid", shown="paid"
)
HOOKED = a_record(
    4, Kind.HOOK, "strip", sub=1, parent="#2", group=3, at="before:pay", effect=None, seen={"n": 1}, raw={"n": 1}
)
HANDED = a_record(5, Kind.HANDOFF, "desk", parent="#2", group=1, at=BELOW, effect=None, seen=1, raw=2, shown=2)
PEEKED = a_record(
    6, Kind.TOOL, "peek", parent="#5", scope=BELOW, group=9, seen={"token": "t2"}, error=LATE, raw=UNSET, shown=UNSET
)
INSIDE = [ASKED_OF_A_MODEL, PAID, HOOKED, HANDED, PEEKED]


def anew(crossing: Crossing, **given: Any) -> Crossing:
    return msgspec.structs.replace(crossing, **{"start_ns": None, "end_ns": None, **given})


def told(crossing: Crossing, matched: str, key: Any = None) -> Played:
    return Played(
        crossing=crossing, boundary=BoundaryState.FROZEN, answered_by=AnsweredBy.RECORDED, matched=matched, exercised=False, idempotency_key=key,
    )  # fmt: skip


def test_what_lay_inside_is_told_whole() -> None:
    """Its parents and groups are the steps of this run; a step that is none of the passage's keeps its number."""
    ask = Asking(look(), *INSIDE, policy=POLICY)
    ask.through(stepping(LOOK))
    assert ask.told.played[1:] == [
        told(anew(ASKED_OF_A_MODEL, seq=20, parent="#7"), "#3"),
        told(anew(PAID, seq=21, parent="#7", group=20), "#4", "t1"),
        told(anew(HOOKED, seq=21, parent="#7", group=20), "#4.1"),
        told(anew(HANDED, seq=22, parent="#7", group=6), "#5"),
        told(anew(PEEKED, seq=23, parent="#22"), "#6"),
    ]


def test_a_passage_moves_with_the_agent_that_asks() -> None:
    """A call of a tool is found by name, key and state, whichever agent made it in the record: the agents below are below the one that asks now."""
    record = a_record(2, Kind.TOOL, "look", scope="", seen={"day": 1}, raw=["x"], shown=["x"])
    inner = a_record(
        3, Kind.HANDOFF, "desk", scope="", parent="#2", at="/desk:x#0", effect=None, seen=1, raw=2, shown=2
    )
    ask = Asking(record, inner, policy=POLICY)
    ask.through(stepping(LOOK))
    assert ask.told.played[1].crossing == anew(inner, seq=20, parent="#7", scope=SCOPE, at=f"{SCOPE}/desk:x#0")


def test_what_lay_in_an_output_comes_with_it() -> None:
    output = a_record(2, Kind.MODEL, "planner", seen={"n": 1}, raw={"parts": []}, shown={"parts": []})
    ask = Asking(output, a_record(3, Kind.TOOL, "peek", parent="#2"), policy=POLICY)
    ask.through(stepping(a_call(Kind.MODEL, "planner", {"n": 1})))
    assert [(one.crossing.place, one.matched) for one in ask.told.played] == [("#7", "#2"), ("#20", "#3")]


def test_an_agent_without_a_place_stays_without_one() -> None:
    inner = a_record(3, Kind.HANDOFF, "desk", parent="#2", effect=None, seen=1, raw=2, shown=2)
    ask = Asking(look(), inner, policy=POLICY)
    ask.through(stepping(LOOK))
    assert ask.told.played[1].crossing.at is None


def test_steps_are_told_in_their_recorded_order() -> None:
    """Whatever lay in which: the second step of the passage lay in the first, and in a hook of it."""
    inner = [
        a_record(4, Kind.TOOL, "look", parent="#3.1", seen={"day": 2}),
        a_record(3, Kind.TOOL, "peek", parent="#2"),
        a_record(5, Kind.TOOL, "look", parent="#4", seen={"day": 3}),
        a_record(3, Kind.HOOK, "strip", sub=1, parent="#2", at="after:peek", effect=None),
        a_record(6, Kind.TOOL, "look", parent="#2", seen={"day": 4}),
    ]
    ask = Asking(look(), *inner, policy=POLICY)
    ask.through(stepping(LOOK))
    steps = [(one.crossing.place, one.crossing.parent, one.matched) for one in ask.told.played[1:]]
    assert steps == [
        ("#20", "#7", "#3"), ("#20.1", "#7", "#3.1"), ("#21", "#20.1", "#4"), ("#22", "#21", "#5"), ("#23", "#7", "#6"),
    ]  # fmt: skip


def test_code_that_was_called_inside_is_told_with_its_passage() -> None:
    """Under the next number within the step; what lay in the code lies in it again. Draws are nobody's code: they are only used up."""
    drawn = msgspec.structs.replace(flags(True)[0], parent="#2")
    router = a_record(2, Kind.ROUTER, "way", sub=3, parent="#2", group=1, effect=None, seen=1, raw="left", shown=UNSET)
    deeper = a_record(
        2, Kind.ROUTER, "way", sub=4, parent="#2.3", group=1, effect=None, seen=2, raw="right", shown=UNSET
    )
    inner = a_record(3, Kind.TOOL, "peek", parent="#2.4", group=1)
    ask, call = Asking(look(), drawn, router, deeper, inner, policy=POLICY), stepping(LOOK)
    assert call.numbers is not None
    assert call.numbers.sub(7) == 1
    ask.through(call)
    assert ask.told.played[1:] == [
        told(anew(router, seq=7, sub=2, parent="#7", group=6), "#2.3"),
        told(anew(deeper, seq=7, sub=3, parent="#7.2", group=6), "#2.4"),
        told(anew(inner, seq=20, parent="#7.3", group=6), "#3"),
    ]


def test_what_lay_in_code_of_a_step_inside_is_told_once() -> None:
    router = a_record(3, Kind.ROUTER, "way", sub=1, parent="#3", effect=None)
    guard = a_record(3, Kind.GUARD, "limit", sub=2, at="before:peek", effect=None)
    steps = [a_record(4, Kind.TOOL, "look", parent="#3.1"), a_record(5, Kind.TOOL, "look", parent="#3.2")]
    ask = Asking(look(), a_record(3, Kind.TOOL, "peek", parent="#2"), router, guard, *steps, policy=POLICY)
    ask.through(stepping(LOOK))
    places = [(one.crossing.place, one.crossing.parent, one.matched) for one in ask.told.played[1:]]
    assert places == [
        ("#20", "#7", "#3"), ("#20.1", "#20", "#3.1"), ("#20.2", None, "#3.2"), ("#21", "#20.1", "#4"), ("#22", "#20.2", "#5"),
    ]  # fmt: skip


def test_a_call_without_numbers_has_its_inside_told_by_its_caller() -> None:
    router = a_record(2, Kind.ROUTER, "way", sub=3, parent="#2", effect=None)
    ask = Asking(look(), router, a_record(3, Kind.TOOL, "peek", parent="#2"), policy=POLICY)
    ask.through(LOOK)
    assert [one.crossing.place for one in ask.told.played] == ["#7"]


def test_a_write_inside_leaves_the_tables_of_a_world_unknown() -> None:
    moved = a_record(3, Kind.TOOL, "move", parent="#2", effect="write", seen={"id": "K1", "slot": "S1"})
    ask = Asking(
        a_record(2, Kind.TOOL, "weather", seen={}),
        moved,
        policy=OF_WORLD,
        world=for_run(a_world(), OF_WORLD, first=False),
    )
    ask.through(stepping(a_call(Kind.TOOL, "weather", {})))
    assert [one.unsettled for one in ask.told.played] == [[], ["appointments", "slots"]]


# What it does to what comes after.


def test_a_call_goes_on_from_a_failed_one_inside() -> None:
    ask = Asking(
        look(), a_record(3, Kind.TOOL, "peek", parent="#2", error=LATE, raw=UNSET, shown=UNSET), a_record(4, Kind.TOOL, "peek"), policy=POLICY
    )  # fmt: skip
    ask.through(stepping(LOOK))
    ask.through(a_call(Kind.TOOL, "peek", {}, seq=30))
    assert (ask.last.crossing.attempt, ask.last.matched) == (2, "#4")


def test_a_write_of_unknown_arguments_inside_is_a_write() -> None:
    """It has no key and answers nobody; the state after it is the recorded one all the same."""
    unknown = a_record(3, Kind.TOOL, "pay", parent="#2", effect="write", seen=UNSET)
    after = a_record(4, Kind.TOOL, "peek", group=5)
    ask = Asking(look(), unknown, after, policy=POLICY)
    ask.through(stepping(LOOK))
    ask.through(a_call(Kind.TOOL, "peek", {}, seq=30, group=29))
    assert ask.last.matched == "#4"
    without = Asking(look(), unknown, after, policy=POLICY)
    assert without.diverges(a_call(Kind.TOOL, "peek", {})).kind is Divergence.STATE_MISMATCH


@pytest.mark.parametrize(
    ("inner", "again"),
    [
        (a_record(3, Kind.TOOL, "peek", parent="#2"), True),
        (a_record(3, Kind.TOOL, "pay", parent="#2", effect="write"), False),
        (a_record(3, Kind.TOOL, "pay", parent="#2", effect="write", blocked_by="limit"), True),
        (a_record(3, Kind.USER, "customer", parent="#2"), False),
        (a_record(3, Kind.HUMAN, "boss", parent="#2"), False),
    ],
    ids=["read", "write", "blocked write", "user", "person"],
)
def test_what_happened_once_inside_is_not_told_twice(inner: Crossing, *, again: bool) -> None:
    ask = Asking(look(), inner, policy=POLICY)
    ask.through(stepping(LOOK))
    if again:
        ask.through(stepping(a_call(Kind.TOOL, "look", {"day": 1}, seq=10), start=40))
        told = [(one.crossing.place, one.answered_by) for one in ask.told.played]
        assert told == [
            ("#7", AnsweredBy.RECORDED),
            ("#10", AnsweredBy.REPEATED),
            ("#20", AnsweredBy.RECORDED),
        ]
    else:
        asked = a_call(Kind.TOOL, "look", {"day": 1}, group=6)
        told = ask.diverges(stepping(msgspec.structs.replace(asked, seq=10), start=40))
        assert told.kind is Divergence.EXHAUSTED


@pytest.mark.parametrize("deep", ["#2", "#3", "#3.1"])
def test_what_happened_once_counts_however_deep_it_lay(deep: str) -> None:
    peek = a_record(3, Kind.TOOL, "peek", parent="#2")
    hook = a_record(3, Kind.HOOK, "strip", sub=1, parent="#2", at="after:peek", effect=None)
    ask = Asking(look(), peek, hook, a_record(4, Kind.HUMAN, "boss", parent=deep), policy=POLICY)
    ask.through(stepping(LOOK))
    asked = stepping(a_call(Kind.TOOL, "look", {"day": 1}, seq=10), start=40)
    assert ask.diverges(asked).kind is Divergence.EXHAUSTED


USED_UP: dict[str, tuple[Crossing, Call, Divergence]] = {
    "user": (
        a_record(3, Kind.USER, "customer", parent="#2", seen="q", raw="a", shown="a"), a_call(Kind.USER, "customer", "q", seq=30), Divergence.EXHAUSTED
    ),
    "person": (a_record(3, Kind.HUMAN, "boss", parent="#2", raw="a", shown="a"), a_call(Kind.HUMAN, "boss", {}, seq=30), Divergence.EXHAUSTED),
    "output": (a_record(3, Kind.MODEL, "inner", parent="#2"), a_call(Kind.MODEL, "inner", {"n": 2}, seq=30), Divergence.MODEL_EXHAUSTED),
}  # fmt: skip


@pytest.mark.parametrize("name", USED_UP)
def test_what_lay_inside_is_used_up(name: str) -> None:
    inner, call, kind = USED_UP[name]
    ask = Asking(look(), inner, policy=POLICY)
    ask.through(stepping(LOOK))
    assert ask.diverges(call).kind is kind


def test_a_handoff_inside_is_used_up() -> None:
    inner, outer = (
        a_record(seq, Kind.HANDOFF, "desk", parent=parent, at=at, effect=None, seen=1, raw=2, shown=2)
        for seq, parent, at in ((3, "#2", "/first"), (4, None, "/second"))
    )
    ask = Asking(look(), inner, outer, policy=POLICY)
    ask.through(stepping(LOOK))
    assert ask.cross(a_call(Kind.HANDOFF, "desk", 1, seq=30)).scope == "/second"


def flags(*values: Any) -> list[Crossing]:
    """Reads of a flag: the first one in the body of the tool."""
    return [
        a_record(2, Kind.FLAG, "fast", sub=at, parent="#2" if at == 1 else None, effect=None, seen=UNSET, raw=raw, shown=UNSET)
        for at, raw in enumerate(values, start=1)
    ]  # fmt: skip


@pytest.mark.parametrize("first", [True, UNSET], ids=["known", "unknown"])
def test_a_flag_read_inside_is_used_up(first: Any) -> None:
    ask = Asking(look(), *flags(first, False), policy=POLICY)
    ask.through(LOOK)
    assert ask.cross(a_call(Kind.FLAG, "fast", UNSET, sub=1)).value is False


def test_only_what_was_drawn_in_the_passage_itself_is_used_up_with_it() -> None:
    """A call that takes no steps has what lay deeper told by its caller."""
    drawn = msgspec.structs.replace(flags(True)[0], parent="#2.2")
    ask = Asking(look(), drawn, *flags(UNSET, False)[1:], policy=POLICY)
    ask.through(LOOK)
    assert ask.cross(a_call(Kind.FLAG, "fast", UNSET, sub=1)).value is True


@pytest.mark.parametrize("declared", [None, Declared(name="look", fn=None)], ids=["the long way", "the short way"])
def test_a_plain_answer_is_over_at_once(declared: Declared | None) -> None:
    seen = {"day": 1}
    ask = Asking(look(), policy=POLICY)
    answer = ask.cross(a_call(Kind.TOOL, "look", seen, settles=True, declared=declared, proposed=seen))
    assert (answer.value, answer.settled) == (["x"], True)
    assert (ask.last.crossing.shown, ask.last.crossing.scope) == (["x"], HERE["scope"])
