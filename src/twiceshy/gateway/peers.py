"""Whether a client has read what was sent to it, or has hung up: as the kernel of this network namespace tells of its end of the connection."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from twiceshy.gateway.answers import Flow

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_READ_S = 0.0005
PATIENCE_S = 5.0
"""Real seconds in which a client may hang up where the record did; one that waits longer wants more than there is."""
_ESTABLISHED = "01"
_STATE, _QUEUES, _INODE = 3, 4, 9


class Reach(NamedTuple):
    """left: the client has hung up. read: nothing that was sent waits for it. sure: nothing is on its way either, or nothing will be."""

    left: bool
    read: bool
    sure: bool = True


class Reaching(Protocol):
    """Tells how far a client has come."""

    def reach(self) -> Reach:
        """What is known of it now."""
        ...


class Peer(NamedTuple):
    """The two ends of one connection over loopback, as (address, port)."""

    client: tuple[str, int]
    server: tuple[str, int]

    def reach(self) -> Reach:
        """How far it has come. Of a client in another namespace only that it hangs up is known, and what was sent counts as read."""
        theirs, ours = _end(self.client), _end(self.server)
        rows = _rows()
        row, own = _row(rows, theirs, ours), _row(rows, ours, theirs)
        if row is not None and row[_INODE] != "0":
            acknowledged = own is None or _queued(own, 0) == 0
            return Reach(left=False, read=_queued(row, 1) == 0, sure=acknowledged)
        # Hung up with something unread, the client's kernel resets the connection and both ends are gone.
        return Reach(left=own is None or own[_STATE] != _ESTABLISHED or row is not None, read=own is not None)


class Sending:
    """A stream that is being sent. Its own thread drives it; any other may see that its client has hung up."""

    def __init__(self, flow: Flow, peer: Reaching) -> None:
        self.left = False
        self._flow = flow
        self._peer = peer
        self._turn = Lock()  # guards the flow

    def goes_on(self) -> bool:
        """Whether the client is still there."""
        return not self.left

    def offer(self) -> bytes | None:
        """What is to be sent next."""
        with self._turn:
            return None if self.left else self._flow.offer()

    def settle(self, *, waits: bool) -> None:
        """Wait until the client has read what was sent, or has hung up. waits: nothing more comes, and it is up to the client to hang up."""
        deadline = time.monotonic() + PATIENCE_S
        seen = False
        while not self._settled(seen=seen, waits=waits):
            with self._turn:
                seen = self._peer.reach().read
                if waits and time.monotonic() >= deadline:
                    self._flow.exhaust()
                    return
            time.sleep(_READ_S)

    def _settled(self, *, seen: bool, waits: bool) -> bool:
        """seen: nothing waited for the client a moment ago either, so nothing is on its way to it."""
        with self._turn:
            reach = self._peer.reach()
            certain = reach.read and (reach.sure or seen)
            if reach.left or certain:
                self._see(reach)
            return self.left or (certain and not waits)

    def look(self) -> None:
        """Before another request is answered: a client that has hung up by now left before it asked."""
        if self._turn.acquire(blocking=False):  # else its own thread is at it
            try:
                reach = self._peer.reach()
                if reach.left:
                    self._see(reach)
            finally:
                self._turn.release()

    def gone(self) -> None:
        """Nothing can be sent to the client any more."""
        with self._turn:
            self._see(Reach(left=True, read=False))

    def _see(self, reach: Reach) -> None:
        if self.left:
            return
        if reach.read:
            self._flow.confirm()
        if reach.left:
            self.left = True
            self._flow.leave()


def _rows() -> list[list[str]]:
    texts = [table.read_text(encoding="ascii") for table in _TABLES if table.exists()]
    return [line.split() for text in texts for line in text.splitlines()[1:]]


def _row(rows: list[list[str]], local: str, remote: str) -> list[str] | None:
    return next((row for row in rows if row[1].endswith(local) and row[2].endswith(remote)), None)


def _queued(row: list[str], side: int) -> int:
    """Bytes that wait: on side 0 for the other end's acknowledgement, on side 1 for the program."""
    return int(row[_QUEUES].split(":")[side], 16)


def _end(address: tuple[str, int]) -> str:
    """An end as the tables spell it: the bytes of the address in the order of this machine (x86 and ARM: the last one first), and the port."""
    host = bytes(map(int, address[0].split(".")))[::-1].hex().upper()
    return f"{host}:{address[1]:04X}"
