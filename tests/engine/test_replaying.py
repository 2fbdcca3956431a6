import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from builders import a_policy, recorded, replayed
from shop import POLICY, Agent, diverged, record, replay
from twiceshy.boundary import Blocked, Boundary
from twiceshy.cutpoint import CutPoint, LiveWrite, UnknownBoundary
from twiceshy.envelope import Effect
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.writes import DeclaredWrite


def test_record_then_replay_is_the_identity() -> None:
    envelope = record()
    told = replay(envelope)
    assert told.divergence is None
    assert told.disposition == envelope.disposition
    assert [(p.crossing.place, p.crossing.name, p.matched) for p in told.played if not p.crossing.sub] == [
        ("#1", "planner", "#1"), ("#2", "find", "#2"), ("#3", "planner", "#3"), ("#4", "pay", "#4")]  # fmt: skip
    assert not any(p.stale or p.drift for p in told.played)


def test_the_same_replay_has_one_digest() -> None:
    envelope = record()
    assert replay(envelope).digest == replay(envelope).digest


def test_a_read_with_other_arguments_diverges() -> None:
    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        return find(day="fri")

    told = replay(record(), body)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH
    near = told.divergence.nearest[0]
    assert (near.place, near.reason, near.fields[0].path) == ("#2", "other arguments", "day")


def test_the_first_divergence_ends_the_run() -> None:
    def stubborn(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        try:
            find(day="fri")
        except Exception:  # noqa: BLE001 - what a careless agent does
            return pay(amount=100)

    told = replay(record(), stubborn)
    assert diverged(told) is Divergence.ARGS_MISMATCH
    assert [p.crossing.name for p in told.played] == ["planner"]
    assert told.disposition is None


def test_an_unrecorded_tool_diverges() -> None:
    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        return None

    envelope = record(body)

    def build(boundary: Boundary) -> Agent:
        look = boundary.tool("look", lambda: 1, effect="read")
        return lambda _: look()

    assert diverged(replayed(build, envelope, policy=a_policy(look="read"))) is Divergence.UNRECORDED_CALL


def test_a_read_under_other_writes_is_a_state_mismatch() -> None:
    def pays_first(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        pay(amount=1)
        planner({"messages": [user, find.__name__]})
        return find(day="thu")

    assert diverged(replay(record(), pays_first)) is Divergence.STATE_MISMATCH


def test_an_unrecorded_write_is_an_intent_and_runs_on() -> None:
    def pays_more(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        find(day="thu")
        return pay(amount=999)

    told = replay(record(), pays_more)
    assert told.divergence is None
    intent = told.played[-1]
    assert intent.intent
    assert (intent.crossing.seen, intent.answered_by, intent.crossing.raw) == (
        {"amount": 999, "note": "none"},
        AnsweredBy.OK,
        {"ok": True},
    )


def test_every_write_is_intercepted_whatever_the_mode() -> None:
    envelope = record()
    for cut in (
        CutPoint(),
        CutPoint(mode=Mode.STUB),
        CutPoint(mode=Mode.CUT_POINT, after=3),
        CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"})),
    ):
        told = replay(envelope, cut=cut)
        assert [p.boundary for p in told.played if p.crossing.name == "pay"] == [BoundaryState.INTERCEPTED], cut.label


@pytest.mark.parametrize(
    ("declared", "policy", "schema", "by", "value"),
    [
        ([DeclaredWrite(tool="pay", args={"amount": 5.0}, answer={"id": 7})], {"answer": {"t": 1}}, None, AnsweredBy.DECLARED, {"id": 7}),
        ([DeclaredWrite(tool="pay", args={"amount": 6}, answer={"id": 7})], {"answer": {"paid": "${args.amount}", "text": "£${args.amount}"}}, None,
         AnsweredBy.TEMPLATE, {"paid": 5, "text": "£5"}),
        ([], {"result_schema": {"type": "object", "required": ["id", "n"], "properties": {"id": {"type": "string"}, "n": {"const": 3}}}}, None,
         AnsweredBy.OUTPUT_SCHEMA, {"id": "", "n": 3}),
        ([], {}, None, AnsweredBy.OK, {"ok": True}),
    ],
)  # fmt: skip
def test_write_answers_are_tried_in_order(declared: Any, policy: Any, schema: Any, by: AnsweredBy, value: Any) -> None:
    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        return pay(amount=5)

    told = replay(record(), body, policy=a_policy(find="read", pay=ToolPolicy(**policy)), declared=declared)
    assert (told.played[0].answered_by, told.disposition.output if told.disposition else None) == (by, value)


def test_invalid_arguments_get_a_definite_error_and_no_effect() -> None:
    policy = a_policy(find="read", pay=ToolPolicy(schema={"properties": {"amount": {"type": "integer"}}}))

    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        try:
            pay(amount="ten")
        except ValueError as refused:
            planner({"messages": [user]})
            return [str(refused), find(day="thu")]

    told = replay(record(), body, policy=policy)
    assert told.divergence is None
    refused = next(p for p in told.played if p.crossing.name == "pay")
    assert refused.answered_by is AnsweredBy.VALIDATION
    assert refused.crossing.error is not None
    assert refused.crossing.error.definite


def with_guard(boundary: Boundary, _: str) -> None:
    boundary.guard("limit", lambda asked: "too much" if asked["amount"] > 50 else None, before="pay")


def tries(user: Any, find: Any, pay: Any, planner: Any) -> Any:
    planner({"messages": [user]})
    find(day="thu")
    planner({"messages": [user, []]})
    try:
        return ["paid", pay(amount=100)]
    except Blocked as refused:
        return ["refused", refused.reason]


def test_a_live_guard_refuses_the_recorded_write() -> None:
    told = replay(record(tries), tries, with_guard=with_guard)
    assert told.disposition is not None
    assert told.disposition.output == ["refused", "too much"]
    write = next(p for p in told.played if p.crossing.name == "pay")
    assert (write.boundary, write.answered_by, write.crossing.blocked_by) == (
        BoundaryState.INTERCEPTED,
        AnsweredBy.GUARD,
        "limit",
    )
    guard = next(p for p in told.played if p.crossing.name == "limit")
    assert (guard.crossing.place, guard.boundary, guard.crossing.raw) == (
        "#4.1",
        BoundaryState.LIVE,
        {"blocked": True, "reason": "too much"},
    )


def test_a_refusal_as_recorded_leaves_nothing_stale() -> None:
    def refused_then_asks(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        with pytest.raises(Blocked):
            pay(amount=100)
        return planner({"messages": [user]})

    told = replay(record(refused_then_asks, with_guard=with_guard), refused_then_asks, with_guard=with_guard)
    assert [p.stale for p in told.played] == [False] * 3


def test_a_blocked_write_changes_no_state() -> None:
    def blocked_then_reads(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        planner({"messages": [user]})
        with pytest.raises(Blocked):
            pay(amount=100)
        planner({"messages": [user]})
        return find(day="thu")

    assert replay(record(), blocked_then_reads, with_guard=with_guard).divergence is None


def with_strip(boundary: Boundary, _: str) -> None:
    boundary.hook("strip", lambda found: [*found, "stripped"], after="find")


def test_a_hook_runs_live_and_makes_the_rest_stale() -> None:
    told = replay(record(), with_strip=with_strip)
    found = next(p for p in told.played if p.crossing.name == "find")
    assert (found.crossing.raw, found.crossing.shown) == ([], ["stripped"])
    assert [p.stale for p in told.played if p.crossing.name == "planner"] == [False, True]


def test_a_hook_that_is_gone_makes_the_rest_stale() -> None:
    told = replay(record(with_strip=with_strip))
    assert [p.stale for p in told.played if p.crossing.name == "planner"] == [False, True]


def test_a_frozen_prefix_takes_hooks_from_the_record() -> None:
    envelope = record(with_strip=with_strip)
    told = replay(envelope, cut=CutPoint(mode=Mode.CUT_POINT, after=3))
    found = next(p for p in told.played if p.crossing.name == "find")
    assert found.crossing.shown == ["stripped"]
    assert not any(p.stale for p in told.played)


def test_new_code_in_a_prefix_lets_everything_pass() -> None:
    told = replay(record(tries), tries, with_guard=with_guard, cut=CutPoint(mode=Mode.CUT_POINT, after=4))
    assert told.disposition is not None
    assert told.disposition.output[0] == "paid"


def test_frozen_code_answers_only_its_recorded_input() -> None:
    envelope = record(with_strip=with_strip)
    cut = CutPoint(freeze=frozenset({"hook:strip"}))
    assert replay(envelope, with_strip=with_strip, cut=cut).divergence is None

    def with_other(boundary: Boundary, _: str) -> None:
        boundary.hook("first", lambda found: ["x"], after="find")
        boundary.hook("strip", lambda found: found, after="find")

    assert diverged(replay(envelope, with_other=with_other, cut=cut)) is Divergence.ARGS_MISMATCH


def test_recorded_errors_are_raised_again() -> None:
    class Down:
        def find(self, day: str) -> list[str]:
            raise TimeoutError("slots are slow")

    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        try:
            return find(day="thu")
        except TimeoutError as late:
            return ["late", str(late)]

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", Down().find, effect="read")
        return lambda user: body(user, find, None, None)

    envelope = recorded(build, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY)
    assert told.disposition is not None
    assert told.disposition.output == ["late", "slots are slow"]
    assert told.played[0].crossing.error == envelope.crossings[0].error


@pytest.mark.parametrize("value", [None, [1, [2]], b"bytes", {"a": None}, (1, 2), "", {}])
def test_answers_come_back_as_they_were(value: Any) -> None:
    def build(boundary: Boundary) -> Agent:
        get = boundary.tool("get", lambda: value, effect="read")
        return lambda _: [get()]

    told = replayed(build, recorded(build, policy=a_policy(get="read")), policy=a_policy(get="read"))
    assert told.disposition is not None
    assert repr(told.disposition.output) == repr([value])


def test_an_agent_that_changes_an_answer_changes_no_record() -> None:
    def greedy(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        first = find(day="thu")
        first.append("mine")
        return find(day="thu")

    def twice(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        find(day="thu")
        return find(day="thu")

    told = replay(record(twice), greedy)
    assert told.disposition is not None
    assert told.disposition.output == []


def test_a_pure_tool_runs_live_and_is_answered_without_code() -> None:
    def build(fn: Any) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            add = boundary.tool("add", fn, effect="none")
            pay = boundary.tool("pay", lambda: 1)
            return lambda _: [pay(), add(a=2)]

        return make

    envelope = recorded(build(lambda a: a + 1), policy=POLICY)
    live = replayed(build(lambda a: a * 100), envelope, policy=POLICY)
    assert (live.disposition.output if live.disposition else None) == [1, 200]
    frozen = replayed(build(None), envelope, policy=POLICY)
    assert (frozen.disposition.output if frozen.disposition else None) == [1, 3]


def test_async_agents_replay_alike() -> None:
    async def find(day: str) -> list[str]:
        await asyncio.sleep(0)
        return [day]

    def build(boundary: Boundary) -> Agent:
        look = boundary.tool("find", find, effect="read")
        boundary.hook("strip", lambda found: [*found, "x"], after="find")

        async def agent(_: Any) -> Any:
            return await asyncio.gather(look(day="thu"), look(day="fri"))

        return agent

    envelope = recorded(build, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY)
    assert told.disposition == envelope.disposition
    assert told.disposition is not None
    assert told.disposition.output == [["thu", "x"], ["fri", "x"]]


def test_arguments_are_pseudonymised_before_they_are_keyed() -> None:
    def body(day: str) -> Callable[..., Any]:
        return lambda user, find, pay, planner: find(day=day)

    envelope = record(body("thu"))
    told = replay(
        envelope,
        body("real day"),
        pseudonymise=lambda _, asked: {"day": "thu"} if asked["day"] == "real day" else asked,
    )
    assert told.divergence is None
    assert told.played[0].crossing.seen == {"day": "thu"}


def test_a_result_that_breaks_the_new_schema_diverges() -> None:
    def build(schema: Any) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            find = boundary.tool("find", lambda: {"total": 3}, effect="read", result_schema=schema)
            return lambda _: find()

        return make

    envelope = recorded(build(None), policy=POLICY)
    assert replayed(build({"required": ["total"]}), envelope, policy=POLICY).divergence is None
    assert (
        diverged(replayed(build({"required": ["total_count"]}), envelope, policy=POLICY)) is Divergence.SCHEMA_MISMATCH
    )


def test_a_live_write_is_refused() -> None:
    with pytest.raises(LiveWrite, match="no replay executes a write"):
        CutPoint(live=frozenset({"tool:pay"})).refuse_live_writes(POLICY)
    with pytest.raises(LiveWrite):
        CutPoint(live=frozenset({"tool:*"})).refuse_live_writes(POLICY)
    CutPoint(live=frozenset({"tool:find", "tool:add", "model:*"})).refuse_live_writes(POLICY)
    assert a_policy().effect("unlisted") is Effect.WRITE


@pytest.mark.parametrize("name", ["planner", "model:", "tol:find", ":x"])
def test_a_boundary_is_named_kind_and_name(name: str) -> None:
    with pytest.raises(UnknownBoundary, match="kind:name"):
        CutPoint(live=frozenset({name}))
