"""What stands between a boundary and its agent: middleware that hides, hooks that raise, streams that a break replaces."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import UNSET

from builders import Build, a_case, a_policy, recorded, replayed, some_invariants
from shop import Agent
from twiceshy.boundary import Boundary
from twiceshy.breaking import BreakingBoundary, parse
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.grading import case_grader
from twiceshy.outcome import BoundaryState, Mode
from twiceshy.passing import Passage, current, passing
from twiceshy.policy import ToolPolicy
from twiceshy.replaying import Terms
from twiceshy.transcript import Transcript

POLICY = a_policy(find=ToolPolicy(effect=Effect.READ, definite_errors=("LookupError",)), pay=ToolPolicy(definite_errors=("LookupError",)))  # fmt: skip


def violated(told: Transcript, envelope: Envelope, *specs: Any, kind: str = "positive") -> list[str]:
    verdict = case_grader(a_case(envelope, kind=kind), some_invariants(*specs), POLICY).trial(told, CutPoint())
    return [judgement.id for judgement in verdict.violations]


# The middleware of frameworks.

Middleware = Callable[[dict[str, Any], Callable[[dict[str, Any]], Any]], Any]


def framework(middleware: Middleware, run: Callable[[], Any], tool: str = "pay") -> Build:
    """A framework's agent: a call of a tool between middleware, then a model that is told of it."""

    def build(boundary: Boundary) -> Agent:
        boundary.tool(tool, effect="read" if tool == "find" else None)
        planner = boundary.model("planner", lambda request: {"parts": []})

        def inner(arguments: dict[str, Any]) -> Any:
            passage = current()
            assert passage is not None
            return passage.reach(arguments, lambda _: run())

        def agent(_: Any) -> Any:
            planner({"messages": []})
            passage = Passage(boundary, tool, {"amount": 5})
            shown = None
            with suppress(LookupError):
                shown = passing(passage, lambda: passage.returned(middleware({"amount": 5}, inner)))
            planner({"messages": [shown]})
            return shown

        return agent

    return build


def through(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
    return reach(arguments)


def raises_after(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
    reach(arguments)
    raise LookupError("no such thing")


def raises_before(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
    raise LookupError("no such thing")


def soothes(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        return reach(arguments)
    except TimeoutError:
        return "all is well"


def too_slow() -> Any:
    raise TimeoutError("slow")


def test_middleware_cannot_unmake_a_write() -> None:
    """What it raised after the write was taken for the tool's own definite error: the write had come to nothing."""
    specs = {"id": "no-pay", "kind": "must_not", "at": {"tool": "pay"}}
    envelope = recorded(framework(raises_before, lambda: 1), policy=POLICY)
    told = replayed(framework(raises_after, lambda: 1), envelope, policy=POLICY)
    assert violated(told, envelope, specs, kind="failure") == ["explained_writes", "no-pay"]
    again = recorded(framework(raises_after, lambda: 1), policy=POLICY)
    assert [crossing.error for crossing in again.crossings] == [None] * 3


def test_a_call_that_middleware_raised_at_was_proposed() -> None:
    envelope = recorded(framework(raises_before, lambda: 1), policy=POLICY)
    blocked = [crossing.blocked_by for crossing in envelope.crossings if crossing.name == "pay"]
    told = replayed(framework(raises_before, lambda: 1), envelope, policy=POLICY)
    assert (blocked, [played.crossing.blocked_by for played in told.played if played.intent]) == (["middleware"],) * 2


def test_middleware_cannot_hide_an_error_as_a_value() -> None:
    """The boundary had raised, so the passage was closed, and what went back to the model in its place stood nowhere."""
    envelope = recorded(framework(through, lambda: 5, "find"), policy=POLICY)
    raised = recorded(framework(soothes, too_slow, "find"), policy=POLICY)
    told = replayed(framework(soothes, too_slow, "find"), raised, policy=POLICY)
    (call,) = [played.crossing for played in told.played if played.crossing.name == "find"]
    assert (call.error is not None, call.raw, call.shown) == (True, UNSET, "all is well")
    assert told.disposition == raised.disposition
    assert not any(played.stale for played in told.played)
    assert violated(told, envelope) == ["no_swallowed_error"]


def test_text_after_a_hidden_error_is_stale() -> None:
    envelope = recorded(framework(soothes, too_slow, "find"), policy=POLICY)

    def frightens(arguments: dict[str, Any], reach: Callable[[dict[str, Any]], Any]) -> Any:
        with suppress(TimeoutError):
            reach(arguments)
        return "error: slow"

    told = replayed(framework(frightens, too_slow, "find"), envelope, policy=POLICY)
    assert [played.stale for played in told.played if played.crossing.kind is Kind.MODEL] == [False, True]


def test_a_tool_whose_hook_raises_is_recorded() -> None:
    """It had run, and the record knew nothing of it."""

    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", lambda amount: "paid")
        boundary.hook("look", raises_at, after="pay")

        def agent(_: Any) -> str:
            with suppress(LookupError):
                pay(amount=5)
            return "done"

        return agent

    def raises_at(_: Any) -> Any:
        raise LookupError("hook")

    envelope = recorded(build, policy=POLICY)
    assert [(c.place, c.name, c.raw, c.error is None) for c in envelope.crossings if not c.sub] == [("#1", "pay", "paid", True)]  # fmt: skip
    told = replayed(build, envelope, policy=POLICY)
    assert [played.boundary for played in told.played if not played.crossing.sub] == [BoundaryState.INTERCEPTED]


# Breaks.

SAID = [{"type": "text", "text": "re"}, {"type": "text", "text": "corded"}, {"finish_reason": "stop"}]
OTHER = [{"type": "text", "text": "other"}, {"finish_reason": "stop"}]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_stays_a_stream_when_it_is_replaced(*, asynchronous: bool) -> None:
    """`proposal.replace` made a plain value of it: the agent crashed, and its crash was taken for what the break had shown."""

    def build(chunks: list[Any]) -> Build:
        def stream(_: Any) -> Any:
            yield from chunks

        async def astream(_: Any) -> Any:
            for chunk in chunks:
                yield chunk

        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", astream if asynchronous else stream)

            async def listens(_: Any) -> Any:
                return [[chunk async for chunk in planner({"at": at})] for at in (1, 2)]

            def agent(user: Any) -> Any:
                return asyncio.run(listens(user)) if asynchronous else [list(planner({"at": at})) for at in (1, 2)]

            return agent

        return make

    envelope, heard = recorded(build(SAID)), []
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))
    terms = Terms(policy=POLICY, cut=cut)
    told = replayed(
        build(OTHER), envelope, cut=cut,
        boundary=lambda replay: BreakingBoundary(
            replay, [parse("proposal.replace:2")], record=envelope, terms=terms, on_applied=heard.append
        ),
    )  # fmt: skip
    assert told.disposition is not None
    assert told.disposition.output == [OTHER, SAID]
    assert [found.text for found in heard] == ["proposal.replace:2"]


def test_a_doubled_call_of_a_framework_is_told_twice_to_its_end() -> None:
    """The first of the two was left open: what came back of it stood nowhere."""
    envelope = recorded(framework(through, lambda: 1), policy=POLICY)
    told = replayed(
        framework(through, lambda: 1), envelope, policy=POLICY,
        boundary=lambda replay: BreakingBoundary(
            replay, [parse("call.duplicate:pay")], record=envelope, terms=Terms(policy=POLICY), on_applied=lambda _: None
        ),
    )  # fmt: skip
    assert [played.crossing.shown for played in told.played if played.intent] == [1, 1]
    assert violated(told, envelope) == ["no_duplicate_write"]
