"""The filter's program, evaluated for both architectures: what it lets through and what it answers."""

import errno
import re
import socket
import struct
from pathlib import Path

import pytest

from twiceshy.sealing import seccomp

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}


def evaluate(machine: str, number: int, *args: int, architecture: int | None = None, internet: bool = True) -> int:
    """What the kernel would do: classic BPF over struct seccomp_data."""
    registers = [*args, *[0] * (6 - len(args))]
    data = struct.pack("=iIQ6Q", number, architecture or MACHINES[machine], 0, *registers)
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine, internet=internet)))
    place, value = 0, 0
    while True:
        operation, yes, no, k = code[place]
        place += 1
        match operation:
            case 0x20:
                value = struct.unpack_from("=I", data, k)[0]
            case 0x15:
                place += yes if value == k else no
            case 0x35:
                place += yes if value >= k else no
            case 0x45:
                place += yes if value & k else no
            case 0x54:
                value &= k
            case 0x06:
                return k


def number_of(name: str, machine: str) -> int:
    place = list(MACHINES).index(machine)
    return (seccomp.ARGUED | seccomp.REFUSED | seccomp.ABSENT)[name][place]


def entries(machine: str, table: dict[str, seccomp.Numbers]) -> list[int]:
    place = list(MACHINES).index(machine)
    return [entry[place] for entry in table.values() if entry[place] is not None]


@pytest.mark.parametrize("machine", MACHINES)
def test_listed_calls_are_refused(machine: str) -> None:
    assert {evaluate(machine, number) for number in entries(machine, seccomp.REFUSED)} == {EPERM}
    assert {evaluate(machine, number) for number in entries(machine, seccomp.ABSENT)} == {ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
def test_other_calls_pass(machine: str) -> None:
    listed = {n for table in (seccomp.REFUSED, seccomp.ABSENT, seccomp.ARGUED) for n in entries(machine, table)}
    assert {evaluate(machine, number) for number in set(range(470)) - listed} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_unknown_calls_do_not_exist(machine: str) -> None:
    assert {evaluate(machine, number) for number in (470, 512, 0x3FFFFFFF)} == {ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
def test_foreign_entries_are_killed(machine: str) -> None:
    assert evaluate(machine, 39, architecture=0x40000003) == KILL
    assert evaluate("x86_64", 0x40000000 + 39) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("internet", [True, False])
def test_socket_families_fit_the_namespace(machine: str, *, internet: bool) -> None:
    call = number_of("socket", machine)
    passed = {family for family in range(64) if evaluate(machine, call, family, internet=internet) == ALLOW}
    assert passed == {socket.AF_NETLINK} | ({socket.AF_INET, socket.AF_INET6} if internet else set())
    assert {evaluate(machine, call, socket.AF_NETLINK, 3, kind) for kind in range(1, 32)} == {EPERM}


@pytest.mark.parametrize("machine", MACHINES)
def test_only_stream_pairs_are_made(machine: str) -> None:
    call = number_of("socketpair", machine)
    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    kinds = {kind for kind in range(8) if evaluate(machine, call, socket.AF_UNIX, kind | flags) == ALLOW}
    assert kinds == {socket.SOCK_STREAM}
    assert evaluate(machine, call, socket.AF_INET, socket.SOCK_STREAM) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_makes_no_namespace(machine: str) -> None:
    call = number_of("clone", machine)
    plain = 0x01200000 | 17  # what fork asks for
    threads = 0x003D0F00
    assert {evaluate(machine, call, flags) for flags in (plain, threads)} == {ALLOW}
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert evaluate(machine, call, plain | flag) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_terminal_cannot_be_typed_into(machine: str) -> None:
    call = number_of("ioctl", machine)
    assert {evaluate(machine, call, 0, request) for request in (0x5412, 0x541C)} == {EPERM}
    assert evaluate(machine, call, 0, 0x5413) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_agree_with_the_headers(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not path.exists():
        pytest.skip("the kernel's headers are not installed")
    known = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
    listed = seccomp.REFUSED | seccomp.ABSENT | seccomp.ARGUED
    ours = {name: number_of(name, machine) for name in listed}
    assert {name: number for name, number in ours.items() if name in known} == {
        name: known[name] for name in ours if name in known
    }
    assert len(ours.keys() & known.keys()) > 50
