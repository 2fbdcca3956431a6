"""Agents of the OpenAI Agents SDK with scripted models, their records and their replays."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Agent, Model, Runner, function_tool
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from builders import a_policy, recorded, replayed
from twiceshy.adapters.openai_agents import bound
from twiceshy.adapters.openai_agents_messages import completed, response_of
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.transcript import Transcript

POLICY = a_policy(find="read", pay="write")
Build = Callable[[Boundary], Callable[[Any], Any]]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ran: list[str] = []
"""Which tools and models really ran."""


class Scripted(Model):
    """A model that says its turns: texts, or lists of calls (tool, arguments)."""

    def __init__(self, *turns: Any, name: str = "scripted") -> None:
        self.model_name = name
        self._turns = turns
        self._at = 0

    def output(self) -> dict[str, Any]:
        ran.append(self.model_name)
        at, self._at = self._at, self._at + 1
        turn = self._turns[min(at, len(self._turns) - 1)]
        if isinstance(turn, str):
            return {"parts": [{"type": "text", "content": turn}]}
        calls = [(f"{self.model_name}{at}.{i}", name, args) for i, (name, args) in enumerate(turn)]
        parts = [{"type": "tool_call", "id": call, "name": name, "arguments": args} for call, name, args in calls]
        return {"parts": parts, "usage": {"input_tokens": 3, "output_tokens": 4}}

    async def get_response(self, *_: Any, **__: Any) -> Any:
        return response_of(self.output())

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield completed(response_of(self.output()))


class Streaming(Scripted):
    """The same model in the events of the Responses API: texts word by word, the arguments of calls in two pieces."""

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        response = response_of(self.output())
        for index, item in enumerate(response.output):
            if item.type == "message":
                text = item.content[0].text  # type: ignore[union-attr]
                yield event("response.output_item.added", output_index=index, item={**item.model_dump(), "content": []})
                for word in text.split(" "):
                    delta = word if text.endswith(word) else f"{word} "
                    yield event("response.output_text.delta", output_index=index, item_id="m", content_index=0, delta=delta, logprobs=[])  # fmt: skip
            elif item.type == "function_call":
                yield event(
                    "response.output_item.added", output_index=index, item={**item.model_dump(), "arguments": ""}
                )
                for delta in filter(None, (item.arguments[:4], item.arguments[4:])):
                    yield event("response.function_call_arguments.delta", output_index=index, item_id="f", delta=delta)
            yield event("response.output_item.done", output_index=index, item=item.model_dump())
        yield completed(response)


def event(kind: str, **fields: Any) -> Any:
    return EVENT.validate_python({"type": kind, "sequence_number": 0, **fields})


@function_tool
def find(day: str) -> list[str]:
    """The free slots of a day."""
    ran.append("find")
    return ["9:00"]


@function_tool
def pay(amount: int) -> dict[str, Any]:
    """Pay."""
    ran.append("pay")
    return {"paid": amount}


def running(agent: Callable[[], Agent[Any]], how: Callable[[Any, Any], Any] | None = None) -> Build:
    """A candidate of an agent that is made anew each time."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        made = bound(agent(), boundary)
        return lambda user: (how or output)(made, user)

    return build


async def output(made: Any, user: Any) -> Any:
    return (await Runner.run(made, user)).final_output


def tools(envelope: Envelope) -> list[Crossing]:
    return [crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL]


def told(envelope: Envelope) -> list[str]:
    """Every crossing as `kind:name`."""
    return [f"{crossing.kind}:{crossing.name}" for crossing in envelope.crossings]


def record(build: Build) -> Envelope:
    envelope = recorded(build, "go", policy=POLICY)
    assert envelope.disposition.error is None, envelope.disposition.error
    return envelope


def play(build: Build, envelope: Envelope | None = None, **terms: Any) -> Transcript:
    """A replay, by default of what this very agent does; nothing runs in it."""
    envelope = envelope or record(build)
    ran.clear()
    played = replayed(build, envelope, policy=POLICY, **terms)
    assert not ran
    return played


def same(build: Build) -> Envelope:
    """The record of an agent that replays as it was."""
    envelope = record(build)
    played = play(build, envelope)
    assert (played.divergence, played.crash, played.fault) == (None, None, None)
    assert played.disposition is not None
    assert json.dumps(played.disposition.output) == json.dumps(envelope.disposition.output)
    assert not any(each.drift or each.stale for each in played.played)
    assert [each.crossing.chunks for each in played.played] == [crossing.chunks for crossing in envelope.crossings]
    return envelope
