"""Running a shard: the engine in a process of its own, case directories in, a line of JSON a trial out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from twiceshy.errors import ConfigurationError, InfrastructureError, InputError
from twiceshy.outcome import Outcome
from twiceshy.shards import (
    AgainLine,
    FaultLine,
    Line,
    ReadyLine,
    ResultLine,
    ShardRequest,
    TogetherLine,
    TrialLine,
    lines_of,
)
from twiceshy.verdict import Conversation

if TYPE_CHECKING:
    from collections.abc import Sequence


UNHEARD = "all conversations"
"""What stands for those that a shard did not come to."""


class ShardLost(InfrastructureError):
    """The engine's process ended without a word, or was killed at its time limit."""

    @classmethod
    def after(cls, factory: str, *, code: int | None, told: bytes) -> ShardLost:
        """How it ended, and the last line that it wrote to stderr."""
        said = told.decode(errors="replace").strip().splitlines()
        how = "took longer than its time limit and was killed" if code is None else f"ended with {code}"
        return cls(f"the engine's process for {factory!r} {how}. {said[-1] if said else ''}".strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a shard wrote: who the candidate is, the trials of the cases that were judged, a result for each of them, and the conversations as a whole.

    lost: why the other cases were not; None where every case has its result. Where the conversations were not come to, one that is an ERROR stands for them.
    """

    ready: ReadyLine
    trials: Sequence[TrialLine]
    results: Sequence[ResultLine]
    conversations: Sequence[Conversation]
    lost: str | None = None


def run(request: ShardRequest, *, timeout_s: float) -> list[Ran]:
    """Run one shard to its end: what it wrote each time that was asked for. The process is killed at its time limit, and everything in the candidate's namespaces with it; what it had told stands.

    Raises ConfigurationError or InputError for what the request names wrongly, InfrastructureError for a machine that cannot run it, ShardLost for an engine
    that ended before it said who the candidate is.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "twiceshy.shards"], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(msgspec.json.encode(request), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            out, err = process.communicate()
            return _whole(request, out, code=None, told=err)
        except BaseException:
            _end(process)
            raise
    return _whole(request, out, code=process.returncode, told=err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with the sessions it started: they are in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _whole(request: ShardRequest, out: bytes, *, code: int | None, told: bytes) -> list[Ran]:
    """What was told in whole lines: a kill may cut the last one."""
    lines = list(lines_of(out[: out.rfind(b"\n") + 1]))
    fault = next((line for line in lines if isinstance(line, FaultLine)), None)
    if not lines or not isinstance(lines[0], ReadyLine):
        raise _fault(fault) if fault else ShardLost.after(request.factory, code=code, told=told)
    if fault is not None and fault.exit_code == InputError.exit_code:
        raise _fault(fault)
    why = fault.message if fault else str(ShardLost.after(request.factory, code=code, told=told))
    return [_ran(request, lines[0], part, why) for part in _times(request, lines)]


def _times(request: ShardRequest, lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each time; none for one that it did not come to."""
    parts: list[list[Line]] = [[]]
    for line in lines:
        if isinstance(line, AgainLine):
            parts.append([])
        else:
            parts[-1].append(line)
    return parts + [[] for _ in range(request.times - len(parts))]


def _ran(request: ShardRequest, ready: ReadyLine, lines: Sequence[Line], why: str) -> Ran:
    results = [line for line in lines if isinstance(line, ResultLine)]
    judged = {line.result.case.id for line in results}
    trials = [line for line in lines if isinstance(line, TrialLine) and line.case_id in judged]
    together = next((line.conversations for line in lines if isinstance(line, TogetherLine)), None)
    unheard = Conversation(id=UNHEARD, outcome=Outcome.ERROR, turns=[], error=why)
    return Ran(
        ready=ready, trials=trials, results=results, conversations=[unheard] if together is None else together,
        lost=why if len(judged) < len(request.cases) else None,
    )  # fmt: skip


def _fault(line: FaultLine) -> InputError | InfrastructureError:
    return (
        ConfigurationError(line.message)
        if line.exit_code == InputError.exit_code
        else InfrastructureError(line.message)
    )
