"""The system call filter of a sealed process: a classic BPF program, built here, kept by all children.

What it stands for (semantics.md §9): sockets only of the kinds the namespace can hold, no io_uring (it does what the
filter refuses without a system call), no vsock, and nothing that changes namespaces, mounts, keys, tracing, clocks or
the kernel. Calls newer than `_NEWEST` answer ENOSYS: what nobody has looked at is refused. A call made through another
architecture's entry (32-bit, x32) kills the process, because its numbers mean other things.

System V and POSIX message queues and shared memory are refused too: they would carry state from one trial to the next.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import NamedTuple

from twiceshy.sealing import kernel
from twiceshy.sealing.faults import StepRefused

_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_NEWEST = 469  # file_setattr, Linux 6.17; both tables are the same from 424 on

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* that clone(2) takes
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # both type into a terminal
_NETLINK_ROUTE = 0  # getaddrinfo lists addresses through it
_TYPE_BITS = 0xF  # without SOCK_CLOEXEC and SOCK_NONBLOCK


class Numbers(NamedTuple):
    """One call's number on x86_64 and on aarch64; None where it does not exist."""

    x86_64: int | None
    aarch64: int | None


def _same(number: int) -> Numbers:
    return Numbers(number, number)


REFUSED: dict[str, Numbers] = {
    # namespaces and mounts
    "unshare": Numbers(272, 97),
    "setns": Numbers(308, 268),
    "mount": Numbers(165, 40),
    "umount2": Numbers(166, 39),
    "pivot_root": Numbers(155, 41),
    "chroot": Numbers(161, 51),
    "open_tree": _same(428),
    "move_mount": _same(429),
    "fsopen": _same(430),
    "fsconfig": _same(431),
    "fsmount": _same(432),
    "fspick": _same(433),
    "mount_setattr": _same(442),
    "open_tree_attr": _same(467),
    "open_by_handle_at": Numbers(304, 265),
    "quotactl": Numbers(179, 60),
    "quotactl_fd": _same(443),
    "fanotify_init": Numbers(300, 262),
    # other processes
    "ptrace": Numbers(101, 117),
    "process_vm_readv": Numbers(310, 270),
    "process_vm_writev": Numbers(311, 271),
    "process_madvise": _same(440),
    "kcmp": Numbers(312, 272),
    "pidfd_getfd": _same(438),
    "migrate_pages": Numbers(256, 238),
    "move_pages": Numbers(279, 239),
    # keys, kernel, devices
    "add_key": Numbers(248, 217),
    "request_key": Numbers(249, 218),
    "keyctl": Numbers(250, 219),
    "bpf": Numbers(321, 280),
    "userfaultfd": Numbers(323, 282),
    "perf_event_open": Numbers(298, 241),
    "init_module": Numbers(175, 105),
    "finit_module": Numbers(313, 273),
    "delete_module": Numbers(176, 106),
    "kexec_load": Numbers(246, 104),
    "kexec_file_load": Numbers(320, 294),
    "reboot": Numbers(169, 142),
    "swapon": Numbers(167, 224),
    "swapoff": Numbers(168, 225),
    "acct": Numbers(163, 89),
    "syslog": Numbers(103, 116),
    "vhangup": Numbers(153, 58),
    "iopl": Numbers(172, None),
    "ioperm": Numbers(173, None),
    "modify_ldt": Numbers(154, None),
    # clocks and names of the machine
    "settimeofday": Numbers(164, 170),
    "clock_settime": Numbers(227, 112),
    "clock_adjtime": Numbers(305, 266),
    "adjtimex": Numbers(159, 171),
    "sethostname": Numbers(170, 161),
    "setdomainname": Numbers(171, 162),
    # memory and queues that outlive a trial
    "shmget": Numbers(29, 194),
    "semget": Numbers(64, 190),
    "msgget": Numbers(68, 186),
    "mq_open": Numbers(240, 180),
}
"""Calls that answer EPERM."""

ABSENT: dict[str, Numbers] = {
    "io_uring_setup": _same(425),
    "io_uring_enter": _same(426),
    "io_uring_register": _same(427),
    # Its flags lie in memory the filter cannot read; the C library falls back to clone, which is checked.
    "clone3": _same(435),
}
"""Calls that answer ENOSYS, as on a kernel without them, so that libraries take their older way."""

ARGUED: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "ioctl": (16, 29),
}
"""Calls that are judged by their arguments."""


def _op(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)


def _argument(index: int) -> bytes:
    return _op(_LOAD, 16 + 8 * index)  # low half of a little-endian register: all of an int argument


def _answer(code: int) -> bytes:
    return _op(_RETURN, _ERRNO | code)


_REFUSE = _answer(errno.EPERM)
_GO_ON = _op(_RETURN, _ALLOW)


def _only(values: tuple[int, ...], then: bytes) -> bytes:
    """`then` when the accumulator holds one of `values`, else EPERM."""
    tests = [_op(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return b"".join(tests) + _REFUSE + then


def _socket_rule(families: tuple[int, ...]) -> bytes:
    netlink = _argument(2) + _only((_NETLINK_ROUTE,), _GO_ON)
    return _argument(0) + _when(socket.AF_NETLINK, netlink) + _only(families, _GO_ON)


def _socketpair_rule() -> bytes:
    # A datagram pair could still be pointed at a path: a connected stream cannot.
    stream = _argument(1) + _op(_AND, _TYPE_BITS) + _only((socket.SOCK_STREAM,), _GO_ON)
    return _argument(0) + _only((socket.AF_UNIX,), stream)


def _clone_rule() -> bytes:
    return _argument(0) + _op(_ANY_OF, _NEW_NAMESPACES, 0, 1) + _REFUSE + _GO_ON


def _ioctl_rule() -> bytes:
    return _argument(1) + _op(_EQUAL, _TIOCSTI, 1, 0) + _op(_EQUAL, _TIOCLINUX, 0, 1) + _REFUSE + _GO_ON


def _when(value: int, body: bytes) -> bytes:
    """`body`, which must end by returning, where the accumulator is `value`; else it stays loaded for what follows."""
    return _op(_EQUAL, value, 0, len(body) // 8) + body


def _when_at_least(value: int, body: bytes) -> bytes:
    return _op(_AT_LEAST, value, 0, len(body) // 8) + body


def program(machine: str, *, internet: bool) -> bytes:
    """The filter for one architecture as an array of struct sock_filter.

    internet: whether INET and INET6 sockets may be made; only where the process has a network namespace of its own.
    """
    place = Numbers._fields.index(machine)
    families: tuple[int, ...] = (socket.AF_INET, socket.AF_INET6) if internet else ()
    rules = {
        "socket": _socket_rule(families),
        "socketpair": _socketpair_rule(),
        "clone": _clone_rule(),
        "ioctl": _ioctl_rule(),
    }
    parts = [
        _op(_LOAD, _ARCHITECTURE),
        _op(_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        parts.append(_when_at_least(_X32, _op(_RETURN, _KILL)))
    parts.append(_when_at_least(_NEWEST + 1, _answer(errno.ENOSYS)))
    for name, rule in rules.items():
        parts.append(_when(ARGUED[name][place], rule))
    for table, answer in ((ABSENT, _answer(errno.ENOSYS)), (REFUSED, _REFUSE)):
        parts += [_when(number, answer) for entry in table.values() if (number := entry[place]) is not None]
    return b"".join([*parts, _GO_ON])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(*, internet: bool) -> None:
    """Put this process and all its future children under the filter; needs no_new_privs or a capability.

    Raises StepRefused on an architecture without a table and where the kernel has no seccomp.
    """
    machine = os.uname().machine
    if machine not in _AUDIT_ARCH or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes in a 64-bit pointer
        raise StepRefused.unsupported("filter system calls", f"no filter is written for {machine}")
    code = program(machine, internet=internet)
    listing = _Program(len(code) // 8, code)
    raw = (ctypes.c_char * ctypes.sizeof(listing)).from_buffer(listing)
    try:
        kernel.syscall(_SYS_SECCOMP[machine], _SET_MODE_FILTER, 0, raw)
    except OSError as error:
        raise StepRefused.at("filter system calls", error) from error
