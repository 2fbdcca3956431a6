"""Agents of the OpenAI Agents SDK that stream: recorded in their chunks and replayed in them, early close included."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from agents import Agent, Runner

from builders import TUESDAY_NS
from openai_agents import Build, Scripted, Streaming, event, find, pay, play, record, running, same, tools
from twiceshy.frozen import FrozenClock
from twiceshy.frozen.eventloop import FrozenPolicy, Patience, VirtualLoop
from twiceshy.outcome import Divergence

# The SDK takes seconds to import.
pytestmark = pytest.mark.slow

TURNS: list[Any] = [[("find", {"day": "thu"}), ("pay", {"amount": 5})], "All is done."]


def agent(model: type[Scripted] = Streaming, turns: list[Any] = TURNS) -> Callable[[], Agent[Any]]:
    return lambda: Agent(name="planner", model=model(*turns), tools=[find, pay])


async def deltas(made: Any, user: Any) -> Any:
    result = Runner.run_streamed(made, user)
    told = [each.data async for each in result.stream_events() if each.type == "raw_response_event"]
    return [[each.type, each.delta] for each in told if each.type.endswith(".delta")] + [result.final_output]


async def items(made: Any, user: Any) -> Any:
    result = Runner.run_streamed(made, user)
    return [each.name async for each in result.stream_events() if each.type == "run_item_stream_event"]


@pytest.mark.parametrize("how", [deltas, items])
def test_streams_replay_in_their_chunks(how: Callable[[Any, Any], Any]) -> None:
    envelope = same(running(agent(), how))
    first, last = envelope.crossings[0], envelope.crossings[-1]
    arguments = [chunk.get("arguments") for chunk in first.chunks or () if chunk.get("type") == "tool_call"]
    assert arguments == ["", '{"da', 'y": "thu"}', "", '{"am', 'ount": 5}']
    assert [part["arguments"] for part in first.raw["parts"]] == [{"day": "thu"}, {"amount": 5}]
    assert [chunk["content"] for chunk in (last.chunks or ())[:-1]] == ["All ", "is ", "done."]
    assert [step.name for step in tools(envelope)] == ["find", "pay"]


def test_whole_record_streams_and_streamed_record_answers_whole() -> None:
    played = play(running(agent(), deltas), record(running(agent(Scripted))))
    assert played.disposition is not None
    assert played.disposition.output[-2:] == [["response.output_text.delta", "All is done."], "All is done."]
    played = play(running(agent(Scripted)), record(running(agent(), deltas)))
    assert played.disposition is not None
    assert played.disposition.output == "All is done."


@pytest.fixture
def frozen_loop() -> Iterator[None]:
    """The event loop of a trial: a chunk comes when nothing else can be done."""
    clock = FrozenClock(TUESDAY_NS)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(FrozenPolicy(lambda: VirtualLoop(lambda: clock, Patience())))
    yield
    asyncio.set_event_loop_policy(before)


class Slow(Streaming):
    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        async for each in super().stream_response(*given, **options):
            yield each
            await asyncio.sleep(1)


def left(words: int | None) -> Build:
    """An agent whose reader cancels the run after so many words."""

    async def reading(made: Any, user: Any) -> Any:
        result = Runner.run_streamed(made, user)
        taken: list[str] = []
        async for each in result.stream_events():
            if each.type == "raw_response_event" and each.data.type == "response.output_text.delta":
                taken.append(each.data.delta)
                if len(taken) == words:
                    result.cancel()
        return taken

    return running(agent(Slow, ["one two three"]), reading)


@pytest.mark.usefixtures("frozen_loop")
def test_stream_left_early_is_recorded_so_far() -> None:
    crossing = same(left(2)).crossings[0]
    assert [chunk["content"] for chunk in crossing.chunks or ()] == ["one ", "two "]
    assert (crossing.error, repr(crossing.raw)) == (None, "UNSET")
    longer = play(left(None), record(left(2)))
    assert longer.divergence is not None
    assert longer.divergence.kind is Divergence.MODEL_EXHAUSTED


class Reasoning(Streaming):
    async def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        item = {"type": "reasoning", "id": "rs_1", "summary": []}
        yield event("response.output_item.added", output_index=0, item=item)
        for delta in ("hm", ", so"):
            yield event("response.reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=0, delta=delta)  # fmt: skip
        whole = {**item, "summary": [{"type": "summary_text", "text": "hm, so"}]}
        yield event("response.output_item.done", output_index=0, item=whole)
        async for each in super().stream_response(*given, **options):
            if each.type == "response.completed":
                each.response.output.insert(0, event("response.output_item.done", output_index=0, item=whole).item)
            else:
                each.output_index = 1
            yield each


def test_thoughts_are_kept_whole() -> None:
    envelope = same(running(agent(Reasoning, ["done"]), items))
    first, second = envelope.crossings[0].raw["parts"]
    assert (first["type"], first["native"]["summary"][0]["text"], second["content"]) == ("reasoning", "hm, so", "done")


def test_streamed_handoff_closes_with_its_run() -> None:
    def handing() -> Agent[Any]:
        second = Agent(name="second", model=Streaming("the end", name="second"))
        return Agent(name="first", model=Streaming([("transfer_to_second", {})], name="first"), handoffs=[second])

    envelope = same(running(handing, deltas))
    assert [(c.name, c.raw) for c in envelope.crossings if c.kind == "handoff"] == [("second", "the end")]
