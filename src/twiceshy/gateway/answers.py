"""What goes back over HTTP: an answer, a stream, and the errors that clients of OpenAI and Anthropic alike can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from twiceshy.gateway import openai_chat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

    from twiceshy.gateway.messages import Json
    from twiceshy.transcript import Diverged


class Answer(NamedTuple):
    """What goes back: a status, a JSON body (or the events of a stream), and headers of its own."""

    status: int
    body: Any = None
    events: Iterable[bytes] | None = None
    headers: Mapping[str, str] = {}


NO_RETRY = {"x-should-retry": "false"}


def stream(wire: ModuleType, events: Iterable[tuple[str | None, Json]]) -> Iterator[bytes]:
    """The events of a wire as server-sent events; chat completions end with a word of their own."""
    for name, event in events:
        head = b"" if name is None else b"event: " + name.encode() + b"\n"
        yield head + b"data: " + msgspec.json.encode(event) + b"\n\n"
    if wire is openai_chat:
        yield b"data: [DONE]\n\n"


def missed(ended: Diverged | str) -> Answer:
    """409, which costs a client one request: ids and kinds only, and never to be tried again."""
    if isinstance(ended, str):
        return refused(503, "fault", "the run has ended")
    return refused(
        409, f"twiceshy_{ended.kind}", f"{ended.boundary} at {ended.place}: {ended.kind.meaning}. The run ended here."
    )


def refused(status: int, kind: str, message: str) -> Answer:
    """An error that the clients of OpenAI and Anthropic alike can read."""
    return Answer(
        status, {"type": "error", "error": {"type": kind, "code": kind, "message": message}}, headers=NO_RETRY
    )


def model_failed(raised: Exception) -> Answer:
    """A recorded error of a model as the status it had; the client tries again if it did so in production, at once."""
    code = code_of(raised)
    numbers = [int(word) for word in code.replace("_", " ").split() if word.isdecimal()]
    status = next((number for number in numbers if number in _ERRORS), _STATUSES.get(code, 500))
    told = {"type": code, "code": code, "message": str(raised)}
    return Answer(status, {"type": "error", "error": told}, headers={"retry-after-ms": "1"})


_ERRORS = range(400, 600)
_STATUSES = {"rate_limit": 429, "RateLimitError": 429, "overloaded": 529, "timeout": 504, "permission": 403}


def code_of(raised: BaseException) -> str:
    """The code under which an error was recorded."""
    return str(getattr(raised, "code", None) or type(raised).__name__)
