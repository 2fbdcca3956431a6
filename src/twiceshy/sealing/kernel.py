"""The kernel calls a seal needs that Python 3.11 does not offer; each raises OSError as the kernel answered.

x86_64 and aarch64 only: the numbers below and the seccomp filter are per architecture.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from functools import cache
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_SYS_MOUNT_SETATTR = 442  # Linux 5.12; one number for both architectures
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
# NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each with its lock: uid 0 is a name without power in here.
_SECUREBITS = 0b1110_1111
_LAST_CAP = 63

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _answered(result: int, call: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
    return result


def syscall(number: int, *args: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """The raw system call's result; integers are widened to registers, buffers are passed by address."""
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    _libc().syscall.restype = ctypes.c_long
    return _answered(_libc().syscall(ctypes.c_long(number), *wide), f"syscall {number}")


def prctl(option: int, *args: int) -> int:
    """What the kernel answers to one process-control option; unused arguments are zero."""
    padded = (*args, 0, 0, 0, 0)[:4]
    return _answered(_libc().prctl(option, *(ctypes.c_ulong(a) for a in padded)), f"prctl {option}")


def unshare(flags: int) -> None:
    """Move this process (for a pid namespace: its next child) into fresh namespaces."""
    _answered(_libc().unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount `source` on `target`; empty strings stand for the kernel's NULL."""
    texts = [t.encode() or None for t in (source, target, kind)]
    _answered(_libc().mount(*texts, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def set_mount_attributes(path: str, *, add: int = 0, clear: int = 0, recursive: bool = False) -> None:
    """Change flags of one mount or of all below it; only the named ones, so flags locked by the host stay."""
    attributes = struct.pack("=QQQQ", add, clear, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes, len(attributes))


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send `signal_number` to this process when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal_number)


def drop_capabilities() -> None:
    """Leave this process and all that it starts without a capability, root or not."""
    if os.geteuid() == 0 or _has_capabilities():
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
        for capability in range(_LAST_CAP + 1):
            try:
                prctl(_PR_CAPBSET_DROP, capability)
            except OSError:
                break  # past the last capability this kernel knows; a refused first one shows in the canary
        prctl(_PR_SET_SECUREBITS, _SECUREBITS)
    header = struct.pack("=Ii", 0x20080522, 0)  # version 3, this thread
    syscall(_SYS_CAPSET[os.uname().machine], header, bytes(24))


def _has_capabilities() -> bool:
    return any(int(value, 16) for name, value in status().items() if name in ("CapPrm", "CapEff"))


def status() -> dict[str, str]:
    """The fields of /proc/self/status as text (CapEff, NoNewPrivs, Seccomp, Threads, ...)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def forbid_new_privileges() -> None:
    """Make setuid programs and file capabilities powerless for this process and its children."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def raise_loopback() -> None:
    """Bring `lo` up in the current network namespace; 127.0.0.1 and ::1 then answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags: int = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def setns(descriptor: int) -> None:
    """Move this process into the namespace behind an open /proc/PID/ns file."""
    _answered(_libc().setns(descriptor, 0), "setns")
