"""What goes back over HTTP: an answer, a stream, and the errors that clients of OpenAI and Anthropic alike can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from twiceshy.gateway.messages import UpstreamFailed, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twiceshy.gateway.messages import Json
    from twiceshy.transcript import Diverged


class Flow(Protocol):
    """A stream that is sent step by step. broken: it ended without an end, and so does the connection."""

    broken: bool

    def offer(self) -> bytes | None:
        """What is to be sent next, None at the end; empty where only the client can end it."""
        ...

    def confirm(self) -> None:
        """What was offered last has been read."""
        ...

    def leave(self) -> None:
        """The client has hung up."""
        ...

    def exhaust(self) -> None:
        """The client waits where only it can end the stream."""
        ...


class Answer(NamedTuple):
    """What goes back: a status, a JSON body (or a stream), and headers of its own."""

    status: int
    body: Any = None
    flow: Flow | None = None
    headers: Mapping[str, str] = {}


NO_RETRY = {"x-should-retry": "false"}


def events(told: Iterable[tuple[str | None, Json]]) -> bytes:
    """The events of a wire as server-sent events."""
    heads = ((b"" if name is None else b"event: " + name.encode() + b"\n", event) for name, event in told)
    return b"".join(head + b"data: " + msgspec.json.encode(event) + b"\n\n" for head, event in heads)


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
    told = {"type": "error", "error": {"type": code, "code": code, "message": str(raised)}}
    return Answer(_status(code, 500), _own_words(raised) or told, headers={"retry-after-ms": "1"})


def tool_failed(raised: Exception) -> Answer:
    """A recorded error of a tool, as its service told it where it was recorded at a gateway; else 422, with its class."""
    code = code_of(raised)
    told = {"error": {"class": type(raised).__name__, "type": code, "message": str(raised)}}
    return Answer(_status(code, 422), _own_words(raised) or told, headers=NO_RETRY)


def words_of(raised: Exception) -> str:
    """A recorded error of a tool in words: its service's own where it was recorded at a gateway."""
    return str(raised) if _of_service(raised) else f"{type(raised).__name__}: {raised}"


def _own_words(raised: Exception) -> Any:
    """The JSON object that a service answered in place of a result."""
    said = parsed(str(raised)) if _of_service(raised) else None
    return said if isinstance(said, dict) else None


def _of_service(raised: Exception) -> bool:
    return type(raised).__name__ == UpstreamFailed.__name__


def _status(code: str, otherwise: int) -> int:
    numbers = [int(word) for word in code.replace("_", " ").split() if word.isdecimal()]
    return next((number for number in numbers if number in _ERRORS), _STATUSES.get(code, otherwise))


_ERRORS = range(400, 600)
_STATUSES = {"rate_limit": 429, "RateLimitError": 429, "overloaded": 529, "timeout": 504, "permission": 403}


def code_of(raised: BaseException) -> str:
    """The code under which an error was recorded."""
    return str(getattr(raised, "code", None) or type(raised).__name__)
