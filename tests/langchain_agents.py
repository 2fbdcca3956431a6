"""Agents of LangChain and LangGraph with scripted models, their records and their replays."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from builders import a_policy, recorded, replayed
from twiceshy.adapters.langchain import bound_model
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.transcript import Transcript

POLICY = a_policy(find="read", pay="write", ask="read", art="read")
Build = Callable[[Boundary], Callable[[Any], Any]]
CALLS: list[Any] = [[("find", {"day": "thu"}), ("pay", {"amount": 5})], "All is done."]
ASK: dict[str, Any] = {"messages": [("user", "go")]}
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}
ran: list[str] = []
"""Which tools and models really ran."""


class Scripted(BaseChatModel):
    """A model that says its turns: texts, or lists of calls (tool, arguments)."""

    turns: list[Any]
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[each if isinstance(each, dict) else convert_to_openai_tool(each) for each in tools])

    def turn(self, messages: Any) -> tuple[int, Any]:
        ran.append(self.model_name)
        at = sum(isinstance(message, AIMessage) for message in messages)
        return at, self.turns[min(at, len(self.turns) - 1)]

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        at, turn = self.turn(messages)
        calls = [] if isinstance(turn, str) else turn
        made = [
            {"type": "tool_call", "id": f"c{at}.{i}", "name": name, "args": args}
            for i, (name, args) in enumerate(calls)
        ]
        message = AIMessage(turn if isinstance(turn, str) else "", tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Streaming(Scripted):
    """The same model, word by word, and the arguments of calls in two pieces."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        at, turn = self.turn(messages)
        if isinstance(turn, str):
            words = turn.split(" ")
            yield from (said(content=word if word == words[-1] else f"{word} ") for word in words)
        for i, (name, args) in enumerate([] if isinstance(turn, str) else turn):
            spelt = json.dumps(args)
            yield called(i, name=name, id=f"c{at}.{i}", args="")
            yield called(i, args=spelt[:4])
            yield called(i, args=spelt[4:])
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        yield said(response_metadata={"finish_reason": "stop"}, usage_metadata=usage)


def said(**given: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **given}))


def called(index: int, **given: Any) -> ChatGenerationChunk:
    return said(tool_call_chunks=[{"name": None, "id": None, "args": None, "index": index, **given}])


@tool
def find(day: str) -> str:
    """The free slots of a day."""
    ran.append("find")
    return '["9:00"]'


@tool
def pay(amount: int) -> dict[str, Any]:
    """Pay."""
    ran.append("pay")
    return {"paid": amount}


def texts(result: Any) -> list[str]:
    return [str(message.text) for message in result["messages"]]


def tools(envelope: Envelope) -> list[Crossing]:
    """The calls of tools, in an order in which no thread has a say."""
    found = [crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL]
    return sorted(found, key=lambda crossing: (crossing.group or 0, crossing.name, crossing.attempt))


def record(build: Build) -> Envelope:
    envelope = recorded(build, "go", policy=POLICY)
    assert envelope.disposition.error is None, envelope.disposition.error
    return envelope


def play(build: Build, envelope: Envelope | None = None, **terms: Any) -> Transcript:
    """A replay, by default of what this very agent does; nothing runs in it."""
    envelope = envelope or record(build)
    ran.clear()
    told = replayed(build, envelope, policy=POLICY, **terms)
    assert not ran
    return told


def same(build: Build) -> Envelope:
    """The record of an agent that replays as it was."""
    envelope = record(build)
    told = play(build, envelope)
    assert (told.divergence, told.crash) == (None, None)
    assert told.disposition is not None
    assert told.disposition.output == envelope.disposition.output
    assert not any(played.drift or played.stale for played in told.played)
    assert [p.crossing.chunks for p in told.played] == [c.chunks for c in envelope.crossings]
    return envelope


def own_graph(boundary: Boundary, node: Any, *turns: Any, offered: Any = (find, pay)) -> Any:
    """A graph of LangGraph's own with the bound model, offered these tools, and a node that runs them."""
    model = bound_model(boundary, Scripted(turns=list(turns) or CALLS)).bind_tools(list(offered))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    compiled = graph.compile()
    return lambda _: texts(compiled.invoke(ASK))
