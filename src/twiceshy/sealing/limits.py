"""Hard limits of one trial. The kernel holds CPU, memory and file size; the parent holds wall clock and output.

pid = os.fork()
if pid == 0:
    impose(limits)                # first thing in the trial
    ...
_, status, usage = os.wait4(pid, 0)
if cpu_spent(status, usage.ru_utime + usage.ru_stime, limits): ...   # FAILED (candidate_timeout)

A trial that is killed by its wall clock or its output is the parent's doing and is judged there.
"""

from __future__ import annotations

import os
import resource
import signal

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one trial may use; each has a default that a test agent never meets."""

    cpu_s: int = 60
    """CPU seconds, user and system, of the trial's process; each child of it has the same budget of its own."""
    wall_s: float = 300.0
    """Seconds after which the parent kills the trial: ERROR, because a loaded machine looks the same."""
    memory_bytes: int = 4 << 30
    """Address space; an allocation past it is a MemoryError in the candidate."""
    file_bytes: int = 64 << 20
    """The size of one file; a write past it is an OSError (EFBIG) in the candidate."""
    output_bytes: int = 64 << 20
    """Bytes of journal that the parent takes from a trial before it ends it; what a trial prints is thrown away."""
    open_files: int = 512
    """Descriptors."""


def impose(limits: Limits, *, memory: int = resource.RLIMIT_AS) -> None:
    """Put this process and its children under the limits; they cannot be raised again.

    memory: what `memory_bytes` bounds. RLIMIT_DATA (what is private and writable) for a program that reserves much more than it uses: Node.js takes 10 GB
    of address space for each piece of WebAssembly.
    """
    _cap(resource.RLIMIT_CPU, limits.cpu_s, grace=1)  # SIGXCPU may be caught; a second later SIGKILL may not
    _cap(memory, limits.memory_bytes)
    _cap(resource.RLIMIT_FSIZE, limits.file_bytes)
    _cap(resource.RLIMIT_NOFILE, limits.open_files)
    _cap(resource.RLIMIT_CORE, 0)


def _cap(kind: int, amount: int, *, grace: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    ceiling = amount + grace if hard == resource.RLIM_INFINITY else min(amount + grace, hard)
    resource.setrlimit(kind, (min(amount, ceiling), ceiling))


_BY_ITSELF = frozenset(
    {
        signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP,
    }
)  # fmt: skip
"""What a program brings upon itself by a fault of its own: it has crashed. Any other signal was sent, by the machine (out of memory) or by somebody."""


def crashes(signalled: int) -> bool:
    """Whether a process that this signal ended has crashed."""
    return signalled in _BY_ITSELF


def signal_name(signalled: int) -> str:
    """The name of a signal, as SIGKILL; of one without a name, its number."""
    try:
        return signal.Signals(signalled).name
    except ValueError:
        return f"signal {signalled}"


def cpu_spent(status: int, cpu_s: float, limits: Limits) -> bool:
    """Whether a trial was ended for its CPU budget: by SIGXCPU, or by SIGKILL with the budget used.

    status: as os.wait4 gives it. cpu_s: ru_utime + ru_stime of the same call.
    """
    if not os.WIFSIGNALED(status):
        return False
    ended_by = os.WTERMSIG(status)
    return ended_by == signal.SIGXCPU or (ended_by == signal.SIGKILL and cpu_s >= limits.cpu_s)
