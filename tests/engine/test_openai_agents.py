"""What agents of the OpenAI Agents SDK do besides calling tools, recorded and replayed with the real SDK and scripted models."""

import json
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from pydantic import BaseModel

from builders import recorded, replayed
from openai_agents import POLICY, Build, Scripted, find, output, pay, play, ran, record, running, same, told, tools
from twiceshy.adapters.openai_agents import answered, bound, bound_session
from twiceshy.boundary import Boundary
from twiceshy.breaking import BreakingBoundary, parse
from twiceshy.candidates import Candidate, described
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.outcome import AnsweredBy
from twiceshy.replaying import Terms
from twiceshy.writes import DeclaredGrant

# The SDK takes seconds to import.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def payer(*turns: Any, name: str = "refunds", **given: Any) -> Agent[Any]:
    return Agent(
        name=name, model=Scripted(*(turns or ([("pay", {"amount": 5})], "paid")), name=name), tools=[pay], **given
    )


def triage(*turns: Any, **given: Any) -> Agent[Any]:
    return Agent(name="triage", model=Scripted(*turns, name="triage"), **{"tools": [find], **given})


TRANSFER: Any = [("transfer_to_refunds", {})]


# Handoffs, agents as tools, agents in tools


def test_handoff_is_a_crossing_with_a_scope_of_its_own() -> None:
    envelope = same(running(lambda: triage(TRANSFER, handoffs=[payer()])))
    assert told(envelope) == ["model:triage", "handoff:refunds", "model:refunds", "tool:pay", "model:refunds"]
    handed, paid = envelope.crossings[1], envelope.crossings[3]
    assert (handed.group, handed.raw, handed.scope) == (1, "paid", "")
    assert (paid.scope, paid.parent, paid.group) == (handed.at, "#2", 3)


def test_agents_that_hand_to_each_other() -> None:
    def ring() -> Agent[Any]:
        refunds = payer([("pay", {"amount": 5})], [("transfer_to_triage", {})])
        first = triage(TRANSFER, "all done", handoffs=[refunds])
        refunds.handoffs = [first]
        return first

    scopes = [crossing.scope for crossing in same(running(ring)).crossings if crossing.kind is Kind.MODEL]
    assert [scope.count("/") for scope in scopes] == [0, 1, 1, 2]


def test_frozen_handoff_says_what_was_recorded() -> None:
    build = running(lambda: triage(TRANSFER, handoffs=[payer()]))
    told_ = play(build, record(build), cut=CutPoint(freeze=frozenset({"handoff:refunds"})))
    assert told_.divergence is None
    assert told_.disposition is not None
    assert told_.disposition.output == "paid"
    assert not [played for played in told_.played if played.answered_by is AnsweredBy.LIVE and played.crossing.scope]


def test_all_that_can_be_reached_is_declared() -> None:
    def declaring(boundary: Boundary) -> Any:
        helper = payer(name="helper").as_tool("ask_helper", "asks")
        return bound(triage("x", tools=[find, helper], handoffs=[payer()]), boundary).clone

    found = described(declaring, Candidate(workflow="refund")).boundaries
    assert {"model:refunds", "model:helper", "handoff:refunds", "handoff:ask_helper", "tool:pay", "tool:find"} <= found


class Why(BaseModel):
    why: str


def test_function_of_a_handoff_is_a_tool() -> None:
    def noted(_: Any, given: Why) -> None:
        ran.append(f"noted {given.why}")

    def handing() -> Agent[Any]:
        turn = [("transfer_to_refunds", {"why": "late"})]
        return triage(turn, handoffs=[handoff(payer("paid"), on_handoff=noted, input_type=Why)])

    envelope = record(running(handing))
    assert "noted late" in ran
    assert told(envelope)[1:3] == ["tool:transfer_to_refunds", "handoff:refunds"]
    played = play(running(handing), envelope)
    assert [each.crossing.name for each in played.played if each.intent] == ["transfer_to_refunds"]


def test_agent_as_a_tool_is_a_handoff_that_comes_back() -> None:
    def asking() -> Agent[Any]:
        turn = [("ask_refunds", {"input": "please"}), ("find", {"day": "thu"})]
        return triage(turn, "done", tools=[find, payer().as_tool("ask_refunds", "asks")])

    envelope = same(running(asking))
    handed = next(crossing for crossing in envelope.crossings if crossing.kind is Kind.HANDOFF)
    assert (handed.name, handed.seen, handed.raw) == ("ask_refunds", {"input": "please"}, "paid")
    assert [(step.name, step.scope == handed.at) for step in tools(envelope)] == [("find", False), ("pay", True)]


def test_guarded_agent_is_a_tool_as_any_other() -> None:
    def build(boundary: Boundary) -> Any:
        boundary.guard("not-now", lambda asked: f"not {asked['input']}", before="ask_refunds")
        turn = [("ask_refunds", {"input": "now"})]
        made = bound(triage(turn, "done", tools=[payer().as_tool("ask_refunds", "asks")]), boundary)
        return lambda user: output(made, user)

    (step,) = tools(same(build))
    assert (step.name, step.blocked_by) == ("ask_refunds", "not-now")


def test_agent_that_a_tool_runs_stands_behind_the_boundary_too() -> None:
    inner = payer(name="inner")

    @function_tool
    async def ask(question: str) -> str:
        return str((await Runner.run(inner, question)).final_output)

    envelope = same(running(lambda: triage([("ask", {"question": "?"})], "done", tools=[ask])))
    inside = [(crossing.name, crossing.parent) for crossing in envelope.crossings if crossing.parent]
    assert inside == [("inner", "#2"), ("inner", "#3"), ("pay", "#3"), ("inner", "#3")]


# Guardrails


@input_guardrail
def polite(_: Any, __: Any, given: Any) -> GuardrailFunctionOutput:
    ran.append("polite")
    return GuardrailFunctionOutput(output_info={"said": given}, tripwire_triggered="damn" in str(given))


@output_guardrail
def short(_: Any, __: Any, said: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=len(said), tripwire_triggered=len(said) > 100)


@tool_input_guardrail
def capped(data: Any) -> ToolGuardrailFunctionOutput:
    if json.loads(data.context.tool_arguments)["amount"] > 3:
        return ToolGuardrailFunctionOutput.reject_content("too much")
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def discreet(_: Any) -> ToolGuardrailFunctionOutput:
    return ToolGuardrailFunctionOutput.reject_content("hidden")


@function_tool(name_override="pay", tool_input_guardrails=[capped], tool_output_guardrails=[discreet])
def careful(amount: int) -> dict[str, Any]:
    """Pay."""
    ran.append("pay")
    return {"paid": amount}


def guards(envelope: Any) -> list[Any]:
    return [(c.name, c.raw["blocked"], c.at) for c in envelope.crossings if c.kind is Kind.GUARD]


def test_guardrails_of_input_and_output_are_guards() -> None:
    guarded = {"input_guardrails": [polite], "output_guardrails": [short]}
    envelope = record(running(lambda: triage([("find", {"day": "thu"})], "done", **guarded)))
    assert guards(envelope) == [("polite", False, None), ("short", False, None)]
    ran.clear()
    replayed(running(lambda: triage([("find", {"day": "thu"})], "done", **guarded)), envelope, policy=POLICY)
    assert ran == ["polite"]  # candidate code runs live


@pytest.mark.parametrize("of", ["agent", "run"])
def test_guardrail_that_trips_ends_the_run_as_in_the_sdk(of: str) -> None:
    config = RunConfig(input_guardrails=[polite])

    async def swearing(made: Any, _: Any) -> Any:
        try:
            return (await Runner.run(made, "damn", run_config=config if of == "run" else None)).final_output
        except InputGuardrailTripwireTriggered as tripped:
            return tripped.guardrail_result.output.output_info

    given = {"input_guardrails": [polite]} if of == "agent" else {}
    build = running(lambda: triage("done", **given), swearing)
    envelope = record(build)
    assert envelope.disposition.output == {"said": "damn"}
    assert guards(envelope) == [("polite", True, None)]
    off = parse("guard.off:polite")
    applied: list[Any] = []

    def breaking(replay: Any) -> Boundary:
        return BreakingBoundary(replay, [off], record=envelope, terms=Terms(policy=POLICY), on_applied=applied.append)

    ran.clear()
    told_ = replayed(build, envelope, policy=POLICY, boundary=breaking)
    assert told_.divergence is not None  # past the guard there is no recorded output
    assert (applied, ran) == ([off], [])


def test_agent_of_a_guardrail_is_recorded() -> None:
    checker = Agent(name="checker", model=Scripted("fine", name="checker"))

    @input_guardrail
    async def judged(_: Any, __: Any, given: Any) -> GuardrailFunctionOutput:
        said = (await Runner.run(checker, given)).final_output
        return GuardrailFunctionOutput(output_info=said, tripwire_triggered=said != "fine")

    envelope = same(running(lambda: triage([("find", {"day": "thu"})], "done", input_guardrails=[judged])))
    assert {"handoff:checker", "model:checker", "guard:judged"} <= set(told(envelope))
    (found,) = tools(envelope)
    asked = next(c for c in envelope.crossings if c.seq == found.group)
    assert (asked.name, asked.scope) == ("triage", "")


def test_guardrails_of_a_tool_show_both_sides() -> None:
    turn = [("pay", {"amount": 5}), ("pay", {"amount": 2})]
    envelope = same(running(lambda: triage(turn, "done", tools=[careful])))
    refused, paid = tools(envelope)
    assert (refused.blocked_by, refused.shown) == ("capped", "too much")
    assert (paid.raw, paid.shown) == ({"paid": 2}, "hidden")
    assert guards(envelope) == [
        ("capped", True, "before:pay"),
        ("capped", False, "before:pay"),
        ("discreet", True, "after:pay"),
    ]


# People and memory


@function_tool(name_override="pay", needs_approval=True)
def approved(amount: int) -> dict[str, Any]:
    """Pay."""
    ran.append("pay")
    return {"paid": amount}


def asking(ask: Any, tool: Any = approved) -> Build:
    def build(boundary: Boundary) -> Any:
        made = answered(bound(triage([("pay", {"amount": 5})], "done", tools=[tool]), boundary), boundary, ask)

        async def run(user: Any) -> Any:
            return (await made.run(user)).final_output

        return run

    return build


def test_person_approves_a_call() -> None:
    envelope = same(asking(lambda _: {"approved": True}))
    assert told(envelope) == ["model:triage", "human:approval", "tool:pay", "model:triage"]
    assert envelope.crossings[1].seen == {"tool": "pay", "arguments": {"amount": 5}}


@pytest.mark.parametrize("said", ["too much", False, {"approved": "yes"}, None])
def test_nothing_but_a_grant_is_one(said: Any) -> None:
    assert not tools(same(asking(lambda _: said)))
    assert "pay" not in ran


def test_nobody_makes_up_a_grant() -> None:
    asked: list[Any] = []
    freely = record(asking(asked.append, pay))
    found = play(asking(asked.append), freely)
    assert found.divergence is not None
    assert found.divergence.boundary == "human:approval"
    grant = DeclaredGrant(human="approval", answer=True)
    assert play(asking(asked.append), freely, grants=[grant]).divergence is None
    assert not asked


def test_session_is_a_memory() -> None:
    def build(boundary: Boundary) -> Any:
        session = bound_session(SQLiteSession("1"), boundary)
        made = bound(triage([("find", {"day": "thu"})], "one", "two"), boundary)

        async def run(user: Any) -> Any:
            await Runner.run(made, user, session=session)
            return (await Runner.run(made, "more", session=session)).final_output

        return run

    envelope = same(build)
    memories = [crossing for crossing in envelope.crossings if crossing.kind is Kind.MEMORY]
    assert [(each.name.partition(".")[2], each.effect) for each in memories[:2]] == [
        ("get_items", "read"),
        ("add_items", "write"),
    ]
    assert not [item for each in memories for item in (each.seen or {}).get("items", ()) if "id" in item]
    asked = [crossing.seen["messages"] for crossing in envelope.crossings if crossing.kind is Kind.MODEL]
    assert len(asked[-1]) > len(asked[0])


def test_session_that_is_kept_elsewhere_ends_the_run(tmp_path: Any) -> None:
    async def remembering(made: Any, user: Any) -> Any:
        where = str(tmp_path / "sessions.db") if user == "go" else ":memory:"
        return (await Runner.run(made, user, session=SQLiteSession("1", where))).final_output

    build = running(lambda: triage("done"), remembering)
    assert recorded(build, "kept", policy=POLICY).disposition.output == "done"
    error = recorded(build, "go", policy=POLICY).disposition.error
    assert error is not None
    assert "session 'SQLiteSession' of agent 'triage'" in error.message


# What tools give back


def test_results_come_back_as_the_model_is_shown_them() -> None:
    class Slot(BaseModel):
        hour: int

    @function_tool
    def picture() -> Any:
        return [ToolOutputImage(image_url="https://shop.example/a.png")]

    @function_tool
    def slot() -> Any:
        return Slot(hour=9)

    build = running(lambda: triage([("picture", {}), ("slot", {})], "done", tools=[picture, slot]))
    assert [step.raw for step in tools(same(build))] == [
        {"openai_agents_tool_output": [{"type": "image", "image_url": "https://shop.example/a.png"}]}, "hour=9",
    ]  # fmt: skip


# What would lead past the boundary


def test_tool_that_comes_later_never_runs() -> None:
    async def arming(made: Any, user: Any) -> Any:
        made.tools.append(pay)
        try:
            return await output(made, user)
        except Exception as found:  # noqa: BLE001 - as agents do
            return str(found)

    envelope = recorded(running(lambda: triage([("pay", {"amount": 5})], "done"), arming), policy=POLICY)
    assert "tool 'pay' of agent 'triage' can write" in envelope.disposition.output
    assert "pay" not in ran
