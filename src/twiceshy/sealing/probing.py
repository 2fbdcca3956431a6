"""Which level of isolation this machine allows, found by trying it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from twiceshy.errors import IsolationNotHeld
from twiceshy.sealing.attempts import Targets
from twiceshy.sealing.canary import canary, host_targets
from twiceshy.sealing.entering import seal
from twiceshy.sealing.levels import Isolation

_MODULE = "twiceshy.sealing"
_PATIENCE_S = 30.0


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The best level to be had here, and why not a better one (empty when there is none)."""

    isolation: Isolation
    reason: str = ""


def probe(folder: Path | None = None) -> Probe:
    """What a session could have on this machine: a real seal and a real canary in a process of their own.

    folder: where this process may write, for the canary's targets; the system's temporary folder if none is named. About
    150 ms. Nothing is weakened by asking: whoever wants `weak` has to say so.
    """
    try:
        reason = _why_not(folder or Path(tempfile.gettempdir()))
    except IsolationNotHeld as error:
        reason = str(error)
    return Probe(isolation=Isolation.WEAK if reason else Isolation.HERMETIC, reason=reason)


def _why_not(folder: Path) -> str:
    with host_targets(folder) as host:
        asked = msgspec.json.encode(host.targets)
        command = [sys.executable, "-m", _MODULE]
        done = subprocess.run(command, input=asked, capture_output=True, timeout=_PATIENCE_S, check=False)
        arrived = host.arrivals()
    if arrived:
        return f"the host's {', '.join(arrived)} target was reached from inside"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"the sealed process ended with {done.returncode}"


def answer_probe() -> int:
    """The inner half: seal this process, run the canary on the targets from standard input, give the exit code."""
    targets = msgspec.json.decode(sys.stdin.buffer.read(), type=Targets)
    try:
        seal()
        canary(targets)
    except IsolationNotHeld as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
