"""Running a shard: the engine in a process of its own, case directories in, a line of JSON a trial out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from twiceshy.errors import ConfigurationError, InfrastructureError, InputError
from twiceshy.shards import FaultLine, Line, ReadyLine, ResultLine, ShardRequest, TrialLine, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
    """What a shard wrote: who the candidate is, its trials, and a result a case."""

    ready: ReadyLine
    trials: Sequence[TrialLine]
    results: Sequence[ResultLine]


def run(request: ShardRequest, *, timeout_s: float) -> Ran:
    """Run one shard to its end. The process is killed at its time limit, and everything in the candidate's namespaces with it.

    Raises ConfigurationError or InputError for what the request names wrongly, ShardLost for an engine that ended without its results.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "twiceshy.shards"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, err = process.communicate(msgspec.json.encode(request), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        raise ShardLost.after(request.factory, code=None, told=err) from None
    try:
        lines = list(lines_of(out))
    except msgspec.MsgspecError:
        raise ShardLost.after(request.factory, code=process.returncode, told=err) from None
    return _whole(request, lines, code=process.returncode, told=err)


def _whole(request: ShardRequest, lines: Iterable[Line], *, code: int, told: bytes) -> Ran:
    ready: ReadyLine | None = None
    trials: list[TrialLine] = []
    results: list[ResultLine] = []
    for line in lines:
        match line:
            case FaultLine():
                raise _fault(line)
            case ReadyLine():
                ready = line
            case TrialLine():
                trials.append(line)
            case ResultLine():
                results.append(line)
    if ready is None or len(results) != len(request.cases):
        raise ShardLost.after(request.factory, code=code, told=told)
    return Ran(ready=ready, trials=trials, results=results)


def _fault(line: FaultLine) -> InputError | InfrastructureError:
    return (
        ConfigurationError(line.message)
        if line.exit_code == InputError.exit_code
        else InfrastructureError(line.message)
    )
