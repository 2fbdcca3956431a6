"""Real services behind a recording gateway: one request goes on as it came, with the key that stays on our side; its answer comes back whole."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from twiceshy.gateway.messages import Json

_SECONDS = 600.0
_EVENTS, _DONE = "text/event-stream", b"[DONE]"
OURS = frozenset(
    {"host", "authorization", "x-api-key", "content-length", "connection", "accept-encoding", "transfer-encoding"}
)
"""Headers of one hop, and the token of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstreams:
    """Where requests go on to: base URLs, and the real keys. None: nothing is behind that face."""

    openai: str | None = None
    anthropic: str | None = None
    tools: str | None = None
    mcp: str | None = None
    openai_key: str | None = field(default=None, repr=False)
    anthropic_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a service answered, whole; a stream too, where it was not `opened`."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of events."""
        return _EVENTS in self.headers.get("content-type", "")

    @property
    def value(self) -> Any:
        """Its JSON value. Raises msgspec.MsgspecError."""
        return msgspec.json.decode(self.body)

    def events(self) -> Iterator[Json]:
        """The JSON events of a stream, in order."""
        for block in self.body.replace(b"\r\n", b"\n").split(b"\n\n"):
            event = event_of(block)
            if event is not None:
                yield event


def event_of(block: bytes) -> Json | None:
    """The JSON event in the lines of one; None for a comment, and for the word that ends a stream. Raises msgspec.MsgspecError."""
    data = b"\n".join(line[5:].strip() for line in block.splitlines() if line.startswith(b"data:"))
    return None if data in (b"", _DONE) else msgspec.json.decode(data)


def forward(url: str, body: bytes | None, headers: Mapping[str, str], *, key: Mapping[str, str] | None = None) -> Reply:
    """The answer of a service to one request, errors of its own included. Raises OSError where it cannot be reached."""
    with opened(url, body, headers, key=key) as answer:
        return Reply(status=answer.status, body=answer.read(), headers=_lowered(answer.headers))


def streaming(
    url: str, body: bytes | None, headers: Mapping[str, str], *, key: Mapping[str, str] | None = None
) -> Generator[Reply | bytes, None, None]:
    """The answer of a service as it comes: first what is known before its stream, then the lines of each event; of one that does not stream, all of it."""
    with opened(url, body, headers, key=key) as answer:
        reply = Reply(status=answer.status, body=b"", headers=_lowered(answer.headers))
        if not reply.streamed:
            yield replace(reply, body=answer.read())
            return
        yield reply
        block: list[bytes] = []
        for line in answer:
            block.append(line)
            if not line.strip():
                yield b"".join(block)
                block.clear()
        if block:
            yield b"".join(block)


def opened(url: str, body: bytes | None, headers: Mapping[str, str], *, key: Mapping[str, str] | None = None) -> Any:
    """The open answer of a service, to be closed. Raises OSError where it cannot be reached."""
    sent = {name: text for name, text in headers.items() if name.lower() not in OURS} | dict(key or {})
    request = urllib.request.Request(url, data=body, headers=sent)  # noqa: S310 - the address that the user gave
    try:
        return urllib.request.urlopen(request, timeout=_SECONDS)  # noqa: S310 - as above
    except urllib.error.HTTPError as failed:
        return failed


def _lowered(headers: Any) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items()}
