"""One run of a command behind its gateway: started with the addresses in its environment, under limits, looked after, and waited for with what it leaves running."""

from __future__ import annotations

import os
import resource
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy.commands import unfaked
from twiceshy.envelope import Disposition, ErrorRecord
from twiceshy.gateway.dialling import Dials, dials
from twiceshy.identity import tagged
from twiceshy.outcome import Divergence
from twiceshy.sealing import impose, signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from twiceshy.commands import Command
    from twiceshy.frozen import FrozenClock
    from twiceshy.gateway.listening import Listener
    from twiceshy.gateway.server import Server
    from twiceshy.sealing import Limits

_SENT_S = 1.0
"""Real seconds for what the command sent and did not wait for: it is here already, and only has to be read."""
LEFT_S = 5.0
"""Real seconds in which what a command left running may come to its end, as it would in production."""
_LOOK_S = 0.02
_INPUT_BYTES = 64_000
"""An input longer than this stands on standard input alone: one variable holds 128 kB at most."""
_LAST_LINES = 1000
_COMPLAINT_BYTES = 4000
_LOOKS = 5
_INTERPRETERS = str(Path(__file__).parent / "interpreters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faketime:
    """The command's clock: libfaketime reads the instant from a file that follows the run's clock, in whole seconds."""

    library: Path
    clock: FrozenClock
    told: Path

    def tell(self) -> None:
        """Set the command's clock to the run's."""
        whole = self.told.with_suffix(".new")
        whole.write_text(str(self.clock.now_ns() // 1_000_000_000), encoding="ascii")
        whole.replace(self.told)

    @property
    def environment(self) -> dict[str, str]:
        """What makes the C library's callers see it. Timers and waits stay real: with a clock that stands they would never end."""
        return {
            "LD_PRELOAD": str(self.library), "FAKETIME_TIMESTAMP_FILE": str(self.told), "FAKETIME_FMT": "%s", "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1", "NO_FAKE_STAT": "1", "TZ": self.clock.tz,
        }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Hosted:
    """A command that runs. Build it with `start`."""

    server: Server
    process: subprocess.Popen[bytes]
    out: int
    complaints: int
    dialled: Dials
    """Attempts past the gateway before it ran."""
    faketime: Faketime | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def disposition(self) -> Disposition:
        """How it ended: with the last JSON value on its standard output, or how else."""
        return ended(self.process.returncode, _read(self.out))

    @property
    def complaint(self) -> bytes:
        """The end of what it said on standard error."""
        return _read(self.complaints)[-_COMPLAINT_BYTES:]

    def look(self) -> None:
        """Before each request is answered, and at the end: every process of it must have the run's clock, and none may have reached past the gateway.

        Ends the run where that is not so.
        """
        with self.turn:
            if self.faketime is not None:
                self.faketime.tell()
                self._check(self.faketime)
            past = dials().since(self.dialled)
        if any(past):
            self.server.gateway.refuse(Divergence.LIVE_UNCONTROLLED, "run", str(past))

    def passed(self) -> None:
        """After each answer: its clock follows the run's."""
        if self.faketime is not None:
            with self.turn:
                self.faketime.tell()

    def outlast(self, seconds: float) -> list[str]:
        """Wait for what it left running, whose requests count as ever. The programs that still run then, by name, each once. Ends the run as `look` does."""
        deadline = time.monotonic() + seconds
        while (running := list(_processes())) and time.monotonic() < deadline:
            self.look()
            time.sleep(_LOOK_S)
        self.look()
        return sorted({_program(pid) for pid in running})

    def _check(self, faketime: Faketime) -> None:
        """A process between its fork and its libraries looks like one without them, so a bad look is looked at again."""
        found = unfaked(faketime.library, _processes())
        for _ in range(_LOOKS):
            if not found:
                return
            time.sleep(0.05)
            found = unfaked(faketime.library, _processes())
        self.server.gateway.fault(
            f"the clock of {', '.join(sorted(set(found)))} is the machine's: libfaketime does not reach it"
        )


def end_all() -> None:
    """End every process of this namespace but the first one and this one, whatever session or parent it has."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def ended(code: int, said: bytes) -> Disposition:
    """How a command ended that left with this code (of a signal, less than 0) and said this on standard output."""
    if code < 0:
        name = signal_name(-code)
        return _failed(f"signal_{name}", f"{name} ended the command")
    if code > 0:
        return _failed(f"exit_{code}", "the command ended by itself without success")
    output = last_value(said)
    if output is UNSET:
        return _failed("no_output", "the command's standard output does not end with a JSON value")
    return Disposition(output=output)


def environment(server: Listener, user: Any) -> dict[str, str]:
    """What a command is told: the addresses of every face, the token of this run, and its input where it is short."""
    origin, token = server.origin, server.token
    content = msgspec.json.encode(tagged(user)).decode()
    return {
        "OPENAI_BASE_URL": f"{origin}/v1", "OPENAI_API_KEY": token, "ANTHROPIC_BASE_URL": origin, "ANTHROPIC_API_KEY": token,
        "TWICESHY_TOKEN": token, "TWICESHY_TOOLS_URL": f"{origin}/tools", "TWICESHY_MCP_URL": f"{origin}/mcp", "TWICESHY_CLOCK_URL": f"{origin}/clock",
        "TWICESHY_MCP_STDIO": shlex.join([sys.executable, "-P", "-m", "twiceshy.gateway.mcp_stdio"]),
        **({"TWICESHY_INPUT": content} if len(content) <= _INPUT_BYTES else {}),
    }  # fmt: skip


def start(
    command: Command, server: Server, user: Any, *, env: Mapping[str, str], limits: Limits, faketime: Faketime | None
) -> Hosted:
    """Start it, its input as JSON on standard input.

    What it says goes to memory, not to a pipe: nothing that it leaves running can hold it open, and its length is limited by the kernel.
    """
    given, out, complaints = (os.memfd_create(name, os.MFD_CLOEXEC) for name in ("input", "output", "complaints"))
    os.write(given, msgspec.json.encode(tagged(user)) + b"\n")
    os.lseek(given, 0, os.SEEK_SET)
    told = {**env, **environment(server, user)}
    if faketime is not None:
        faketime.tell()
        told |= {
            **faketime.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, [_INTERPRETERS, env.get("PYTHONPATH")])),
        }
    before = dials()
    process = subprocess.Popen(
        command.argv, cwd=command.folder, env=told, stdin=given, stdout=out, stderr=complaints,
        start_new_session=True, preexec_fn=lambda: impose(limits, memory=resource.RLIMIT_DATA),  # noqa: PLW1509 - no thread runs yet
    )  # fmt: skip
    os.close(given)
    return Hosted(server=server, process=process, out=out, complaints=complaints, dialled=before, faketime=faketime)


def serve(server: Listener) -> Callable[[], bool]:
    """Answer in threads from now on. The function that comes back ends it, once all that was sent is answered; False where that took too long."""
    accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    accepting.start()

    def settle() -> bool:
        server.shutdown()
        while select.select([server], [], [], 0)[0]:
            server.handle_request()
        deadline = time.monotonic() + _SENT_S
        answering = [one for one in threading.enumerate() if one not in (threading.current_thread(), accepting)]
        for thread in answering:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in answering)

    return settle


def follow(signalled: int) -> NoReturn:
    """End this process by a signal that ended the command, so that whoever waits for it sees a spent budget as one."""
    if signalled != signal.SIGKILL:
        signal.signal(signalled, signal.SIG_DFL)
    os.kill(os.getpid(), signalled)
    leave()


def last_value(content: bytes) -> Any:
    """The JSON value with which an output ends: all of it, else the shortest run of last lines that is one; UNSET where there is none."""
    text = content.rstrip()
    ends = [at + 1 for at in range(len(text) - 1, -1, -1) if text[at : at + 1] == b"\n"][:_LAST_LINES]
    for begin in [*ends, 0]:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(text[begin:])
    return UNSET


def _failed(kind: str, message: str) -> Disposition:
    return Disposition(
        ended=False, output=UNSET, error=ErrorRecord(cls="twiceshy.CommandEnded", type=kind, message=message)
    )


def _read(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _processes() -> Iterator[int]:
    """Every process that runs in this namespace, but the first one and ourselves."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) not in (1, os.getpid()) and _runs(int(entry.name)):
            yield int(entry.name)


def _runs(pid: int) -> bool:
    """Whether a thread of it has not ended; a process that has waits for the first one to take its leave."""
    try:
        return any(_state(thread) not in "ZX" for thread in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False


def _state(thread: Path) -> str:
    return (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:  # it hides, or has just ended
        return "a program"


def leave(code: int = 0) -> NoReturn:
    """End this process now, whatever thread asks."""
    os._exit(code)
