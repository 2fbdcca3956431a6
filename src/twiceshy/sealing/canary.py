"""The canary: it tries to get out, and a session starts only when every attempt fails.

The parent holds real targets open (`host_targets`) and sends their addresses in; the sealed process runs `canary` on
them in a fork of its own, exactly as a trial would run. Afterwards the parent asks its targets what arrived.
"""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from twiceshy.sealing.attempts import ATTEMPTS, Attempt, Held, Targets, started
from twiceshy.sealing.faults import CanaryEscaped
from twiceshy.sealing.namespaces import step

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMESPACES = ("user", "net", "mnt", "pid", "ipc")
_LONGEST_SOCKET_PATH = 107


class CanaryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Every attempt with what stopped it, in the order tried."""

    attempts: tuple[Attempt, ...]

    @property
    def escapes(self) -> list[str]:
        """The attempts that got through, as words; empty when the seal holds."""
        return [f"{a.name}: {a.detail}" for a in self.attempts if a.reached]


def canary(targets: Targets) -> CanaryReport:
    """The report of a canary that was stopped everywhere.

    Call it inside the seal, before anything of the candidate runs. Raises CanaryEscaped when one attempt succeeds, fails
    for a reason that proves nothing, or ends the canary. About 8 ms.
    """
    report = attempt_all(targets)
    if report.escapes:
        raise CanaryEscaped.by(report.escapes)
    return report


def attempt_all(targets: Targets) -> CanaryReport:
    """The report whatever it says; raises CanaryEscaped only when there is none."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        _report_and_exit(targets, writable)
    os.close(writable)
    with open(readable, "rb") as pipe:  # noqa: PTH123 - a descriptor
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    try:
        return msgspec.json.decode(said, type=CanaryReport)
    except msgspec.MsgspecError:
        raise CanaryEscaped.silent(status) from None


def _report_and_exit(targets: Targets, writable: int) -> None:
    status = 1
    try:
        report = CanaryReport(attempts=tuple(_try(name, targets) for name in ATTEMPTS))
        with open(writable, "wb") as pipe:
            pipe.write(msgspec.json.encode(report))
        status = 0
    finally:
        os._exit(status)


def _try(name: str, targets: Targets) -> Attempt:
    try:
        detail = ATTEMPTS[name](targets)
    except OSError as error:
        return Attempt(name=name, reached=False, detail=os.strerror(error.errno) if error.errno else str(error))
    except Held as word:
        return Attempt(name=name, reached=False, detail=str(word))
    except Exception as error:  # noqa: BLE001 - an attempt that broke proves nothing, so it counts as an escape
        return Attempt(name=name, reached=True, detail=f"unproved, the attempt broke with {type(error).__name__}")
    return Attempt(name=name, reached=True, detail=detail)


class HostTargets:
    """Real listeners of the parent, open for as long as the canary may try them."""

    def __init__(self, targets: Targets, listeners: dict[str, socket.socket]) -> None:
        self.targets = targets
        self._listeners = listeners

    def arrivals(self) -> list[str]:
        """The names of the targets that anything has reached: must be empty after the canary, whatever it reported."""
        return [name for name, listener in self._listeners.items() if _was_reached(listener)]


@contextmanager
def host_targets(folder: Path) -> Iterator[HostTargets]:
    """Listeners on TCP, UDP, a unix path and an abstract name, a FIFO and a file, for the `with` block.

    folder: where the parent may write and the candidate must not; not below /tmp, which is private inside the seal (there
    the attempts are stopped too, but by the private folder, and prove less). Raises StepRefused.
    """
    with ExitStack() as stack:
        with step("open targets for the canary"):
            place = Path(stack.enter_context(_place_for_socket(folder)))
            listeners = _listeners(place, stack)
            outside, fifo = place / "outside", place / "fifo"
            outside.touch()
            os.mkfifo(fifo)
            stack.callback(os.close, os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
            targets = _described(listeners, outside, fifo)
        yield HostTargets(targets, listeners)


def _place_for_socket(folder: Path) -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix=".twiceshy-canary-", dir=folder)
    if len(made.name) + len("/socket") <= _LONGEST_SOCKET_PATH:
        return made
    made.cleanup()
    return tempfile.TemporaryDirectory(prefix=".twiceshy-canary-")


def _listeners(place: Path, stack: ExitStack) -> dict[str, socket.socket]:
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    by_path = stack.enter_context(socket.socket(socket.AF_UNIX))
    by_path.bind(str(place / "socket"))
    by_path.listen()
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    abstract.bind(b"\0twiceshy-canary-%d-%s" % (os.getpid(), os.urandom(8).hex().encode()))
    abstract.listen()
    return {"tcp": tcp, "udp": udp, "unix_path": by_path, "unix_abstract": abstract}


def _described(listeners: dict[str, socket.socket], outside: Path, fifo: Path) -> Targets:
    return Targets(
        tcp_port=listeners["tcp"].getsockname()[1],
        udp_port=listeners["udp"].getsockname()[1],
        unix_path=listeners["unix_path"].getsockname(),
        unix_abstract=listeners["unix_abstract"].getsockname().decode("latin-1"),
        outside_file=str(outside),
        fifo=str(fifo),
        parent=os.getpid(),
        parent_started=started(os.getpid()),
        namespaces={kind: Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in _NAMESPACES},
    )


def _was_reached(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
