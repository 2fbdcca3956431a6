"""The namespaces and mounts of a seal, one small step each; every refusal names its step.

All of it works as root and as an ordinary user. Root keeps its uid inside (its interpreter may lie under a 0700 home),
so file permissions do not hold it back; what does is that nothing is mounted writable, no device node is left, /proc
is read-only and no capability remains.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.sealing import kernel
from twiceshy.sealing.faults import StepRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - these become private and empty
PRIVATE = "twiceshy-private"
"""The writable part of a scratch folder in which something of the host is shown again."""
_TRIES = 100
"""So often a socket may be made anew at one path while it is being masked."""
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo: where, what kind, and its own flags."""

    path: str
    kind: str
    flags: tuple[str, ...]


@contextmanager
def step(what: str) -> Iterator[None]:
    """Turn the kernel's refusal inside the block into StepRefused with the step's name."""
    try:
        yield
    except OSError as error:
        raise StepRefused.at(what, error) from error


def enter(flags: int) -> None:
    """Move into fresh namespaces, with this user and group mapped to themselves and to nobody else."""
    user, group = os.geteuid(), os.getegid()
    with suppress(PermissionError):  # an ordinary user keeps them: the filter is what keeps group sockets out of reach
        os.setgroups([])
    with step("enter fresh namespaces"):
        kernel.unshare(flags | kernel.CLONE_NEWUSER)
    with step("map the user into its namespace"):
        Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")


def unix_socket_paths() -> list[str]:
    """Every absolute path in this network namespace's /proc/net/unix: read it before leaving the host's."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    fields = (line.split(maxsplit=7) for line in lines)
    return sorted({parts[7] for parts in fields if len(parts) > 7 and parts[7].startswith("/")})  # noqa: PLR2004


def detach_mounts() -> None:
    """Stop mounts from travelling between the host and this mount namespace."""
    with step("detach from the host's mounts"):
        kernel.mount("", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)


def fresh_proc() -> None:
    """A /proc that knows only this pid namespace, read-only: root's uid could write sysctls and sysrq through it."""
    with step("mount a fresh /proc"):
        kernel.mount("proc", "/proc", "proc", _QUIET | kernel.MS_NOEXEC | kernel.MS_RDONLY)
    others = (m.path for m in mounts() if m.kind == "proc" and not f"{m.path}/".startswith("/proc/"))
    with step("hide another view of the host's processes"):
        for path in others:
            if Path(path).is_dir():
                kernel.mount("tmpfs", path, "tmpfs", _QUIET | kernel.MS_RDONLY, "size=4k")


def lock_file_system(readable: Sequence[Path], scratch_bytes: int) -> tuple[str, ...]:
    """Make every mount read-only and without devices, then lay a private /dev and empty scratch folders over it.

    readable: what must stay visible although it lies below a scratch folder, read-only like the rest.
    Gives the scratch folders, the only places where files can be written. A scratch folder in which something is shown again is read-only too, and a private
    folder inside it is given instead: Landlock grants whole hierarchies, and a FIFO of the host that is shown must not be in one.
    """
    with step("make the file system read-only"), _held(_below_scratch(readable)) as kept:
        everything = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NODEV | kernel.MOUNT_ATTR_NOSUID
        kernel.set_mount_attributes("/", add=everything, recursive=True)
        _private_devices()
        scratch = _private_scratch(scratch_bytes)
        for path, handle in kept.items():
            _show_again(path, handle)
        kernel.set_mount_attributes("/dev", add=kernel.MOUNT_ATTR_RDONLY)
        shared = {folder for folder in scratch for path in kept if path.startswith(f"{folder}/")}
        return tuple(_walled_off(folder, scratch_bytes) if folder in shared else folder for folder in scratch)


def _walled_off(folder: str, scratch_bytes: int) -> str:
    private = Path(folder, PRIVATE)
    private.mkdir()
    kernel.mount("tmpfs", str(private), "tmpfs", _QUIET, f"size={scratch_bytes},mode=1777")
    kernel.set_mount_attributes(folder, add=kernel.MOUNT_ATTR_RDONLY)
    return str(private)


def _below_scratch(readable: Iterable[Path]) -> list[str]:
    tops = tuple(f"{top}/" for top in _real_scratch())
    real = {os.path.realpath(path) for path in readable}
    return sorted(path for path in real if path.startswith(tops) and Path(path).exists())


def _real_scratch() -> list[str]:
    return sorted({os.path.realpath(path) for path in SCRATCH if Path(path).is_dir()})


@contextmanager
def _held(paths: Iterable[str]) -> Iterator[dict[str, int]]:
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    try:
        yield handles
    finally:
        for handle in handles.values():
            os.close(handle)


def _bind(source: str, target: str) -> None:
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)


def _show_again(path: str, handle: int) -> None:
    if Path(path).exists():  # shown already, inside a folder that was named too
        return
    target = Path(path)
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _bind(f"/proc/self/fd/{handle}", path)


def _private_devices() -> None:
    with _held(path for name in _DEVICES if Path(path := f"/dev/{name}").exists()) as handles:
        kernel.mount("tmpfs", "/dev", "tmpfs", kernel.MS_NOSUID | kernel.MS_NOEXEC, "size=64k,mode=755")
        for path, handle in handles.items():
            Path(path).touch()
            _bind(f"/proc/self/fd/{handle}", path)
            kernel.set_mount_attributes(path, clear=kernel.MOUNT_ATTR_NODEV)
    for name, target in _DEVICE_LINKS.items():
        Path("/dev", name).symlink_to(target)
    Path("/dev/shm").mkdir()  # noqa: S108 - inside the private /dev


def _private_scratch(scratch_bytes: int) -> tuple[str, ...]:
    folders = _real_scratch()
    for folder in folders:
        kernel.mount("tmpfs", folder, "tmpfs", _QUIET, f"size={scratch_bytes},mode=1777")
    return tuple(folders)


def mask(paths: Iterable[str]) -> None:
    """Lay /dev/null over each of the host's unix sockets that can still be reached by its path."""
    with step("mask the host's unix sockets"):
        for path in paths:
            _mask(path)


def _mask(path: str) -> None:
    """Until nothing there is a socket: another may have taken the place of one that was removed."""
    for _ in range(_TRIES):
        handle = _socket_at(path)
        if handle is None:
            return
        try:
            cover(handle)
        finally:
            os.close(handle)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def cover(handle: int) -> None:
    """Lay /dev/null over an open file, wherever it is now. Nothing leads to one that was removed meanwhile, so that needs no cover. Raises OSError."""
    try:
        _bind("/dev/null", f"/proc/self/fd/{handle}")
    except FileNotFoundError:
        if os.fstat(handle).st_nlink:
            raise


def _socket_at(path: str) -> int | None:
    """A handle of the socket at a path, where there is one."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None  # gone, hidden by a private folder, or behind a folder this user may not search either
    if stat.S_ISSOCK(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def mounts() -> list[Mount]:
    """The mounts of this mount namespace, in the order they were made."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return [_mount(line) for line in text.split("\n") if line]


def _mount(line: str) -> Mount:
    fields = line.split(" ")
    path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
    return Mount(path, fields[fields.index("-") + 1], tuple(fields[5].split(",")))
