"""Entering the seal: the current process goes in, a keeper stays outside and ends with it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from twiceshy.sealing import kernel, landlock, namespaces, seccomp
from twiceshy.sealing.faults import LeftoversRemain, ThreadsRunning, UnsafeDescriptor
from twiceshy.sealing.levels import HERMETIC, Isolation, Protections

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_STANDARD = (0, 1, 2)
_HIGHEST = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What holds in this process and in every process that it forks."""

    isolation: Isolation
    protections: Protections
    scratch: tuple[str, ...]
    """The only folders that can be written; empty when nothing was made read-only."""
    shown: frozenset[str]
    """Paths below a scratch folder that stay readable."""

    def sweep(self) -> None:
        """Leave nothing of the last trial: end the processes it left behind and empty the scratch folders.

        Call it after waiting for the trial. About 0.1 ms when there is nothing to do. Without a pid namespace processes
        are left alone. Raises LeftoversRemain.
        """
        if self.protections.processes and os.getpid() == 1:
            _end_all_others()
        for folder in self.scratch:
            try:
                _empty(folder, self.shown)
            except OSError as error:
                raise LeftoversRemain.at(folder, error) from error


def seal(
    *,
    keep: Collection[int] = (),
    readable: Sequence[Path] = (),
    protections: Protections = HERMETIC,
    scratch_bytes: int = 64 << 20,
) -> Seal:
    """Put this process into fresh namespaces for good, as root or not, and say what holds.

    The call returns in a forked child, pid 1 of its namespace; the process that called stays outside as its keeper, ends
    with its status, and takes it down when it dies. So the pid that the parent started stays the one to wait for and to
    kill. Every descriptor but 0, 1, 2 and `keep` is closed. `readable` names what must stay visible (read-only), beside
    the working folder, the interpreter and all of sys.path, although it lies below /tmp, /var/tmp or /dev/shm; `scratch_bytes` bounds each of those three, now private and empty.

    Raises ThreadsRunning, UnsafeDescriptor, StepRefused: then nothing may run here; there is no fallback. Cost: about 10 ms
    once a session (as root and as nobody alike).
    """
    _refuse_threads()
    _refuse_directories({*_STANDARD, *keep})
    _close_all_but({*_STANDARD, *keep})
    folder = _working_folder()
    host_sockets = namespaces.unix_socket_paths() if protections.masked_sockets else []
    if protections.namespaces:
        namespaces.enter(protections.namespaces)
    if protections.processes:
        _become_first_process()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # pid 1 ignores what it has no handler for
    if protections.network:
        with namespaces.step("raise the loopback interface"):
            kernel.raise_loopback()
    visible = [*readable, *map(Path, (folder, sys.prefix, sys.base_prefix, *sys.path))]
    scratch = _settle_mounts(protections, host_sockets, visible, scratch_bytes)
    _return_to(folder, scratch)
    _keep_temporary_files_in(scratch)
    _give_up_power(protections, scratch)
    shown = frozenset(os.path.realpath(path) for path in visible)
    return Seal(isolation=protections.isolation, protections=protections, scratch=scratch, shown=shown)


def _refuse_threads() -> None:
    threads = int(kernel.status()["Threads"])
    if threads > 1:
        raise ThreadsRunning.counted(threads)


def _refuse_directories(descriptors: Collection[int]) -> None:
    for descriptor in descriptors:
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue  # not open, so nothing to reach through it
        if stat.S_ISDIR(mode):
            raise UnsafeDescriptor.directory(descriptor)


def _close_all_but(kept: Collection[int]) -> None:
    start = 0
    for descriptor in sorted(kept):
        if start < descriptor:  # closerange(0, 0) closes everything (CPython 3.11 on Linux)
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _HIGHEST)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a plain path to go back to
    except FileNotFoundError:
        return "/"


def _become_first_process() -> None:
    """Go on in the first process of the new pid namespace; the old one turns into its keeper and never returns."""
    alive, tie = os.pipe()
    with namespaces.step("fork into the fresh pid namespace"):
        child = os.fork()
    if child:
        _close_all_but({tie})
        _keep_watch(child)
    kernel.die_with_parent(signal.SIGKILL)
    os.close(tie)
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)  # the keeper died before the line above could tie us to it
    os.close(alive)
    os.setsid()


def _keep_watch(child: int) -> NoReturn:
    """End as the sealed process ends; a signal that ends us ends it too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _settle_mounts(
    protections: Protections, host_sockets: Sequence[str], readable: Sequence[Path], scratch_bytes: int
) -> tuple[str, ...]:
    if not protections.own_mounts:
        return ()
    namespaces.detach_mounts()
    if protections.processes:
        namespaces.fresh_proc()
    scratch = namespaces.lock_file_system(readable, scratch_bytes) if protections.read_only else ()
    namespaces.mask(host_sockets)
    return scratch


def _return_to(folder: str, scratch: Sequence[str]) -> None:
    """Look the working folder up again: as it stands it still leads below the mounts that were laid over it."""
    for place in (folder, *scratch, "/"):
        try:
            os.chdir(place)
        except OSError:
            continue
        return


def _keep_temporary_files_in(scratch: Sequence[str]) -> None:
    """TMPDIR names the writable part of /tmp, which is not all of it where the candidate itself lies below."""
    temporary = os.path.realpath("/tmp")  # noqa: S108 - private by now
    for place in scratch:
        if f"{place}/".startswith(f"{temporary}/"):
            os.environ["TMPDIR"] = place  # noqa: TID251 - the sealed process's own


def _give_up_power(protections: Protections, scratch: tuple[str, ...]) -> None:
    if protections.powerless:
        with namespaces.step("drop all capabilities"):
            kernel.drop_capabilities()
    with namespaces.step("forbid new privileges"):
        kernel.forbid_new_privileges()
    if protections.landlock:
        landlock.restrict_writes(scratch, ["/dev"])
    if protections.filtered:
        seccomp.install(internet=protections.network)


def _end_all_others() -> None:
    try:
        os.kill(-1, signal.SIGKILL)  # in a pid namespace of our own: everyone but us
    except ProcessLookupError:
        return
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _empty(folder: str, shown: frozenset[str]) -> None:
    for entry in list(os.scandir(folder)):
        if entry.path in shown:
            continue
        if any(path.startswith(f"{entry.path}/") for path in shown):
            _empty(entry.path, shown)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108 - scandir's own path
