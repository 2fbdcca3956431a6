"""What a candidate may try from inside its seal; `engine/test_escapes.py` says what stops it.

An escape returns where it reached the host, and raises OSError where it was stopped. Numbers of system calls are those of x86-64.
"""

import contextlib
import ctypes
import errno
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twiceshy.sealing import Targets

STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
TMP = "/tmp"  # noqa: S108 - the seal's own
LIBC = ctypes.CDLL(None, use_errno=True)
WORDS = {
    "Connection refused": errno.ECONNREFUSED, "Network is unreachable": errno.ENETUNREACH, "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES, "Operation not permitted": errno.EPERM, "No such process": errno.ESRCH,
}  # fmt: skip


def tried(targets: Targets, only: list[str] | None = None) -> dict[str, str]:
    """Every escape, or those named: `reached`, or the name of the error that stopped it."""
    told = {}
    for name in only or ESCAPES:
        try:
            ESCAPES[name](targets)
        except OSError as stopped:
            told[name] = errno.errorcode.get(stopped.errno or 0, str(stopped))
        else:
            told[name] = "reached"
    return told


def dial(family: int, kind: int, address: Any, *, say: bytes = b"") -> None:
    with socket.socket(family, kind) as probe:
        probe.settimeout(0.5)
        probe.connect(address)
        if say:
            probe.send(say)
            probe.recv(1)


def made(*kind: int) -> None:
    socket.socket(*kind).close()


def call(number: int, *args: Any) -> int:
    done = LIBC.syscall(number, *args)
    if done < 0:
        raise OSError(ctypes.get_errno(), "")
    return int(done)


def dial_by_calls(port: int) -> None:
    address = b"\x02\x00" + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    call(42, call(41, 2, 1, 0), ctypes.create_string_buffer(address, 16), 16)


def looked_up() -> None:
    try:
        socket.getaddrinfo("twiceshy.invalid", 80)
    except socket.gaierror:
        raise OSError(errno.ENETUNREACH, "") from None


def shell(script: str) -> None:
    """As another program."""
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=False, timeout=5)
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        raise OSError(next((code for words, code in WORDS.items() if words in said), 0), said)


def written(place: str) -> None:
    os.close(os.open(place, os.O_WRONLY | os.O_APPEND))


def linked(outside: str) -> None:
    link = Path(TMP, f"link-{os.getpid()}")
    link.symlink_to(outside)
    try:
        written(str(link))
    finally:
        link.unlink()


def open_descriptors() -> None:
    """Anything of the host's that was open when the seal closed: the test holds the targets' sockets."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            if not str(entry.readlink()).startswith("pipe:"):
                return
    raise OSError(errno.EBADF, "")


ESCAPES: dict[str, Callable[[Targets], object]] = {
    "what was left open": lambda targets: open_descriptors(),
    "tcp to a port of the host": lambda targets: dial(socket.AF_INET, STREAM, ("127.0.0.1", targets.tcp_port)),
    "tcp over IPv6": lambda targets: dial(socket.AF_INET6, STREAM, ("::1", targets.tcp_port)),
    "tcp to another machine": lambda targets: dial(socket.AF_INET, STREAM, ("192.0.2.80", 443)),
    "tcp to a cloud's metadata": lambda targets: dial(socket.AF_INET, STREAM, ("169.254.169.254", 80)),
    "tcp by system calls alone": lambda targets: dial_by_calls(targets.tcp_port),
    "tcp from a child": lambda targets: shell(f"exec 3<>/dev/tcp/127.0.0.1/{targets.tcp_port}"),
    "udp to a port of the host": lambda targets: dial(
        socket.AF_INET, DATAGRAM, ("127.0.0.1", targets.udp_port), say=b"x"
    ),
    "udp to another machine": lambda targets: dial(socket.AF_INET, DATAGRAM, ("192.0.2.53", 53), say=b"x"),
    "udp from a child": lambda targets: shell("echo x > /dev/udp/192.0.2.53/53"),
    "a name looked up": lambda targets: looked_up(),
    "unix socket by its path": lambda targets: dial(socket.AF_UNIX, STREAM, targets.unix_path),
    "unix socket by an abstract name": lambda targets: dial(
        socket.AF_UNIX, STREAM, targets.unix_abstract.encode("latin-1")
    ),
    "unix datagram": lambda targets: made(socket.AF_UNIX, DATAGRAM),
    "vsock": lambda targets: made(socket.AF_VSOCK, STREAM),
    "packets past the stack": lambda targets: made(socket.AF_PACKET, socket.SOCK_RAW, 3),
    "raw IP": lambda targets: made(socket.AF_INET, socket.SOCK_RAW, 1),
    "kernel crypto sockets": lambda targets: made(38, 5),
    "bluetooth": lambda targets: made(31, socket.SOCK_RAW, 1),
    "io_uring": lambda targets: call(425, 1, ctypes.create_string_buffer(120)),
    "another network namespace": lambda targets: call(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0x40000000),
    "the parent's network namespace": lambda targets: call(
        308, os.open(f"/proc/{targets.parent}/ns/net", os.O_RDONLY), 0x40000000
    ),
    "a user namespace": lambda targets: call(272, 0x10000000),
    "a child in a user namespace": lambda targets: call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "a child by clone3": lambda targets: call(435, ctypes.create_string_buffer(88), 88) or os._exit(0),
    "a signal to the parent": lambda targets: os.kill(targets.parent, 0),
    "a signal from a child": lambda targets: shell(f"kill -0 {targets.parent}"),
    "a handle on the parent": lambda targets: call(434, targets.parent, 0),
    "the parent's memory": lambda targets: call(310, targets.parent, 0, 0, 0, 0, 0),
    "the parent traced": lambda targets: call(101, 16, targets.parent, 0, 0),
    "the parent's memory by /proc": lambda targets: written(f"/proc/{targets.parent}/mem"),
    "the parent's root": lambda targets: os.close(os.open(f"/proc/{targets.parent}/root", os.O_RDONLY)),
    "the kernel's switches": lambda targets: written("/proc/sys/kernel/core_pattern"),
    "the kernel's keyboard": lambda targets: written("/proc/sysrq-trigger"),
    "a file of the host": lambda targets: written(targets.outside_file),
    "a file of the host by a link": lambda targets: linked(targets.outside_file),
    "a file of the host by /proc": lambda targets: written(f"/proc/self/root{targets.outside_file}"),
    "a file of the host from a child": lambda targets: shell(f"echo x >> {targets.outside_file}"),
    "a file of the host removed": lambda targets: Path(targets.outside_file).unlink(),
    "a file of the host made open to all": lambda targets: Path(targets.outside_file).chmod(0o777),
    "a file of the host linked into tmp": lambda targets: os.link(targets.outside_file, f"{TMP}/hard"),
    "a FIFO of the host": lambda targets: os.close(os.open(targets.fifo, os.O_WRONLY | os.O_NONBLOCK)),
    "a new file in the candidate's folder": lambda targets: os.close(os.open(".escape", os.O_WRONLY | os.O_CREAT)),
    "the file system made writable": lambda targets: call(165, 0, b"/", 0, 0x20 | 0x1000, 0),
    "a mount": lambda targets: call(165, b"none", TMP.encode(), b"tmpfs", 0, 0),
    "a mount taken away": lambda targets: call(166, b"/proc", 2),
    "another root": lambda targets: call(161, TMP.encode()),
    "a root pivoted": lambda targets: call(155, b"/", b"/"),
    "a device made": lambda targets: os.mknod(f"{TMP}/disk", 0o60600, os.makedev(8, 0)),
    "a file by its handle": lambda targets: call(304, -100, ctypes.create_string_buffer(32), 0),
    "kernel keys": lambda targets: call(248, b"user", b"k", b"v", 1, -3),
    "a bpf program": lambda targets: call(321, 5, ctypes.create_string_buffer(120), 120),
    "performance events": lambda targets: call(298, ctypes.create_string_buffer(120), 0, -1, -1, 0),
    "page faults handled": lambda targets: call(323, 0),
    "a kernel module": lambda targets: call(175, b"", 0, b""),
    "another kernel": lambda targets: call(246, 0, 0, 0, 0),
    "the host's name": lambda targets: call(170, b"x", 1),
    "the clock set": lambda targets: call(227, 0, ctypes.create_string_buffer(16)),
    "powers through a set-uid program": lambda targets: shell(
        "test \"$(grep NoNewPrivs /proc/self/status | tr -dc 01)\" = 0 || { echo 'Operation not permitted' >&2; exit 7; }"
    ),
}
