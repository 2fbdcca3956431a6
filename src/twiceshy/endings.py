"""How a trial ended, from what its journal holds and what the kernel says of its process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import msgspec

from twiceshy.journal import transcript_of
from twiceshy.sealing import Limits, cpu_spent, signal_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.exchange import Over
    from twiceshy.transcript import Crash, Transcript


def ending(lines: Sequence[bytes], over: Over, limits: Limits, *, wall_s: float, commanded: bool) -> Transcript:
    """The transcript of a trial that is over. wall_s: what it took; commanded: whether its process is the gateway of a command."""
    told = transcript_of(lines)
    if over.fault is not None:
        return msgspec.structs.replace(told, fault=over.fault)
    if told.divergence is not None or told.disposition is not None or told.crash is not None:
        return told
    crash = _crash(over, limits, wall_s)
    if crash == "crashed" and commanded and os.WIFSIGNALED(over.status):
        # The process of a trial is its gateway, so it did not bring this upon itself.
        return msgspec.structs.replace(told, crash="signal", signal=signal_name(os.WTERMSIG(over.status)))
    return msgspec.structs.replace(told, crash=crash)


def _crash(over: Over, limits: Limits, wall_s: float) -> Crash:
    """How a trial ended that left no end marker. wall_s: what it took, so that an alarm of its own is not taken for ours."""
    if cpu_spent(over.status, over.cpu_s, limits):
        return "cpu"
    ended_by = os.WTERMSIG(over.status) if os.WIFSIGNALED(over.status) else None
    if ended_by == signal.SIGALRM and wall_s >= limits.wall_s:
        return "wall"
    if ended_by == signal.SIGXFSZ:  # a command's output is a file in memory
        return "output"
    return "crashed"
