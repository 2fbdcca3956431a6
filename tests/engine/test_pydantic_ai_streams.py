"""pydantic-ai agents that stream: recorded in their chunks and replayed in them, early close included."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

from pydantic_agents import Build, find, output, pay, play, record, same, scripted, tools
from twiceshy.adapters.pydantic_ai import BoundAgent, bound
from twiceshy.boundary import Boundary
from twiceshy.outcome import Divergence

# The framework takes seconds to import.
pytestmark = pytest.mark.slow


async def streamed(messages: list[Any], _: Any) -> AsyncIterator[Any]:
    if isinstance(messages[-1].parts[-1].content, str):
        yield {0: DeltaThinkingPart(content="A slot ")}
        yield {0: DeltaThinkingPart(content="first.", signature="s1")}
        yield "Let me "
        yield "look."
        yield {2: DeltaToolCall(name="find", json_args='{"da', tool_call_id="c1")}
        yield {3: DeltaToolCall(name="pay", json_args='{"amount"', tool_call_id="c2")}
        yield {2: DeltaToolCall(json_args='y": "thu"}')}
        yield {3: DeltaToolCall(json_args=": 5}")}
    else:
        for word in ("All ", "is ", "done."):
            yield word


def streaming(how: Callable[[BoundAgent, Any], Any]) -> Build:
    def build(boundary: Boundary) -> Callable[[Any], Any]:
        made = bound(Agent(FunctionModel(stream_function=streamed), tools=[find, pay]), boundary)
        return lambda user: how(made, user)

    return build


async def by_events(made: BoundAgent, user: Any) -> Any:
    told = []
    async with made.run_stream_events(user) as events:
        async for event in events:
            delta = getattr(event, "delta", None)
            said = [getattr(delta, name, None) for name in ("content_delta", "args_delta")]
            told.append([type(event).__name__, *said])
    return told


async def by_nodes(made: BoundAgent, user: Any) -> Any:
    told = []
    async with made.iter(user) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    told += [type(event).__name__ async for event in stream]
    return [told, run.result.output if run.result else None]


async def by_text(made: BoundAgent, user: Any, many: int | None = None) -> Any:
    told: list[str] = []
    async with made.run_stream(user) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            told.append(text)
            if len(told) == many:
                break
    return told


@pytest.mark.parametrize("how", [by_events, by_nodes])
def test_streams_replay_in_their_chunks(how: Callable[[BoundAgent, Any], Any]) -> None:
    envelope = same(streaming(how))
    first = envelope.crossings[0]
    assert [chunk.get("arguments") for chunk in first.chunks or () if chunk.get("type") == "tool_call"] == [
        '{"da', '{"amount"', 'y": "thu"}', ": 5}",
    ]  # fmt: skip
    assert [part.get("content", part.get("arguments")) for part in first.raw["parts"]] == [
        "A slot first.", "Let me look.", {"day": "thu"}, {"amount": 5},
    ]  # fmt: skip
    assert [crossing.name for crossing in tools(envelope)] == ["find", "pay"]


def test_stream_left_early_is_recorded_so_far() -> None:
    async def one(made: BoundAgent, user: Any) -> Any:
        return await by_text(made, user, 1)

    crossing = same(streaming(one)).crossings[0]
    assert [chunk.get("content") for chunk in crossing.chunks or ()] == ["A slot ", "first.", "Let me "]
    assert repr(crossing.raw) == "UNSET"
    longer = play(streaming(by_text), record(streaming(one)))
    assert longer.divergence is not None
    assert longer.divergence.kind is Divergence.MODEL_EXHAUSTED


def test_whole_record_streams_and_streamed_record_answers_whole() -> None:
    def whole(boundary: Boundary) -> Callable[[Any], Any]:
        model = scripted([("find", {"day": "thu"}), ("pay", {"amount": 5})], "All is done.")
        made = bound(Agent(model, tools=[find, pay]), boundary)
        return lambda user: output(made, user)

    told = play(streaming(by_nodes), record(whole))
    assert told.disposition is not None
    assert told.disposition.output[1] == "All is done."
    told = play(whole, record(streaming(by_nodes)))
    assert told.disposition is not None
    assert told.disposition.output == "All is done."


async def thought(made: BoundAgent, user: Any) -> Any:
    part = (await made.run(user)).all_messages()[-1].parts[0]
    return getattr(part, "signature", None)


def test_text_and_thought_are_told_as_they_are() -> None:
    def thoughtful(_: list[Any], __: Any) -> ModelResponse:
        return ModelResponse(parts=[ThinkingPart("hm", signature="s1"), TextPart("a"), TextPart("b")])

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        made = bound(Agent(FunctionModel(thoughtful)), boundary)
        return lambda user: thought(made, user)

    assert same(build).disposition.output == "s1"
