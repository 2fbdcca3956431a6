"""What LangGraph's graphs do besides calling tools, recorded and replayed with the real framework and scripted models."""

import json
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from builders import recorded, replayed
from langchain_agents import (
    ASK,
    CALLS,
    POLICY,
    THREAD,
    Build,
    Scripted,
    find,
    own_graph,
    pay,
    play,
    ran,
    record,
    same,
    texts,
    tools,
)
from twiceshy.adapters.langchain import answered, bound_model, create_agent, tool_node
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.errors import CandidateError
from twiceshy.outcome import Mode
from twiceshy.writes import DeclaredGrant

# The framework takes seconds to import, and warns that prebuilt agents move.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:create_react_agent has been moved")]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def agent(*turns: Any, tools: Any = (find, pay), how: Any = None, saves: bool = False, **given: Any) -> Build:
    """An agent of `create_agent` with these turns."""

    def build(boundary: Boundary) -> Any:
        saver = {"checkpointer": InMemorySaver()} if saves else {}
        graph = create_agent(boundary, Scripted(turns=list(turns)), list(tools), **given, **saver)
        return lambda _: (how or invoked)(graph)

    return build


def invoked(graph: Any) -> Any:
    return texts(graph.invoke(ASK))


async def ainvoked(graph: Any) -> Any:
    return texts(await graph.ainvoke(ASK))


# Graphs of one's own, and LangGraph's prebuilt ones


def prebuilt(version: Any) -> Build:
    def build(boundary: Boundary) -> Any:
        nodes = tool_node(boundary, [find, pay])
        graph = create_react_agent(bound_model(boundary, Scripted(turns=CALLS)), nodes, version=version)
        return lambda _: texts(graph.invoke(ASK))

    return build


@pytest.mark.parametrize(
    "build",
    [prebuilt("v1"), prebuilt("v2"), lambda boundary: own_graph(boundary, tool_node(boundary, [find, pay]))],
    ids=["react v1", "react v2", "own graph"],
)
def test_parallel_calls_of_a_tool_node_replay(build: Build) -> None:
    envelope = same(build)
    assert [(step.name, step.group) for step in tools(envelope)] == [("find", 1), ("pay", 1)]


def test_tool_that_the_model_is_offered_and_nobody_declared() -> None:
    envelope = recorded(lambda boundary: own_graph(boundary, ToolNode([find, pay])), policy=POLICY)
    assert envelope.disposition.error is not None
    assert "tool 'find' of agent 'model' can write" in envelope.disposition.error.message
    assert not ran


def test_node_keeps_a_wrapper_of_its_own() -> None:
    def capped(request: Any, execute: Any) -> Any:
        call = request.tool_call
        args = {name: min(3, value) if name == "amount" else value for name, value in call["args"].items()}
        return execute(request.override(tool_call={**call, "args": args}))

    for given in ({"wrap_tool_call": capped}, {"awrap_tool_call": capped}):
        build = lambda boundary, given=given: own_graph(boundary, tool_node(boundary, [find, pay], **given))  # noqa: E731 - one line for each
        paid = tools(same(build))[1]
        assert (paid.proposed["amount"], paid.seen["amount"]) == (5, 3 if "wrap_tool_call" in given else 5)


def test_prebuilt_agent_streams_its_state() -> None:
    def steps(graph: Any) -> Any:
        return [sorted(step) for step in graph.stream(ASK, stream_mode="updates")]

    envelope = same(agent(*CALLS, how=steps))
    assert envelope.disposition.output == [["model"], ["tools"], ["tools"], ["model"]]


# People


def asking(*questions: Any) -> Any:
    """A payment that a person is asked about before it is made."""

    @tool("pay")
    def asks(amount: int) -> str:
        """Pay."""
        said = [interrupt(question) for question in questions]
        ran.append("pay")
        return json.dumps({"by": said, "paid": amount})

    return asks


def with_people(*turns: Any, tools: Any, ask: Any, middleware: Any = (), run: str = "invoke") -> Build:
    def build(boundary: Boundary) -> Any:
        saver = InMemorySaver()
        graph = create_agent(
            boundary, Scripted(turns=list(turns)), list(tools), middleware=middleware, checkpointer=saver
        )
        whole = answered(graph, boundary, ask)

        async def awaited(_: Any) -> Any:
            return texts(await whole.ainvoke(ASK, THREAD))

        return awaited if run == "ainvoke" else lambda _: texts(whole.invoke(ASK, THREAD))

    return build


@pytest.mark.parametrize("run", ["invoke", "ainvoke"])
def test_interrupts_of_a_tool_are_a_human_boundary(run: str) -> None:
    build = with_people(
        *CALLS, tools=[find, asking({"amount": 5}, "sure?")], ask=lambda asked: {"said": asked}, run=run
    )
    envelope = same(build)
    asked = [crossing.seen for crossing in envelope.crossings if crossing.kind is Kind.HUMAN]
    assert asked == [{"amount": 5}, "sure?"]
    attempts = [(step.attempt, step.error and step.error.definite) for step in tools(envelope) if step.name == "pay"]
    assert attempts == [(1, True), (2, True), (3, None)]


def test_nobody_makes_up_an_answer() -> None:
    freely = record(agent(*CALLS))
    asked: list[Any] = []
    build = with_people(
        *CALLS, tools=[find, pay], ask=asked.append, middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})]
    )
    told = play(build, freely)
    assert told.divergence is not None
    assert told.divergence.boundary == "human:interrupt"
    grant = DeclaredGrant(human="interrupt", answer={"decisions": [{"type": "approve"}]})
    assert play(build, freely, grants=[grant]).divergence is None
    assert not asked


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_human_in_the_loop_middleware_shows_both_sides(mode: Any) -> None:
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 3}}}
    build = with_people(
        *CALLS, tools=[find, pay], ask=lambda _: edit if mode == "per_call" else {"decisions": [edit]},
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True}, interrupt_mode=mode)],
    )  # fmt: skip
    paid = tools(same(build))[-1]
    assert (paid.name, paid.proposed, paid.seen) == ("pay", {"amount": 5}, {"amount": 3})


def test_graph_that_asks_needs_a_checkpointer() -> None:
    with pytest.raises(CandidateError, match="needs a checkpointer"):
        recorded(lambda boundary: answered(own_compiled(boundary), boundary, str).invoke)


def own_compiled(boundary: Boundary) -> Any:
    return create_agent(boundary, Scripted(turns=CALLS), [find])


def test_state_of_a_checkpointer_spans_turns() -> None:
    def twice(graph: Any) -> Any:
        graph.invoke(ASK, THREAD)
        return texts(graph.invoke({"messages": [("user", "more")]}, THREAD))

    turns = [[("find", {"day": "thu"})], "first", [("pay", {"amount": 5})], "second"]
    envelope = same(agent(*turns, how=twice, saves=True))
    assert len(envelope.disposition.output) == 8


# What tools and middleware give back


@tool
def move(
    day: str, tool_call_id: Annotated[str, InjectedToolCallId], state: Annotated[dict[str, Any], InjectedState]
) -> Command[Any]:
    """Move the appointment."""
    ran.append("move")
    told = ToolMessage(f"{day}, after {len(state['messages'])}", tool_call_id=tool_call_id)
    return Command(update={"messages": [told]})


@tool(response_format="content_and_artifact")
def art(day: str) -> tuple[str, dict[str, Any]]:
    """A table."""
    ran.append("art")
    return day, {"rows": [1, 2]}


def test_commands_come_back_as_they_were() -> None:
    turns = [("move", {"day": "fri"}), ("find", {"day": "thu"})]
    assert same(agent(turns, "done", tools=[find, move], how=ainvoked)).disposition.output[2] == "fri, after 2"
    state = agent(
        [("write_todos", {"todos": [{"content": "pay", "status": "pending"}]})], "done", middleware=[TodoListMiddleware()],
        how=lambda graph: graph.invoke(ASK)["todos"],
    )  # fmt: skip
    assert same(state).disposition.output == [{"content": "pay", "status": "pending"}]


def test_command_answers_the_call_of_this_run() -> None:
    """A live model gives other ids: what was recorded answers the call that is made now."""
    build = agent([("move", {"day": "fri"})], "done", tools=[move])
    envelope = record(build)

    class Renumbering(Scripted):
        def _generate(self, *given: Any, **options: Any) -> Any:
            result = super()._generate(*given, **options)
            message: Any = result.generations[0].message
            message.tool_calls = [{**call, "id": "other"} for call in message.tool_calls]
            return result

    def renumbered(boundary: Boundary) -> Any:
        graph = create_agent(boundary, Renumbering(turns=[[("move", {"day": "fri"})], "done"]), [move])
        return lambda _: texts(graph.invoke(ASK))

    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:model"}))
    told = replayed(renumbered, envelope, policy=POLICY, cut=cut)
    assert told.disposition is not None
    assert told.disposition.output == envelope.disposition.output


def test_artifact_comes_back() -> None:
    def artifacts(graph: Any) -> Any:
        return [getattr(message, "artifact", None) for message in graph.invoke(ASK)["messages"]]

    assert same(agent([("art", {"day": "fri"})], "done", tools=[art], how=artifacts)).disposition.output[2] == {
        "rows": [1, 2]
    }


def test_structured_response_is_a_proposal_that_nobody_runs() -> None:
    class Slot(BaseModel):
        hour: int

    def dumped(graph: Any) -> Any:
        return graph.invoke(ASK)["structured_response"].model_dump()

    envelope = same(agent([("find", {"day": "thu"})], [("Slot", {"hour": 9})], response_format=Slot, how=dumped))
    assert [step.name for step in tools(envelope)] == ["find"]


def test_retries_of_middleware_are_attempts() -> None:
    tries: list[str] = []

    @tool("find")
    def flaky(day: str) -> str:
        """The free slots of a day."""
        tries.append(day)
        if len(tries) == 1:
            raise TimeoutError("slow")
        return "9:00"

    steps = tools(same(agent([("find", {"day": "thu"})], "done", tools=[flaky], middleware=[ToolRetryMiddleware(initial_delay=0)])))  # fmt: skip
    assert [(step.attempt, step.error is None) for step in steps] == [(1, False), (2, True)]
    assert len(tries) == 2


class Elsewhere(AgentMiddleware[Any, Any]):
    """Runs another tool in place of the one that was asked for."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = {**request.tool_call, "args": {"amount": 9}}
        return handler(request.override(tool=pay, tool_call=call))


def test_tool_in_place_of_another_never_runs() -> None:
    envelope = recorded(agent([("find", {"day": "thu"})], "done", middleware=[Elsewhere()]), policy=POLICY)
    assert "tool 'pay' of agent 'agent' can write" in json.dumps(
        envelope.disposition.output or str(envelope.disposition.error)
    )
    assert "pay" not in ran


# Models of middleware, and other agents


class Down(Scripted):
    def _generate(self, *given: Any, **options: Any) -> Any:
        raise TimeoutError("down")


def test_fallback_model_has_a_boundary_of_its_own() -> None:
    def build(boundary: Boundary) -> Any:
        fallback = ModelFallbackMiddleware(Scripted(turns=CALLS, model_name="second"))
        graph = create_agent(boundary, Down(turns=[]), [find, pay], middleware=[fallback])
        return lambda _: texts(graph.invoke(ASK))

    models = [crossing.name for crossing in same(build).crossings if crossing.kind is Kind.MODEL]
    assert models == ["model", "model:second"] * 2


def test_bound_model_of_middleware_is_recorded() -> None:
    def build(boundary: Boundary) -> Any:
        summarizer = bound_model(boundary, Scripted(turns=["in short"]), name="summarizer")
        short = SummarizationMiddleware(summarizer, trigger=("messages", 3), keep=("messages", 2))
        graph = create_agent(boundary, Scripted(turns=CALLS), [find, pay], middleware=[short])
        return lambda _: texts(graph.invoke(ASK))

    envelope = same(build)
    assert [crossing.name for crossing in envelope.crossings if crossing.kind is Kind.MODEL] == [
        "model",
        "summarizer",
        "model",
    ]


def test_bound_agent_in_a_tool_is_part_of_it() -> None:
    def build(boundary: Boundary) -> Any:
        payer = create_agent(boundary, Scripted(turns=[[("pay", {"amount": 5})], "paid"]), [pay], model_name="payer")

        @tool
        def ask(question: str) -> str:
            """Ask the payer."""
            return texts(payer.invoke({"messages": [("user", question)]}))[-1]

        graph = create_agent(boundary, Scripted(turns=[[("ask", {"question": "?"})], "done"]), [ask])
        return lambda _: texts(graph.invoke(ASK))

    envelope = same(build)
    assert [(c.name, c.parent) for c in envelope.crossings if c.parent] == [
        ("payer", "#2"),
        ("pay", "#2"),
        ("payer", "#2"),
    ]


def test_structured_output_of_the_model_itself_is_kept() -> None:
    class Slot(BaseModel):
        hour: int

    def build(boundary: Boundary) -> Any:
        model = bound_model(boundary, Scripted(turns=[[("Slot", {"hour": 9})]])).with_structured_output(Slot)

        def run(_: Any) -> Any:
            found: Any = model.invoke("when?")
            return found.hour

        return run

    assert same(build).disposition.output == 9
