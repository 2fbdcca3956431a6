"""A gateway over a record, in this process, for real clients: what they got, how many requests it took, and the transcript it left."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from builders import a_crossing, a_policy, an_envelope
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Envelope, Grade, Kind
from twiceshy.gateway.answering import Gateway
from twiceshy.gateway.catalog import catalog_of
from twiceshy.gateway.server import Server
from twiceshy.journal import Journal, transcript_of
from twiceshy.policy import ToolsPolicy
from twiceshy.replaying import Replay, Terms
from twiceshy.transcript import Transcript

TOKEN = "the-token-of-this-run"  # noqa: S105 - of a gateway that lives for one test
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OFFER = {"type": "function", "name": "get_weather", "description": "The weather of a city.", "parameters": WEATHER}

UNKNOWN_OFFERS = {"R7": Grade(grade="missing")}
"""Of a record whose requests do not say what they offered."""


@dataclass(kw_only=True)
class Served:
    """A gateway that listens."""

    server: Server
    lines: list[bytes] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.server.origin

    @property
    def transcript(self) -> Transcript:
        return transcript_of(self.lines)

    def clients(self, monkeypatch: Any) -> None:
        """All that an unmodified client is told."""
        monkeypatch.setenv("OPENAI_BASE_URL", f"{self.origin}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", TOKEN)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", self.origin)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TOKEN)


@contextmanager
def serving(envelope: Envelope, policy: ToolsPolicy | None = None, **terms: Any) -> Iterator[Served]:
    """A replay of the envelope behind a gateway on a free port."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    policy = policy or a_policy("weather", get_weather="read")
    replay = Replay(envelope, Terms(policy=policy, **terms), journal)
    server = Server(Gateway(Boundary(replay), catalog_of(envelope, policy), journal), TOKEN)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(server=server, lines=lines)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def an_output(*parts: Any, finish: str | None = None) -> dict[str, Any]:
    """A model output of texts and tool calls."""
    told = [{"type": "text", "content": part} if isinstance(part, str) else part for part in parts]
    calls = any(part["type"] == "tool_call" for part in told)
    return {"parts": told, "finish_reason": finish or ("tool_calls" if calls else "stop")}


def a_call(city: str, number: int = 1) -> dict[str, Any]:
    """A proposal to ask for the weather of a city."""
    return {"type": "tool_call", "id": f"call_{number}", "name": "get_weather", "arguments": {"city": city}}


def a_turn(seq: int, output: Any, **given: Any) -> Crossing:
    """A recorded model output."""
    request = given.pop("seen", {"messages": [], "tools": [OFFER]})
    return a_crossing(seq, "planner", kind=Kind.MODEL, effect=None, seen=request, raw=output, **given)


def a_reading(seq: int, city: str, **given: Any) -> Crossing:
    """A recorded answer of the tool."""
    return a_crossing(
        seq,
        "get_weather",
        seen={"city": city},
        raw={"city": city, "celsius": 7},
        shown={"city": city, "celsius": 7},
        **given,
    )


def a_weather_case() -> Envelope:
    """Two tools at once, then text: what every client below replays."""
    return an_envelope(
        a_turn(1, an_output("Let me look.", a_call("Leith"), a_call("Truro", 2))),
        a_reading(2, "Leith", group=1),
        a_reading(3, "Truro", group=1),
        a_turn(4, an_output('{"warmer": "neither"}')),
        workflow="weather",
    )
