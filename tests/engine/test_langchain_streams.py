"""LangChain agents that stream: recorded in their chunks and replayed in them, early close included."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from builders import TUESDAY_NS
from langchain_agents import ASK, CALLS, Build, Scripted, Streaming, find, pay, play, record, said, same, texts, tools
from twiceshy.adapters.langchain import bound_model, create_agent
from twiceshy.boundary import Boundary
from twiceshy.errors import CandidateError
from twiceshy.frozen import FrozenClock
from twiceshy.frozen.eventloop import FrozenPolicy, Patience, VirtualLoop
from twiceshy.outcome import Divergence

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


def streaming(how: Callable[[Any], Any], model: type[Scripted] = Streaming, turns: list[Any] = CALLS) -> Build:
    def build(boundary: Boundary) -> Any:
        graph = create_agent(boundary, model(turns=turns), [find, pay])
        return lambda _: how(graph)

    return build


def seen(message: Any) -> list[Any]:
    calls = getattr(message, "tool_call_chunks", None) or []
    return [type(message).__name__, message.content, [(call["name"], call["args"]) for call in calls]]


def in_messages(graph: Any) -> Any:
    return sorted(str(seen(message)) for message, _ in graph.stream(ASK, stream_mode="messages"))


async def ain_messages(graph: Any) -> Any:
    return [seen(message) async for message, _ in graph.astream(ASK, stream_mode="messages")]


async def in_events(graph: Any) -> Any:
    told = [event async for event in graph.astream_events(ASK, version="v2")]
    chunks = [seen(event["data"]["chunk"]) for event in told if event["event"] == "on_chat_model_stream"]
    return [chunks, sorted(event["event"] for event in told if "_tool_" in event["event"])]


@pytest.mark.parametrize("how", [in_messages, ain_messages, in_events])
def test_streams_replay_in_their_chunks(how: Callable[[Any], Any]) -> None:
    envelope = same(streaming(how))
    first, last = envelope.crossings[0], envelope.crossings[-1]
    arguments = [chunk.get("arguments") for chunk in first.chunks or () if chunk.get("type") == "tool_call"]
    assert arguments == ["", '{"da', 'y": "thu"}', "", '{"am', 'ount": 5}']
    assert [part["arguments"] for part in first.raw["parts"]] == [{"day": "thu"}, {"amount": 5}]
    assert [chunk["content"] for chunk in (last.chunks or ())[:-1]] == ["All ", "is ", "done."]
    assert [step.name for step in tools(envelope)] == ["find", "pay"]


def test_whole_record_streams_and_streamed_record_answers_whole() -> None:
    def whole(graph: Any) -> Any:
        return texts(graph.invoke(ASK))[-1]

    told = play(streaming(ain_messages), record(streaming(whole, Scripted)))
    assert told.disposition is not None
    assert told.disposition.output[-2] == ["AIMessageChunk", "All is done.", []]
    told = play(streaming(whole, Scripted), record(streaming(ain_messages)))
    assert told.disposition is not None
    assert told.disposition.output == "All is done."


def test_model_that_streams_nothing_answers_whole() -> None:
    def kinds(graph: Any) -> Any:
        return [type(message).__name__ for message, _ in graph.stream(ASK, stream_mode="messages")]

    envelope = same(streaming(kinds, Scripted, ["done"]))
    assert envelope.disposition.output == ["AIMessage"]
    assert envelope.crossings[0].chunks is None


def reading(many: int | None) -> Build:
    """An agent that reads so many chunks of a model's stream and leaves."""

    def build(boundary: Boundary) -> Any:
        model = bound_model(boundary, Streaming(turns=["one two three"]))

        def run(_: Any) -> Any:
            taken = []
            for chunk in model.stream("count"):
                taken.append(chunk.content)
                if len(taken) == many:
                    break
            return taken

        return run

    return build


def test_stream_left_early_is_recorded_so_far() -> None:
    crossing = same(reading(2)).crossings[0]
    assert [chunk["content"] for chunk in crossing.chunks or ()] == ["one ", "two "]
    assert repr(crossing.raw) == "UNSET"
    longer = play(reading(None), record(reading(2)))
    assert longer.divergence is not None
    assert longer.divergence.kind is Divergence.MODEL_EXHAUSTED


async def left_after_one(graph: Any) -> Any:
    messages = graph.astream(ASK, stream_mode="messages")
    message, _ = await anext(messages)
    await messages.aclose()
    return message.content


@pytest.fixture
def frozen_loop() -> Iterator[None]:
    """The event loop of a trial: a chunk comes when nothing else can be done."""
    clock = FrozenClock(TUESDAY_NS)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(FrozenPolicy(lambda: VirtualLoop(lambda: clock, Patience())))
    yield
    asyncio.set_event_loop_policy(before)


@pytest.mark.usefixtures("frozen_loop")
def test_graph_left_early_replays() -> None:
    class Slow(Streaming):
        async def _astream(self, *given: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            for chunk in self._stream(*given, **options):
                yield chunk
                await asyncio.sleep(1)

    crossing = same(streaming(left_after_one, Slow, ["one two three"])).crossings[0]
    assert [chunk["content"] for chunk in crossing.chunks or ()] == ["one "]
    assert (crossing.error, repr(crossing.raw)) == (None, "UNSET")


class Thinking(BaseChatModel):
    """Speaks in blocks, as some providers' models do."""

    @property
    def _llm_type(self) -> str:
        return "thinking"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, *_: Any, **__: Any) -> Any:
        for block in (
            {"type": "thinking", "thinking": "hm", "index": 0},
            {"type": "thinking", "thinking": ", so", "index": 0},
            {"type": "thinking", "signature": "s1", "thinking": "", "index": 0},
            {"type": "text", "text": "at ", "index": 1},
            {"type": "text", "text": "nine", "index": 1},
        ):
            yield said(content=[block])


def test_blocks_of_thought_and_text_replay() -> None:
    def build(boundary: Boundary) -> Any:
        model = bound_model(boundary, Thinking())

        def run(_: Any) -> Any:
            whole: Any = AIMessageChunk(content=[])
            for chunk in model.stream("when?"):
                whole += chunk
            return whole.content

        return run

    envelope = same(build)
    assert envelope.disposition.output == [
        {"type": "thinking", "thinking": "hm, so", "signature": "s1", "index": 0},
        {"type": "text", "text": "at nine", "index": 1},
    ]
    assert [part["content"] for part in envelope.crossings[0].raw["parts"]] == ["hm, so", "at nine"]


class OnlyEvents(Scripted):
    def _stream_chat_model_events(self, *_: Any, **__: Any) -> Any:
        yield from ()


def test_model_that_streams_only_events_is_refused_by_name() -> None:
    with pytest.raises(CandidateError, match=r"model 'planner'.*streams events"):
        record(lambda boundary: bound_model(boundary, OnlyEvents(turns=[]), name="planner").invoke)
