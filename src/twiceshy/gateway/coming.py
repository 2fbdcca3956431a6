"""What a service answers a model request with, on its way through a gateway: its chunks for the boundary, its own bytes for the client."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.gateway import messages
from twiceshy.gateway.answers import Answer
from twiceshy.gateway.flowing import Whole
from twiceshy.gateway.upstream import Reply, event_of, forward, streaming
from twiceshy.streaming import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from twiceshy.gateway.listening import Request
    from twiceshy.gateway.messages import Json
    from twiceshy.gateway.pieces import Inflow

_ERROR = 400
_SAID = 4000
"""Characters of an error's own words that are kept, so that a replay can say them again."""


class Coming:
    """One answer of a service while it comes: its chunks, and the bytes in which each of them came. reply: what is known before a stream; all of any other answer."""

    def __init__(self, sending: Mapping[str, Any], wire: ModuleType) -> None:
        self.reply: Reply | None = None
        self.response_id = ""
        self._sending = sending
        self._wire = wire
        self._bytes: list[bytes] = []

    def chunks(self, _: object) -> Iterator[Any]:
        """The chunks; of a service that does not stream, its output in parts. Raises messages.UpstreamFailed for an error in place of them."""
        inflow: Inflow = self._wire.Inflow()
        with closing(streaming(**self._sending)) as coming:
            for came in coming:
                if isinstance(came, Reply):
                    self.reply = came
                    yield from () if sound(came).streamed else split(self._wire.heard(came.value))
                else:
                    self._bytes.append(came)
                    yield from self._told(inflow, event_of(came))

    def whole(self) -> Any:
        """The output of a service that was asked for no stream. Raises messages.UpstreamFailed for an error in place of it."""
        self.reply = forward(**self._sending)
        native = sound(self.reply).value
        self.response_id = str(native.get("id", "")) if isinstance(native, dict) else ""
        return self._wire.heard(native)

    def taken(self) -> bytes:
        """What has come since it was last asked for."""
        told = b"".join(self._bytes)
        self._bytes.clear()
        return told

    def _told(self, inflow: Inflow, event: Json | None) -> Iterator[Any]:
        if event is not None:
            _refuse_failed(event)
            self.response_id = str((event.get("response") or {}).get("id", self.response_id))
            yield from inflow.chunks(event)


def _refuse_failed(event: Json) -> None:
    """Raise messages.UpstreamFailed at an event that tells an error."""
    told = event.get("response") if event.get("type") == "response.failed" else event
    error = told.get("error") if isinstance(told, dict) else None
    if isinstance(error, dict) or event.get("type") == "error":
        said = error if isinstance(error, dict) else event
        raise messages.UpstreamFailed(str(said.get("code") or said.get("type")), str(said.get("message")))


def forwarding(address: str, request: Request, key: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How one request goes on, as `forward` and `streaming` take it."""
    whole = f"{address}?{request.query}" if request.query else address
    return {
        "url": whole,
        "body": request.body if request.method == "POST" else None,
        "headers": request.headers,
        "key": key,
    }


def sound(reply: Reply) -> Reply:
    """The reply. Raises messages.UpstreamFailed where it is an error."""
    if reply.status >= _ERROR:
        said = reply.body.decode(errors="replace")[:_SAID]
        raise messages.UpstreamFailed(f"http_{reply.status}", said or f"the upstream answered {reply.status}")
    return reply


def relayed(reply: Reply) -> Answer:
    """An answer as it came."""
    session = {
        name: reply.headers[name]
        for name in ("mcp-session-id", "retry-after", "x-should-retry")
        if name in reply.headers
    }
    if reply.streamed:
        return Answer(reply.status, flow=Whole(reply.body), headers=session)
    return Answer(reply.status, msgspec.Raw(reply.body) if reply.body else None, headers=session)
