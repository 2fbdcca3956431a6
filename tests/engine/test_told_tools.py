"""What the rules say of calls of tools, passage by passage: whose effect counts, what a read sees, what was returned, and what a world answers."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from asking import CHECK, Asking, a_call, a_record
from builders import a_policy
from small_worlds import POLICY as OF_WORLD
from small_worlds import WORLD, a_world, changed
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import RETURNED, Effect, ErrorRecord, Kind
from twiceshy.identity import digest
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.seam import Call, Closing, Declared
from twiceshy.simulators.served import SimulatedAnswer
from twiceshy.worlds.authority import for_run
from twiceshy.writes import went_unanswered

SAID = {"said": ["yes"]}
LATE = ErrorRecord(cls="builtins.TimeoutError", type="timeout", message="late")


# Tools.


@pytest.mark.parametrize("settles", [True, False])
def test_a_read_sees_what_its_own_agent_wrote(*, settles: bool) -> None:
    find = a_call(
        Kind.TOOL, "find", {}, seq=8, group=7, settles=settles, declared=Declared(name="find", fn=None), proposed={}
    )
    ask = Asking(a_record(2, Kind.TOOL, "find", raw=SAID, shown=SAID))
    ask.through(a_call(Kind.TOOL, "pay", {"n": 1}))
    assert ask.diverges(find).kind is Divergence.STATE_MISMATCH


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("kind", [Kind.TOOL, Kind.RETRIEVAL, Kind.MEMORY])
def test_calls_of_two_kinds_share_no_name(kind: Kind, *, settles: bool) -> None:
    """Neither where a read is answered at its state, nor where a pure tool is by its key alone."""
    for effect in ("read", "none"):
        kinds = (Kind.TOOL, Kind.RETRIEVAL, Kind.MEMORY)
        record = [
            a_record(at, one, "docs", effect=effect, raw=one.value, shown=one.value) for at, one in enumerate(kinds, 2)
        ]
        declared = Declared(kind=kind, name="docs", fn=None, effect=Effect(effect))
        call = a_call(kind, "docs", {}, effect=Effect(effect), settles=settles, declared=declared, proposed={})
        assert Asking(*record).cross(call).value == kind.value


def test_a_live_read_is_compared_with_a_call_of_its_own_name_only() -> None:
    live = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"tool:find"}))
    for name, stale in (("find", False), ("peek", True)):
        ask = Asking(a_record(7, Kind.TOOL, name, raw=SAID, shown=SAID), CHECK, cut=live)
        ask.through(a_call(Kind.TOOL, "find", {}), raw=SAID, shown=SAID)
        assert ask.stale() is stale


RAISED = ErrorRecord(cls=RETURNED, type="full", message="full")


@pytest.mark.parametrize(
    ("raw", "shown", "error", "stale"),
    [
        ([1], [1], None, False),
        ([1], [2], None, True),
        (b"x", b"x", None, False),
        (b"x", b"y", None, True),
        (b"x", b"x", RAISED, False),
        (b"x", b"y", RAISED, True),
    ],
)
def test_an_answer_that_is_over_at_once_goes_back_as_it_is(
    raw: Any, shown: Any, error: ErrorRecord | None, *, stale: bool
) -> None:
    """Where hooks of the recorded agent made something else of it, this agent was shown something else."""
    ask = Asking(a_record(2, Kind.TOOL, "find", raw=raw, shown=shown, error=error), CHECK)
    assert ask.cross(a_call(Kind.TOOL, "find", {}, settles=True)).settled is True
    assert ask.stale() is stale


def test_an_answer_that_is_over_at_once_ends_the_attempts_before_it() -> None:
    failed = a_record(2, Kind.TOOL, "find", error=LATE, raw=UNSET, shown=UNSET)
    ask = Asking(failed, *(a_record(at, Kind.TOOL, "find", raw=SAID, shown=SAID) for at in (3, 4)))
    for at, attempt in enumerate((1, 2, 1), 10):
        ask.through(a_call(Kind.TOOL, "find", {}, seq=at, settles=True))
        assert ask.last.crossing.attempt == attempt


@pytest.mark.parametrize(
    "error", [None, LATE, RAISED, ErrorRecord(cls="asking.Shut", type="shut"), ErrorRecord(cls=RETURNED, definite=True)]
)
def test_a_write_counts_unless_its_error_is_proof(error: ErrorRecord | None) -> None:
    raw = SAID if error is None or error.cls == RETURNED else UNSET
    paid = a_record(2, Kind.TOOL, "pay", effect="write", seen={"n": 1}, raw=raw, shown=raw, error=error)
    ask = Asking(paid, a_record(3, Kind.TOOL, "find", scope="/else", raw=SAID, shown=SAID))
    ask.through(a_call(Kind.TOOL, "pay", {"n": 1}))
    find = a_call(Kind.TOOL, "find", {}, seq=8, group=7)
    if error is not None and (error.definite or error.type == "shut"):
        assert ask.cross(find).value == SAID
    else:
        assert ask.diverges(find).kind is Divergence.STATE_MISMATCH


def test_a_write_with_refused_arguments_changes_nothing() -> None:
    ask = Asking(a_record(2, Kind.TOOL, "find", raw=SAID, shown=SAID))
    ask.through(of("pay", {"n": 1}, schema={"required": ["amount"]}))
    assert ask.cross(a_call(Kind.TOOL, "find", {}, seq=8, group=7)).value == SAID


def test_an_error_that_was_returned_is_no_result_to_hold_against_a_schema() -> None:
    ask = Asking(a_record(2, Kind.TOOL, "find", raw=["full"], shown=["full"], error=RAISED))
    answer = ask.cross(
        a_call(Kind.TOOL, "find", {}, declared=Declared(name="find", fn=None, result_schema={"type": "object"}))
    )
    assert (answer.value, ask.last.crossing.error) == (["full"], RAISED)


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


def test_a_pure_tool_runs_only_where_its_code_is() -> None:
    record = a_record(2, Kind.TOOL, "add", effect="none", raw=SAID, shown=SAID)
    for order in ((None, len), (len, None)):
        ask = Asking(record)
        for at, fn in enumerate(order, 10):
            declared = None if fn is None else Declared(name="add", fn=fn)
            assert ask.cross(a_call(Kind.TOOL, "add", {}, seq=at, declared=declared)).live is (fn is not None)


def test_tools_yaml_outweighs_the_record() -> None:
    ask = Asking(a_record(2, Kind.TOOL, "find", effect="write", raw=SAID, shown=SAID))
    ask.cross(a_call(Kind.TOOL, "find", {}))
    assert (ask.last.crossing.effect, ask.last.boundary) == (Effect.READ, BoundaryState.FROZEN)


def test_defaults_come_from_the_schema_of_the_code() -> None:
    policy = a_policy(find=ToolPolicy(effect=Effect.READ, defaults={"zone": "absent"}))
    schema = {"properties": {"zone": {"default": "UTC"}}}
    record = a_record(2, Kind.TOOL, "find", seen={"zone": "UTC"}, raw=SAID, shown=SAID)
    assert Asking(record, policy=policy).cross(of("find", {}, schema=schema)).value == SAID
    assert Asking(record, policy=policy).diverges(of("find", {})).kind is Divergence.ARGS_MISMATCH


def test_a_simulator_may_answer_what_was_not_recorded() -> None:
    ask = Asking(simulated=[SimulatedAnswer(tool="find", asked=digest({"n": 1}), value=SAID)])
    assert ask.cross(of("find", {"n": 1})).value == SAID
    assert ask.last.answered_by is AnsweredBy.SIMULATED


@pytest.mark.parametrize(("text", "stale"), [("it was late", False), ("all is well", True)])
def test_what_a_model_was_told_of_an_error_counts_too(text: str, *, stale: bool) -> None:
    ask = Asking(a_record(2, Kind.TOOL, "find", error=LATE, raw=UNSET, shown="it was late"), CHECK)
    ask.cross(a_call(Kind.TOOL, "find", {})).close(Closing(error=TimeoutError("late"), shown=text))
    assert ask.stale() is stale


# A world.


def test_a_pure_tool_keeps_nothing_from_a_world() -> None:
    """What the record answered of a resource, the world may not; a pure tool rests on none."""
    world, policy = (
        for_run(a_world(), OF_WORLD, first=False),
        msgspec.structs.replace(OF_WORLD, tools={**OF_WORLD.tools, **a_policy(add="none").tools}),
    )
    for tool, effect, taken in (("add", "none", True), ("look", "read", False)):
        record = a_record(2, Kind.TOOL, tool, effect=effect, seen={"id": "K2"}, raw=SAID, shown=SAID)
        ask = Asking(record, policy=policy, world=world)
        ask.through(of(tool, {"id": "K2"}))
        again = msgspec.structs.replace(of("look", {"id": "K1"}), seq=8)
        if taken:
            assert ask.cross(again).value == {"id": "K1", "day": "mon"}
        else:
            assert ask.diverges(again).kind is Divergence.ARGS_MISMATCH


def in_world(written: dict[str, Any] = WORLD, *, first: bool = True, **terms: Any) -> Asking:
    """A replay with a world: alone, or where the record misses."""
    world = for_run(a_world(written), OF_WORLD, first=first)
    return Asking(policy=OF_WORLD, world=world, cut=CutPoint(mode=Mode.WORLD if first else Mode.FULL), **terms)


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


@pytest.mark.parametrize("first", [True, False])
def test_only_a_writes_arguments_are_held_against_its_schema(*, first: bool) -> None:
    needs, ask = {"required": ["zone"]}, in_world(first=first)
    assert ask.cross(of("look", {"id": "K1"}, schema=needs)).value == {"id": "K1", "day": "mon"}
    refused = msgspec.structs.replace(of("move", {"id": "K1", "slot": "S1"}, schema=needs), seq=8)
    assert str(ask.cross(refused).error) == "required at $"


def test_a_simulator_may_answer_what_a_world_does_not_know() -> None:
    asked = {"id": "K7"}
    ask = in_world(simulated=[SimulatedAnswer(tool="look", asked=digest(asked), value={"day": "sat"})])
    assert ask.cross(of("look", asked)).value == {"day": "sat"}
    assert ask.last.answered_by is AnsweredBy.SIMULATED


@pytest.mark.parametrize("first", [True, False])
def test_a_write_that_a_world_does_not_know_was_asked_for_all_the_same(*, first: bool) -> None:
    ask = in_world(first=first)
    assert ask.diverges(of("move", {"id": "K7", "slot": "S1"})).kind is Divergence.WORLD_MISS
    assert (ask.last.boundary, went_unanswered(ask.last.crossing)) == (BoundaryState.INTERCEPTED, True)
    ask = in_world(first=first)
    assert ask.diverges(of("look", {"id": "K7"})).kind is Divergence.WORLD_MISS
    assert ask.told.played == []


@pytest.mark.parametrize("first", [True, False])
def test_a_world_has_no_say_in_what_is_pure(*, first: bool) -> None:
    policy = msgspec.structs.replace(OF_WORLD, tools={**OF_WORLD.tools, **a_policy(look="none").tools})
    ask = Asking(policy=policy, world=for_run(a_world(), OF_WORLD, first=first))
    assert ask.diverges(of("look", {"id": "K1"})).kind is Divergence.UNRECORDED_CALL


def test_the_rows_that_a_write_changed_stand_with_it() -> None:
    ask = in_world()
    ask.through(of("move", {"id": "K1", "slot": "S1"}))
    assert [(one.row, one.after) for one in ask.last.changes] == [
        ("appointments[0]", {"id": "K1", "day": "thu"}),
        ("slots[0]", {"slot": "S1", "day": "thu", "open": False}),
    ]
    beside = in_world(first=False)
    beside.through(of("move", {"id": "K1", "slot": "S1", "note": 1}))
    assert [one.row for one in beside.last.changes] == ["appointments[0]", "slots[0]"]


def test_a_write_that_was_recorded_otherwise_leaves_its_tables_unknown() -> None:
    asked = {"id": "K1", "slot": "S1"}
    moved = a_record(2, Kind.TOOL, "move", effect="write", seen=asked, raw=SAID, shown=SAID)
    ask = Asking(moved, policy=OF_WORLD, world=for_run(a_world(), OF_WORLD, first=False))
    ask.through(of("move", asked))
    assert (ask.last.changes, ask.last.unsettled) == ([], ["appointments", "slots"])


def test_an_agent_that_begins_while_another_runs_is_beside_it() -> None:
    """However many have come to their end since."""
    ask = in_world()
    first, second = (ask.cross(a_call(Kind.HANDOFF, "desk", seq, seq=seq, group=None)) for seq in (8, 9))
    first.close(Closing(raw=1, shown=1))
    ask.cross(msgspec.structs.replace(of("move", {"id": "K1", "slot": "S1"}), seq=10, scope=second.scope or ""))
    third = ask.cross(a_call(Kind.HANDOFF, "desk", 11, seq=11, group=None))
    told = ask.diverges(msgspec.structs.replace(of("look", {"id": "K1"}), seq=12, scope=third.scope or ""))
    assert told.kind is Divergence.WORLD_MISS
    assert "side by side" in told.detail
