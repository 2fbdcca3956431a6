"""A boundary's stream on its way to a client: a chunk counts as taken once the client has read it, and a client that hangs up has left the stream there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from twiceshy.gateway.answers import code_of, events
from twiceshy.gateway.messages import UpstreamFailed
from twiceshy.gateway.pieces import Pieces
from twiceshy.replaying import RunDiverged, RunFaulted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from twiceshy.gateway.messages import Said
    from twiceshy.gateway.pieces import Events, Outflow
    from twiceshy.streaming import Stream


class Told:
    """The stream of a replay over one wire.

    heard: told all that was said, before the client hears the end. last: bytes that close every stream of the wire. speaking: around all that may end the run.
    """

    def __init__(
        self, stream: Stream, out: Outflow, heard: Callable[[Said], object], *, last: bytes, speaking: Callable[[], AbstractContextManager[None]]
    ) -> None:  # fmt: skip
        self.broken = False
        self._speaking = speaking
        self._stream = stream
        self._out = out
        self._heard = heard
        self._last = last
        self._pieces = Pieces()
        self._prefix = events(out.begin())
        self._next: Any = None
        self._pulled = False
        self._given = False
        """Whether what was pulled has been offered to the client."""
        self._over = False

    def start(self) -> None:
        """Look at the first chunk, so that an error in place of it is answered as one. Raises it, or RunDiverged."""
        with suppress(StopIteration), self._speaking():
            self._next = self._stream.offered()
            self._pulled = True

    def offer(self) -> bytes | None:
        """What is to be sent next, None at the end; empty where the record was left here, and only the client can end it."""
        told: bytes | None = None if self._over else self._guarded(self._told)
        return told

    def confirm(self) -> None:
        """What was offered last has been read."""
        if self._given:
            self._pulled = self._given = False
            self._guarded(lambda: self._stream.took(self._next))

    def leave(self) -> None:
        """The client has hung up."""
        self._over = True
        self._guarded(self._stream.close)

    def exhaust(self) -> None:
        """The client waits for more than the record has. Ends the run."""
        self._over = True
        self._guarded(self._stream.ended)

    def _told(self) -> bytes:
        while True:
            if not self._pulled:
                try:
                    self._next = self._stream.offered()
                except StopIteration:
                    return b"" if self._stream.left else self._ended()
                except Exception as raised:  # noqa: BLE001 - an error that was recorded
                    return self._failed(raised)
                self._pulled = True
            self._given = True
            told = [event for piece in self._pieces.of(self._next) for event in self._out.piece(piece)]
            if told:
                return self._sent(told)
            self.confirm()  # says how it ended, and comes with the end

    def _ended(self) -> bytes:
        self._over = True
        self._stream.ended()
        said = self._pieces.said()
        self._heard(said)
        return self._sent(self._out.end(said)) + self._last

    def _failed(self, raised: Exception) -> bytes:
        self._over = True
        code = code_of(raised)
        return self._sent(self._out.failed({"type": code, "code": code, "message": str(raised)}))

    def _sent(self, told: Events) -> bytes:
        prefix, self._prefix = self._prefix, b""
        return prefix + events(told)

    def _guarded(self, tell: Callable[[], Any]) -> Any:
        try:
            with self._speaking():
                return tell()
        except (RunDiverged, RunFaulted):
            self._over = self.broken = True
            return None


class Relayed:
    """The stream of a service behind a recording gateway, in the bytes in which it came. heard: told all that was said, before the client hears the end."""

    def __init__(self, stream: Stream, coming: Coming, heard: Callable[[Said], object]) -> None:
        self.broken = False
        self._stream = stream
        self._coming = coming
        self._heard = heard
        self._pieces = Pieces()
        self._pulled: Any = None
        self._waits = False
        """Whether something was pulled that is not taken yet."""
        self._given = False
        self._over = False

    def start(self) -> None:
        """Wait for the first chunk. Raises what the service answered in place of it."""
        with suppress(StopIteration):
            self._pull()

    def offer(self) -> bytes | None:
        """What has come, None at the end."""
        if self._over:
            return None
        try:
            return self._come()
        except StopIteration:
            return self._ended()
        except Exception as raised:  # noqa: BLE001 - the service broke off, which is recorded as the stream's error
            self._over = True
            self.broken = not isinstance(raised, UpstreamFailed)  # one that says so is heard to its end
            return self._coming.taken() or None

    def confirm(self) -> None:
        """What was offered last has been read."""
        if self._given:
            self._waits = self._given = False
            self._stream.took(self._pulled)

    def leave(self) -> None:
        """The client has hung up: nothing more is asked of the service."""
        self._over = True
        self._stream.close()

    def exhaust(self) -> None:
        """A service ends its own streams."""

    def take(self) -> None:
        """Take all of it: it was sent whole."""
        while not self._over:
            self.offer()
            self.confirm()

    def _come(self) -> bytes:
        """What came with the next chunk; of several that came at once, with the first."""
        while True:
            if not self._waits:
                self._pull()
            self._given = True
            if came := self._coming.taken():
                return came
            self.confirm()

    def _pull(self) -> None:
        self._pulled = self._stream.offered()
        self._waits = True
        self._pieces.of(self._pulled)

    def _ended(self) -> bytes | None:
        self._over = True
        self._stream.ended()
        self._heard(self._pieces.said())
        return self._coming.taken() or None


class Live(Relayed):
    """The stream of a live model in a replay. speaking: around all that may end the run."""

    def __init__(
        self, stream: Stream, coming: Coming, heard: Callable[[Said], object], *, speaking: Callable[[], AbstractContextManager[None]]
    ) -> None:  # fmt: skip
        super().__init__(stream, coming, heard)
        self._speaking = speaking

    def start(self) -> None:
        """Wait for the first chunk. Raises what the service answered in place of it, or RunDiverged."""
        with self._speaking():
            super().start()

    def offer(self) -> bytes | None:
        """What has come, None at the end."""
        told: bytes | None = self._guarded(super().offer)
        return told

    def confirm(self) -> None:
        """What was offered last has been read."""
        self._guarded(super().confirm)

    def leave(self) -> None:
        """The client has hung up: nothing more is asked of the service."""
        self._guarded(super().leave)

    def _guarded(self, tell: Callable[[], Any]) -> Any:
        try:
            with self._speaking():
                return tell()
        except (RunDiverged, RunFaulted):
            self._over = self.broken = True
            return None


class Whole:
    """An answer that came whole, sent as the stream that it is."""

    broken = False

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    def offer(self) -> bytes | None:
        """All of it, once."""
        told, self._body = self._body, None
        return told or None

    def confirm(self) -> None:
        """Nothing waits for it."""

    def leave(self) -> None:
        """It has been recorded as it came."""

    def exhaust(self) -> None:
        """It ends by itself."""


class Coming(Protocol):
    """Bytes of a stream that come beside its chunks."""

    def taken(self) -> bytes:
        """What has come since it was last asked for."""
        ...
