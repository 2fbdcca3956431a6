"""Agents of pydantic-ai with scripted models, their records and their replays."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from builders import a_policy, recorded, replayed
from twiceshy.adapters.pydantic_ai import BoundAgent, bound
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript

POLICY = a_policy(
    find="read", shop_find="read", ask="read", pay=ToolPolicy(effect="write", definite_errors=["ModelRetry"])
)
Build = Callable[[Boundary], Callable[[Any], Any]]
ran: list[str] = []
"""Which tools really ran."""


def find(day: str) -> list[str]:
    ran.append("find")
    return ["9:00", day]


def pay(amount: int) -> dict[str, Any]:
    ran.append("pay")
    return {"paid": amount}


def scripted(*turns: Any) -> FunctionModel:
    """A model that says these turns: texts, or lists of calls (tool, arguments)."""

    def model(messages: list[Any], _: Any) -> ModelResponse:
        at = sum(isinstance(message, ModelResponse) for message in messages)
        turn = turns[min(at, len(turns) - 1)]
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart(name, args, f"c{at}.{i}") for i, (name, args) in enumerate(turn)])

    return FunctionModel(model)


def agent(*turns: Any, how: Callable[[BoundAgent, Any], Any] | None = None, **given: Any) -> Build:
    """An agent with these turns. given: arguments of `bound` (approve) and of the Agent."""
    approve = given.pop("approve", None)

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        made = bound(Agent(scripted(*turns), **given), boundary, approve=approve)
        return lambda user: (how or output)(made, user)

    return build


async def output(made: BoundAgent, user: Any) -> Any:
    return (await made.run(user)).output


def tools(envelope: Envelope) -> list[Crossing]:
    return [crossing for crossing in envelope.crossings if crossing.kind is Kind.TOOL]


def record(build: Build) -> Envelope:
    envelope = recorded(build, "go", policy=POLICY)
    assert envelope.disposition.error is None, envelope.disposition.error
    return envelope


def play(build: Build, envelope: Envelope | None = None, **terms: Any) -> Transcript:
    """A replay, by default of what this very agent does; no tool runs in it."""
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
