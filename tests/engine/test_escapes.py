"""The table of escapes: what a candidate may try from inside its seal, as root and as nobody, and what stops it.

A row is tried as the process itself, in a child that is another program, or by naming the system call without a library in between. What reaches the host is
`reached`; what was stopped is told by the error that the kernel gave. The canary tries a part of this before every session; `test_canary` takes each
protection away and sees it notice.
"""

import platform
from functools import cache
from typing import Any

import pytest

import escapes
from sealed import USERS, inside, skip_without_namespaces
from twiceshy import sealing

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.skipif(platform.machine() != "x86_64", reason="names system calls by number")]  # fmt: skip

STOPPED_BY: dict[str, dict[str, str]] = {
    "an own network, with nothing in it": {
        "tcp to a port of the host": "ECONNREFUSED",
        "tcp over IPv6": "ECONNREFUSED EADDRNOTAVAIL EAFNOSUPPORT",  # as the host has it
        "tcp to another machine": "ENETUNREACH",
        "tcp to a cloud's metadata": "ENETUNREACH",
        "tcp by system calls alone": "ECONNREFUSED",
        "tcp from a child": "ECONNREFUSED",
        "udp to a port of the host": "ECONNREFUSED",
        "udp to another machine": "ENETUNREACH",
        "udp from a child": "ENETUNREACH",
        "a name looked up": "ENETUNREACH",
    },
    "the filter of system calls": {
        "unix socket by its path": "EPERM",
        "unix socket by an abstract name": "EPERM",
        "unix datagram": "EPERM",
        "vsock": "EPERM",
        "packets past the stack": "EPERM",
        "raw IP": "EPERM",
        "kernel crypto sockets": "EPERM",
        "bluetooth": "EPERM",
        "io_uring": "ENOSYS",
        "another network namespace": "EPERM",
        "a user namespace": "EPERM",
        "a child in a user namespace": "EPERM",
        "a child by clone3": "ENOSYS",
        "the parent's memory": "EPERM",
        "the parent traced": "EPERM",
        "a file by its handle": "EPERM",
        "kernel keys": "EPERM",
        "a bpf program": "EPERM",
        "performance events": "EPERM",
        "page faults handled": "EPERM",
        "a kernel module": "EPERM",
        "another kernel": "EPERM",
    },
    "a process namespace, with a /proc of its own": {
        "the parent's network namespace": "ENOENT",
        "a signal to the parent": "ESRCH",
        "a signal from a child": "ESRCH",
        "a handle on the parent": "ESRCH",
        "the parent's memory by /proc": "ENOENT",
        "the parent's root": "ENOENT",
        "the kernel's keyboard": "ENOENT",
    },
    "a file system that is read-only, but for a tmp of its own": {
        "the kernel's switches": "EROFS",
        "a file of the host": "EROFS",
        "a file of the host by a link": "EROFS",
        "a file of the host by /proc": "EROFS",
        "a file of the host from a child": "EROFS",
        "a file of the host removed": "EROFS",
        "a file of the host made open to all": "EROFS",
        "a file of the host linked into tmp": "EXDEV",
        "a new file in the candidate's folder": "EROFS",
    },
    "Landlock": {"a FIFO of the host": "EACCES"},
    "no capability left, and none to be had": {
        "the file system made writable": "EPERM",
        "a mount": "EPERM",
        "a mount taken away": "EPERM",
        "another root": "EPERM",
        "a root pivoted": "EPERM",
        "a device made": "EPERM",
        "the host's name": "EPERM",
        "the clock set": "EPERM",
        "powers through a set-uid program": "EPERM",
    },
    "descriptors closed": {"what was left open": "EBADF"},
}
"""What stops each escape first; most of them are stopped twice."""

TABLE = {name: answer for rows in STOPPED_BY.values() for name, answer in rows.items()}


HARMLESS = [
    "tcp to a port of the host", "tcp by system calls alone", "tcp from a child", "unix socket by its path",
    "unix socket by an abstract name", "unix datagram", "a handle on the parent", "a file of the host", "a file of the host by a link",
    "a file of the host from a child", "a FIFO of the host",
]  # fmt: skip
"""Escapes that may as well succeed where a test lets them."""


@cache
def answers(user: str) -> dict[str, Any]:
    """What the kernel said to each escape of a candidate of this user."""
    said: dict[str, Any] = inside(tried, user=user)
    return said


@pytest.fixture(scope="module")
def namespaces() -> None:
    skip_without_namespaces()


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("escape", TABLE)
def test_no_escape_reaches_the_host(user: str, escape: str) -> None:
    assert answers(user)[escape] in TABLE[escape].split()


@pytest.mark.parametrize("user", USERS)
def test_the_table_is_all_that_was_tried_and_nothing_arrived(user: str) -> None:
    said = dict(answers(user))
    assert said.pop("arrivals") == []
    assert set(said) == set(TABLE)


@pytest.mark.parametrize("user", USERS)
def test_without_a_seal_the_same_escapes_arrive(user: str) -> None:
    open_doors = ("network", "filtered", "masked_sockets", "processes", "read_only", "landlock")
    said = inside(tried, HARMLESS, user=user, without=open_doors)
    assert sorted(said.pop("arrivals")) == ["tcp", "unix_abstract", "unix_path"]
    assert said == dict.fromkeys(HARMLESS, "reached")


def tried(held: sealing.Seal, targets: sealing.Targets, only: list[str] | None = None) -> dict[str, str]:
    return escapes.tried(targets, only)
