"""Each protection of the seal holds what it is there for: without it the canary says so, and says nothing else."""

import os
import sys
from collections.abc import Collection

import pytest

from sealed import USERS, inside, skip_without_namespaces
from twiceshy import sealing
from twiceshy.sealing import CanaryEscaped, Isolation, Protections
from twiceshy.sealing.attempts import ATTEMPTS

pytestmark = pytest.mark.usefixtures("namespaces")

# An attempt succeeds when all that holds it is gone; two names mean that either one holds it alone.
HELD_BY = {
    "tcp": {"network", "filtered"},
    "udp": {"network", "filtered"},
    "route": {"network", "filtered"},
    "unix_path": {"masked_sockets", "filtered"},
    "unix_abstract": {"network", "filtered"},
    "unix_datagram": {"filtered"},
    "vsock": {"filtered"},
    "signal": {"processes"},
    "host_process": {"processes"},
    "write_outside": {"read_only", "landlock"},
    "writable_mount": {"read_only"},
    "fifo": {"landlock"},
    "devices": {"read_only"},
    "io_uring": {"filtered"},
    "setns": {"powerless", "filtered"},
    "user_namespace": {"filtered"},
    "power": {"powerless"},
    "filter": {"filtered"},
}
# What the machine itself may not offer: a route to elsewhere, vsock, io_uring.
OPTIONAL = {"route", "vsock", "io_uring"}
EACH = [{name} for name in sorted(Protections.__dataclass_fields__)]
# The whole table once is a fast test; as a second user it is a slow one.
TABLE_USERS = [USERS[0], *(pytest.param(user, marks=pytest.mark.slow) for user in USERS[1:])]
PAIRS = sorted({tuple(sorted(holders)) for holders in HELD_BY.values() if len(holders) > 1})


@pytest.fixture(scope="module")
def namespaces() -> dict[str, object]:
    skip_without_namespaces()


def report(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    attempts = sealing.attempt_all(targets).attempts
    return {"reached": {a.name: a.detail for a in attempts if a.reached}, "isolation": held.isolation}


def stopped(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    return {a.name: a.detail for a in sealing.canary(targets).attempts}


@pytest.mark.parametrize("user", USERS)
def test_whole_seal_stops_everything(user: str) -> None:
    said = inside(stopped, user=user)
    assert said.pop("arrivals") == []
    assert list(said) == list(ATTEMPTS)


@pytest.mark.parametrize("user", TABLE_USERS)
@pytest.mark.parametrize("without", [*EACH, *PAIRS], ids="+".join)
def test_missing_protection_is_caught(user: str, without: Collection[str]) -> None:
    said = inside(report, user=user, without=without)
    certain = {name for name, holders in HELD_BY.items() if holders <= set(without)}
    shared = {"namespaces"} if {"network", "processes", "queues"} & set(without) else set()
    assert set(said["reached"]) - OPTIONAL == (certain | shared) - OPTIONAL
    assert set(said["reached"]) <= certain | shared
    assert said["isolation"] == Isolation.WEAK


def test_targets_notice_what_arrives() -> None:
    said = inside(report, without=["network", "filtered", "masked_sockets"])
    assert said["arrivals"] == ["tcp", "udp", "unix_path", "unix_abstract"]


def test_missing_mount_namespace_is_caught() -> None:
    said = inside(report, without=["processes", "read_only", "masked_sockets"])
    assert "mnt" in said["reached"]["namespaces"]


def escape(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    def said() -> dict[str, object]:
        try:
            sealing.canary(targets)
        except sealing.CanaryEscaped as error:
            return [str(error), error.exit_code]
        return []

    attempts = sys.modules["twiceshy.sealing.attempts"].ATTEMPTS
    answers = {"whole": said()}
    attempts["broken"] = lambda _: {}["no such codec"]
    answers["broken"] = said()
    attempts["broken"] = lambda _: os._exit(3)
    return answers | {"silent": said()}


def test_escape_is_an_error() -> None:
    said = inside(escape, without=["filtered", "network"])
    words, code = said["whole"]
    assert code == CanaryEscaped.exit_code == 4
    assert "connected to a TCP port of the host" in words
    assert "--allow-weak-isolation" in words


def test_attempt_without_proof_escapes() -> None:
    said = inside(escape)
    assert said["whole"] == []
    assert "unproved, the attempt broke with KeyError" in said["broken"][0]
    assert "no report" in said["silent"][0]
