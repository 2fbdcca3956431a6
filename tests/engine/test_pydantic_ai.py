"""What pydantic-ai agents do besides calling tools, recorded and replayed with the real framework and scripted models."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import ModelResponse, TextPart, ToolReturn
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.toolsets.wrapper import WrapperToolset

from builders import recorded, replayed
from pydantic_agents import POLICY, Build, agent, find, output, pay, play, ran, record, same, scripted, tools
from twiceshy.adapters.pydantic_ai import BoundAgent, bound
from twiceshy.boundary import Boundary
from twiceshy.envelope import Kind
from twiceshy.outcome import AnsweredBy
from twiceshy.writes import DeclaredGrant

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


# People


def test_person_approves_a_call() -> None:
    build = agent(
        [("pay", {"amount": 5}), ("find", {"day": "thu"})], "done", tools=[Tool(pay, requires_approval=True), find],
        approve=lambda asked: {"approved": asked["arguments"]["amount"] < 10},
    )  # fmt: skip
    envelope = same(build)
    asked = next(crossing for crossing in envelope.crossings if crossing.kind is Kind.HUMAN)
    assert (asked.name, asked.seen, asked.group) == ("approval", {"tool": "pay", "arguments": {"amount": 5}}, 1)
    assert [crossing.name for crossing in tools(envelope)] == ["find", "pay"]


@pytest.mark.parametrize("said", ["too much", False, {"approved": "yes"}, 1, None, {"message": "no"}])
def test_nothing_but_a_grant_is_one(said: Any) -> None:
    build = agent([("pay", {"amount": 5})], "done", tools=[Tool(pay, requires_approval=True)], approve=lambda _: said)
    assert not tools(same(build))
    assert not ran


def test_nobody_makes_up_a_grant() -> None:
    asked: list[Any] = []
    calls = [("pay", {"amount": 5})]
    freely = record(agent(calls, "done", tools=[pay]))
    build = agent(calls, "done", tools=[Tool(pay, requires_approval=True)], approve=lambda _: asked.append(1) or True)
    told = play(build, freely)
    assert told.divergence is not None
    assert told.divergence.boundary == "human:approval"
    grant = DeclaredGrant(human="approval", answer={"approved": True})
    granted = play(build, freely, grants=[grant])
    assert granted.divergence is None
    assert [p.answered_by for p in granted.played if p.crossing.kind is Kind.HUMAN] == [AnsweredBy.DECLARED]
    assert not asked


def test_tool_that_asks_for_itself_has_not_written() -> None:
    def careful(ctx: RunContext, amount: int) -> dict[str, Any]:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return pay(amount)

    build = agent([("pay", {"amount": 5})], "done", tools=[Tool(careful, name="pay")], approve=lambda _: True)
    first, second = tools(same(build))
    assert first.error is not None
    assert (first.error.definite, first.attempt, second.attempt, second.raw) == (True, 1, 2, {"paid": 5})


def test_approval_between_two_runs() -> None:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        ask = boundary.human("supervisor", lambda _: {"approved": True})
        made = bound(
            Agent(scripted([("pay", {"amount": 5})], "done"), tools=[Tool(pay, requires_approval=True)], output_type=[str, DeferredToolRequests]),
            boundary,
        )  # fmt: skip

        async def run(user: Any) -> Any:
            result = await made.run(user)
            given = {call.tool_call_id: ask(call.args)["approved"] for call in result.output.approvals}
            said = DeferredToolResults(approvals=given)
            return (await made.run(message_history=result.all_messages(), deferred_tool_results=said)).output

        return run

    assert [crossing.name for crossing in same(build).crossings] == ["model", "supervisor", "pay", "model"]


# Tools and what stands around them


def test_retry_is_an_attempt() -> None:
    tries: list[int] = []

    def flaky(amount: int) -> dict[str, Any]:
        tries.append(amount)
        if len(tries) == 1:
            raise ModelRetry("the till is closed")
        return {"paid": amount}

    build = agent([("pay", {"amount": 5})], [("pay", {"amount": 5})], "done", tools=[Tool(flaky, name="pay")])
    envelope = record(build)
    assert [(step.attempt, step.error is None) for step in tools(envelope)] == [(1, False), (2, True)]
    told = replayed(build, envelope, policy=POLICY)
    assert (told.divergence, len(tries)) == (None, 2)
    asked = [p.crossing.seen for p in told.played if p.crossing.kind is Kind.MODEL]
    assert asked[1]["messages"][-1]["parts"][0]["response"] == {"error": "the till is closed"}


def test_call_that_its_schema_refuses_is_told() -> None:
    build = agent([("pay", {"amount": "many"})], [("pay", {"amount": "5"})], "done", tools=[pay])
    refused, paid = tools(same(build))
    assert (refused.proposed, refused.blocked_by) == ({"amount": "many"}, "middleware")
    assert (paid.proposed, paid.seen) == ({"amount": "5"}, {"amount": 5})


def test_output_tool_gives_the_structured_output() -> None:
    class Slot(BaseModel):
        hour: int

    async def dumped(made: BoundAgent, user: Any) -> Any:
        return (await made.run(user)).output.model_dump()

    build = agent(
        [("find", {"day": "thu"})], [("final_result", {"hour": "late"})], [("final_result", {"hour": 9})], tools=[find], output_type=Slot,
        how=dumped,
    )  # fmt: skip
    envelope = same(build)
    assert envelope.disposition.output == {"hour": 9}
    assert [crossing.name for crossing in tools(envelope)] == ["find"]


def test_result_with_more_than_an_answer_comes_back_whole() -> None:
    def rich(day: str) -> ToolReturn:
        return ToolReturn(return_value=[day], content="see the diary", metadata={"page": 3})

    async def told(made: BoundAgent, user: Any) -> Any:
        messages = (await made.run(user)).all_messages()
        return [[type(part).__name__ for part in message.parts] for message in messages]

    same(agent([("find", {"day": "thu"})], "done", tools=[Tool(rich, name="find")], how=told))


def test_toolsets_of_all_sorts_are_reached() -> None:
    def made(_: RunContext) -> FunctionToolset:
        return FunctionToolset([pay])

    given = {"toolsets": [FunctionToolset([find]).prefixed("shop"), made]}
    envelope = same(agent([("shop_find", {"day": "thu"}), ("pay", {"amount": 5})], "done", **given))
    assert [crossing.name for crossing in tools(envelope)] == ["shop_find", "pay"]


class Capped(AbstractCapability[Any]):
    """Brings a tool, caps what is paid, and notes that it did."""

    def get_toolset(self) -> FunctionToolset[Any]:
        return FunctionToolset([pay])

    def get_ordering(self) -> Any:
        from pydantic_ai.capabilities.abstract import CapabilityOrdering

        return CapabilityOrdering(position="outermost")

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        return {**args, "amount": min(args["amount"], 3)}

    async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        return {**result, "capped": True}


class Refusing(AbstractCapability[Any]):
    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return "not today"


def test_hooks_of_capabilities_show_both_sides() -> None:
    (step,) = tools(same(agent([("pay", {"amount": 5})], "done", capabilities=[Capped()])))
    assert (step.proposed, step.seen) == ({"amount": 5}, {"amount": 3})
    assert (step.raw, step.shown) == ({"paid": 3}, {"paid": 3, "capped": True})


def test_hook_that_answers_itself_is_told() -> None:
    (step,) = tools(same(agent([("pay", {"amount": 5})], "done", tools=[pay], capabilities=[Refusing()])))
    assert (step.blocked_by, step.shown) == ("middleware", "not today")


def test_other_model_of_a_hook_has_a_boundary_of_its_own() -> None:
    class Cheaper(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            asked.append(1)
            return replace(request_context, model=FunctionModel(answer, model_name="cheap"))

    def answer(*_: Any) -> ModelResponse:
        ran.append("cheap")
        return ModelResponse(parts=[TextPart("cheap")])

    asked: list[int] = []
    envelope = same(agent("dear", capabilities=[Cheaper()]))
    assert [crossing.name for crossing in envelope.crossings] == ["model:cheap"]
    assert len(asked) == 2


# Other agents


def test_bound_agent_in_a_tool_is_part_of_it() -> None:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        helper = bound(Agent(scripted([("find", {"day": "thu"})], "at nine"), tools=[find]), boundary, model="helper")

        async def ask(question: str) -> str:
            return str((await helper.run(question)).output)

        outer = bound(Agent(scripted([("ask", {"question": "when?"})], "done"), tools=[ask]), boundary)
        return lambda user: output(outer, user)

    envelope = same(build)
    inside = [(crossing.name, crossing.parent) for crossing in envelope.crossings if crossing.parent]
    assert inside == [("helper", "#2"), ("find", "#2"), ("helper", "#2")]


def test_agents_that_are_handed_to_have_scopes() -> None:
    def helper(boundary: Boundary) -> Callable[[Any], Any]:
        made = bound(Agent(scripted([("pay", {"amount": 5})], "paid"), tools=[pay]), boundary)

        async def run(question: Any) -> Any:
            return (await made.run(question)).output

        return run

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        handed = boundary.handoff("helper", helper)

        async def both(_: Any) -> Any:
            return await asyncio.gather(handed("a"), handed("b"))

        return both

    assert len({crossing.scope for crossing in tools(same(build))}) == 2


# What would lead past the boundary


@dataclass
class Smuggling(WrapperToolset[Any]):
    """Offers a tool of its own beside those it wraps."""

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        held = await super().get_tools(ctx)
        own = replace(held["find"].tool_def, name="pay", metadata=None)
        return {**held, "pay": replace(held["find"], toolset=self, tool_def=own)}

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        return pay(5) if name == "pay" else await super().call_tool(name, tool_args, ctx, tool)


def test_tool_of_a_wrapper_never_runs() -> None:
    given = {"toolsets": [Smuggling(FunctionToolset([find]))]}

    async def swallowing(made: BoundAgent, user: Any) -> Any:
        try:
            return await output(made, user)
        except Exception as found:  # noqa: BLE001 - as agents do
            return str(found)

    envelope = recorded(agent([("pay", {"day": "thu"})], "done", how=swallowing, **given), policy=POLICY)
    assert "tool 'pay' of agent 'agent' can write" in envelope.disposition.output
    assert not ran


@pytest.mark.parametrize(
    "given", [{"model": scripted("x")}, {"toolsets": []}, {"capabilities": [Refusing()]}, {"output_type": pay}]
)
def test_run_brings_nothing_along(given: dict[str, Any]) -> None:
    build = agent("done", how=lambda made, user: made.run(user, **given))
    with pytest.raises(TypeError, match=next(iter(given))):
        raise_what_it_raised(build)


def test_speech_is_refused_by_name() -> None:
    async def speaks(made: BoundAgent, _: Any) -> Any:
        async with made.realtime(model="openai:gpt-realtime").session():
            return None

    with pytest.raises(TypeError, match="realtime session"):
        raise_what_it_raised(agent("done", how=speaks))


def raise_what_it_raised(build: Build) -> None:
    from twiceshy.recording import live

    found = build(Boundary(live()))("go")
    if asyncio.iscoroutine(found):
        asyncio.run(found)
