import json
from pathlib import Path
from typing import Any

import pytest

from builders import TUESDAY_NS, a_policy, recorded, replayed
from shop import Agent
from twiceshy import casefile
from twiceshy.boundary import Blocked, Boundary
from twiceshy.envelope import Crossing, Effect, Envelope, Kind
from twiceshy.policy import ToolPolicy
from twiceshy.recording import Recorder, live


def every_side(boundary: Boundary) -> Agent:
    """A tool with a default, a hook on each side and a guard, asked for by a model."""
    pay = boundary.tool("pay", lambda amount, note="none": {"paid": amount, "note": note})
    boundary.hook("round", lambda asked: {**asked, "amount": round(asked["amount"])}, before="pay")
    boundary.guard("limit", lambda asked: asked["amount"] < 100, before="pay")
    boundary.hook("strip", lambda paid: {"paid": paid["paid"]}, after="pay")
    planner = boundary.model("planner", lambda request: {"parts": [request]})

    def agent(user: Any) -> Any:
        planner("go")
        return pay(amount=user)

    return agent


def at(envelope: Envelope, seq: int, sub: int = 0) -> Crossing:
    found = envelope.at(seq, sub)
    assert found is not None
    return found


def test_both_sides_of_the_middleware_are_recorded() -> None:
    pay = at(recorded(every_side, 7.4), 2)
    assert pay.proposed == {"amount": 7.4}
    assert pay.seen == {"amount": 7, "note": "none"}
    assert pay.raw == {"paid": 7, "note": "none"}
    assert pay.shown == {"paid": 7}


def test_code_stands_in_the_step_it_serves() -> None:
    envelope = recorded(every_side, 7.4)
    assert [(c.place, c.kind, c.name, c.at) for c in envelope.crossings] == [
        ("#1", Kind.MODEL, "planner", None),
        ("#2", Kind.TOOL, "pay", None),
        ("#2.1", Kind.HOOK, "round", "before:pay"),
        ("#2.2", Kind.GUARD, "limit", "before:pay"),
        ("#2.3", Kind.HOOK, "strip", "after:pay"),
    ]
    assert (at(envelope, 2, 1).seen, at(envelope, 2, 1).raw) == ({"amount": 7.4}, {"amount": 7})
    assert at(envelope, 2, 2).seen == {"amount": 7, "note": "none"}
    assert at(envelope, 2, 3).raw == {"paid": 7}


def test_a_prompt_that_prints_what_was_served_is_the_recorded_one(tmp_path: Path) -> None:
    """Names come back in the order in which they were returned, not in the one that digests are taken in."""

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: {"zulu": 1, "alpha": [{"b": 1, "a": "x" * 9000}]}, effect="read")
        planner = boundary.model("planner", lambda _: {"parts": []})
        return lambda user: planner({"messages": [json.dumps([user, find()])]})

    envelope = recorded(build, {"y": 1, "b": 2}, policy=a_policy(find=ToolPolicy(effect=Effect.READ)))
    casefile.save_envelope(tmp_path / "envelope.jsonl", envelope)
    read = casefile.load_envelope(tmp_path / "envelope.jsonl")
    told = replayed(build, read)
    assert [(one.crossing.name, one.drift) for one in told.played] == [("find", None), ("planner", None)]


def test_a_replay_tells_the_same_sides() -> None:
    envelope = recorded(every_side, 7.4)
    played = {p.crossing.place: p.crossing for p in replayed(every_side, envelope).played}
    for recorded_one in envelope.crossings:
        sides = [(c.proposed, c.seen, c.raw, c.shown) for c in (recorded_one, played[recorded_one.place])]
        assert sides[0] == sides[1], recorded_one.place


def test_a_refused_call_is_recorded_with_who_refused_it() -> None:
    envelope = recorded(every_side, 100)
    pay = at(envelope, 2)
    assert (pay.blocked_by, pay.seen, pay.error is not None and pay.error.type) == (
        "limit",
        {"amount": 100, "note": "none"},
        "blocked",
    )
    assert at(envelope, 2, 2).raw == {"blocked": True, "reason": "refused"}


def test_a_refused_call_never_reaches_its_function() -> None:
    reached: list[int] = []
    boundary = Boundary(live())
    pay = boundary.tool("pay", reached.append)
    boundary.guard("limit", lambda asked: "no", before="pay")
    with pytest.raises(Blocked, match="limit: no"):
        pay(object=1)
    assert reached == []


def test_calls_belong_to_the_model_turn_that_asked() -> None:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: 1, effect="read")
        planner = boundary.model("planner", lambda request: {"parts": []})
        return lambda _: [find(), planner(1), find(), find(), planner(2), find()]

    envelope = recorded(build)
    assert [(c.seq, c.group) for c in envelope.crossings if c.kind is Kind.TOOL] == [(1, None), (3, 2), (4, 2), (6, 5)]
    played = [p.crossing for p in replayed(build, envelope).played]
    assert [(c.seq, c.group) for c in played if c.kind is Kind.TOOL] == [(1, None), (3, 2), (4, 2), (6, 5)]


def test_a_record_is_of_the_moment() -> None:
    """What the tool or the agent does to a value afterwards is not in it."""

    def build(boundary: Boundary) -> Agent:
        def clear(lines: list[int]) -> list[int]:
            lines.clear()
            return kept

        kept = [1]
        tool = boundary.tool("clear", clear)

        def agent(_: Any) -> Any:
            tool(lines=[1, 2]).append(3)

        return agent

    (crossing,) = recorded(build).crossings
    assert (crossing.seen, crossing.raw, crossing.shown) == ({"lines": [1, 2]}, [1], [1])


def test_hooks_and_guards_get_values_of_their_own() -> None:
    def spoil(value: Any) -> None:
        value["lines"].append("spoilt")

    def build(boundary: Boundary) -> Agent:
        send = boundary.tool("send", lambda lines: {"lines": lines})
        boundary.hook("one", lambda asked: [spoil(asked), {"lines": [1]}][1], before="send")
        boundary.guard("two", spoil, before="send")
        boundary.hook("three", lambda sent: [spoil(sent), {"lines": [2]}][1], after="send")
        return lambda _: send(lines=[0])

    send = at(recorded(build), 1)
    assert (send.proposed, send.seen, send.raw, send.shown) == (
        {"lines": [0]},
        {"lines": [1]},
        {"lines": [1]},
        {"lines": [2]},
    )


@pytest.mark.parametrize(("says", "blocked"), [(None, False), (True, False), (False, True), ("no", True), ("", True), (0, True)])  # fmt: skip
def test_only_nothing_and_true_let_a_call_pass(says: Any, *, blocked: bool) -> None:
    boundary = Boundary(live())
    pay = boundary.tool("pay", lambda: "paid")
    boundary.guard("limit", lambda asked: says, before="pay")
    if blocked:
        with pytest.raises(Blocked):
            pay()
    else:
        assert pay() == "paid"


def test_times_attempts_keys_and_states_are_recorded() -> None:
    answers = iter([TimeoutError("slow"), {"ok": True}])

    def flaky(amount: int) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", flaky)
        find = boundary.tool("find", lambda: 1, effect="read")

        def agent(_: Any) -> None:
            with pytest.raises(TimeoutError):
                pay(amount=1)
            pay(amount=1)
            find()

        return agent

    first, second, third = recorded(build).crossings
    assert [c.attempt for c in (first, second, third)] == [1, 2, 1]
    assert first.key == second.key != third.key
    assert len({c.state for c in (first, second, third)}) == 3  # a timeout may have written
    assert first.start_ns == TUESDAY_NS
    assert all(
        c.start_ns is not None and c.end_ns is not None and c.end_ns > c.start_ns for c in (first, second, third)
    )


def test_tools_yaml_outweighs_the_code() -> None:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: 1, effect="write")
        pay = boundary.tool("pay", lambda: 1, effect="read")
        return lambda _: [find(), pay()]

    policy = a_policy(find="read", pay=ToolPolicy(effect=Effect.WRITE))
    envelope = recorded(build, policy=policy)
    assert [c.effect for c in envelope.crossings] == [Effect.READ, Effect.WRITE]
    assert [p.boundary.value for p in replayed(build, envelope, policy=policy).played] == ["frozen", "intercepted"]


def test_each_crossing_goes_to_the_sink_as_it_closes() -> None:
    class Sink:
        def __init__(self) -> None:
            self.lines: list[bytes] = []

        def write(self, line: bytes) -> None:
            self.lines.append(line)

    sink = Sink()
    every_side(Boundary(Recorder(sink=sink)))(7.4)
    assert len(sink.lines) == 5
    assert b'"name":"strip"' in sink.lines[3]
    assert b'"name":"pay"' in sink.lines[4]
