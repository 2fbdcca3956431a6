"""What the canary tries, one function an attempt.

An attempt raises OSError or Held when it was stopped, and returns what it reached when it was not.
"""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from twiceshy.sealing import kernel, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PATIENCE_S = 0.2  # for a refusal over loopback, which takes microseconds
_IO_URING_SETUP = 425
_ALLOWED_DEVICES = {"null", "zero", "full", "random", "urandom"}


class Held(Exception):
    """An attempt that was stopped by something other than an error number."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parent can be reached if nothing stops it; goes into the seal as JSON."""

    tcp_port: int
    udp_port: int
    unix_path: str
    unix_abstract: str
    outside_file: str
    fifo: str
    parent: int
    """The parent's pid as the host numbers it."""
    parent_started: int
    """Its start, in clock ticks after boot: with the pid it names one process."""
    namespaces: dict[str, int]
    """Inode of each namespace of the parent."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: what it reached, or what stopped it."""

    name: str
    reached: bool
    detail: str


def _tcp(targets: Targets) -> str:
    with socket.socket(socket.AF_INET) as probe:
        probe.settimeout(_PATIENCE_S)
        probe.connect(("127.0.0.1", targets.tcp_port))
    return "connected to a TCP port of the host"


def _udp(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(_PATIENCE_S)
        probe.connect(("127.0.0.1", targets.udp_port))
        probe.send(b"canary")
        try:
            probe.recv(1)  # an own loopback without a listener answers "refused"
        except TimeoutError:
            return "sent a datagram to the host and nothing refused it"
    return "a datagram was answered"


def _route(_targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.sendto(b"canary", ("192.0.2.53", 53))  # TEST-NET-1: where a DNS query would go out
    return "a datagram left for another machine"


def _unix_path(targets: Targets) -> str:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(targets.unix_path)
    return "connected to a unix socket of the host by its path"


def _unix_abstract(targets: Targets) -> str:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(targets.unix_abstract.encode("latin-1"))
    return "connected to an abstract unix socket of the host"


def _unix_datagram(_targets: Targets) -> str:
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        end.close()
    return "made a unix datagram socket, which can be sent to any path"


def _vsock(_targets: Targets) -> str:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "made a vsock, which reaches the hypervisor"


def _signal(targets: Targets) -> str:
    os.kill(targets.parent, 0)
    if _namespace("pid") != targets.namespaces["pid"]:
        raise Held("the number names a process of this namespace, not the parent")
    return "could signal the parent"


def _host_process(targets: Targets) -> str:
    if started(targets.parent) != targets.parent_started:
        raise Held("the number names a process of this namespace, not the parent")
    return "saw the parent in /proc"


def _namespaces(targets: Targets) -> str:
    shared = [kind for kind, inode in targets.namespaces.items() if _namespace(kind) == inode]
    return f"shares the host's {', '.join(shared)} namespace" if shared else _held("every namespace differs")


def _write_outside(targets: Targets) -> str:
    stopped: OSError | None = None
    for place in dict.fromkeys((targets.outside_file, *_new_files())):
        try:
            handle = os.open(place, os.O_WRONLY | os.O_APPEND | (0 if place == targets.outside_file else os.O_CREAT))
        except OSError as error:
            stopped = stopped or error
            continue
        os.close(handle)
        if place != targets.outside_file:
            os.unlink(place)  # noqa: PTH108 - what this attempt itself made
        return f"could write {place}"
    raise stopped or Held("no place to write")


def _new_files() -> list[str]:
    places = {"/", "/etc", "/run", os.path.expanduser("~"), os.getcwd()}  # noqa: PTH109, PTH111 - Path.home() may raise
    scratch = tuple(f"{os.path.realpath(top)}/" for top in namespaces.SCRATCH)
    return [f"{place.rstrip('/')}/.twiceshy-canary" for place in sorted(places) if not f"{place}/".startswith(scratch)]


def _writable_mount(_targets: Targets) -> str:
    tops = {os.path.realpath(top) for top in namespaces.SCRATCH}
    private = tops | {f"{top}/{namespaces.PRIVATE}" for top in tops}
    last = {mount.path: mount for mount in namespaces.mounts()}  # of mounts on one path the last one is seen
    loose = [path for path, mount in last.items() if "rw" in mount.flags and path not in private]
    return f"mounted writable: {', '.join(sorted(loose))}" if loose else _held("every mount is read-only")


def _fifo(targets: Targets) -> str:
    os.close(os.open(targets.fifo, os.O_WRONLY | os.O_NONBLOCK))
    return "opened a FIFO of the host for writing"


def _devices(_targets: Targets) -> str:
    nodes = (entry for entry in Path("/dev").iterdir() if not entry.is_symlink())
    loose = {entry.name for entry in nodes if entry.is_char_device() or entry.is_block_device()} - _ALLOWED_DEVICES
    return f"device nodes: {', '.join(sorted(loose)[:5])}" if loose else _held("only harmless devices")


def _io_uring(_targets: Targets) -> str:
    os.close(kernel.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)))
    return "made an io_uring, which acts without system calls"


def _user_namespace(_targets: Targets) -> str:
    kernel.unshare(kernel.CLONE_NEWUSER)
    return "made a user namespace, and with it capabilities"


def _setns(_targets: Targets) -> str:
    with Path("/proc/self/ns/net").open("rb") as own:
        kernel.setns(own.fileno())
    return "entered a network namespace"


def _power(_targets: Targets) -> str:
    status = kernel.status()
    left = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[name], 16)]
    if left or status["NoNewPrivs"] != "1":
        return f"holds capabilities ({', '.join(left)}) or may gain some"
    raise Held("no capability is left and none can come")


def _filter(_targets: Targets) -> str:
    return "no system call filter" if kernel.status()["Seccomp"] != "2" else _held("the filter is on")


def started(pid: int) -> int:
    """When a process started, in clock ticks after boot; OSError where /proc does not know it."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return int(after_name.split()[19])


def _namespace(kind: str) -> int:
    return Path(f"/proc/self/ns/{kind}").stat().st_ino


def _held(word: str) -> NoReturn:
    raise Held(word)


ATTEMPTS: Mapping[str, Callable[[Targets], str]] = {
    "tcp": _tcp,
    "udp": _udp,
    "route": _route,
    "unix_path": _unix_path,
    "unix_abstract": _unix_abstract,
    "unix_datagram": _unix_datagram,
    "vsock": _vsock,
    "signal": _signal,
    "host_process": _host_process,
    "namespaces": _namespaces,
    "write_outside": _write_outside,
    "writable_mount": _writable_mount,
    "fifo": _fifo,
    "devices": _devices,
    "io_uring": _io_uring,
    "setns": _setns,
    "power": _power,
    "filter": _filter,
    "user_namespace": _user_namespace,
}
"""In the order tried; the one whose success would change what the others see comes last."""
