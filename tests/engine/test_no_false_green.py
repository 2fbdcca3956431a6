"""Runs that looked good and were not: each was PASSED once, or stood behind a claim that did not hold, and must never be so again."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from builders import Build, a_case, a_crossing, a_policy, an_envelope, recorded, replayed, some_invariants
from shop import Agent, diverged
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.breaking import BreakingBoundary, parse
from twiceshy.casefile import Case, Expect, Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.errors import CaseError
from twiceshy.frozenmodel import FrozenModels
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import BoundaryState, Divergence, Mode, Outcome
from twiceshy.passing import Passage, current, passing
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.replaying import Terms
from twiceshy.transcript import Transcript
from twiceshy.worlds.goals import Goal
from twiceshy.writes import DeclaredGrant, DeclaredWrite

POLICY = a_policy(find=ToolPolicy(effect=Effect.READ, definite_errors=("LookupError",)), pay=ToolPolicy(definite_errors=("LookupError",)))  # fmt: skip


def judged(
    told: Transcript, envelope: Envelope, *specs: Any, policy: ToolsPolicy = POLICY, file: dict[str, Any] | None = None, cut: CutPoint | None = None,
    **case: Any,
) -> TrialVerdict:  # fmt: skip
    loaded = a_case(envelope, **{"kind": "positive", **case})
    return case_grader(loaded, some_invariants(*specs, **(file or {})), policy).trial(told, cut or CutPoint())


def violated(verdict: TrialVerdict) -> list[str]:
    return [judgement.id for judgement in verdict.violations]


# People.


def talking(*messages: str) -> Build:
    def build(boundary: Boundary) -> Agent:
        customer = boundary.user("customer", lambda said: f"yes to {said}")
        return lambda _: [customer(message) for message in messages]

    return build


def test_first_turn_of_a_user_is_not_the_second() -> None:
    """An opportunity at the second question was found at the first one, for neither has a key."""
    envelope = recorded(talking("a", "b"))
    told = replayed(talking("a"), envelope)
    verdict = judged(told, envelope, opportunity=Opportunity(seq=2))
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED


def asking(amount: int) -> Build:
    def build(boundary: Boundary) -> Agent:
        boss = boundary.human("boss", lambda asked: {"granted": asked["amount"] < 100})
        planner = boundary.model("planner", lambda request: {"parts": [{"type": "text", "text": "refused"}]})

        def agent(_: Any) -> Any:
            boss({"amount": amount})
            return planner({"messages": [1]})

        return agent

    return build


def test_text_that_answers_a_refusal_is_none_after_a_grant() -> None:
    """A declared grant is shown where the record has a refusal, so what the frozen model says after it is another run's."""
    envelope = recorded(asking(500))
    told = replayed(asking(600), envelope, grants=[DeclaredGrant(human="boss", answer={"granted": True})])
    assert [played.stale for played in told.played] == [False, True]
    assert not any(played.stale for played in replayed(asking(500), envelope).played)


# Models.


def requesting(*requests: Any, fails: bool = False) -> Build:
    def build(boundary: Boundary) -> Agent:
        def plan(request: Any) -> Any:
            if fails:
                raise TimeoutError("slow")
            return {"parts": [{"type": "tool_call", "name": "find", "arguments": {}}]}

        planner = boundary.model("planner", plan)

        def agent(_: Any) -> str:
            for request in requests:
                with suppress(TimeoutError):
                    planner(request)
            return "gave up"

        return agent

    return build


def test_a_request_without_a_shape_is_of_another_shape() -> None:
    envelope = recorded(requesting({"messages": [], "tools": [{"name": "find"}]}))
    assert diverged(replayed(requesting(["find"]), envelope)) is Divergence.MODEL_SHAPE


def test_a_models_error_is_not_made_up_again() -> None:
    """Who tries again asks something that nobody recorded."""
    envelope = recorded(requesting({"messages": [1]}, fails=True))
    told = replayed(requesting({"messages": [1]}, {"messages": [1]}), envelope)
    assert diverged(told) is Divergence.MODEL_EXHAUSTED


def test_counting_outputs_as_served_looks_through_none() -> None:
    """`passed` walked through all outputs once for each of them."""

    class Watched(list[Any]):
        looked = 0

        def __iter__(self) -> Any:
            Watched.looked += 1
            return super().__iter__()

    outputs = [a_crossing(at, "planner", kind=Kind.MODEL, effect=None, raw={"at": at}) for at in range(1, 4)]
    models = FrozenModels(outputs)
    held = models._outputs["", "planner"]
    held.crossings = Watched(held.crossings)
    models.passed(outputs[1])
    assert (held.served, Watched.looked) == ({1}, 0)


# Writes that a case expects.


def test_an_approval_that_may_have_failed_comes_before_nothing() -> None:
    def build(*, fails: bool) -> Build:
        def make(boundary: Boundary) -> Agent:
            def approve(amount: int) -> None:
                if fails:
                    raise TimeoutError

            asked, pay = boundary.tool("approve", approve), boundary.tool("pay", lambda amount: None)

            def agent(_: Any) -> None:
                with suppress(TimeoutError):
                    asked(amount=5)
                pay(amount=5)

            return agent

        return make

    expect = Expect(writes=[DeclaredWrite(tool="approve"), DeclaredWrite(tool="pay")], in_order=True)
    outcomes = {}
    for fails in (True, False):
        envelope = recorded(build(fails=fails), policy=POLICY)
        outcomes[fails] = judged(replayed(build(fails=fails), envelope, policy=POLICY), envelope, expect=expect)
    assert outcomes[False].outcome is Outcome.PASSED
    assert violated(outcomes[True]) == ["expected_writes"]


def test_an_order_that_rests_on_an_improvised_answer_proves_nothing() -> None:
    def build(*tools: str) -> Build:
        return lambda boundary: lambda _: [boundary.tool(name, lambda: None)() for name in tools]

    envelope = recorded(build("pay"), policy=POLICY)
    expect = Expect(writes=[DeclaredWrite(tool="approve"), DeclaredWrite(tool="pay", args={})], in_order=True)
    policy = a_policy(approve=ToolPolicy(touches=()), pay=ToolPolicy(touches=("money",)))
    verdict = judged(replayed(build("approve", "pay"), envelope, policy=policy), envelope, policy=policy, expect=expect)
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.WRITE_UNANSWERABLE


@pytest.mark.parametrize("change", ["updated", "deleted"])
def test_a_goal_without_a_key_would_cover_a_strangers_row(change: Any, tmp_path: Path) -> None:
    envelope = an_envelope(a_crossing(1))
    expect = Expect(goal=[Goal(table="appointments", change=change, fields={"day": "thu"})])
    case = Case(id="c", kind="positive", workflow="refund", trace_id=envelope.trace_id, world="world.yaml", expect=expect)  # fmt: skip
    casefile.save(tmp_path / "case", case, envelope, world="format: twiceshy/world/1\n")
    with pytest.raises(CaseError, match="needs its key"):
        casefile.load(tmp_path / "case")


def asking_for(name: str, *amounts: int, kind: str) -> Build:
    def build(boundary: Boundary) -> Agent:
        made = getattr(boundary, kind)(name, lambda amount: amount, **({"tightened": True} if kind == "tool" else {}))
        return lambda _: [made(amount=amount) for amount in amounts]

    return build


@pytest.mark.parametrize("kind", ["tool", "retrieval"])
def test_what_is_intercepted_as_a_write_is_judged_as_one(kind: str) -> None:
    """A tool that tools.yaml calls a read and its server a write; a look-up that tools.yaml calls a write: nobody asked what explains them."""
    name = "find" if kind == "tool" else "pay"
    envelope = recorded(asking_for(name, 1, kind=kind), policy=POLICY)
    once, other, twice = (
        replayed(asking_for(name, *amounts, kind=kind), envelope, policy=POLICY) for amounts in ([1], [2], [1, 1])
    )
    assert all(played.intent for told in (once, other, twice) for played in told.played)
    assert judged(once, envelope).outcome is Outcome.PASSED
    assert violated(judged(other, envelope)) == ["explained_writes"]
    assert violated(judged(twice, envelope)) == ["no_duplicate_write"]


# Cut-points.


def test_all_of_a_kind_may_be_frozen() -> None:
    """`--freeze hook:*` was taken, shown in the manifest as live, and left every hook live."""
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}), freeze=frozenset({"hook:*", "model:*"}))
    states = cut.manifest(["hook:strip", "guard:limit", "model:planner"], POLICY)
    assert states == {"guard:limit": "live", "hook:strip": "frozen", "model:planner": "frozen"}
    assert not cut.has_live_model


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
            passage = Passage(boundary, tool, {"amount": 5})
            planner({"messages": []})
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
    verdict = judged(told, envelope, specs, kind="failure")
    assert violated(verdict) == ["explained_writes", "no-pay"]
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
    assert violated(judged(told, envelope)) == ["no_swallowed_error"]


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
