"""What a session's parent and its zygote say to each other: messages over one socket pair that keeps their borders."""

from __future__ import annotations

import socket
from threading import RLock
from typing import Any, NamedTuple

import msgspec

from twiceshy.commands import Command
from twiceshy.doors import DoorTerms
from twiceshy.envelope import Clock, Record, Versions
from twiceshy.outcome import Mode
from twiceshy.policy import ToolsPolicy
from twiceshy.redaction import Policy as RedactionPolicy
from twiceshy.sealing import Attempt, Isolation, Limits, Targets
from twiceshy.simulators.served import SimulatedAnswer
from twiceshy.writes import DeclaredGrant, DeclaredWrite

# Far under the default send buffer of a SOCK_SEQPACKET pair (208 kB), in which one packet must fit.
_PACKET = 60_000

START, READY, REFUSED, TRIAL, LINE, APPLIED, SAID, OVER, DOOR = b"S", b"R", b"X", b"T", b"L", b"B", b"W", b"O", b"D"


class Start(Record, frozen=True, kw_only=True):
    """Parent: who the candidate is, a factory or a command. Without targets the session is weak, and says so. versions: of its layers, before those its factory states. clock, seed: what its import sees, for one trial's own process."""

    candidate: str
    versions: dict[str, str] = {}
    command: Command | None = None
    path: list[str]
    readable: list[str] = []
    targets: Targets | None = None
    door: DoorTerms | None = None
    """Without it no model runs live but the candidate's own code."""
    clock: Clock | None = None
    seed: str = "import"


class Ready(Record, frozen=True, kw_only=True):
    """Zygote: sealed, the canary held, the candidate imported. `memory_bytes` is the resident size that a fork starts from."""

    workflow: str
    warm: bool
    versions: Versions
    boundaries: list[str]
    """What its factory declares, as `kind:name`."""
    isolation: Isolation
    canary: tuple[Attempt, ...] = ()
    memory_bytes: int = 0


class Refused(Record, frozen=True, kw_only=True):
    """Zygote: it cannot start. `candidate`: theirs to mend. `isolation`: this machine's."""

    fault: str
    message: str


class Trial(Record, frozen=True, kw_only=True):
    """Parent: one trial of one case. `envelope` is the path of its envelope.jsonl."""

    number: int
    envelope: str
    mode: Mode = Mode.FULL
    live: list[str] = []
    after: int | None = None
    freeze: list[str] = []
    policy: ToolsPolicy
    declared: list[DeclaredWrite] = []
    grants: list[DeclaredGrant] = []
    flags: dict[str, Any] = {}
    """The overlay of flags that were not recorded, in tagged form."""
    user_turns: str | None = None
    world: str | None = None
    """The path of the case's world.yaml, where this trial has a world."""
    world_leads: bool = False
    """Whether the world has its resources from the start."""
    simulated: list[SimulatedAnswer] = []
    breaks: list[str] = []
    limits: Limits = Limits()
    seed: str
    redaction: RedactionPolicy | None = None
    key: str | None = None
    """The redaction key in hex, where it is at hand: live arguments get the pseudonyms of the recording before they are matched."""


class Over(Record, frozen=True, kw_only=True):
    """Zygote: the trial's process has ended. `status` as os.wait4 gives it; a fault is ours."""

    status: int = 0
    cpu_s: float = 0.0
    fault: str | None = None


class Message(NamedTuple):
    """One whole message: its mark and its body."""

    mark: bytes
    body: bytes


class Channel:
    """One end of the pair. Writers take turns: the zygote, then the trial it forked, then the zygote again; threads of one process do too."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._parts: list[bytes] = []
        self._turn = RLock()

    def send(self, mark: bytes, body: bytes) -> None:
        """Send one message, in as many packets as it needs."""
        with self._turn:
            for start in range(0, len(body) or 1, _PACKET):
                more = b"+" if start + _PACKET < len(body) else b"."
                self._end.send(mark + more + body[start : start + _PACKET])

    def tell(self, mark: bytes, message: msgspec.Struct) -> None:
        """Send one record."""
        self.send(mark, msgspec.json.encode(message))

    def hand(self, listening: socket.socket) -> None:
        """Give the other end a socket."""
        socket.send_fds(self._end, [DOOR + b"."], [listening.fileno()])

    def handed(self, timeout: float) -> socket.socket | None:
        """The socket that the other end gives next; None where it has something else to say, which is then received as ever. timeout: seconds until a TimeoutError."""
        self._end.settimeout(timeout)
        try:
            told = self._end.recv(1, socket.MSG_PEEK)
        except ConnectionResetError:
            return None
        if told != DOOR:
            return None
        _, descriptors, _, _ = socket.recv_fds(self._end, 2, 1)
        return socket.socket(fileno=descriptors[0])

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next whole message; None when the other end is closed. What a killed writer left unfinished is dropped.

        timeout: seconds until a TimeoutError.
        """
        self._end.settimeout(timeout)
        while True:
            try:
                packet = self._end.recv(_PACKET + 2)
            except ConnectionResetError:
                return None
            if not packet:
                return None
            mark, more, part = packet[:1], packet[1:2], packet[2:]
            if mark in (OVER, READY, REFUSED):
                self._parts.clear()
            self._parts.append(part)
            if more == b".":
                body = b"".join(self._parts)
                self._parts.clear()
                return Message(mark, body)

    def fileno(self) -> int:
        """The descriptor, for select: readable when a message, or the end of the other side, is there."""
        return self._end.fileno()

    def close(self) -> None:
        """Close this end."""
        self._end.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends: packets keep their borders, so a writer that is killed harms no later message."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
