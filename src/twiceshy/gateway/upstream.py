"""Real services behind a recording gateway: one request goes on as it came, with the key that stays on our side; its answer comes back whole."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twiceshy.gateway.messages import Json

_SECONDS = 600.0
_OURS = frozenset(
    {"host", "authorization", "x-api-key", "content-length", "connection", "accept-encoding", "transfer-encoding"}
)
"""Headers of one hop, and the token of the run."""


class UpstreamFailed(Exception):
    """A service answered with an error; it is recorded as one and goes back as it came."""

    def __init__(self, status: int, told: str | None = None) -> None:
        super().__init__(told or f"the upstream answered {status}")
        self.code = f"http_{status}"


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
    """What a service answered, whole; a stream too."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of events."""
        return "text/event-stream" in self.headers.get("content-type", "")

    @property
    def value(self) -> Any:
        """Its JSON value. Raises msgspec.MsgspecError."""
        return msgspec.json.decode(self.body)

    def events(self) -> Iterator[Json]:
        """The JSON events of a stream, in order."""
        for block in self.body.replace(b"\r\n", b"\n").split(b"\n\n"):
            data = b"\n".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))
            if data and data != b"[DONE]":
                yield msgspec.json.decode(data)


def forward(url: str, body: bytes | None, headers: Mapping[str, str], *, key: Mapping[str, str] | None = None) -> Reply:
    """The answer of a service to one request, errors of its own included. Raises OSError where it cannot be reached."""
    sent = {name: text for name, text in headers.items() if name.lower() not in _OURS} | dict(key or {})
    request = urllib.request.Request(url, data=body, headers=sent)  # noqa: S310 - the address that the user gave
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
            return Reply(status=answer.status, body=answer.read(), headers=_lowered(answer.headers))
    except urllib.error.HTTPError as failed:
        with failed:
            return Reply(status=failed.code, body=failed.read(), headers=_lowered(failed.headers))


def _lowered(headers: Any) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items()}
