from collections.abc import Callable
from typing import Any

import pytest

from builders import Build, a_policy, recorded, replayed
from twiceshy.boundary import Blocked, Boundary
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.passing import Passage, current, passing

POLICY = a_policy(find="read", pay="write")
Middleware = Callable[[dict[str, Any], Callable[[dict[str, Any]], Any]], Any]


def plain(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
    return reach(arguments)


def agent_with(
    middleware: Middleware, run: Callable[[dict[str, Any]], Any], *, tool: str = "find", guard: Any = None
) -> Build:
    """An agent in a framework's manner: its one tool call passes through a middleware."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        boundary.tool(tool, effect="read" if tool == "find" else None)
        if guard is not None:
            boundary.guard("limit", guard, before=tool)

        def inner(arguments: dict[str, Any]) -> Any:
            passage = current()
            assert passage is not None
            return passage.reach(arguments, run)

        def agent(user: Any) -> Any:
            passage = Passage(boundary, tool, {"day": user})
            return passing(passage, lambda: passage.returned(middleware({"day": user}, inner)))

        return agent

    return build


def steps(envelope: Envelope) -> list[Crossing]:
    return [crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL]


def test_both_sides_are_recorded() -> None:
    def changing(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
        return {"free": reach({**arguments, "zone": "utc"})}

    build = agent_with(changing, lambda seen: [seen["day"], seen["zone"]])
    envelope = recorded(build, "thu", policy=POLICY)
    (step,) = steps(envelope)
    assert (step.proposed, step.seen) == ({"day": "thu"}, {"day": "thu", "zone": "utc"})
    assert (step.raw, step.shown) == (["thu", "utc"], {"free": ["thu", "utc"]})
    told = replayed(build, envelope, policy=POLICY)
    assert told.played[0].crossing.shown == {"free": ["thu", "utc"]}
    assert told.disposition is not None
    assert told.disposition.output == {"free": ["thu", "utc"]}


def test_changed_middleware_misses() -> None:
    envelope = recorded(agent_with(plain, lambda _: []), "thu", policy=POLICY)
    moved = agent_with(lambda arguments, reach: reach({**arguments, "day": "fri"}), lambda _: pytest.fail("ran live"))
    told = replayed(moved, envelope, policy=POLICY)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH


def test_withheld_call_counts_as_blocked() -> None:
    refusing = agent_with(lambda _, __: "no", lambda _: pytest.fail("ran live"), tool="pay")
    (step,) = steps(recorded(refusing, "thu", policy=POLICY))
    assert (step.blocked_by, step.shown) == ("middleware", "no")
    envelope = recorded(agent_with(plain, lambda _: "paid", tool="pay"), "thu", policy=POLICY)
    told = replayed(refusing, envelope, policy=POLICY)
    assert [(played.answered_by, played.crossing.blocked_by) for played in told.played] == [
        (AnsweredBy.GUARD, "middleware")
    ]


def test_each_attempt_is_a_step() -> None:
    calls = iter([TimeoutError("slow"), ["9:00"]])

    def flaky(_: dict[str, Any]) -> Any:
        got = next(calls)
        if isinstance(got, Exception):
            raise got
        return got

    def retrying(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            return reach(arguments)
        except TimeoutError:
            return reach(arguments)

    build = agent_with(retrying, flaky)
    envelope = recorded(build, "thu", policy=POLICY)
    assert [(step.seq, step.attempt) for step in steps(envelope)] == [(1, 1), (2, 2)]
    told = replayed(build, envelope, policy=POLICY)
    assert told.disposition is not None
    assert told.disposition.output == ["9:00"]


def test_guards_stand_at_the_inner_end() -> None:
    def limit(arguments: dict[str, Any]) -> str | None:
        return "too late" if arguments["day"] == "sun" else None

    def late(_: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            return reach({"day": "sun"})
        except Blocked as refused:
            return refused.reason

    build = agent_with(late, lambda _: pytest.fail("ran live"), tool="pay", guard=limit)
    (step,) = steps(recorded(build, "thu", policy=POLICY))
    assert step.blocked_by == "limit"


def test_write_in_a_framework_never_runs() -> None:
    envelope = recorded(agent_with(plain, lambda _: "paid", tool="pay"), "thu", policy=POLICY)
    told = replayed(agent_with(plain, lambda _: pytest.fail("ran live"), tool="pay"), envelope, policy=POLICY)
    assert told.played[0].intent
    assert told.disposition is not None
    assert told.disposition.output == "paid"


def test_hint_may_only_tighten() -> None:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        find = boundary.tool("find", lambda day: [day], effect="read", tightened=True)
        return lambda user: find(day=user)

    envelope = recorded(build, "thu", policy=POLICY)
    assert steps(envelope)[0].effect == "write"
    assert replayed(build, envelope, policy=POLICY).played[0].intent
